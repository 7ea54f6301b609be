package workflows

import (
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// A workflow that never ends must always begin its next run. Otherwise Temporal terminates
// the workflow, and its state is lost.

// overdue makes the history so long that the workflow continues as new without waiting for
// anything.
func (w *world) overdue() {
	w.SetCurrentHistoryLength(kit.TooLong + 1)
	w.SetContinueAsNewSuggested(true)
}

func TestWhoIsBusyAllTheTimeRollsOver(t *testing.T) {
	ref := protocol.SeedRef{Name: "team", Generation: 1, Blob: "b1", Digest: "d", Kind: "chatgpt"}
	for kind, in := range map[string]any{
		protocol.TypeHostPool: hostpool.Input{},
		protocol.TypeSeed:     seed.Input{Name: "team", Carry: &seed.State{Ref: &ref, Leases: []seed.Lease{{Holder: "x", Rotates: true, Told: 1}}}},
		protocol.TypeSeedPool: seed.PoolInput{Name: "all", Carry: &seed.PoolState{Heard: true, Members: []seed.Member{{MemberNews: seed.MemberNews{Seed: "team", Health: protocol.Healthy}}}}},
	} {
		t.Run(kind, func(t *testing.T) {
			p := newPoolWorld(t)
			told := 0
			// Each holder that is told something asks again at once.
			p.onLetter = func() {
				switch told++; {
				case told == 100:
					p.CancelWorkflow()
					return
				case told > 100:
					return
				case told == 50:
					p.fill()
				}
				p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: fmt.Sprint("s", told)})
				p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a"})
			}
			p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a"}) })
			p.ExecuteWorkflow(kind, in)
			p.continued()
		})
	}
}

// A run that began before its workers required authority takes unsigned signals. Workers
// ask it to continue as new, and the next run is under the new rules.
func TestARunOfBeforeAuthorityContinuesAsNewWhenAskedAndThenTakesSignedSignals(t *testing.T) {
	ref := protocol.SeedRef{Name: "team", Generation: 1, Blob: "b1", Digest: "d", Kind: "chatgpt"}
	for kind, in := range map[string]any{
		protocol.TypeHostPool: hostpool.Input{},
		protocol.TypeSeed:     seed.Input{Name: "team", Carry: &seed.State{Ref: &ref}},
		protocol.TypeSeedPool: seed.PoolInput{Name: "all", Carry: &seed.PoolState{Heard: true, Members: []seed.Member{{MemberNews: seed.MemberNews{Seed: "team", Health: protocol.Healthy}}}}},
	} {
		t.Run(kind, func(t *testing.T) {
			p := newPoolWorld(t)
			p.at(time.Second, func() { p.SignalWorkflow(protocol.SignalRenew, protocol.Renew{}) })
			p.ExecuteWorkflow(kind, in)
			p.continued()
		})
	}
	t.Run(protocol.TypeSession, func(t *testing.T) {
		w := newWorld(t)
		w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""))
		w.at(time.Second, func() { w.SignalWorkflow(protocol.SignalMessage, hello("m1")) }) // nobody signed it
		w.whenTurn(1, "completed", func() { w.SignalWorkflow(protocol.SignalRenew, protocol.Renew{}) })
		w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Tenant: "blue", By: "ann"}})
		in := carried(t, w.continued())
		w = newWorld(t)
		w.guard(team, "ann", "bob")
		w.SetContinuedExecutionRunID("the run before")
		w.at(time.Second, func() { w.SignalWorkflow(protocol.SignalMessage, hello("m2")) })
		w.at(2*time.Second, func() {
			if d := query[protocol.SessionView](w, protocol.QueryState); len(d.Refusals) != 1 || d.Turn == nil || d.Turn.N != 1 {
				t.Errorf("turn %+v, refusals %+v", d.Turn, d.Refusals)
			}
			w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
		})
		w.ExecuteWorkflow(protocol.TypeSession, in)
		w.verify()
	})
}

