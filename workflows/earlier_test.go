package workflows

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// These tests are about decisions that were lost when a process of codex died, and about
// the same request after that.

// diesWith returns a pump whose process died when its deliveries had reached these
// states.
func diesWith(states ...protocol.DeliveryState) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := dies(protocol.Decided, true)(ctx, in)
		for i := range out.Pump.Deliveries {
			out.Pump.Deliveries[i].State = states[min(i, len(states)-1)]
		}
		return out, err
	}
}

// lostTurn returns a session whose first turn asked for make, was answered, and was
// then cut off because its process died.
func lostTurn(t *testing.T, d protocol.Decide, dies pumpFunc, after ...pumpFunc) *world {
	w := newWorld(t)
	w.fake.pumps = append([]pumpFunc{asks("make"), dies}, after...)
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	if d.Outcome != "" {
		w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalDecide, d)) })
	}
	w.at(5*time.Minute, func() { w.send(protocol.SignalMessage, hello("m2")) })
	return w
}

func decision(outcome, scope string) protocol.Decide {
	return protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: outcome, Scope: scope, By: "bob"}
}

func (w *world) approval(id string) protocol.Approval {
	w.t.Helper()
	for _, a := range query[[]protocol.Approval](w, protocol.QueryApprovals) {
		if a.ID == id {
			return a
		}
	}
	w.t.Errorf("there is no approval %s", id)
	return protocol.Approval{}
}

func TestADecisionThatNeverReachedCodexServesOnce(t *testing.T) {
	for _, outcome := range []string{"accept", "decline"} {
		w := lostTurn(t, decision(outcome, ""), diesWith(protocol.Decided),
			asks("make"), endsTurn("completed", ""), asks("make"), endsTurn("completed", ""))
		w.at(6*time.Minute, func() {
			if a := w.approval("s1.1"); a.State != protocol.ApprovalVoid || a.Delivery != "void" || !strings.Contains(a.VoidReason, "before the decision reached codex") {
				t.Errorf("%s: the first approval is %+v", outcome, a)
			}
			a := w.approval("s1.2")
			if a.State != protocol.ApprovalAcknowledged || a.Decision.Outcome != outcome || a.Decision.By != "bob" || a.Decision.Reason != "decided earlier as s1.1, never delivered" {
				t.Errorf("%s: the second approval is %+v (%+v)", outcome, a, a.Decision)
			}
			if e := a.Earlier; e == nil || e.Approval != "s1.1" || e.Outcome != outcome || e.State != protocol.ApprovalDecided || e.By != "bob" || e.At.IsZero() {
				t.Errorf("%s: it was decided earlier as %+v", outcome, e)
			}
			w.send(protocol.SignalMessage, hello("m3"))
		})
		w.at(7*time.Minute, func() {
			if a := w.approval("s1.3"); a.State != protocol.ApprovalOpen || a.Earlier != nil {
				t.Errorf("%s: the third approval is %+v", outcome, a)
			}
		})
		w.ends(8 * time.Minute)
		w.fake.pumps[5] = endsTurn("interrupted", "")
		w.start(session.Options{})
		if s := w.fake.ran[3].Pump.Sends; len(s) != 1 || string(s[0].Outcome) != outcome || s[0].Incarnation != 2 || s[0].ID != "s1.a2" {
			t.Errorf("%s: codex was sent %+v", outcome, s)
		}
		if notes := notesOf(w.fake.ran[3].Pump.Notes); !strings.Contains(notes, outcome+" s1.2") {
			t.Errorf("%s is not on record: %s", outcome, notes)
		}
	}
}

