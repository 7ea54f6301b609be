package workflows

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// These tests are about faults of codex and the host, and messages of people, while a
// session runs.

func finally(kind string) error {
	return temporal.NewNonRetryableApplicationError(kind+" for good", kind, nil)
}

func (w *world) ends(at time.Duration) {
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(protocol.SignalClose, protocol.Close{}) }, at)
}

func TestAMessageThatCodexRefusesFailsItsTurnAlone(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Bound, State: opened(in),
			Deliveries: []protocol.Delivery{{ID: "m1", State: protocol.Rejected, Error: "input_too_large"}}}}, nil
	}, endsTurn("completed", "fine"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")); w.send(protocol.SignalMessage, hello("m2")) })
	w.at(2*time.Second, func() {
		for n, want := range map[int]string{1: "failed", 2: "completed"} {
			if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: n}); turn.Status != want {
				t.Errorf("turn %d is %+v, want %s", n, turn, want)
			}
		}
	})
	w.ends(3 * time.Second)
	w.start(session.Options{})
}

func TestAHostIsCleanedAlsoWhenPreparingItFailed(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("prepare", finally(protocol.ErrTypeSandbox))
	w.start(session.Options{Seed: "team"})
	if len(w.fake.closed) != 1 || !w.fake.closed[0].Discard || w.fake.closed[0].Claim.Host.Name != "web-1" {
		t.Errorf("cleaned up %+v", w.fake.closed)
	}
	if got := strings.Join(w.released, " "); got != "seed/team pool/default" {
		t.Errorf("released %q", got)
	}
	if v := w.view(); v.State != protocol.Failed || v.Close == nil || !v.Close.Wiped || v.Error.Kind != protocol.ErrTypeSandbox {
		t.Errorf("session is %+v", v)
	}
}

// A session that begins does not fail if sshd is restarted or the host boots meanwhile.
func TestAHostThatIsAwayForSecondsDoesNotFailASessionThatBegins(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("prepare", temporal.NewApplicationError("connection refused", protocol.ErrTypeUnreachable))
	w.at(10*time.Second, func() { w.fake.fail("prepare", nil) })
	w.at(time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(2 * time.Minute)
	w.start(session.Options{})
}

func TestWhatCannotBeCleanedStaysUntilItCan(t *testing.T) {
	w := newWorld(t)
	w.fake.closeErrs = []error{finally(protocol.ErrTypeAuth), finally(protocol.ErrTypeAuth)}
	w.ends(time.Second)
	w.at(30*time.Second, func() {
		if v := w.view(); v.State != protocol.Closing || v.Error == nil || v.Error.Kind != protocol.ErrTypeAuth {
			t.Errorf("session is %+v", v)
		}
		if len(w.released) > 0 {
			t.Errorf("released %v before the credential was wiped", w.released)
		}
	})
	w.start(session.Options{Seed: "team"})
	if v := w.view(); v.State != protocol.Closed || !v.Close.Wiped {
		t.Errorf("session is %+v", v)
	}
	if n := len(w.fake.closed); n != 3 {
		t.Errorf("tried %d times", n)
	}
}

func TestARolloverWhileCleaningGoesOnCleaning(t *testing.T) {
	w := newWorld(t)
	w.fake.closeErrs = []error{finally(protocol.ErrTypeAuth)}
	w.ends(time.Second)
	w.at(10*time.Second, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
	})
	w.start(session.Options{})
	in := carried(t, w.continued())
	next := newWorld(t)
	next.ExecuteWorkflow(protocol.TypeSession, in)
	if v := next.view(); v.State != protocol.Closed || !v.Close.Removed || len(next.fake.closed) != 1 {
		t.Errorf("session is %+v", v)
	}
	notes := 0
	for _, n := range next.fake.closed[0].Notes {
		if n.Text == "closed" {
			notes++
		}
	}
	if notes != 1 {
		t.Errorf("the end is on record %d times", notes)
	}
}

func TestAFencedSessionLeavesTheHostAlone(t *testing.T) {
	w := newWorld(t)
	w.fake.closeErrs = []error{finally(protocol.ErrTypeFenced)}
	w.ends(time.Second)
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || v.Close.Removed || v.Error.Kind != protocol.ErrTypeFenced || len(w.fake.closed) != 1 {
		t.Errorf("session is %+v after %d tries", v, len(w.fake.closed))
	}
}

