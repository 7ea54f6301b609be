package workflows

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

var switching = session.Options{OnLimit: protocol.LimitSwitch, SeedPool: "logins"}

// lendsNext has the pool lend a seed of another name from the second request on.
func lendsNext(w *world, name string) {
	lent := 0
	w.onAcquire = func(id string) {
		if id != protocol.SeedPoolID("logins") {
			return
		}
		if lent++; lent > 1 {
			w.seedNow = &protocol.SeedRef{Name: name, Generation: 1, Blob: "b2", Digest: "d2", Kind: "api_key", Epoch: 9}
		}
	}
}

func TestAtTheEndOfAQuotaTheSessionGoesOnWithTheNextSeedOfItsPool(t *testing.T) {
	for name, c := range map[string]struct {
		effects bool
		says    string
	}{
		"nothing was done":    {false, hello("m1").Text},
		"something was begun": {true, session.AfterSwitchText},
	} {
		w := newWorld(t)
		lendsNext(w, "other")
		w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, c.effects, 75*time.Hour), endsTurn("completed", "done")}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(time.Minute, func() {
			v, turns := w.view(), turnsOf(w)
			if v.State != protocol.Idle || v.Seed != "other" || v.Attempt != 2 || v.Limit != nil || v.Error != nil {
				t.Errorf("%s: session %+v", name, v)
			}
			if s := v.Switched; s == nil || s.N != 1 || s.From != "team" || s.To != "other" || s.Pool != "logins" || s.Turn != 2 || s.Attempt != 2 {
				t.Errorf("%s: switched %+v", name, v.Switched)
			}
			if len(turns) != 2 || turns[0].Status != "failed" || turns[0].FollowedBy != 2 || turns[1].Status != "completed" || turns[1].FinalText != "done" {
				t.Errorf("%s: turns %+v", name, turns)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		w.start(switching)
		if said, want := toldOf(w), []string{"m1 " + hello("m1").Text, "s1.c1 " + c.says}; !slices.Equal(said, want) {
			t.Errorf("%s: said %q", name, said)
		}
		if got := strings.Join(w.released, " "); got != "seed/team pool/default seed/other pool/default" {
			t.Fatalf("%s: released %s", name, got)
		}
		if u := w.back[0].Use; u == nil || u.Met.IsZero() || w.back[2].Use != nil {
			t.Errorf("%s: the seeds are told %+v, %+v", name, u, w.back[2].Use)
		}
	}
}

func TestWithoutAnotherSeedTheSessionWaitsAndAsksAgain(t *testing.T) {
	w := newWorld(t)
	lendsNext(w, "other")
	w.looks = []lease.Granted{{Queued: "seed pool logins, of which no seed is free (2 in use)"}, {Queued: "still", RetryAfter: 3 * time.Minute}}
	w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, 2*time.Hour), endsTurn("completed", "done")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() {
		v := w.view()
		if v.State != protocol.Waiting || v.Limit == nil || v.Limit.AsksAt.IsZero() || !strings.Contains(v.Waits, "or another seed of pool logins (seed pool logins, of which no seed is free (2 in use)") {
			t.Errorf("it is %s and waits for %q: %+v", v.State, v.Waits, v.Limit)
		}
	})
	w.at(7*time.Minute, func() {
		if v := w.view(); v.Seed != "team" || !strings.Contains(v.Waits, "still") {
			t.Errorf("after the second question it has %s and waits for %q", v.Seed, v.Waits)
		}
	})
	w.at(9*time.Minute, func() {
		if v := w.view(); v.Seed != "other" || v.State != protocol.Idle || v.Switched == nil {
			t.Errorf("after the third question it is %s with %s", v.State, v.Seed)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(switching)
}

func TestAWaitForAnotherSeedIsBounded(t *testing.T) {
	w := newWorld(t)
	for range 30 {
		w.looks = append(w.looks, lease.Granted{Queued: "no seed is free"})
	}
	limited := meets(w, protocol.EndQuota, false, 75*time.Hour)
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) { return limited(ctx, in) }
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(7*time.Hour, func() {
		v, turns := w.view(), turnsOf(w)
		last := turns[len(turns)-1]
		if v.State != protocol.Idle || v.Limit != nil || len(turns) != 2 || !strings.Contains(last.Error.Hint, "longer than 6h") {
			t.Errorf("session %s, %d turns, the last %+v", v.State, len(turns), last.Error)
		}
		if waited := last.StartedAt.Sub(turns[0].EndedAt); waited < session.WaitAtMost-time.Minute || waited > session.WaitAtMost+time.Minute {
			t.Errorf("it waited for %s", waited)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(switching)
	if asked := 30 - len(w.looks); asked < 5 || asked > 15 {
		t.Errorf("the pool was asked %d times", asked)
	}
}

func TestAnInterruptEndsTheSearchForAnotherSeed(t *testing.T) {
	w := newWorld(t)
	w.looks = []lease.Granted{{Queued: "no seed is free"}}
	w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, 2*time.Hour)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() { w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ann"})) })
	w.at(time.Hour, func() {
		if v := w.view(); v.State != protocol.Idle || v.Limit != nil || v.Switched != nil || v.Seed != "team" {
			t.Errorf("session %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(switching)
}

// grantOf is the grant of a seed for which a pool asked.
func grantOf(name string, epoch int64) lease.Granted {
	return lease.Granted{From: protocol.SeedID(name), Pool: "logins", Epoch: epoch, Seed: &protocol.SeedRef{Name: name, Generation: 3, Blob: "b", Digest: "d", Kind: "api_key", Epoch: epoch}}
}

// TestASessionThatLooksForAnotherSeedKeepsItsOwn has a pool that answers a look by the lease that
// the session has.
func TestASessionThatLooksForAnotherSeedKeepsItsOwn(t *testing.T) {
	w := newWorld(t)
	lendsNext(w, "other")
	w.looks = []lease.Granted{grantOf("team", 7)}
	w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, 75*time.Hour), endsTurn("completed", "done")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(4*time.Minute, func() {
		if v := w.view(); v.State != protocol.Waiting || v.Seed != "team" || len(w.released) != 0 || !strings.Contains(v.Waits, "the pool did not answer") {
			t.Errorf("it is %s with %s, waits for %q, and gave back %q", v.State, v.Seed, v.Waits, w.released)
		}
	})
	w.at(10*time.Minute, func() {
		if v := w.view(); v.Seed != "other" || v.State != protocol.Idle {
			t.Errorf("after the next look it is %s with %s", v.State, v.Seed)
		}
		w.SignalWorkflow(lease.SignalLease, grantOf("team", 7)) // twice the same letter
	})
	w.at(11*time.Minute, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(switching)
	if got := strings.Join(w.released, " "); !strings.HasPrefix(got, "seed/team pool/default ") || strings.Count(got, "seed/other") != 1 {
		t.Errorf("released %s", got)
	}
}

func TestALeaseForWhichNobodyWaitsIsGivenBack(t *testing.T) {
	w := newWorld(t)
	w.looks = []lease.Granted{{Queued: "no seed is free"}}
	w.fake.pumps = []pumpFunc{meets(w, protocol.EndQuota, false, 2*time.Hour)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() {
		w.SignalWorkflow(lease.SignalLease, grantOf("third", 4))
		w.SignalWorkflow(lease.SignalLease, grantOf("team", 7))
	})
	w.at(2*time.Minute, func() {
		if len(w.back) != 1 || w.released[0] != "seed/third" || w.back[0].Epoch != 4 || !w.back[0].Clean {
			t.Errorf("given back are %q: %+v", w.released, w.back)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(switching)
	if got := strings.Join(w.released, " "); got != "seed/third seed/team pool/default" {
		t.Errorf("released %s", got)
	}
}

// TestAPoolDoesNotAnswerLooksThatAnOlderWorkerLeft covers a run in which a worker that knows no
// looks met one: its history has no letter.
func TestAPoolDoesNotAnswerLooksThatAnOlderWorkerLeft(t *testing.T) {
	p := newPoolWorld(t)
	p.OnGetVersion("seed pool answers looks", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
	p.onLook = func(g lease.Granted) { t.Errorf("it answered %+v", g) }
	p.at(time.Second, func() {
		p.is("z", protocol.Healthy, true, 10)
		p.SignalWorkflow(lease.SignalLook, lease.Acquire{Holder: "a", Look: true})
	})
	p.runSeedPool(4*time.Second, seed.PoolInput{Name: "logins"})
}

func TestAPoolTellsWhoLooksForAnotherSeedAndLendsNothing(t *testing.T) {
	p := newPoolWorld(t)
	var answers []lease.Granted
	p.onLook = func(g lease.Granted) { answers = append(answers, g) }
	look := lease.Acquire{Holder: "a", Look: true, Not: "x"}
	p.at(time.Second, func() {
		p.is("x", protocol.Healthy, true, 90)
		p.uses("y", protocol.UsedUp, 100, p.Now().Add(20*time.Minute), 95)
		p.SignalWorkflow(lease.SignalLook, look)
	})
	p.at(2*time.Second, func() {
		p.is("z", protocol.Healthy, true, 10)
		p.SignalWorkflow(lease.SignalLook, look)
	})
	p.at(3*time.Second, func() {
		if v := query[protocol.SeedPoolView](p.world, protocol.QuerySeedPool); v.Queue != 0 {
			t.Errorf("pool is %+v", v)
		}
		if len(answers) != 2 || answers[0].Free != "" || answers[0].RetryAfter < 19*time.Minute || answers[1].Free != "z" {
			t.Errorf("it answered %+v", answers)
		}
	})
	p.runSeedPool(4*time.Second, seed.PoolInput{Name: "logins"})
}
