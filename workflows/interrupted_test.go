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

type pumpFunc = func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error)

// These tests are about a turn that loses its process: they check the session's reports,
// and what it does by itself.

func TestACutOffTurnSaysWhatIsCertainAndWhatIsNot(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make", "rm x", "ls"), dies(protocol.Sent, true)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalDecide, yes("s1.1", "make"))) })
	w.at(3*time.Second, func() {
		v := w.view()
		for _, want := range []string{"status 137 (killed by signal 9)", "message m1 reached codex", "s1.2 was not answered", "Not known: what became of s1.1"} {
			if v.Error == nil || !strings.Contains(v.Error.Message, want) {
				t.Errorf("the session says %+v, and not %q", v.Error, want)
			}
		}
		for _, a := range query[[]protocol.Approval](w, protocol.QueryApprovals) {
			void := a.State == protocol.ApprovalVoid && a.VoidReason == "codex's process is gone before it was answered"
			if (a.ID != "s1.1") != void {
				t.Errorf("approval %s is %s: %s", a.ID, a.State, a.VoidReason)
			}
		}
		w.refuses(w.send(protocol.SignalDecide, yes("s1.2", "rm x")), protocol.RefusedState)
	})
	w.ends(4 * time.Second)
	w.start(session.Options{})
	notes := notesOf(w.fake.closed[0].Notes)
	for _, want := range []string{"s1.2 is void: codex's process is gone", "s1.3 is void", "turn 1 ended as interrupted"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the transcript does not say %q:\n%s", want, notes)
		}
	}
	if got := strings.Join(w.fake.calls, ","); strings.Count(got, "stop 1") != 1 {
		t.Errorf("what the process left behind was not ended: %s", got)
	}
}

func TestAHostThatCannotBeClearedKeepsNobodyWaiting(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{dies(protocol.Acknowledged, true), endsTurn("completed", "again")}
	let := w.fake.hang("stop")
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Interrupted, func() {
		w.takes(w.send(protocol.SignalMessage, hello("m2")))
		let()
	})
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
}

// resumed checks that a pump resumes the thread with all its settings.
func resumed(t *testing.T, in pumps.RunPumpInput, incarnation int) {
	t.Helper()
	th := in.Pump.Thread
	if !in.Pump.Resume || in.Pump.State.ThreadID != "thread-1" || in.Pump.State.Cursor != (protocol.Cursor{Incarnation: incarnation}) ||
		th.CWD != "/r/sessions/s1/work" || th.Sandbox != "read-only" || th.Permissions != "fairlead" || th.ApprovalPolicy != "untrusted" ||
		th.Model != "big" || th.Effort != "high" || !strings.HasPrefix(th.Mark, "s1@") {
		t.Errorf("process %d was told %+v", incarnation, in.Pump)
	}
}

func TestAThreadIsResumedAsItWasSetUp(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{dies(protocol.Acknowledged, true), endsTurn("completed", "again")}
	w.at(time.Second, func() {
		w.send(protocol.SignalMessage, protocol.Message{ID: "m1", Text: "hello", Model: "big", Effort: "high"})
	})
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.ends(3 * time.Second)
	w.start(session.Options{Sandbox: "read-only", ApprovalPolicy: "untrusted", Model: "small"})
	resumed(t, w.fake.ran[1], 2)
}

func TestTheQueueWaitsForAWordWhenATurnIsCutOff(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), dies(protocol.Sent, true), endsTurn("completed", "2"), endsTurn("completed", "3")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.send(protocol.SignalMessage, hello("m2"))
		w.takes(w.send(protocol.SignalDecide, yes("s1.1", "make")))
	})
	w.at(time.Hour, func() {
		if v := w.view(); v.State != protocol.Interrupted || v.Queue != 1 {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.at(2*time.Hour, func() {
		for n := 2; n <= 3; n++ {
			if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: n}); turn.Status != "completed" {
				t.Errorf("turn is %+v", turn)
			}
		}
	})
	w.ends(3 * time.Hour)
	w.start(session.Options{})
}

