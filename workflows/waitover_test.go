package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func TestASessionWaitsNoMoreOnceItsWaitForALimitIsCalledOff(t *testing.T) {
	interrupt := func(w *world) { w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ann"})) }
	for name, c := range map[string]struct {
		off func(w *world)
		in  protocol.SessionStatus
	}{
		"interrupt":         {interrupt, protocol.Waiting},
		"interrupt, parked": {interrupt, protocol.Parked},
		"unsend":            {func(w *world) { w.takes(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "s1.c1"})) }, protocol.Waiting},
		"unsend, parked":    {func(w *world) { w.takes(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "s1.c1"})) }, protocol.Parked},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, 5*time.Hour)}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			if c.in == protocol.Parked {
				w.when(protocol.Waiting, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
			}
			w.when(c.in, func() { c.off(w) })
			w.at(3*time.Hour, func() {
				v := w.view()
				if c.in == protocol.Waiting && v.State != protocol.Idle || c.in == protocol.Parked && v.State != protocol.Parked || v.Waits != "a message" || v.Limit != nil || v.Error != nil {
					t.Errorf("session is %s, waits for %q; limit %+v, error %+v", v.State, v.Waits, v.Limit, v.Error)
				}
				if v.Usage.Turns != 1 {
					t.Errorf("%d turns were had", v.Usage.Turns)
				}
				w.takes(w.send(protocol.SignalArchive, protocol.Archive{}))
			})
			w.at(4*time.Hour, func() { w.send(protocol.SignalClose, protocol.Close{}) })
			w.start(waiting)
		})
	}
}

func TestAWaitForALimitThatEndsOverBudgetIsShownNoMore(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{uses(100, meets(w, protocol.EndQuota, false, time.Hour))}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Waiting, func() { w.takes(w.send(protocol.SignalBudget, protocol.Budget{Tokens: tokens(50)})) })
	w.at(3*time.Hour, func() {
		if v := w.view(); v.State != protocol.Idle || v.Waits != "a higher budget" {
			t.Errorf("session is %s, waits for %q", v.State, v.Waits)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(waiting)
}

// The time that one message waited counts only for that message.
func TestTheNextMessageWaitsForALimitAsLongAsTheFirst(t *testing.T) {
	for name, c := range map[string]struct {
		next []pumpFunc
		off  func(w *world)
	}{
		"taken back": {nil, func(w *world) { w.takes(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "s1.c1"})) }},
		"cut off":    {[]pumpFunc{dies(protocol.Acknowledged, true)}, func(*world) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			limited := meets(w, protocol.EndQuota, false, time.Hour)
			w.fake.pumps = append([]pumpFunc{limited}, append(c.next, limited)...)
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.when(protocol.Waiting, func() { c.off(w) })
			w.at(7*time.Hour, func() { w.takes(w.send(protocol.SignalMessage, hello("m2"))) })
			w.at(7*time.Hour+10*time.Minute, func() {
				if v := w.view(); v.State != protocol.Waiting || v.Limit == nil || v.Limit.Tries != 1 || v.Limit.Until.Sub(v.Limit.Since) > 2*time.Hour {
					t.Errorf("session is %s, limit %+v", v.State, v.Limit)
				}
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(waiting)
		})
	}
}

func TestATurnThatGoesOnEndsInTheSameShape(t *testing.T) {
	shape := json.RawMessage(`{"type":"object"}`)
	for name, c := range map[string]struct {
		opt   session.Options
		first func(w *world) pumpFunc
	}{
		"a limit":   {waiting, func(w *world) pumpFunc { return meets(w, protocol.EndQuota, true, time.Hour) }},
		"a cut-off": {session.Options{OnInterrupt: protocol.InterruptContinue}, func(*world) pumpFunc { return dies(protocol.Acknowledged, true) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumpFunc{c.first(w), endsTurn("completed", "{}"), endsTurn("completed", "")}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, protocol.Message{ID: "m1", Text: "x", Schema: shape}) })
			w.at(2*time.Hour, func() { w.send(protocol.SignalMessage, hello("m2")) })
			w.ends(3 * time.Hour)
			w.start(c.opt)
			if s := sendOf(t, w.fake.ran[1], "s1.c1"); string(s.Schema) != string(shape) {
				t.Errorf("it goes on with schema %q", s.Schema)
			}
			if s := sendOf(t, w.fake.ran[2], "m2"); len(s.Schema) != 0 {
				t.Errorf("the next turn has schema %q", s.Schema)
			}
		})
	}
}

func TestAnInterruptedWaitKeepsTheOrderOfTurns(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, time.Hour), endsTurn("completed", "")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Waiting, func() {
		w.send(protocol.SignalMessage, hello("m2"))
		w.send(protocol.SignalMessage, hello("m3"))
		w.takes(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "m3"}))
		w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{}))
	})
	w.whenTurn(3, "completed", func() {
		var ns []int
		for _, turn := range turnsOf(w) {
			ns = append(ns, turn.N)
		}
		if want := []int{1, 2, 3, 4}; !slices.Equal(ns, want) {
			t.Errorf("turns %v, want %v", ns, want)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(waiting)
}

func TestMessagesTakenBackDoNotPushOutTheTurnThatRuns(t *testing.T) {
	w := newWorld(t)
	done := strings.Repeat("done ", 4<<10)
	w.fake.pumps = []pumpFunc{asks("make"), endsTurn("completed", done)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m0")) })
	w.when(protocol.Waiting, func() {
		for i := range 3 * session.KeepTurns {
			id := fmt.Sprint("m", i+1)
			w.send(protocol.SignalMessage, hello(id))
			w.takes(w.send(protocol.SignalUnsend, protocol.Unsend{Message: id}))
		}
		if n := len(turnsOf(w)); n > 1+session.KeepTurns {
			t.Errorf("%d turns are kept", n)
		}
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.at(time.Hour, func() {
		if v := w.view(); v.Turn == nil || v.Turn.Status != "completed" {
			t.Errorf("the turn is %+v", v.Turn)
		}
		if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{MessageID: "m0"}); turn.FinalText != done {
			t.Errorf("its text has %d bytes, %d were said", len(turn.FinalText), len(done))
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestAMessageTakenBackIsNoTurnOfTheBudget(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), endsTurn("completed", ""), endsTurn("completed", ""), endsTurn("completed", "")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Waiting, func() {
		w.send(protocol.SignalMessage, hello("m2"))
		w.takes(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "m2"}))
		w.takes(w.send(protocol.SignalMessage, hello("m3")))
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.whenTurn(3, "completed", func() {
		if v := w.view(); v.Budget.Turns != (protocol.BudgetCount{Used: 2, Limit: 3}) || v.Usage.Turns != 2 {
			t.Errorf("budget is %+v, usage %+v", v.Budget.Turns, v.Usage)
		}
		w.takes(w.send(protocol.SignalMessage, hello("m4")))
	})
	w.whenTurn(4, "completed", func() {
		w.refuses(w.send(protocol.SignalMessage, hello("m5")), protocol.RefusedBudget)
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Bounds: protocol.Bounds{Turns: 3}})
	st := w.fake.ran[3].Pump.State
	if st.Turn = 4; conversation.BudgetUses((protocol.Bounds{Turns: 3}), &st)[1].Used != 3 {
		t.Errorf("the pump counts %+v", conversation.BudgetUses((protocol.Bounds{Turns: 3}), &st))
	}
}
