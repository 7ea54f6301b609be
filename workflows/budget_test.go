package workflows

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/session"
)

func tokens(n int64) *int64 { return &n }

// uses returns a pump of a turn that used n tokens.
func uses(n int64, pump pumpFunc) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := pump(ctx, in)
		out.Pump.State.Usage.Input += n / 2
		out.Pump.State.Usage.Output += n - n/2
		return out, err
	}
}

func TestABudgetReachesARunningPump(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{uses(100, asks("make")), staysAttached("acknowledged"), endsTurn("completed", "")}
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Waiting, func() { w.send(protocol.SignalDecide, yes("s1.1", "make")) })
	w.attached(2, func() {
		w.takes(w.send(protocol.SignalBudget, protocol.Budget{By: "bob", Tokens: tokens(1000), TurnTimeout: "30m"}))
	})
	w.whenTurn(1, "completed", func() {
		if b := w.view().Budget; b.Tokens.Limit != 1000 || b.TurnTimeout != "30m0s" {
			t.Errorf("the budget is %+v", b)
		}
		w.shows("s1.b1", "budget", 1, "acknowledged")
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{TurnTimeout: time.Hour})
	first, next := w.fake.ran[1].Pump.Limits, w.fake.ran[2].Pump.Limits
	if first.Budget.Tokens != 0 || first.Turn > time.Hour || first.Turn < 59*time.Minute {
		t.Errorf("the pump had the bounds %+v", first)
	}
	if next.Budget.Tokens != 1000 || next.Turn > 30*time.Minute || next.Turn < 29*time.Minute {
		t.Errorf("the next pump has the bounds %+v", next)
	}
	if notes := notesOf(w.fake.closed[0].Notes); !strings.Contains(notes, "budget: 1000 tokens in all, 30m0s for a turn") {
		t.Errorf("it is not on record: %s", notes)
	}
}

// A session that waits for a person has no pump that could be cancelled.
func TestABudgetThatIsSetWhileNobodyIsAttachedWaitsForTheNextPump(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), endsTurn("completed", "")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalBudget, protocol.Budget{Tokens: tokens(7)})) })
	w.at(time.Hour, func() {
		w.shows("s1.b1", "budget", 1, "decided")
		if v := w.view(); v.State != protocol.Waiting || len(w.fake.ran) != 1 {
			t.Errorf("%d pumps ran, session is %+v", len(w.fake.ran), v)
		}
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.at(2*time.Hour, func() { w.shows("s1.b1", "budget", 1, "acknowledged") })
	w.ends(3 * time.Hour)
	w.start(session.Options{})
	if n := w.fake.ran[1].Pump.Limits.Budget.Tokens; n != 7 {
		t.Errorf("the next pump had %d tokens", n)
	}
}

func TestABudgetThatIsGivenInPartLeavesTheRest(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.takes(w.send(protocol.SignalBudget, protocol.Budget{Tokens: tokens(5)})) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalBudget, protocol.Budget{TurnTimeout: "10m"})) })
	w.at(3*time.Second, func() {
		if b := w.view().Budget; b.Tokens.Limit != 5 || b.TurnTimeout != "10m0s" || b.Tokens.Used != 0 {
			t.Errorf("the budget is %+v", b)
		}
		w.takes(w.send(protocol.SignalBudget, protocol.Budget{Tokens: tokens(0)}))
	})
	w.at(4*time.Second, func() {
		if b := w.view().Budget; b.Tokens.Limit != 0 {
			t.Errorf("the budget is %+v", b)
		}
		for _, bad := range []protocol.Budget{{}, {By: "bob"}, {Tokens: tokens(-1)}, {TurnTimeout: "soon"}, {TurnTimeout: "-1h"}, {TurnTimeout: "0s"}, {Turns: tokens(-1)}, {Approvals: tokens(-1)}, {Commands: tokens(-2)}, {Time: "soon"}, {Time: "-1s"},
			{Tokens: tokens(1), By: strings.Repeat("x", kit.MaxWord+1)}} {
			w.refuses(w.send(protocol.SignalBudget, bad), protocol.RefusedBadInput)
		}
	})
	w.ends(5 * time.Second)
	w.start(session.Options{})
}

// overspends answers as a pump that interrupted a turn over its budget.
func overspends(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	out, err := endsTurn("interrupted", "so far")(context.Background(), in)
	out.Pump.Turn.Problem = &protocol.Problem{Kind: "budget", Message: "the turn used 120 tokens, more than it was given"}
	return out, err
}