func TestASessionThatIsToContinueTellsCodexSo(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{staysAttached(protocol.Acknowledged), dies(protocol.Acknowledged, true), endsTurn("completed", "went on"), endsTurn("completed", "next")}
	w.at(50*time.Millisecond, func() {
		w.send(protocol.SignalMessage, protocol.Message{ID: "m1", Text: "hello", Model: "big", Effort: "high"})
	})
	w.attached(1, func() {
		w.takes(w.send(protocol.SignalMessage, hello("m2"))) // promised turn 2
		w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "m3", Text: "faster", Mode: "steer"}))
	})
	w.whenTurn(3, "completed", func() {
		first, follow, next := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}), query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 2}), query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{MessageID: "m2"})
		if first.Status != "interrupted" || first.FollowedBy != 2 {
			t.Errorf("the turn that was cut off is %+v", first)
		}
		if follow.Status != "completed" || follow.FinalText != "went on" || follow.MessageID != "s1.c1" {
			t.Errorf("the turn that goes on is %+v", follow)
		}
		if next.N != 3 || next.FinalText != "next" {
			t.Errorf("the queued message became %+v", next)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{OnInterrupt: "continue", Sandbox: "read-only", ApprovalPolicy: "untrusted", By: "ann"})
	in := w.fake.ran[2]
	resumed(t, in, 2)
	if s := in.Pump.Sends; len(s) != 1 || s[0].Kind != conversation.SendTurn || s[0].Turn != 2 || s[0].Text != session.GoOnText || s[0].Uncertain {
		t.Errorf("codex was told %+v", s)
	}
	if notes := fmt.Sprint(in.Pump.Notes); !strings.Contains(notes, "turn 2 tells codex to go on (1 of at most 3 in a row)") ||
		!strings.Contains(notes, "by:on_interrupt=continue") || !strings.Contains(notes, "set_by:ann") {
		t.Errorf("it is not on record who caused the turn: %s", notes)
	}
}

func TestContinuingIsBounded(t *testing.T) {
	w := newWorld(t)
	d := dies(protocol.Acknowledged, true)
	w.fake.pumps = []pumpFunc{d, d, d, d, d, endsTurn("completed", ""), d, endsTurn("completed", "")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() {
		if v := w.view(); v.State != protocol.Interrupted || v.Turn.N != 4 || len(w.fake.ran) != 4 {
			t.Errorf("after %d pumps the session is %+v", len(w.fake.ran), v)
		}
		w.send(protocol.SignalMessage, hello("m5"))
	})
	w.at(2*time.Minute, func() {
		// No turn has ended by itself since the first one was cut off, so the count goes
		// on.
		if v := w.view(); v.State != protocol.Interrupted || v.Turn.N != 5 {
			t.Errorf("after %d pumps the session is %+v", len(w.fake.ran), v)
		}
		w.send(protocol.SignalMessage, hello("m6"))
	})
	w.at(3*time.Minute, func() { w.send(protocol.SignalMessage, hello("m7")) })
	w.at(4*time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 8 || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(5 * time.Minute)
	w.start(session.Options{OnInterrupt: "continue"})
}

func TestWhoeverWantedTheTurnToEndIsNotContinued(t *testing.T) {
	end := map[string]func(w *world){
		"interrupt": func(w *world) { w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "bob"})) },
		"cancel": func(w *world) {
			d := yes("s1.1", "make")
			d.Outcome = "cancel"
			w.takes(w.send(protocol.SignalDecide, d))
		},
	}
	for _, policy := range []string{"continue", "fail"} {
		for name, do := range end {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{asks("make"), dies(protocol.Sent, true)}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(2*time.Second, func() { do(w) })
			w.at(time.Hour, func() {
				if v := w.view(); v.State != protocol.Interrupted || v.Turn.N != 1 {
					t.Errorf("%s, %s: session is %+v", policy, name, v)
				}
			})
			w.ends(2 * time.Hour)
			w.start(session.Options{OnInterrupt: policy})
		}
	}
}

func TestATurnThatTookTooLongIsNotContinued(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.TurnID = "turn-1"
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TimedOut, State: st, Deliveries: acked(in),
			Problem: &protocol.Problem{Kind: "turn_timeout", Message: "too long"}}}, nil
	}, dies(protocol.Acknowledged, false)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() {
		if v := w.view(); v.State != protocol.Interrupted || v.Error.Kind != "turn_timeout" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(time.Hour)
	w.start(session.Options{OnInterrupt: "continue"})
}

