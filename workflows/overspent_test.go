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
	"fairlead.dev/fairlead/workflows/session"
)

// spends returns a pump of a turn that the model gateway ended for a budget.
func spends(of string, effects bool, reset time.Time) pumpFunc {
	return func(_ context.Context, p pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(p)
		st.TurnID = ""
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.TurnEnded, State: st, Deliveries: acked(p),
			Turn: &conversation.TurnEnd{N: p.Pump.State.Turn, ID: "turn-1", Status: "failed", Effects: effects,
				Problem: &protocol.Problem{Kind: protocol.EndBudget, Of: of, Message: "the budget is used up", Hint: "raise it", ResetAt: reset}}},
			Model: &protocol.ModelUse{Requests: 1, Money: 4 * protocol.Unit, Spent: 4_100_000}}, nil
	}
}

var dear = session.Options{Seed: "team", Credentials: protocol.CredentialsGateway, Bounds: protocol.Bounds{Money: 5 * protocol.Unit}}

func budgetAsked(w *world) *protocol.Approval {
	for _, a := range query[[]protocol.Approval](w, protocol.QueryApprovals) {
		if a.State == protocol.ApprovalOpen {
			return &a
		}
	}
	return nil
}

func TestATurnOverABudgetPausesUntilItIsRaised(t *testing.T) {
	more := 8 * protocol.Unit
	for name, c := range map[string]struct {
		raise func(w *world, a *protocol.Approval)
		limit protocol.Money
	}{
		"accepted": {func(w *world, a *protocol.Approval) {
			w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "ann"}))
		}, 10 * protocol.Unit},
		"set": {func(w *world, _ *protocol.Approval) {
			w.takes(w.send(protocol.SignalBudget, protocol.Budget{Money: &more, By: "ann"}))
		}, more},
	} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{spends(protocol.BudgetOfSession, true, time.Time{}), endsTurn("completed", "done")}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Hour, func() {
			v := w.view()
			if v.State != protocol.Waiting || v.Queue != 1 || v.Limit == nil || v.Limit.Kind != protocol.EndBudget || !v.Limit.Until.IsZero() || !strings.Contains(v.Waits, "a higher budget") {
				t.Errorf("%s: session %+v, limit %+v", name, v, v.Limit)
			}
			if m := v.Budget.Money; m == nil || m.Used != 4_100_000 || m.Limit != 5*protocol.Unit {
				t.Errorf("%s: budget %+v", name, m)
			}
		})
		w.when(protocol.Waiting, func() {
			a := budgetAsked(w)
			if a == nil || a.Kind != string(protocol.KindBudget) || !strings.Contains(a.Summary, "spend 10.00 instead of 5.00") {
				t.Fatalf("%s: asked %+v", name, a)
			}
			if err := conversation.Verify(a.Request()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		w.at(3*time.Hour, func() {
			c.raise(w, budgetAsked(w))
		})
		w.at(4*time.Hour, func() {
			turns := turnsOf(w)
			v := w.view()
			if len(turns) != 2 || turns[1].FinalText != "done" || v.Limit != nil || v.Budget.Money.Limit != c.limit {
				t.Errorf("%s: turns %+v, session %+v, budget %+v", name, turns, v, v.Budget.Money)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		opt := dear
		opt.Expiry = 100 * time.Hour
		w.start(opt)
		if said := toldOf(w); !slices.Equal(said, []string{"m1 " + hello("m1").Text, "s1.c1 " + session.AfterBudgetText}) {
			t.Errorf("%s: said %q", name, said)
		}
	}
}

func TestATurnOverABudgetInTokensPausesUntilItIsRaised(t *testing.T) {
	more := int64(8000)
	for name, c := range map[string]struct {
		raise func(w *world, a *protocol.Approval)
		limit int64
	}{
		"accepted": {func(w *world, a *protocol.Approval) {
			w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "ann"}))
		}, 10_000},
		"set": {func(w *world, _ *protocol.Approval) {
			w.takes(w.send(protocol.SignalBudget, protocol.Budget{Tokens: &more, By: "ann"}))
		}, more},
	} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{spends(protocol.BudgetOfTokens, false, time.Time{}), endsTurn("completed", "done")}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Hour, func() {
			a := budgetAsked(w)
			if a == nil || !strings.Contains(a.Summary, "use 10000 tokens instead of 5000") {
				t.Fatalf("%s: asked %+v", name, a)
			}
			if err := conversation.Verify(a.Request()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			c.raise(w, a)
		})
		w.at(3*time.Hour, func() {
			turns, v := turnsOf(w), w.view()
			if len(turns) != 2 || turns[1].FinalText != "done" || v.Limit != nil || v.Budget.Tokens.Limit != c.limit {
				t.Errorf("%s: turns %+v, session %+v, budget %+v", name, turns, v, v.Budget)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		opt := dear
		opt.Bounds, opt.Expiry = protocol.Bounds{Tokens: 5000}, 100*time.Hour
		w.start(opt)
	}
}

func TestADeclineOrAnExpiryLeavesAPausedTurnWaiting(t *testing.T) {
	for _, how := range []string{"declined", "expired"} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{spends(protocol.BudgetOfSession, false, time.Time{})}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.when(protocol.Waiting, func() {
			if how == "declined" {
				a := budgetAsked(w)
				w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "decline", By: "ann"}))
			}
		})
		w.at(2*time.Hour, func() {
			if v := w.view(); v.State != protocol.Waiting || v.Queue != 1 || budgetAsked(w) != nil {
				t.Errorf("%s: session %+v", how, v)
			}
			w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ann"}))
		})
		w.at(3*time.Hour, func() {
			if v := w.view(); v.State != protocol.Idle || v.Queue != 0 {
				t.Errorf("%s: after an interrupt: session %+v", how, v)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		opt := dear
		opt.Expiry = time.Hour
		w.start(opt)
	}
}

func TestATurnGoesOnWhenTheBudgetsPeriodEnds(t *testing.T) {
	w := newWorld(t)
	ends := w.Now().Add(6 * time.Hour)
	w.fake.pumps = []pumpFunc{spends(protocol.BudgetOfSeed, false, ends), endsTurn("completed", "done")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.when(protocol.Waiting, func() {
		if a := budgetAsked(w); a == nil || !strings.Contains(a.Summary, "the budget of the seed") {
			t.Errorf("asked %+v", a)
		}
	})
	w.at(7*time.Hour, func() {
		if turns := turnsOf(w); len(turns) != 2 || turns[1].FinalText != "done" || turns[1].StartedAt.Before(ends) || budgetAsked(w) != nil {
			t.Errorf("turns %+v, asked %+v", turns, budgetAsked(w))
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(dear)
}

// The ledger's clock may differ from the session's. The provider, too, can write what looks
// like the end of a budget's period.
func TestABudgetThatIsUsedUpAfterItsPeriodIsTriedAFewTimesAndThenAsked(t *testing.T) {
	w := newWorld(t)
	var at []time.Time
	over := spends(protocol.BudgetOfSeed, false, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		at = append(at, w.Now())
		return over(ctx, in)
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(10*time.Hour, func() {
		if len(at) != session.MaxBudgetTries+1 {
			t.Fatalf("turns began at %v", at)
		}
		for i := 1; i < len(at); i++ {
			if pause := at[i].Sub(at[i-1]); pause < time.Minute {
				t.Errorf("turn %d began %s after the one before", i+1, pause)
			}
		}
		a := budgetAsked(w)
		if v := w.view(); v.State != protocol.Waiting || v.Queue != 1 || v.Limit == nil || !v.Limit.Until.IsZero() || a == nil {
			t.Fatalf("session %+v, limit %+v, asked %+v", v, v.Limit, a)
		}
		w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "ann"}))
	})
	w.at(20*time.Hour, func() {
		if len(at) != 2*(session.MaxBudgetTries+1) || budgetAsked(w) == nil {
			t.Errorf("turns began at %v, asked %+v", at, budgetAsked(w))
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	opt := dear
	opt.Expiry = 100 * time.Hour
	w.start(opt)
}

func TestADailyBudgetPausesATurnEachDay(t *testing.T) {
	w := newWorld(t)
	began := w.Now()
	var turns int
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		if turns++; turns > 2*session.MaxBudgetTries {
			return endsTurn("completed", "done")(ctx, in)
		}
		return spends(protocol.BudgetOfTenant, true, began.Add(time.Duration(turns)*24*time.Hour))(ctx, in)
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Duration(2*session.MaxBudgetTries+1)*24*time.Hour, func() {
		if all := turnsOf(w); len(all) != turns || all[len(all)-1].FinalText != "done" {
			t.Errorf("turns %+v", all)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(dear)
}

// Whatever a provider or a host writes: only the model gateway knows of such budgets.
func TestATurnWithoutTheModelGatewayDoesNotPause(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{spends(protocol.BudgetOfSeed, false, time.Time{})}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "failed", func() {
		if v := w.view(); v.State != protocol.Idle || v.Queue != 0 || v.Limit != nil || budgetAsked(w) != nil {
			t.Errorf("session %+v, limit %+v, asked %+v", v, v.Limit, budgetAsked(w))
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Seed: "team"})
}

func TestTheQuestionForMoreOutlivesTheHost(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	named := func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.Named = in.Pump.Thread.Name
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Bound, State: st, Deliveries: acked(in)}}, nil
	}
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), spends(protocol.BudgetOfSeed, false, time.Time{}), lost, named, endsTurn("completed", "done")}
	name := "of a new name"
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Hour, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(2*time.Hour, func() {
		if budgetAsked(w) == nil {
			t.Errorf("nobody is asked: session %+v", w.view())
		}
		w.takes(w.send(protocol.SignalSet, protocol.Set{Name: &name})) // a pump tells codex, and misses the host
	})
	w.at(3*time.Hour, func() {
		v, a := w.view(), budgetAsked(w)
		if v.Host != "web-2" || v.Queue != 1 || v.Limit == nil || a == nil {
			t.Fatalf("session %+v, limit %+v, asked %+v", v, v.Limit, a)
		}
		w.takes(w.send(protocol.SignalDecide, protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "ann"}))
	})
	w.at(4*time.Hour, func() {
		if turns := turnsOf(w); len(turns) != 3 || turns[2].Status != "completed" || budgetAsked(w) != nil {
			t.Errorf("turns %+v, asked %+v", turns, budgetAsked(w))
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	opt := dear
	opt.OnHostLost, opt.LostAfter, opt.Expiry = protocol.HostLostMove, 2*time.Minute, 100*time.Hour
	w.start(opt)
}

// The approval may have expired when the configuration of the workers permits more.
func TestAResumeOrANewBudgetEndsAnyPause(t *testing.T) {
	for name, ends := range map[string]func(w *world) *updated{
		"resume": func(w *world) *updated { return w.send(protocol.SignalResume, protocol.Resume{By: "ann"}) },
		"new budget": func(w *world) *updated {
			turns := int64(100)
			return w.send(protocol.SignalBudget, protocol.Budget{Turns: &turns, By: "ann"})
		},
	} {
		w := newWorld(t)
		w.fake.pumps = []pumpFunc{spends(protocol.BudgetOfTenant, false, time.Time{}), endsTurn("completed", "done")}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Hour, func() {
			if v := w.view(); v.State != protocol.Waiting || budgetAsked(w) != nil {
				t.Errorf("%s: session %+v, asked %+v", name, v, budgetAsked(w))
			}
			w.takes(ends(w))
		})
		w.at(3*time.Hour, func() {
			if turns := turnsOf(w); len(turns) != 2 || turns[1].FinalText != "done" {
				t.Errorf("%s: turns %+v", name, turns)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		opt := dear
		opt.Expiry = time.Hour
		w.start(opt)
	}
}

func TestNobodyIsAskedForMoreOnceTheSessionCloses(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{spends(protocol.BudgetOfTenant, false, time.Time{})}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Hour, func() {
		if budgetAsked(w) == nil {
			t.Errorf("nobody is asked: session %+v", w.view())
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	opt := dear
	opt.Expiry = 100 * time.Hour
	w.start(opt)
	if a := budgetAsked(w); a != nil {
		t.Errorf("asked %+v", a)
	}
}