func TestAHostThatIsCleanAtLastLeavesNoError(t *testing.T) {
	w := newWorld(t)
	w.fake.closeErrs = []error{finally(protocol.ErrTypeStore)}
	w.at(2*time.Second, func() {
		if v := w.view(); v.State != protocol.Closing || v.Error == nil || v.Error.Kind != protocol.ErrTypeStore {
			t.Errorf("meanwhile it is %+v", v)
		}
	})
	w.ends(time.Second)
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || v.Error != nil || len(w.fake.closed) != 2 {
		t.Errorf("after %d tries it is %+v", len(w.fake.closed), v)
	}
}

func TestAFailedSessionThatCannotBeCleanedTakesDiscard(t *testing.T) {
	w := newWorld(t)
	w.fake.hang("close")
	w.fake.pumps = append(w.fake.pumps, func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{}, finally(protocol.ErrTypeHostKey)
	})
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("what it leaves cannot be cleaned", func() bool { return w.view().State == protocol.Failed && w.fake.called("close discard=false") }, func() {
		if v := w.view(); v.Waits == "" {
			t.Errorf("session is %+v", v)
		}
		w.refuses(w.send(protocol.SignalClose, protocol.Close{}), protocol.RefusedState)
		w.takes(w.send(protocol.SignalClose, protocol.Close{Discard: true}))
	})
	w.start(session.Options{})
	if n := len(w.fake.closed); n != 2 || !w.fake.closed[1].Discard {
		t.Errorf("closed %d times: %+v", n, w.fake.closed)
	}
}

func TestCloseIsHeardWhileCodexIsStartedAgain(t *testing.T) {
	for _, stage := range []string{"stop", "start"} {
		w := newWorld(t)
		w.fake.pumps = append(w.fake.pumps, dies(protocol.Acknowledged, true))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.whenTurn(1, "interrupted", func() { w.fake.hang(stage); w.send(protocol.SignalMessage, hello("m2")) })
		hung := map[string]string{"stop": "stop 1", "start": "start 2"}[stage]
		w.once(hung+" hangs", func() bool { return w.fake.called(hung) }, func() { w.takes(w.send(protocol.SignalClose, protocol.Close{})) })
		w.start(session.Options{})
		if v := w.view(); v.State != protocol.Closed || v.Turn.Status != "interrupted" {
			t.Errorf("%s: session is %+v", stage, v)
		}
	}
}

func TestDiscardIsHeardWhilePreparing(t *testing.T) {
	w := newWorld(t)
	w.fake.hang("prepare")
	w.at(50*time.Millisecond, func() { w.takes(w.send(protocol.SignalClose, protocol.Close{Discard: true})) })
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || len(w.fake.closed) != 1 {
		t.Errorf("session is %+v", v)
	}
}

func TestACloseWhilePreparingLetsItFinish(t *testing.T) {
	w := newWorld(t)
	let := w.fake.hang("prepare")
	w.at(50*time.Millisecond, func() { w.takes(w.send(protocol.SignalClose, protocol.Close{})); let() })
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Closed || len(w.fake.closed) != 1 || w.fake.closed[0].Layout.Dir == "" || w.fake.starts != 0 {
		t.Errorf("session is %+v", v)
	}
}

// busy returns a pump that reports that other items of the turn run while its requests
// wait.
func busy(pump func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error)) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := pump(ctx, in)
		out.Pump.Busy = true
		return out, err
	}
}

func TestAPersonWhoTakesLongCostsNoPumps(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, busy(asks("make")), busy(asks()), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Hour, func() {
		if len(w.fake.ran) != 2 {
			t.Errorf("%d pumps ran while a person thinks", len(w.fake.ran))
		}
		w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"}))
	})
	w.ends(2 * time.Hour)
	w.start(session.Options{})
}

func TestPumpsThatBringNothingEnd(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := in.Pump.State
		st.TurnID = "turn-1"
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.RequestsOpen, State: st, Deliveries: acked(in)}}, nil
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		v := w.view()
		if v.State != protocol.Interrupted || v.Turn.Status != "interrupted" || v.Error.Kind != "protocol" {
			t.Errorf("session is %+v", v)
		}
		if n := len(w.fake.ran); n > 8 {
			t.Errorf("%d pumps ran", n)
		}
	})
	w.ends(3 * time.Second)
	w.start(session.Options{})
	if got := strings.Join(w.fake.calls, ","); !strings.Contains(got, "stop 1") {
		t.Errorf("codex was not retired: %s", got)
	}
}

func TestATurnThatCodexLostIsSaid(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Bound, State: opened(in), Deliveries: acked(in)}}, nil
	}, dies(protocol.Acknowledged, false))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		if v := w.view(); v.State != protocol.Interrupted || v.Turn.Status != "interrupted" || v.Error.Kind != "protocol" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(3 * time.Second)
	w.start(session.Options{})
}