func TestWhatARetiredProcessStillWroteIsRead(t *testing.T) {
	timesOut := func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.TurnID, st.Cursor.Offset = "turn-1", 100
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TimedOut, State: st, Deliveries: acked(in),
			Problem: &protocol.Problem{Kind: "request_timeout", Message: "no answer"}}}, nil
	}
	for name, c := range map[string]struct {
		last   pumpFunc
		status string
		state  protocol.SessionStatus
	}{
		"it said no more":     {dies(protocol.Acknowledged, false), "interrupted", protocol.Interrupted},
		"it ended the turn":   {endsTurn("completed", "done"), "completed", protocol.Idle},
		"its worker was lost": {nil, "interrupted", protocol.Interrupted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{timesOut, c.last, endsTurn("completed", "")}
			if c.last == nil {
				w.fake.pumps = []pumpFunc{timesOut, func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
					return pumps.RunPumpResult{}, temporal.NewApplicationError("the wire is lost", protocol.ErrTypeWireLost)
				}, dies(protocol.Acknowledged, false), endsTurn("completed", "")}
			}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(time.Minute, func() {
				if v := w.view(); v.State != c.state || v.Turn.Status != c.status || v.Process.Alive {
					t.Errorf("session is %+v, process %+v", v, v.Process)
				}
				if in := w.fake.ran[1]; in.Pump.State.Cursor != (protocol.Cursor{Incarnation: 1, Offset: 100}) {
					t.Errorf("the last pump began at %+v", in.Pump.State.Cursor)
				}
				w.send(protocol.SignalMessage, hello("m2"))
			})
			w.whenTurn(2, "completed", func() {
				if v := w.view(); v.Process.Incarnation != 2 {
					t.Errorf("session is %+v", v)
				}
			})
			w.ends(time.Hour)
			w.start(session.Options{})
		})
	}
}

// history returns a pump that found the message in the thread's history.
func history(t *testing.T, status string) pumpFunc {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		s := in.Pump.Sends
		if len(s) != 1 || s[0].ID != "m1" || !s[0].Uncertain || s[0].Incarnation != 1 || !in.Pump.Resume {
			t.Errorf("the pump was not asked to look for the message: %+v", in.Pump)
		}
		st := opened(in)
		st.TurnID = ""
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TurnEnded, State: st, Deliveries: acked(in),
			Turn: &conversation.TurnEnd{N: 1, ID: "turn-1", Status: status}}}, nil
	}
}

func TestWhereItIsNotKnownWhetherCodexHadTheMessageItsHistoryTells(t *testing.T) {
	for name, c := range map[string]struct {
		pumps []pumpFunc
		want  []string // the status of each turn
	}{
		"it was cut off":      {[]pumpFunc{history(t, "interrupted"), endsTurn("completed", "")}, []string{"interrupted", "completed"}},
		"it had ended":        {[]pumpFunc{history(t, "completed")}, []string{"completed"}},
		"codex never had it":  {[]pumpFunc{endsTurn("completed", "")}, []string{"completed"}},
		"it has it now":       {[]pumpFunc{asks("make"), endsTurn("interrupted", "")}, []string{"interrupted"}},
		"and it dies again":   {[]pumpFunc{dies(protocol.Acknowledged, true), endsTurn("completed", "")}, []string{"interrupted", "completed"}},
		"and dies, unknown":   {[]pumpFunc{dies(protocol.Sent, true), dies(protocol.Sent, true), dies(protocol.Sent, true)}, []string{"unknown"}},
		"nobody can tell":     {[]pumpFunc{cannotTell}, []string{"unknown"}},
		"there is no thread":  {[]pumpFunc{noThread, endsTurn("completed", "")}, []string{"completed"}},
		"it never got so far": {[]pumpFunc{dies(protocol.Decided, true), endsTurn("completed", "")}, []string{"completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append([]pumpFunc{dies(protocol.Sent, true)}, c.pumps...)
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(time.Minute, func() {
				if len(query[[]protocol.Approval](w, protocol.QueryApprovals)) == 1 {
					d := yes("s1.1", "make")
					d.Outcome = "cancel"
					w.takes(w.send(protocol.SignalDecide, d))
				}
			})
			w.at(time.Hour, func() {
				var got []string
				for _, turn := range query[protocol.SessionDetail](w, protocol.QueryDetail).Turns {
					got = append(got, turn.Status)
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) || len(w.fake.ran) != len(w.fake.pumps) {
					t.Errorf("after %d of %d pumps the turns are %v, want %v", len(w.fake.ran), len(w.fake.pumps), got, c.want)
				}
			})
			w.ends(2 * time.Hour)
			w.start(session.Options{OnInterrupt: "continue"})
		})
	}
}

// cannotTell answers as a codex whose history cannot be read.
func cannotTell(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Bound, State: opened(in),
		Deliveries: []protocol.Delivery{{ID: "m1", State: protocol.Void, Error: "its history cannot be read"}}}}, nil
}

// noThread answers as a codex that never wrote the thread's rollout.
func noThread(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Refused, State: in.Pump.State,
		Deliveries: []protocol.Delivery{{ID: "m1", State: protocol.Sent}},
		Problem:    &protocol.Problem{Kind: "thread_missing", Message: "no rollout found"}}}, nil
}