func TestASeedWhoseRecoveryCannotRunRollsOver(t *testing.T) {
	p := newSeedWorld(t)
	p.seeds.answers = []fetch{func() (inquiry.RecoverSeedResult, error) {
		return inquiry.RecoverSeedResult{}, activity.ErrResultPending
	}}
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
	p.at(2*time.Second, func() { p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 100}) })
	p.once("it is tried", func() bool { return len(p.seeds.fetches()) == 1 }, func() {
		p.fill()
		p.releases(lease.Release{Holder: "nobody"})
		p.at(10*time.Millisecond, func() {
			if v := p.seed(); v.State != protocol.SeedRecovering {
				t.Errorf("seed is %+v", v)
			}
			p.overdue()
			p.releases(lease.Release{Holder: "nobody"})
		})
	})
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	in := carriedAs[seed.Input](t, p.continued())

	p = newPoolWorld(t)
	p.seeds.answers = []fetch{brings("2"), wipes}
	p.once("it is fetched", func() bool { return p.seed().State == protocol.SeedFree }, func() {
		if v := p.seed(); v.Generation != 2 {
			t.Errorf("seed is %+v", v)
		}
		p.CancelWorkflow()
	})
	p.ExecuteWorkflow(protocol.TypeSeed, in)
	p.verify()
}

// A run ends when its history is long, even if no worker checks whether holders
// have ended.
func TestWhoCannotLookAfterHoldersRollsOver(t *testing.T) {
	ref := protocol.SeedRef{Name: "team", Generation: 1, Blob: "b1", Digest: "d", Kind: "chatgpt"}
	for kind, in := range map[string]any{
		protocol.TypeHostPool: hostpool.Input{Carry: &hostpool.State{Hosts: []hostpool.Host{{Spec: put("web-1", 1).Spec, Slots: 1}}, Leases: []hostpool.Lease{{Holder: "a", Host: "web-1", Epoch: 1}}}},
		protocol.TypeSeed:     seed.Input{Name: "team", Carry: &seed.State{Ref: &ref, Leases: []seed.Lease{{Holder: "a", Rotates: true, Told: 1}}}},
		protocol.TypeSeedPool: seed.PoolInput{Name: "all", Carry: &seed.PoolState{Heard: true, Members: []seed.Member{{MemberNews: seed.MemberNews{Seed: "team", Health: protocol.Healthy}}},
			Queue: []seed.Ticket{{Ticket: lease.Ticket{Acquire: lease.Acquire{Holder: "a"}}}}}},
	} {
		t.Run(kind, func(t *testing.T) {
			p := newPoolWorld(t)
			p.engine.pends = true
			p.at(2*kit.Usual.Reap, func() {
				p.overdue()
				p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "nobody"})
			})
			p.RegisterDelayedCallback(func() {
				t.Error("it waits for the answer")
				p.CancelWorkflow()
			}, 3*kit.Usual.Reap)
			p.ExecuteWorkflow(kind, in)
			p.continued()
			if !p.engine.looked {
				t.Error("nobody was looked after")
			}
		})
	}
}

func TestARefreshThatDoesNotEndIsGoneOnWithInTheNextRun(t *testing.T) {
	p, tokens := newVerifyWorld(t, []string{"suspect"}, nil)
	tokens.pends = true
	var u *updated
	p.at(time.Second, func() { u = p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{By: "ann", Force: true}) })
	p.once("it is refreshed", func() bool { _, n := tokens.asked(); return n == 1 }, func() {
		p.overdue()
		p.releases(lease.Release{Holder: "nobody"})
	})
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	in := carriedAs[seed.Input](t, p.continued())
	if u.result == nil && u.err == nil {
		t.Error("who asked was not answered")
	}
	if in.Carry.Renews == nil {
		t.Fatalf("carried %+v", in.Carry)
	}

	p = newPoolWorld(t)
	p.RegisterActivity(&fakeTokens{t: t, refreshes: []string{"login 2"}})
	p.at(0, func() { p.acquires(on("b", "web-1", 1)) })
	p.once("b has it", func() bool { return len(p.seed().HeldBy) == 1 }, func() {
		if v := p.seed(); v.Generation != 2 {
			t.Errorf("seed is %+v", v)
		}
		p.CancelWorkflow()
	})
	p.ExecuteWorkflow(protocol.TypeSeed, in)
	p.verify()
}
