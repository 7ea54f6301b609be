package workflows

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

const anyArg = mock.Anything

func hello(id string) protocol.Message { return protocol.Message{ID: id, Text: "hello", By: "ann"} }

func TestATurnRunsAndTheHostIsGivenBack(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", "hi there"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{MessageID: "m1"})
		if turn.Status != "completed" || turn.FinalText != "hi there" || turn.N != 1 {
			t.Errorf("turn is %+v", turn)
		}
		if v := w.view(); v.State != protocol.Idle || v.ThreadID != "thread-1" || v.Host != "web-1" {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{By: "ann"})
	})
	w.start(session.Options{Seed: "team"})
	if err := w.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	var v protocol.SessionView
	if err := w.GetWorkflowResult(&v); err != nil || v.State != protocol.Closed || v.Close == nil || !v.Close.Removed {
		t.Errorf("the last view is %+v (%v)", v, err)
	}
	if got := strings.Join(w.released, " "); got != "seed/team pool/default" {
		t.Errorf("released %q", got)
	}
	in := w.fake.ran[0].Pump
	if in.Thread.Permissions != "fairlead" || in.Thread.ApprovalPolicy != "on-request" || in.Sends[0].ID != "m1" || in.Resume {
		t.Errorf("the pump was told %+v", in)
	}
}