func TestASessionThatIsToFailDoesAndIsCleanedUp(t *testing.T) {
	for _, state := range []protocol.DeliveryState{protocol.Acknowledged, protocol.Sent} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{dies(state, true)}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.start(session.Options{OnInterrupt: "fail", Seed: "team"})
		v := w.view()
		if typeOf(w.GetWorkflowError()) != "process_exit" || v.State != protocol.Failed || !strings.Contains(v.Error.Message, "status 137") {
			t.Errorf("the session ended with %v and %+v", w.GetWorkflowError(), v)
		}
		if len(w.fake.closed) != 1 || w.fake.closed[0].Discard || !v.Close.Removed {
			t.Errorf("cleaned up %+v", w.fake.closed)
		}
		if got := strings.Join(w.released, " "); got != "seed/team pool/default" {
			t.Errorf("released %q", got)
		}
	}
}

func TestAMessageThatCertainlyNeverArrivedIsDeliveredWhateverThePolicy(t *testing.T) {
	for _, policy := range []string{"", "ask", "continue", "fail"} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{dies(protocol.Decided, true), endsTurn("completed", "ok")}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(time.Minute, func() {
			if v := w.view(); v.State != protocol.Idle || v.Turn.N != 1 || v.Turn.Status != "completed" {
				t.Errorf("%s: session is %+v", policy, v)
			}
		})
		w.ends(time.Hour)
		w.start(session.Options{OnInterrupt: policy})
	}
}

func TestASessionForOneTurnClosesAfterTheTurnThatWentOn(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{dies(protocol.Acknowledged, true), endsTurn("completed", "done after all")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.start(session.Options{CloseAfter: true, OnInterrupt: "continue"})
	if v := w.view(); v.State != protocol.Closed || v.Turn.N != 2 || v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
}

func TestAThreadThatCannotBeResumedStopsTheSessionWhateverThePolicy(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{dies(protocol.Acknowledged, true), refuses("thread_missing", protocol.Decided)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Hour, func() {
		if v := w.view(); v.State != protocol.Interrupted || v.Error.Kind != "thread_missing" || v.Turn.N != 2 || v.Turn.Status != "failed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(2 * time.Hour)
	w.start(session.Options{OnInterrupt: "continue"})
}

func TestAnUnknownPolicyIsRefused(t *testing.T) {
	w := newWorld(t)
	w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{OnInterrupt: "panic"}})
	if typeOf(w.GetWorkflowError()) != protocol.RefusedBadInput {
		t.Errorf("it was answered %v", w.GetWorkflowError())
	}
}

func yes(approval, command string) protocol.Decide {
	return protocol.Decide{Approval: approval, Digest: "digest of " + command, Outcome: "accept", By: "bob"}
}

func notesOf(notes []conversation.Note) string {
	var b strings.Builder
	for _, n := range notes {
		fmt.Fprintln(&b, n.Text)
	}
	return b.String()
}

// If it is not known whether codex had a message, later faults do not make it
// certain.
func TestADoubtThatCannotBeResolvedIsNoFailure(t *testing.T) {
	lost := dies(protocol.Sent, false) // the process ended before codex could be asked
	for name, fault := range map[string]func(w *world){
		"no process lives long enough": func(w *world) { w.fake.pumps = append(w.fake.pumps, lost, lost, lost) },
		"none can be started": func(w *world) {
			w.fake.pumps[0] = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
				w.fake.fail("start", temporal.NewNonRetryableApplicationError("no room", protocol.ErrTypeInternal, nil))
				return dies(protocol.Sent, true)(ctx, in)
			}
		},
		"codex will not have us": func(w *world) {
			w.fake.pumps = append(w.fake.pumps, refuses("auth", protocol.Sent))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{dies(protocol.Sent, true)}
			fault(w)
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.when(protocol.Interrupted, func() {
				turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1})
				if turn.Status != "unknown" || turn.Error == nil {
					t.Errorf("turn is %+v: %+v", turn, turn.Error)
				}
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(session.Options{OnInterrupt: protocol.InterruptContinue})
		})
	}
}

func TestAClosedSessionDoesNotSayWhatItDoesNotKnow(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{dies(protocol.Sent, true)}
	w.at(50*time.Millisecond, func() {
		w.send(protocol.SignalMessage, hello("m1"))
		w.fake.hang("stop") // the process that would look into the history never starts
	})
	w.when(protocol.Resuming, func() { w.send(protocol.SignalClose, protocol.Close{By: "ann"}) })
	w.start(session.Options{OnInterrupt: protocol.InterruptContinue})
	if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.Status != "unknown" || turn.Error == nil {
		t.Errorf("turn is %+v: %+v", turn, turn.Error)
	}
}