func TestASessionThatSpentItsBudgetTakesNoTurnUntilItHasMore(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), uses(120, overspends), endsTurn("completed", "2"), endsTurn("completed", "3")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.send(protocol.SignalMessage, hello("m2"))
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.at(time.Minute, func() {
		v := w.view()
		if v.State != protocol.Idle || v.Turn.N != 1 || v.Turn.Status != "interrupted" || v.Error == nil || v.Error.Kind != "budget" || v.Waits != "a higher budget" || v.Budget.Tokens.Used != 120 {
			t.Errorf("session is %+v, budget %+v", v, v.Budget)
		}
		w.refuses(w.send(protocol.SignalMessage, hello("m3")), protocol.RefusedBudget)
		w.takes(w.send(protocol.SignalBudget, protocol.Budget{Tokens: tokens(500)}))
	})
	w.at(time.Hour, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 2 || v.Turn.Status != "completed" || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.takes(w.send(protocol.SignalMessage, hello("m3")))
	})
	w.ends(2 * time.Hour)
	w.start(session.Options{Bounds: protocol.Bounds{Tokens: 100}})
	var had []int64
	for _, in := range w.fake.ran {
		had = append(had, in.Pump.Limits.Budget.Tokens)
	}
	if want := []int64{100, 100, 500, 500}; !slices.Equal(had, want) {
		t.Errorf("pumps had bounds of %v tokens, want %v", had, want)
	}
}

func TestALowerBudgetThanWhatWasUsedReachesTheRunningTurn(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{uses(500, asks("make")), overspends}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalBudget, protocol.Budget{Tokens: tokens(100)}))
		w.takes(w.send(protocol.SignalDecide, yes("s1.1", "make")))
	})
	w.start(session.Options{CloseAfter: true})
	if n := w.fake.ran[1].Pump.Limits.Budget.Tokens; n != 100 {
		t.Errorf("the second pump had %d tokens", n)
	}
	if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.Error == nil || turn.Error.Kind != "budget" {
		t.Errorf("the turn is %+v", turn)
	}
}

func TestASessionForOneTurnThatSpentItsBudgetEnds(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), uses(120, overspends)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.send(protocol.SignalMessage, hello("m2"))
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.start(session.Options{CloseAfter: true, Bounds: protocol.Bounds{Tokens: 100}})
	if v := w.view(); v.State != protocol.Closed {
		t.Errorf("session is %+v", v)
	}
}

func TestAMessageBeyondTheTurnsIsRefused(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), endsTurn("completed", "1"), endsTurn("completed", "2"), endsTurn("completed", "3")}
	w.at(time.Second, func() { w.takes(w.send(protocol.SignalMessage, hello("m1"))) })
	w.at(2*time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, hello("m2")))
		w.refuses(w.send(protocol.SignalMessage, hello("m3")), protocol.RefusedBudget) // one turn runs, one message waits
		w.takes(w.send(protocol.SignalMessage, hello("m2")))                           // a repeat of the same message
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.at(time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 2 || v.Turn.Status != "completed" || v.Error != nil || v.Waits != "a higher budget" {
			t.Errorf("session is %+v", v)
		}
		if b := w.view().Budget; b.Turns != (protocol.BudgetCount{Used: 2, Limit: 2}) {
			t.Errorf("budget is %+v", b)
		}
		w.refuses(w.send(protocol.SignalMessage, hello("m3")), protocol.RefusedBudget)
		w.takes(w.send(protocol.SignalBudget, protocol.Budget{Turns: tokens(3)}))
		w.takes(w.send(protocol.SignalMessage, hello("m3")))
	})
	w.at(time.Hour, func() {
		if v := w.view(); v.Turn.N != 3 || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(2 * time.Hour)
	w.start(session.Options{Bounds: protocol.Bounds{Turns: 2}})
}

func TestEveryBoundIsSetAndShown(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() {
		w.takes(w.send(protocol.SignalBudget, protocol.Budget{By: "bob", Time: "8h", Approvals: tokens(5), Commands: tokens(6), Turns: tokens(7)}))
	})
	w.at(2*time.Second, func() {
		b := w.view().Budget
		if b.Time.Limit != "8h0m0s" || b.Approvals.Limit != 5 || b.Commands.Limit != 6 || b.Turns.Limit != 7 || b.Tokens.Limit != 9 {
			t.Errorf("budget is %+v", b)
		}
		w.takes(w.send(protocol.SignalBudget, protocol.Budget{Time: "0"}))
	})
	w.at(3*time.Second, func() {
		if b := w.view().Budget; b.Time.Limit != "" || b.Commands.Limit != 6 {
			t.Errorf("budget is %+v", b)
		}
		w.takes(w.send(protocol.SignalMessage, hello("m1")))
	})
	w.ends(time.Minute)
	w.start(session.Options{Bounds: protocol.Bounds{Tokens: 9}})
	if got, want := w.fake.ran[0].Pump.Limits.Budget, (protocol.Bounds{Tokens: 9, Approvals: 5, Commands: 6, Turns: 7}); got != want {
		t.Errorf("the pump has %+v, want %+v", got, want)
	}
}