func TestATurnHasOneDeadlineHoweverManyPumpsServeIt(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, staysAttached(protocol.Acknowledged), endsTurn("completed", ""), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(1, func() { w.send(protocol.SignalMessage, protocol.Message{ID: "m2", Text: "faster", Mode: "steer"}) })
	w.whenTurn(1, "completed", func() { w.send(protocol.SignalMessage, hello("m3")) })
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{TurnTimeout: time.Hour})
	var turn []time.Duration
	for _, in := range w.fake.ran {
		turn = append(turn, in.Pump.Limits.Turn)
	}
	if len(turn) != 3 || turn[0] != time.Hour || turn[1] >= time.Hour || turn[1] < time.Hour-10*time.Second || turn[2] != time.Hour {
		t.Errorf("pumps had %v for the turn", turn)
	}
}

func TestAnInterruptHoldsWhenCodexDiesBeforeTheMessageReachedIt(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, dies(protocol.Decided, true), dies(protocol.Decided, true))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	var let func()
	w.at(999*time.Millisecond, func() { let = w.fake.hang("stop") })
	w.once("codex is being stopped", func() bool { return w.fake.called("stop 1") }, func() { w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "bob"})); let() })
	w.when(protocol.Interrupted, func() {
		if v := w.view(); v.State != protocol.Interrupted || v.Turn.Status != "interrupted" {
			t.Errorf("session is %+v", v)
		}
		if w.fake.starts != 2 {
			t.Errorf("codex was started %d times", w.fake.starts)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestASteerThatComesTooLateBecomesATurn(t *testing.T) {
	for _, how := range []protocol.DeliveryState{protocol.Decided, protocol.Void} {
		w := newWorld(t)
		w.fake.pumps = append(w.fake.pumps, asks("make"), func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
			out, err := endsTurn("completed", "one")(ctx, in)
			out.Pump.Deliveries[0].State = how
			return out, err
		}, endsTurn("completed", "two"))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() {
			w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "m2", Text: "faster", Mode: "steer"}))
		})
		w.at(3*time.Second, func() {
			turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{MessageID: "m2"})
			if turn.Status != "completed" || turn.N != 2 || turn.FinalText != "two" {
				t.Errorf("%s: the message became %+v", how, turn)
			}
			w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "m2", Text: "faster", Mode: "steer"})) // a repeat
			w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "m1", Text: "hello", Mode: "queue"}))
		})
		w.ends(4 * time.Second)
		w.start(session.Options{})
	}
}

func TestAThreadThatMayHaveATurnIsNeverReplacedUnasked(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, dies(protocol.Sent, true), refuses("thread_missing", protocol.Decided), endsTurn("completed", "anew"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(3*time.Second, func() {
		if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 2}); turn.Status != "completed" {
			t.Errorf("turn is %+v", turn)
		}
	})
	w.ends(4 * time.Second)
	w.start(session.Options{})
	if !w.fake.ran[1].Pump.Resume {
		t.Error("the thread was replaced although codex may have had a message")
	}
	if w.fake.ran[2].Pump.Resume || !strings.Contains(fmt.Sprint(w.fake.ran[2].Pump.Notes), "a new one is started") {
		t.Errorf("the third pump was told %+v", w.fake.ran[2].Pump)
	}
}

func TestASessionOutlivesACodexThatCannotBeStartedAgain(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, dies(protocol.Acknowledged, true), endsTurn("completed", "3"), endsTurn("completed", "4"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.fake.fail("start", finally(protocol.ErrTypeNoSpace))
		w.send(protocol.SignalMessage, hello("m2"))
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.at(3*time.Second, func() {
		v := w.view()
		if v.State != protocol.Interrupted || v.Turn.Status != "failed" || v.Error.Kind != protocol.ErrTypeNoSpace || v.Queue != 1 {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("start", nil)
		w.send(protocol.SignalMessage, hello("m4"))
	})
	w.at(4*time.Second, func() {
		for n := 3; n <= 4; n++ {
			if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: n}); turn.Status != "completed" {
				t.Errorf("turn is %+v", turn)
			}
		}
	})
	w.ends(5 * time.Second)
	w.start(session.Options{})
}

