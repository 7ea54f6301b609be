package workflows

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/session"
)

// meets returns a pump of a turn that failed at a limit. If in is not 0, codex said
// that the limit resets after that time.
func meets(w *world, kind string, effects bool, in time.Duration) pumpFunc {
	return func(_ context.Context, p pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(p)
		st.TurnID = ""
		var reset time.Time
		if in != 0 {
			reset = w.Now().Add(in)
		}
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TurnEnded, State: st, Deliveries: acked(p),
			Turn: &conversation.TurnEnd{N: p.Pump.State.Turn, ID: "turn-1", Status: "failed", Effects: effects,
				Problem: &protocol.Problem{Kind: kind, Message: "the limit is reached", Hint: "wait", ResetAt: reset}}}}, nil
	}
}

func toldOf(w *world) (said []string) {
	for _, in := range w.fake.ran {
		for _, s := range in.Pump.Sends {
			if s.Kind == conversation.SendTurn {
				said = append(said, s.ID+" "+s.Text)
			}
		}
	}
	return said
}

var waiting = session.Options{OnLimit: protocol.LimitWait}

func TestALimitIsWaitedOutAndTheSameSaidAgain(t *testing.T) {
	for _, kind := range []string{protocol.EndQuota, protocol.EndRateLimit} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{meets(w, kind, false, 2*time.Hour), endsTurn("completed", "done"), endsTurn("completed", "second")}
		var met time.Time
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.when(protocol.Waiting, func() {
			met = w.Now()
			v := w.view()
			if v.Limit == nil || v.Limit.Kind != kind || v.Limit.Tries != 1 || v.Limit.ResetAt.IsZero() ||
				!strings.Contains(v.Waits, "limit") || !strings.Contains(v.Waits, kit.Clock(v.Limit.Until)) {
				t.Errorf("it waits for %q, %+v", v.Waits, v.Limit)
			}
			if v.Turn.Status != "failed" || v.Error == nil || v.Error.Kind != kind || v.Error.ResetAt.IsZero() || v.Queue != 1 {
				t.Errorf("session %+v, error %+v", v, v.Error)
			}
			// Messages sent meanwhile come after the turn that waits.
			w.takes(w.send(protocol.SignalMessage, hello("m2")))
			w.refuses(w.send(protocol.SignalMessage, protocol.Message{ID: "m3", Text: "faster", Mode: "steer"}), protocol.RefusedState)
		})
		w.at(4*time.Hour, func() {
			if slept := turnsOf(w)[1].StartedAt.Sub(met); slept < 2*time.Hour-time.Minute || slept > 2*time.Hour+session.MostJitter+time.Minute {
				t.Errorf("it went on after %s", slept)
			}
			turns := turnsOf(w)
			if turns[0].FollowedBy != 2 || turns[1].MessageID != "s1.c1" || turns[1].FinalText != "done" || turns[2].MessageID != "m2" || turns[2].FinalText != "second" {
				t.Errorf("turns %+v", turns)
			}
			if v := w.view(); v.Limit != nil || v.Error != nil || v.State != protocol.Idle {
				t.Errorf("session %+v", v)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		w.start(waiting)
		text := hello("m1").Text
		if said, want := toldOf(w), []string{"m1 " + text, "s1.c1 " + text, "m2 " + hello("m2").Text}; !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	}
}

func TestWhatHadBegunIsNotSaidAgainBehindALimit(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, true, time.Hour), endsTurn("completed", "done")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.ends(2 * time.Hour)
	w.start(waiting)
	if said := toldOf(w); len(said) != 2 || said[1] != "s1.c1 "+session.AfterLimitText {
		t.Errorf("said %q", said)
	}
}

func TestALimitFailsATurnWhereNobodyWantsToWait(t *testing.T) {
	for name, c := range map[string]struct {
		opt  session.Options
		kind string
		in   time.Duration
		hint string
	}{
		"nobody said so":       {session.Options{}, protocol.EndQuota, time.Hour, "wait"},
		"another kind":         {waiting, "overloaded", time.Hour, "wait"},
		"it would be too long": {waiting, protocol.EndQuota, 75 * time.Hour, "longer than 6h"},
	} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{meets(w, c.kind, false, c.in)}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.whenTurn(1, "failed", func() {
			v, turn := w.view(), turnsOf(w)[0]
			if v.State != protocol.Idle || v.Limit != nil || turn.Error.ResetAt.IsZero() || !strings.Contains(turn.Error.Hint, c.hint) {
				t.Errorf("%s: session %+v, error %+v", name, v, turn.Error)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		w.start(c.opt)
	}
}

func TestALimitOfUnknownEndIsTriedAtGrowingPauses(t *testing.T) {
	w := newWorld(t)
	var at []time.Time
	limited := meets(w, protocol.EndRateLimit, false, 0)
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		at = append(at, w.Now())
		return limited(ctx, in)
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(8*time.Hour, func() {
		if v := w.view(); v.State != protocol.Idle || v.Limit != nil {
			t.Errorf("session %+v", v)
		}
		turns := turnsOf(w)
		last := turns[len(turns)-1]
		if last.N < 8 || last.N > session.MaxLimitTries+1 || !strings.Contains(last.Error.Hint, "longer than 6h") {
			t.Errorf("it gave up with turn %d: %+v", last.N, last.Error)
		}
		if all := last.EndedAt.Sub(at[0]); all > session.WaitAtMost+time.Minute {
			t.Errorf("it waited for %s", all)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(waiting)
	for i, pause := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute} {
		if got := at[i+1].Sub(at[i]); got < pause-time.Second || got > pause+pause/4+2*time.Second {
			t.Errorf("pause %d took %s, want %s", i+1, got, pause)
		}
	}
}

func TestAWaitForALimitEndsWhenSomebodySaysSo(t *testing.T) {
	t.Run("interrupt", func(t *testing.T) {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, time.Hour), endsTurn("completed", "second")}
		w.at(time.Second, func() {
			w.send(protocol.SignalMessage, hello("m1"))
			w.send(protocol.SignalMessage, hello("m2"))
		})
		w.when(protocol.Waiting, func() {
			w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ann", Reason: "I bought credit"}))
		})
		w.at(10*time.Minute, func() {
			turns := turnsOf(w)
			if turns[1].Status != "interrupted" || turns[1].EndedBy != protocol.EndedByPerson || !strings.Contains(turns[1].Error.Message, "ann: I bought credit") {
				t.Errorf("the turn that waited is %+v, %+v", turns[1], turns[1].Error)
			}
			if turns[2].Status != "completed" {
				t.Errorf("the next one is %+v", turns[2])
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		w.start(waiting)
	})
	t.Run("close", func(t *testing.T) {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, time.Hour)}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.when(protocol.Waiting, func() { w.send(protocol.SignalClose, protocol.Close{}) })
		w.start(waiting)
		if turns := turnsOf(w); len(turns) != 2 || turns[1].Status != "interrupted" || turns[1].Error.Kind != "closed" {
			t.Errorf("turns %+v", turns)
		}
	})
	t.Run("run without keep", func(t *testing.T) {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, time.Hour), endsTurn("completed", "done")}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		opt := waiting
		opt.CloseAfter = true
		w.start(opt)
		if turns := turnsOf(w); len(turns) != 2 || turns[1].FinalText != "done" {
			t.Errorf("turns %+v", turns)
		}
	})
}

func TestASessionThatWaitsForALimitParksAndComesBackByItself(t *testing.T) {
	for name, park := range map[string]func(w *world){
		"by itself":     func(*world) {},
		"somebody says": func(w *world) { w.takes(w.send(protocol.SignalPark, protocol.Park{By: "ann"})) },
	} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, 3*time.Hour), endsTurn("completed", "done")}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.when(protocol.Waiting, func() { park(w) })
		w.at(2*time.Hour, func() {
			if v := w.view(); v.State != protocol.Parked || v.Limit == nil || !strings.Contains(v.Waits, "limit") {
				t.Errorf("%s: it waits for %q", name, v.Waits)
			}
		})
		w.at(200*time.Minute, func() {
			turns := turnsOf(w)
			if got := turns[1].StartedAt.Sub(turns[0].EndedAt); turns[1].Status != "completed" || got < 3*time.Hour-time.Minute || got > 3*time.Hour+10*time.Minute {
				t.Errorf("%s: it came back after %s", name, got)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		opt := waiting
		opt.ParkAfter = 30 * time.Minute
		w.start(opt)
		if n := len(w.fake.parks); n != 1 {
			t.Errorf("%s: it parked %d times", name, n)
		}
	}
}

func TestAWaitForALimitOutlivesARollover(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, 2*time.Hour)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Waiting, func() {
		w.fill()
		w.SignalWorkflow("nobody", "knows") // causes a workflow task, in which the session sees that its history is long
	})
	w.start(waiting)
	in := carried(t, w.continued())
	if in.Carry.Limit == nil || in.Carry.Status != protocol.Waiting {
		t.Fatalf("carried %+v", in.Carry.Limit)
	}
	next := newWorld(t)
	next.fake.pumps = []pumpFunc{endsTurn("completed", "done")}
	next.SetStartTime(in.Carry.Limit.Until.Add(-time.Hour))
	next.at(2*time.Hour, func() {
		if turn := turnsOf(next)[1]; turn.Status != "completed" || turn.StartedAt.Before(in.Carry.Limit.Until) {
			t.Errorf("it went on with %+v, and was to wait until %s", turn, in.Carry.Limit.Until)
		}
		next.send(protocol.SignalClose, protocol.Close{})
	})
	next.ExecuteWorkflow(protocol.TypeSession, in)
	next.verify()
}
