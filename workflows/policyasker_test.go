package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// Everybody who may signal a session can read the earlier messages, and send them again.
func TestAWordThatWasTakenBackCountsNoMore(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("one"), endsTurn("completed", ""))
	forAll := protocol.Decide{Approval: "s1.1", Outcome: "accept", Scope: "session"}
	once := protocol.Decide{Approval: "s1.1", Outcome: "accept"}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		first := w.signed("cyd", forAll)
		w.takes(w.send(protocol.SignalDecide, first))
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", once)))
		w.refusal(w.send(protocol.SignalDecide, first), protocol.RefusedState, "then changed it")
		w.takes(w.send(protocol.SignalDecide, w.signed("bob", forAll)))
	})
	w.at(3*time.Second, func() {
		if a := w.approval("s1.1"); a.State != protocol.ApprovalOpen || a.Missing != 1 || len(a.Agreed) != 2 {
			t.Errorf("cyd said something else since: %+v", a)
		}
		w.takes(w.send(protocol.SignalDecide, w.signed("bob", once)))
	})
	w.at(4*time.Second, func() {
		if a := w.approval("s1.1"); a.Decision == nil || a.Decision.Scope != "once" {
			t.Errorf("both said so: %+v", a)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Policy: approvedBy(t, "required: 2\n", "ann", "bob", "cyd")})
}

func TestMindsAreChangedSoOftenAndNoMore(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asksPermissions(), endsTurn("completed", ""))
	grant := func(n int) protocol.Decide {
		return protocol.Decide{Approval: "s1.1", Outcome: "grant", Grant: json.RawMessage(fmt.Sprintf(`{"fileSystem":{"read":["/w/%d"]}}`, n))}
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		for n := range session.MaxTakenBack + 1 {
			w.takes(w.send(protocol.SignalDecide, w.signed("bob", grant(n))))
		}
		w.refusal(w.send(protocol.SignalDecide, w.signed("bob", grant(-1))), protocol.RefusedState, "can now only decline")
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", grant(session.MaxTakenBack))))
	})
	w.at(3*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Policy: approvedBy(t, "required: 2\n", "bob", "cyd")})
	if d := sendOf(t, w.fake.ran[1], protocol.SendID("s1", 1)); d.Outcome != protocol.Grant {
		t.Errorf("codex is told %+v", d)
	}
}

// asksPermissions returns a pump in which codex asks to read a folder.
func asksPermissions() pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := asks("read")(ctx, in)
		r := &out.Pump.Requests[0]
		r.Kind, r.Permissions = protocol.KindPermissions, json.RawMessage(`{"fileSystem":{"read":["/w"]}}`)
		r.Amendment, r.Offered = []string{"always"}, append(r.Offered, "grant", "amend")
		return out, err
	}
}

// Only codex keeps a grant for the session, or an amendment. With either, codex
// would ask nobody again, whoever sends the next message.
func TestNobodyWhoMayAskLaterGivesThemselvesWhatCodexKeeps(t *testing.T) {
	grant := protocol.Decide{Approval: "s1.1", Outcome: "grant", Grant: json.RawMessage(`{"fileSystem":{"read":["/w"]}}`), Scope: "session"}
	for _, asker := range []bool{false, true} {
		w := newWorld(t)
		w.fake.pumps = append(w.fake.pumps, asksPermissions(), endsTurn("completed", ""))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() {
			if !asker {
				w.refusal(w.send(protocol.SignalDecide, w.signed("bob", grant)), protocol.RefusedState, "would also apply to later messages")
				w.refusal(w.send(protocol.SignalDecide, w.signed("bob", protocol.Decide{Approval: "s1.1", Outcome: "amend"})), protocol.RefusedState, "would also apply to later messages")
				once := grant
				once.Scope = ""
				w.takes(w.send(protocol.SignalDecide, w.signed("bob", once)))
				return
			}
			w.takes(w.send(protocol.SignalDecide, w.signed("bob", grant)))
		})
		w.at(3*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
		w.start(session.Options{Policy: approvedBy(t, fmt.Sprintf("requester_may_decide: %v\n", asker), "bob")})
		if d := sendOf(t, w.fake.ran[1], protocol.SendID("s1", 1)); d.Outcome != protocol.Grant || d.ForSession != asker {
			t.Errorf("the asker may decide: %v; codex is told %+v", asker, d)
		}
	}
}

func TestAMessageThatCameTooLateToSteerIsStillItsSenders(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, asks("make"))
	// The decision may start a pump that is then cancelled because of the message. So a
	// pump answers according to its input.
	brings := func(in pumps.RunPumpInput, kind conversation.SendKind) bool {
		return slices.ContainsFunc(in.Pump.Sends, func(s conversation.Send) bool { return s.ID == "m2" && s.Kind == kind })
	}
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		if brings(in, conversation.SendTurn) {
			return asks("make")(ctx, in)
		}
		return voids("m2", endsTurn("completed", ""))(ctx, in)
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalDecide, w.signed("bob", protocol.Decide{Approval: "s1.1", Outcome: "accept", Scope: "session"})))
		w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "m2", Text: "and again", By: "bob", Mode: "steer"}))
	})
	w.at(3*time.Second, func() {
		if a := w.approval("s1.2"); a.State != protocol.ApprovalOpen || a.Turn != 2 {
			t.Errorf("bob accepted it for himself: %+v", a)
		}
		w.refusal(w.send(protocol.SignalDecide, w.signed("bob", protocol.Decide{Approval: "s1.2", Outcome: "accept"})), protocol.RefusedState, "bob@example.com sent a message")
		w.takes(w.send(protocol.SignalDecide, w.signed("cyd", protocol.Decide{Approval: "s1.2", Outcome: "accept"})))
	})
	w.at(4*time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Policy: approvedBy(t, "", "bob", "cyd")})
	second := slices.IndexFunc(w.fake.ran, func(in pumps.RunPumpInput) bool { return brings(in, conversation.SendTurn) })
	if second < 0 {
		t.Fatal("the message became no turn")
	}
	if got := w.fake.ran[second].Requesters; !slices.Equal(got, []string{"bob"}) {
		t.Errorf("the second turn is for %q", got)
	}
}

// A policy that this worker cannot read may require other signatures, or more of them, than
// the other policy.
func TestWhileOnePolicyIsBrokenNobodyDecides(t *testing.T) {
	w := newWorld(t)
	w.judges = "a word of a later version: x\n"
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		for _, outcome := range []string{"accept", "decline"} {
			w.refusal(w.send(protocol.SignalDecide, w.signed("bob", protocol.Decide{Approval: "s1.1", Outcome: outcome})), protocol.RefusedState, "policy of the seed cannot be used")
		}
	})
	w.at(3*time.Second, func() {
		if a := w.approval("s1.1"); a.State != protocol.ApprovalOpen {
			t.Errorf("the approval is %+v", a)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Seed: "team", Policy: approvedBy(t, "", "bob")})
}