func TestADecisionThatMayHaveHadItsEffectIsAskedAnew(t *testing.T) {
	for _, c := range []struct {
		outcome string
		died    pumpFunc
		state   protocol.ApprovalState
	}{
		{"accept", diesWith(protocol.Sent), protocol.ApprovalSent},
		{"accept", diesWith(protocol.Acknowledged), protocol.ApprovalAcknowledged},
		{"decline", diesWith(protocol.Sent), protocol.ApprovalSent},
		{"decline", diesWith(protocol.Acknowledged), protocol.ApprovalAcknowledged},
		{"cancel", diesWith(protocol.Decided), protocol.ApprovalDecided}, // the turn that it was to end has ended
		{"cancel", diesWith(protocol.Sent), protocol.ApprovalSent},
	} {
		w := lostTurn(t, decision(c.outcome, ""), c.died, asks("make", "ls"), endsTurn("completed", ""), asks("make"), endsTurn("completed", ""))
		w.at(6*time.Minute, func() {
			a := w.approval("s1.2")
			if e := a.Earlier; a.State != protocol.ApprovalOpen || e == nil || e.Approval != "s1.1" || e.Outcome != c.outcome || e.State != c.state {
				t.Errorf("%s, %s: the approval is %+v, earlier %+v", c.outcome, c.state, a, a.Earlier)
			}
			if b := w.view().Requests; len(b) != 2 || b[0].Earlier == nil || b[1].Earlier != nil {
				t.Errorf("%s, %s: requests are %+v", c.outcome, c.state, b)
			}
			w.takes(w.send(protocol.SignalDecide, yes("s1.2", "make")))
			w.takes(w.send(protocol.SignalDecide, yes("s1.3", "ls")))
		})
		w.at(7*time.Minute, func() { w.send(protocol.SignalMessage, hello("m3")) })
		w.at(8*time.Minute, func() {
			// That turn ended by itself, so nothing is in doubt any more.
			if a := w.approval("s1.4"); a.State != protocol.ApprovalOpen || a.Earlier != nil {
				t.Errorf("%s, %s: the last approval is %+v", c.outcome, c.state, a)
			}
		})
		w.ends(9 * time.Minute)
		w.start(session.Options{})
	}
}

func TestADecisionThatWasNeverWrittenServesNoLongerThanItsQuestionStood(t *testing.T) {
	w := lostTurn(t, decision("accept", ""), diesWith(protocol.Decided), asks("make"), endsTurn("interrupted", ""))
	w.at(6*time.Minute, func() {
		if a := w.approval("s1.2"); a.State != protocol.ApprovalOpen || a.Earlier == nil || a.Earlier.State != protocol.ApprovalDecided {
			t.Errorf("the approval is %+v", a)
		}
	})
	w.ends(6*time.Minute + time.Second)
	w.start(session.Options{Expiry: 2 * time.Minute})
}

func TestWhatNobodyDecidedIsAskedAnew(t *testing.T) {
	w := lostTurn(t, protocol.Decide{}, diesWith(protocol.Decided), asks("make"), endsTurn("interrupted", ""))
	w.at(5*time.Minute+30*time.Second, func() {
		if a := w.approval("s1.1"); a.State != protocol.ApprovalExpired {
			t.Errorf("the first approval is %+v", a)
		}
		if a := w.approval("s1.2"); a.State != protocol.ApprovalOpen || a.Earlier == nil || a.Earlier.By != "expiry" {
			t.Errorf("the approval is %+v", a)
		}
	})
	w.ends(5*time.Minute + 31*time.Second)
	w.start(session.Options{Expiry: time.Minute})
}

func TestOfTwoSuchDecisionsTheOneThatMayHaveRunCounts(t *testing.T) {
	for _, died := range []pumpFunc{diesWith(protocol.Sent, protocol.Decided), diesWith(protocol.Decided, protocol.Sent)} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{asks("make", "make"), died, asks("make"), endsTurn("interrupted", "")}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() {
			w.takes(w.send(protocol.SignalDecide, yes("s1.1", "make")))
			w.takes(w.send(protocol.SignalDecide, yes("s1.2", "make")))
		})
		w.at(time.Minute, func() { w.send(protocol.SignalMessage, hello("m2")) })
		w.at(2*time.Minute, func() {
			if a := w.approval("s1.3"); a.State != protocol.ApprovalOpen || a.Earlier == nil || a.Earlier.State != protocol.ApprovalSent {
				t.Errorf("the approval is %+v, earlier %+v", a, a.Earlier)
			}
		})
		w.ends(3 * time.Minute)
		w.start(session.Options{})
	}
}