func TestADecisionThatMayHaveHadItsEffectIsNotCalledVoid(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make", "rm x"), dies(protocol.Sent, true))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"})
	})
	w.at(3*time.Second, func() {
		for _, a := range query[[]protocol.Approval](w, protocol.QueryApprovals) {
			if want := map[string]protocol.ApprovalState{"s1.1": protocol.ApprovalSent, "s1.2": protocol.ApprovalVoid}[a.ID]; a.State != want {
				t.Errorf("approval %s is %s, want %s", a.ID, a.State, want)
			}
		}
	})
	w.ends(4 * time.Second)
	w.start(session.Options{})
}

func TestATurnThatAsksForEverRollsOver(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = asks("make")
	n := 0
	w.fake.pumps = append(w.fake.pumps, asks("make"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		if n++; n == 20 {
			w.fill()
		}
		if n > 30 {
			return endsTurn("completed", "")(ctx, in)
		}
		return asks("make")(ctx, in)
	}
	w.at(2*time.Second, func() {
		w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept", Scope: "session"})
	})
	w.ends(time.Minute)
	w.start(session.Options{})
	in := carried(t, w.continued())
	if !in.Carry.Running || in.Carry.Sending(conversation.SendDecision) == nil || len(in.Carry.Grants) != 1 {
		t.Errorf("carried %+v", in.Carry)
	}
}

func TestASessionForOneTurnThatNeverGetsItsMessageEnds(t *testing.T) {
	w := newWorld(t)
	w.start(session.Options{CloseAfter: true, By: "ann"})
	if v := w.view(); v.State != protocol.Closed || !v.Close.Removed {
		t.Errorf("session is %+v", v)
	}
}

func TestASessionForOneTurnEndsAlsoWhenTheTurnFails(t *testing.T) {
	for _, pump := range []func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error){
		endsTurn("failed", ""), dies(protocol.Acknowledged, true), dies(protocol.Sent, true),
	} {
		w := newWorld(t)
		w.fake.pumps = append(w.fake.pumps, pump)
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.start(session.Options{CloseAfter: true})
		if v := w.view(); v.State != protocol.Closed || v.Turn.Status == "inProgress" || v.Turn.Status == "completed" {
			t.Errorf("session is %+v", v)
		}
	}
}

func TestACompletionThatRacesTheCloseWins(t *testing.T) {
	w := newWorld(t)
	let := make(chan struct{})
	w.fake.pumps = append(w.fake.pumps, staysAttached(protocol.Acknowledged), func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		<-let
		return endsTurn("completed", "done after all")(ctx, in)
	})
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(1, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.attached(2, func() { close(let) })
	w.start(session.Options{})
	if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.Status != "completed" || turn.FinalText != "done after all" {
		t.Errorf("turn is %+v", turn)
	}
}

func TestInterruptAndCloseNeedNoInput(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("interrupted", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.SignalWorkflow(protocol.SignalInterrupt, nil) })
	w.at(3*time.Second, func() {
		if v := w.view(); v.Turn.Status != "interrupted" || len(v.Refusals) > 0 {
			t.Errorf("session is %+v", v)
		}
		w.SignalWorkflow(protocol.SignalClose, nil)
	})
	w.start(session.Options{})
}

func TestARolloverWhileQueuedAsksAgain(t *testing.T) {
	w := newWorld(t)
	w.mute = true
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
	})
	w.start(session.Options{Seed: "team"})
	next := newWorld(t)
	next.fake.pumps = append(next.fake.pumps, endsTurn("completed", ""))
	next.ends(time.Minute)
	next.ExecuteWorkflow(protocol.TypeSession, carried(t, w.continued()))
	if v := next.view(); v.State != protocol.Closed || v.Turn == nil || v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
}

// The view shows how the work of a session is kept, and what it began from.
func TestASessionSaysHowItIsKept(t *testing.T) {
	w := newWorld(t)
	w.ends(time.Second)
	w.start(session.Options{OnHostLost: protocol.HostLostMove, LostAfter: time.Minute, ParkAfter: time.Hour,
		Snapshot: protocol.SnapshotOptions{Work: protocol.WorkGit, When: protocol.SnapshotClose, Every: 2 * time.Minute, Exclude: []string{"a b/", "*.log"}}})
	got := w.view().Options
	for word, want := range map[string]string{"snapshot": "git", "snapshot_when": "close", "snapshot_every": "2m0s", "snapshot_exclude": "a b/\n*.log",
		"park_after": "1h0m0s", "on_host_lost": "move", "lost_after": "1m0s"} {
		if got[word] != want {
			t.Errorf("%s is %q, want %q", word, got[word], want)
		}
	}
	if from, said := got["from"]; said {
		t.Errorf("it began from %q", from)
	}
}
