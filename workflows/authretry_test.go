package workflows

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// brokered returns a world whose seed is a ChatGPT login.
func brokered(t *testing.T, pumps ...pumpFunc) *world {
	w := newWorld(t)
	w.kind = logins.KindChatGPT
	w.fake.pumps = pumps
	return w
}

var byBroker = session.Options{Seed: "team", Credentials: protocol.CredentialsBroker}

// noToken returns a pump whose turn failed because there was no token.
func noToken(effects, passing bool) pumpFunc {
	return func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.TurnID = ""
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TurnEnded, State: st, Deliveries: acked(in),
			Turn: &conversation.TurnEnd{N: in.Pump.State.Turn, ID: "turn-1", Status: "failed", Effects: effects,
				Problem: &protocol.Problem{Kind: "auth", Message: "no token came", Hint: "wait", Passing: passing}}}}, nil
	}
}

func turnsOf(w *world) []protocol.TurnView {
	return query[protocol.SessionDetail](w, protocol.QueryDetail).Turns
}

func TestATurnThatGotNoTokenIsBegunOnceMoreInSight(t *testing.T) {
	w := brokered(t, noToken(false, true), endsTurn("completed", "done"), endsTurn("completed", "second"))
	w.at(time.Second, func() {
		w.send(protocol.SignalMessage, hello("m1"))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.whenTurn(3, "completed", func() {
		turns := turnsOf(w)
		if turns[0].Status != "failed" || turns[0].Error.Kind != "auth" || turns[0].FollowedBy != 2 {
			t.Errorf("first turn %+v", turns[0])
		}
		if turns[1].MessageID != "s1.c1" || turns[1].FinalText != "done" || turns[2].MessageID != "m2" {
			t.Errorf("turns %+v", turns[1:])
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(byBroker)
	var said []string
	for _, in := range w.fake.ran {
		if in.Credentials != protocol.CredentialsBroker {
			t.Errorf("a pump without the broker: %+v", in)
		}
		for _, s := range in.Pump.Sends {
			said = append(said, s.ID+" "+s.Text)
		}
	}
	text := hello("m1").Text
	if want := []string{"m1 " + text, "s1.c1 " + text, "m2 " + hello("m2").Text}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if len(w.reports) != 0 {
		t.Errorf("the seed was told %+v", w.reports)
	}
	var notes string
	for _, in := range w.fake.ran {
		notes += notesOf(in.Pump.Notes)
	}
	if !strings.Contains(notes, "turn 2 says the same again") {
		t.Errorf("the transcript does not say so:\n%s", notes)
	}
}

func TestATurnThatMayHaveHadEffectsIsNotBegunAgain(t *testing.T) {
	w := brokered(t, noToken(true, true))
	w.at(time.Second, func() {
		w.send(protocol.SignalMessage, hello("m1"))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.when(protocol.Interrupted, func() {
		v := w.view()
		if v.Error == nil || v.Error.Kind != "auth" || !strings.Contains(v.Error.Hint, "was not begun again") || v.Queue != 1 {
			t.Errorf("the session says %+v, %d queued", v.Error, v.Queue)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(byBroker)
	if n := len(w.fake.ran); n != 1 {
		t.Errorf("%d pumps ran", n)
	}
}

func TestATurnIsBegunAgainOnlyOnce(t *testing.T) {
	w := brokered(t, noToken(false, true), noToken(false, true))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Interrupted, func() {
		if turns := turnsOf(w); len(turns) != 2 || turns[1].FollowedBy != 0 {
			t.Errorf("turns %+v", turns)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(byBroker)
}

func TestWhatALoginWasRefusedForIsNotTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		passing bool
		policy  string
		reports int
	}{"refused": {false, "", 1}, "nobody wants it": {true, protocol.AuthAsk, 0}} {
		w := brokered(t, noToken(false, c.passing))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.whenTurn(1, "failed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
		opt := byBroker
		opt.OnAuth = c.policy
		w.start(opt)
		if len(w.fake.ran) != 1 || len(w.reports) != c.reports {
			t.Errorf("%s: %d pumps, reports %+v", name, len(w.fake.ran), w.reports)
		}
	}
}

func TestASessionThatClosesAfterItsTurnStillSaysItAgain(t *testing.T) {
	w := brokered(t, noToken(false, true), endsTurn("completed", "done"))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	opt := byBroker
	opt.CloseAfter = true
	w.start(opt)
	if turns := turnsOf(w); len(turns) != 2 || turns[1].FinalText != "done" {
		t.Errorf("turns %+v", turns)
	}
}

func TestOnlyAChatGPTLoginIsBrokered(t *testing.T) {
	w := newWorld(t)
	w.start(byBroker)
	v := w.view()
	if typeOf(w.GetWorkflowError()) != protocol.RefusedBadInput || v.Error == nil || !strings.Contains(v.Error.Message, "of kind api_key") || v.Error.Hint == "" {
		t.Errorf("ended with %v, %+v", w.GetWorkflowError(), v.Error)
	}
	if got := strings.Join(w.fake.calls, ","); strings.Contains(got, "prepare") || strings.Contains(got, "start") {
		t.Errorf("something was begun: %s", got)
	}
}