func TestAGrantForTheSessionOutlivesTheProcessThatItWasOnItsWayTo(t *testing.T) {
	for _, state := range []protocol.DeliveryState{protocol.Decided, protocol.Sent, protocol.Acknowledged} {
		w := lostTurn(t, decision("accept", "session"), diesWith(state), asks("make"), endsTurn("completed", ""), asks("make"), endsTurn("completed", ""))
		w.at(6*time.Minute, func() {
			a := w.approval("s1.2")
			if a.State != protocol.ApprovalAcknowledged || a.Decision.Scope != "session" || a.Decision.By != "bob" || a.Earlier == nil || a.Earlier.State != protocol.ApprovalState(state) {
				t.Errorf("%s: the approval is %+v, earlier %+v", state, a, a.Earlier)
			}
			w.send(protocol.SignalMessage, hello("m3"))
		})
		w.at(7*time.Minute, func() {
			if a := w.approval("s1.3"); a.State != protocol.ApprovalAcknowledged || a.Decision.Reason != "accepted earlier for this session" || a.Earlier != nil {
				t.Errorf("%s: the approval is %+v, earlier %+v", state, a, a.Earlier)
			}
		})
		w.ends(8 * time.Minute)
		w.start(session.Options{})
		if s := w.fake.ran[3].Pump.Sends; len(s) != 1 || s[0].Outcome != protocol.Accept || s[0].Incarnation != 2 {
			t.Errorf("%s: codex was sent %+v", state, s)
		}
	}
}

// The next run knows the grants, and the decisions that were lost.
func TestARolloverBetweenADeathAndTheSameAskForgetsNothing(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make", "test", "ls"), diesWith(protocol.Sent, protocol.Decided, protocol.Sent)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalDecide, decision("accept", "session")))
		w.takes(w.send(protocol.SignalDecide, yes("s1.2", "test")))
		w.takes(w.send(protocol.SignalDecide, yes("s1.3", "ls")))
	})
	w.at(time.Minute, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
	})
	w.start(session.Options{})
	next := newWorld(t)
	next.fake.pumps = []pumpFunc{asks("make", "test", "ls"), asks(), endsTurn("completed", "")}
	next.at(time.Second, func() { next.send(protocol.SignalMessage, hello("m2")) })
	next.at(time.Minute, func() {
		for id, want := range map[string]protocol.ApprovalState{"s1.4": protocol.ApprovalAcknowledged, "s1.5": protocol.ApprovalAcknowledged, "s1.6": protocol.ApprovalOpen} {
			if a := next.approval(id); a.State != want || a.Earlier == nil {
				t.Errorf("approval %s is %+v, earlier %+v", id, a, a.Earlier)
			}
		}
		next.takes(next.send(protocol.SignalDecide, yes("s1.6", "ls")))
	})
	next.ends(2 * time.Minute)
	next.ExecuteWorkflow(protocol.TypeSession, carried(t, w.continued()))
	next.verify()
}

func TestWhyAnApprovalIsVoidIsSaid(t *testing.T) {
	withdraws := func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.TurnID = "turn-1"
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Bound, State: st, Deliveries: acked(in), Resolved: []json.RawMessage{[]byte("0")}}}, nil
	}
	for name, c := range map[string]struct {
		pump pumpFunc
		do   func(w *world)
		want string
	}{
		"withdrawn": {withdraws, func(w *world) {
			w.send(protocol.SignalMessage, protocol.Message{ID: "m2", Text: "faster", Mode: "steer"})
		}, "codex withdrew the question"},
		"turn ended": {endsTurn("interrupted", ""), func(w *world) { w.send(protocol.SignalInterrupt, protocol.Interrupt{}) }, "the turn was interrupted by somebody"},
		"too late":   {answered(protocol.Void, "the request is not open any more"), func(w *world) { w.send(protocol.SignalDecide, yes("s1.1", "make")) }, "the request is not open any more"},
		"refused":    {answered(protocol.Rejected, "no such shape"), func(w *world) { w.send(protocol.SignalDecide, yes("s1.1", "make")) }, "codex refused the answer: no such shape"},
	} {
		w := newWorld(t)
		w.fake.pumps, w.fake.rest = []pumpFunc{asks("make"), c.pump}, calm
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() { c.do(w) })
		w.at(time.Minute, func() {
			if a := w.approval("s1.1"); a.State != protocol.ApprovalVoid || a.VoidReason != c.want {
				t.Errorf("%s: the approval is %s: %q, want %q", name, a.State, a.VoidReason, c.want)
			}
			w.refuses(w.send(protocol.SignalDecide, yes("s1.1", "make")), protocol.RefusedState)
		})
		w.ends(time.Hour)
		w.start(session.Options{})
	}
}

