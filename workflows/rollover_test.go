package workflows

import (
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/protocol"
)

// A workflow that never ends must always begin its next run. Otherwise Temporal terminates
// the workflow, and its state is lost.

// overdue makes the history so long that the workflow continues as new without waiting for
// anything.
func (w *world) overdue() {
	w.SetCurrentHistoryLength(tooLong + 1)
	w.SetContinueAsNewSuggested(true)
}

func TestWhoIsBusyAllTheTimeRollsOver(t *testing.T) {
	ref := protocol.SeedRef{Name: "team", Generation: 1, Blob: "b1", Digest: "d", Kind: "chatgpt"}
	for kind, in := range map[string]any{
		protocol.TypeHostPool: PoolInput{},
		protocol.TypeSeed:     SeedInput{Name: "team", Carry: &seedState{Ref: &ref, Leases: []seedLease{{Holder: "x", Rotates: true, Told: 1}}}},
		protocol.TypeSeedPool: SeedPoolInput{Name: "all", Carry: &seedPoolState{Heard: true, Members: []poolMember{{memberNews: memberNews{Seed: "team", Health: protocol.Healthy}}}}},
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
				p.SignalWorkflow(signalAcquire, acquire{Holder: fmt.Sprint("s", told)})
				p.SignalWorkflow(signalAcquire, acquire{Holder: "a"})
			}
			p.at(time.Second, func() { p.SignalWorkflow(signalAcquire, acquire{Holder: "a"}) })
			p.ExecuteWorkflow(kind, in)
			p.continued()
		})
	}
}

func TestASeedWhoseRecoveryCannotRunRollsOver(t *testing.T) {
	p := newSeedWorld(t)
	p.seeds.answers = []fetch{func() (activities.RecoverSeedResult, error) {
		return activities.RecoverSeedResult{}, activity.ErrResultPending
	}}
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
	p.at(2*time.Second, func() { p.releases(release{Holder: "a", Epoch: 1, Generation: 100}) })
	p.once("it is tried", func() bool { return len(p.seeds.fetches()) == 1 }, func() {
		p.fill()
		p.releases(release{Holder: "nobody"})
		p.at(10*time.Millisecond, func() {
			if v := p.seed(); v.State != protocol.SeedRecovering {
				t.Errorf("seed is %+v", v)
			}
			p.overdue()
			p.releases(release{Holder: "nobody"})
		})
	})
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	in := carriedAs[SeedInput](t, p.continued())

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
		protocol.TypeHostPool: PoolInput{Carry: &poolState{Hosts: []poolHost{{Spec: put("web-1", 1).Spec, Slots: 1}}, Leases: []poolLease{{Holder: "a", Host: "web-1", Epoch: 1}}}},
		protocol.TypeSeed:     SeedInput{Name: "team", Carry: &seedState{Ref: &ref, Leases: []seedLease{{Holder: "a", Rotates: true, Told: 1}}}},
		protocol.TypeSeedPool: SeedPoolInput{Name: "all", Carry: &seedPoolState{Heard: true, Members: []poolMember{{memberNews: memberNews{Seed: "team", Health: protocol.Healthy}}},
			Queue: []poolTicket{{ticket: ticket{acquire: acquire{Holder: "a"}}}}}},
	} {
		t.Run(kind, func(t *testing.T) {
			p := newPoolWorld(t)
			p.engine.pends = true
			p.at(2*usual.reap, func() {
				p.overdue()
				p.SignalWorkflow(signalRelease, release{Holder: "nobody"})
			})
			p.RegisterDelayedCallback(func() {
				t.Error("it waits for the answer")
				p.CancelWorkflow()
			}, 3*usual.reap)
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
		p.releases(release{Holder: "nobody"})
	})
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	in := carriedAs[SeedInput](t, p.continued())
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
