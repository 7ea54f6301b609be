package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/conversation"
)

// lostSeed is a pump that finds that its session's lease has ended.
func lostSeed(pump pumpFunc) pumpFunc {
	return func(ctx context.Context, in activities.RunPumpInput) (activities.RunPumpResult, error) {
		out, err := pump(ctx, in)
		out.SeedLost = &activities.Problem{Kind: activities.ErrTypeSeedFenced, Message: "session s1 has no lease on seed team", Hint: "see"}
		return out, err
	}
}

// amidTurn returns while a turn runs.
func amidTurn(_ context.Context, in activities.RunPumpInput) (activities.RunPumpResult, error) {
	st := opened(in)
	st.TurnID = "turn-1"
	return activities.RunPumpResult{Pump: activities.PumpResult{Reason: conversation.PumpCancelled, State: st, Deliveries: acked(in)}}, nil
}

// A session whose lease has ended says so, stops codex and has no further turn:
// neither the one that runs goes on, nor does the next message begin one.
func TestASessionThatLostItsSeedHasNoFurtherTurn(t *testing.T) {
	for name, c := range map[string]struct {
		pump pumpFunc
		turn string
	}{
		"at the end of a turn":    {endsTurn("completed", "done"), "completed"},
		"while a turn runs":       {amidTurn, "interrupted"},
		"while a person is asked": {asks("make"), "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kind = activities.KindChatGPT
			w.fake.pumps = []pumpFunc{lostSeed(c.pump)}
			w.at(time.Second, func() {
				w.send(SignalMessage, hello("m1"))
				w.send(SignalMessage, hello("m2"))
			})
			w.start(SessionOptions{Seed: "team"})
			if kind := typeOf(w.GetWorkflowError()); kind != activities.ErrTypeSeedFenced {
				t.Errorf("the session ended with %q: %v", kind, w.GetWorkflowError())
			}
			v := w.view()
			if v.State != Failed || v.Error == nil || !strings.Contains(v.Error.Message, "does not hold its seed any more") || v.Error.Hint == "" {
				t.Errorf("the session says %s, %+v", v.State, v.Error)
			}
			if turns := turnsOf(w); len(turns) != 2 || turns[0].Status != c.turn || !turns[1].StartedAt.IsZero() {
				t.Errorf("turns %+v", turns)
			}
			if len(w.fake.ran) != 1 || len(w.fake.ran[0].Pump.Sends) != 1 || len(w.fake.closed) != 1 {
				t.Errorf("%d pumps, closed %d times", len(w.fake.ran), len(w.fake.closed))
			}
		})
	}
}