// answered returns a pump that reports the delivery state of a decision while the turn goes
// on.
func answered(state protocol.DeliveryState, why string) pumpFunc {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.TurnID = "turn-1"
		out := conversation.PumpResult{Reason: conversation.Bound, State: st}
		for _, s := range in.Pump.Sends {
			out.Deliveries = append(out.Deliveries, protocol.Delivery{ID: s.ID, State: state, Error: why})
		}
		return pumps.RunPumpResult{Pump: out}, nil
	}
}

// TestWhatAPersonSaidIsShownAndNeverSaidAgain checks that answers, granted parts of
// permissions and rules count for one request only. When the next process asks again, a
// person decides, and sees the earlier decision. Secret answers that codex did not get are
// deleted.
func TestWhatAPersonSaidIsShownAndNeverSaidAgain(t *testing.T) {
	blob := blobOf("s1", askedSecret)
	for name, c := range map[string]struct {
		r protocol.Request
		d protocol.Decide
	}{
		"answers":         {askedQuestions, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"colour":"red"}`)}},
		"a secret answer": {askedSecret, protocol.Decide{Outcome: "answer", Answers: json.RawMessage(`{"user":"ann"}`), AnswersBlob: blob}},
		"a part":          {askedPermissions, protocol.Decide{Outcome: "grant", Grant: json.RawMessage(`{"network":{"enabled":true}}`)}},
		"a part, for the session": {askedPermissions, protocol.Decide{Outcome: "grant", Scope: "session",
			Grant: json.RawMessage(`{"network":{"enabled":true}}`)}},
		"a rule": {askedCommand, protocol.Decide{Outcome: "amend"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{asking(c.r), diesWith(protocol.Decided), asking(c.r), endsTurn("completed", "")}
			c.d.Approval, c.d.Digest, c.d.By = "s1.1", c.r.Digest, "bob"
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalDecide, c.d)) })
			w.at(5*time.Minute, func() { w.send(protocol.SignalMessage, hello("m2")) })
			w.at(6*time.Minute, func() {
				a := w.approval("s1.2")
				if e := a.Earlier; a.State != protocol.ApprovalOpen || e == nil || e.Outcome != c.d.Outcome || string(e.Grant) != string(c.d.Grant) || (len(e.Answers) > 0) != (len(c.d.Answers) > 0) {
					t.Errorf("the second approval is %+v, earlier %+v", a, a.Earlier)
				}
				w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.2", Digest: c.r.Digest, Outcome: "decline"}))
			})
			w.at(7*time.Minute, func() { w.send(protocol.SignalClose, protocol.Close{}) })
			w.start(session.Options{})
			var forgotten []string
			for _, in := range w.fake.ran {
				forgotten = append(forgotten, in.Forget...)
				if in.Claim.Told != (c.d.AnswersBlob != "") && len(in.Pump.Sends) > 0 && in.Pump.Sends[0].Kind == conversation.SendDecision {
					t.Errorf("a pump was told of secrets: %v", in.Claim.Told)
				}
			}
			if want := c.d.AnswersBlob; strings.Join(forgotten, " ") != want {
				t.Errorf("forgotten is %q, want %q", forgotten, want)
			}
		})
	}
}