func TestAnApprovalIsDecidedWhileNobodyIsAttached(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make all"), endsTurn("completed", "built"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		v := w.view()
		if v.State != protocol.Waiting || len(v.Requests) != 1 || v.Requests[0].ID != "s1.1" {
			t.Errorf("session is %+v", v)
		}
		if len(w.fake.ran) != 1 {
			t.Errorf("%d pumps ran; none is attached while a person decides", len(w.fake.ran))
		}
		for _, bad := range []struct {
			d    protocol.Decide
			kind string
		}{
			{protocol.Decide{Approval: "s1.1", Outcome: "accept"}, protocol.RefusedBadInput},
			{protocol.Decide{Approval: "s1.1", Digest: "of something else", Outcome: "accept"}, protocol.RefusedState},
			{protocol.Decide{Approval: "s2.1", Digest: "digest of make all", Outcome: "accept"}, protocol.RefusedState},
			{protocol.Decide{Approval: "s1.7", Digest: "digest of make all", Outcome: "accept"}, protocol.RefusedNotFound},
			{protocol.Decide{Approval: "s1.1", Digest: "digest of make all", Outcome: "perhaps"}, protocol.RefusedBadInput},
			{protocol.Decide{Approval: "s1.1", Digest: "digest of make all", Outcome: "decline", Scope: "session"}, protocol.RefusedBadInput},
		} {
			w.refuses(w.send(protocol.SignalDecide, bad.d), bad.kind)
		}
		w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make all", Outcome: "accept", By: "bob", Reason: "fine"}))
		w.refuses(w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make all", Outcome: "decline", By: "eve"}), protocol.RefusedState)
	})
	w.at(3*time.Second, func() {
		a := query[[]protocol.Approval](w, protocol.QueryApprovals)
		if len(a) != 1 || a[0].State != protocol.ApprovalAcknowledged || a[0].Decision.By != "bob" {
			t.Errorf("approvals are %+v", a)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
	send := w.fake.ran[1].Pump.Sends[0]
	if send.Kind != conversation.SendDecision || send.Outcome != protocol.Accept || string(send.RPC) != "0" {
		t.Errorf("codex was sent %+v", send)
	}
}

func TestAnApprovalThatNobodyDecidesExpiresAsDeclined(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("rm -rf /"), endsTurn("completed", "well then"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(3*time.Hour, func() {
		a := query[[]protocol.Approval](w, protocol.QueryApprovals)
		if a[0].State != protocol.ApprovalExpired || a[0].Decision.By != "expiry" {
			t.Errorf("approval is %+v", a[0])
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Expiry: time.Hour})
	if send := w.fake.ran[1].Pump.Sends[0]; send.Outcome != protocol.Decline {
		t.Errorf("codex was sent %+v", send)
	}
}

func TestAcceptForTheSessionAnswersTheSameAskLater(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""), asks("make"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept", Scope: "session", By: "bob"})
	})
	w.at(3*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(4*time.Second, func() {
		if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 2}); turn.Status != "completed" {
			t.Errorf("the second turn is %+v", turn)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestSignalsOfOtherProgramsDoTheSameAndRefusalsAreKept(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", "done"))
	w.at(time.Second, func() {
		w.SignalWorkflow(protocol.SignalMessage, map[string]any{"id": "m1", "text": "go", "colour": "red"})
		w.SignalWorkflow(protocol.SignalMessage, map[string]any{"id": "m1", "text": "  "})
		w.SignalWorkflow(protocol.SignalInterrupt, map[string]any{"by": "bob"})
		w.SignalWorkflow(protocol.SignalMessage, map[string]any{"id": "m1", "text": "go"})
	})
	w.at(2*time.Second, func() {
		v := w.view()
		if len(v.Refusals) != 3 || !strings.Contains(v.Refusals[0].Reason, "colour") {
			t.Errorf("refusals are %+v", v.Refusals)
		}
		w.SignalWorkflow(protocol.SignalDecide, map[string]any{"approval": "s1.1", "digest": "digest of make", "outcome": "accept"})
	})
	w.at(3*time.Second, func() {
		if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.Status != "completed" {
			t.Errorf("turn is %+v", turn)
		}
		w.SignalWorkflow(protocol.SignalClose, map[string]any{"by": "bob"})
	})
	w.start(session.Options{})
}

func TestInterruptCallsThePumpBackAndReachesCodex(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, staysAttached(protocol.Acknowledged), endsTurn("interrupted", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(1, func() {
		if v := w.view(); v.State != protocol.Running {
			t.Errorf("session is %s", v.State)
		}
		w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "bob", Reason: "enough"})
	})
	w.whenTurn(1, "interrupted", func() {
		turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1})
		if turn.Error == nil || !strings.Contains(turn.Error.Message, "bob: enough") {
			t.Errorf("turn is %+v", turn)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
	// The environment does not wait for the pump's own result, so the message may
	// be sent again, as uncertain.
	sends := w.fake.ran[1].Pump.Sends
	if last := sends[len(sends)-1]; last.Kind != conversation.SendInterrupt || len(sends) == 2 && !sends[0].Uncertain {
		t.Errorf("the second pump was to send %+v", sends)
	}
}

func TestARepeatedMessageIsAnsweredAsTheFirstTime(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", "a"), endsTurn("completed", "b"))
	w.at(time.Second, func() {
		w.send(protocol.SignalMessage, hello("m1"))
		w.send(protocol.SignalMessage, hello("m1"))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(2*time.Second, func() {
		u := w.send(protocol.SignalMessage, hello("m1"))
		w.takes(u)
		w.checks = append(w.checks, func() {
			if acc, ok := u.result.(protocol.MessageAccepted); !ok || acc.N != 1 {
				t.Errorf("the repeat was answered %+v", u.result)
			}
		})
		if v := w.view(); v.Turn.N != 2 {
			t.Errorf("newest turn is %d", v.Turn.N)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestAnIdThatWasUsedForAnotherTextIsRefused(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", "a"))
	w.at(time.Second, func() { w.takes(w.send(protocol.SignalMessage, hello("m1"))) })
	w.at(2*time.Second, func() {
		w.refuses(w.send(protocol.SignalMessage, protocol.Message{ID: "m1", Text: "something else"}), protocol.RefusedState)
		w.takes(w.send(protocol.SignalMessage, hello("m1")))
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestATurnThatWasCutOffIsShownAndTheThreadIsResumed(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, dies(protocol.Acknowledged, true), endsTurn("completed", "again"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		v := w.view()
		if v.State != protocol.Interrupted || v.Turn.Status != "interrupted" || v.Process.Alive || v.Error == nil || v.Error.Kind != "process_exit" {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(3*time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.Process.Incarnation != 2 {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
	second := w.fake.ran[1].Pump
	if !second.Resume || second.State.ThreadID != "thread-1" || second.State.Cursor.Incarnation != 2 || second.State.Cursor.Offset != 0 {
		t.Errorf("the second process was told %+v", second)
	}
}

func TestAMessageThatNeverReachedCodexGoesToTheNextProcess(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, dies(protocol.Decided, true), endsTurn("completed", "ok"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(3*time.Second, func() {
		if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.Status != "completed" {
			t.Errorf("turn is %+v", turn)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestAMessageThatMayHaveReachedCodexIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, dies(protocol.Sent, true))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.Status != "unknown" {
			t.Errorf("turn is %+v", turn)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestACodexThatNeverOpensFailsTheSession(t *testing.T) {
	w := newWorld(t)
	d := func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := dies(protocol.Decided, false)(ctx, in)
		out.Process.Code = 1 // codex ended by itself; if it had been killed, it would be started again
		return out, err
	}
	w.fake.pumps = append(w.fake.pumps, d, d, d)
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.start(session.Options{})
	err := w.GetWorkflowError()
	if err == nil || !strings.Contains(err.Error(), "3 times in a row") {
		t.Errorf("the session ended with %v", err)
	}
	if len(w.fake.closed) != 1 {
		t.Errorf("cleaned up %d times", len(w.fake.closed))
	}
}

func TestAHostThatCannotBePreparedFailsTheSessionAndGivesTheSlotBack(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("prepare", temporal.NewNonRetryableApplicationError("disk full", protocol.ErrTypeNoSpace, nil,
		protocol.Problem{Kind: "no_space", Message: "no space left on web-1", Hint: "make room"}))
	w.start(session.Options{Host: "web-1"})
	err := w.GetWorkflowError()
	if err == nil || !strings.Contains(err.Error(), "no space left on web-1") {
		t.Errorf("the session ended with %v", err)
	}
	if got := strings.Join(w.released, " "); got != "pool/default" || w.back[0].Failed == nil || w.back[0].Failed.Kind != "no_space" {
		t.Errorf("released %q, with %+v", got, w.back)
	}
	if v := w.view(); v.State != protocol.Failed || v.Error.Kind != "no_space" || v.Error.Hint != "make room" {
		t.Errorf("session is %+v", v)
	}
}

func TestASessionWhoseCredentialIsOpenSaysSo(t *testing.T) {
	const why = "codex 0.130.0 does not support named permission profiles"
	w := newWorld(t)
	w.fake.unprotected = why
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", "hi there"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		if v := w.view(); v.Unprotected != why {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Seed: "team"})
	if notes := notesOf(w.fake.ran[0].Pump.Notes); !strings.Contains(notes, "prepared, and the agent can read its credential: "+why) {
		t.Errorf("the transcript is told %s", notes)
	}
}

func TestAnUnknownHostIsSaidAtOnce(t *testing.T) {
	w := newWorld(t)
	w.refuse = &protocol.Failure{Kind: "host_not_found", Message: "no host x"}
	w.start(session.Options{Host: "x"})
	if v := w.view(); v.State != protocol.Failed || v.Error.Kind != "host_not_found" {
		t.Errorf("session is %+v", v)
	}
	if len(w.fake.calls) != 0 {
		t.Errorf("activities ran: %v", w.fake.calls)
	}
}

func TestCloseInterruptsTheTurnFirst(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, staysAttached(protocol.Acknowledged), endsTurn("interrupted", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(1, func() {
		w.send(protocol.SignalClose, protocol.Close{By: "bob"})
		w.refuses(w.send(protocol.SignalMessage, hello("m2")), protocol.RefusedState)
	})
	w.start(session.Options{})
	// The environment does not wait for the pump's own result, so the message may
	// be sent again, as uncertain.
	sends := w.fake.ran[1].Pump.Sends
	if last := sends[len(sends)-1]; last.Kind != conversation.SendInterrupt || len(sends) == 2 && !sends[0].Uncertain {
		t.Errorf("the second pump was to send %+v", sends)
	}
	if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "interrupted" {
		t.Errorf("session is %+v", v)
	}
}

func TestCloseWhileWaitingVoidsWhatIsOpen(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("interrupted", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	if a := query[[]protocol.Approval](w, protocol.QueryApprovals); a[0].State != protocol.ApprovalVoid {
		t.Errorf("approval is %s", a[0].State)
	}
}

func TestDiscardGivesUpAHostThatCannotBeReached(t *testing.T) {
	w := newWorld(t)
	w.fake.hang("close")
	w.at(time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.once("closing hangs", func() bool { return w.fake.called("close discard=false") }, func() {
		if v := w.view(); v.State != protocol.Closing {
			t.Errorf("session is %s", v.State)
		}
		w.send(protocol.SignalClose, protocol.Close{Discard: true})
	})
	w.start(session.Options{})
	if n := len(w.fake.closed); n != 2 || !w.fake.closed[1].Discard {
		t.Errorf("closed %d times: %+v", n, w.fake.closed)
	}
}

func TestCancellingTheWorkflowClosesTheSession(t *testing.T) {
	w := newWorld(t)
	w.at(time.Second, w.CancelWorkflow)
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || len(w.fake.closed) != 1 {
		t.Errorf("session is %+v", v)
	}
}

func TestRolloverCarriesEverything(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.send(protocol.SignalMessage, hello("m2"))
		w.SignalWorkflow(protocol.SignalMessage, hello("m3"))
	})
	w.at(3*time.Second, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "not for us") // any event wakes it
	})
	w.start(session.Options{Sandbox: "read-only"})
	var again *temporalContinue
	if !errors.As(w.GetWorkflowError(), &again) {
		t.Fatalf("the session ended with %v", w.GetWorkflowError())
	}
	in := carried(t, again)
	if in.ID != "s1" || in.Options.Sandbox != "read-only" || len(in.Carry.Queue) != 2 || len(in.Carry.Open()) != 1 || in.Carry.PumpN != 3 {
		t.Errorf("carried %+v", in.Carry)
	}

	next := newWorld(t)
	next.fake.pumps = append(next.fake.pumps, endsTurn("completed", "1"), endsTurn("completed", "2"), endsTurn("completed", "3"))
	next.at(time.Second, func() {
		next.takes(next.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"}))
	})
	next.at(2*time.Second, func() {
		if turn := query[protocol.TurnView](next, protocol.QueryTurn, protocol.TurnQuery{MessageID: "m3"}); turn.Status != "completed" || turn.N != 3 {
			t.Errorf("the last turn is %+v", turn)
		}
		next.send(protocol.SignalClose, protocol.Close{})
	})
	next.ExecuteWorkflow(protocol.TypeSession, in)
	next.verify()
	if err := next.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if p := next.fake.ran[0].Claim.Pump; p <= 3 {
		t.Errorf("the epoch fell back to %d", p)
	}
	if next.fake.starts != 0 {
		t.Error("codex was started again")
	}
}

func TestAPumpCalledBackBetweenAttemptsRepeatsNothing(t *testing.T) {
	w := newWorld(t)
	lost := func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{}, temporal.NewApplicationErrorWithOptions("wire lost", protocol.ErrTypeWireLost,
			temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond})
	}
	// The environment retries at once. The third attempt stays attached until the workflow
	// cancels it.
	w.fake.pumps = append(w.fake.pumps, lost, lost, func(ctx context.Context, _ pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		<-ctx.Done()
		return pumps.RunPumpResult{}, ctx.Err()
	}, endsTurn("interrupted", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(3, func() { w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "bob"}) })
	w.whenTurn(1, "interrupted", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	last := w.fake.ran[3].Pump
	if len(last.Sends) != 2 || !last.Sends[0].Uncertain || last.Sends[1].Kind != conversation.SendInterrupt {
		t.Errorf("the next pump was to send %+v", last.Sends)
	}
	if last.Prefix != w.fake.ran[2].Pump.Prefix || last.Again != 1 {
		t.Errorf("the next pump cannot find what this one asked: prefix %s, again %d", last.Prefix, last.Again)
	}
}
