package workflows

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// When Temporal has forgotten a session, its name is free again. When a session was
// terminated, another one of the same name may follow at once. Leases of the first session
// do not belong to the second.

func run(a lease.Acquire, run string) lease.Acquire { a.Run = run; return a }

func TestASessionThatGivesBackNothingDoesNotGiveBackWhatItsNamesakeHad(t *testing.T) {
	p := newSeedWorld(t)
	p.seeds.answers = []fetch{brings("2"), wipes}
	p.at(time.Second, func() { p.acquires(run(on("a", "web-1", 100), "r1")) })
	p.at(2*time.Second, func() {
		p.acquires(run(on("a", "web-1", 200), "r2"))
		p.releases(lease.Release{Holder: "a", Run: "r2", Generation: 200, Clean: true})
		p.acquires(on("b", "web-1", 1))
	})
	p.once("the next one has it", func() bool { return strings.Join(p.seed().HeldBy, "") == "b" }, func() {
		if v := p.seed(); v.Generation != 2 {
			t.Errorf("it was given before it was fetched: %+v", v)
		}
	})
	p.runSeed(time.Minute)
}

func TestOneWhoseNameLivesOnHasEnded(t *testing.T) {
	p := newSeedWorld(t)
	p.engine.ended = map[string]bool{protocol.SessionID("a") + " r1": true}
	p.seeds.answers = []fetch{brings("2"), wipes}
	p.at(time.Second, func() { p.acquires(run(on("a", "web-1", 100), "r1")) })
	p.at(2*time.Second, func() { p.acquires(run(on("b", "web-2", 100), "r7")) })
	p.once("the next one has it", func() bool { return strings.Join(p.seed().HeldBy, "") == "b" }, func() {
		if v := p.seed(); v.Generation != 2 {
			t.Errorf("it was given before it was fetched: %+v", v)
		}
	})
	p.runSeed(time.Hour)
}

func TestWhoIsInLineStaysThereWhenItsNamesakeHasEnded(t *testing.T) {
	p := newSeedWorld(t)
	p.engine.ended = map[string]bool{protocol.SessionID("b") + " r1": true}
	p.at(time.Second, func() { p.acquires(run(on("a", "web-1", 1), "r9"), run(on("b", "web-2", 200), "r2")) })
	p.at(10*time.Minute, func() {
		if v := p.seed(); v.Queue != 1 {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(11 * time.Minute)
}

// A refresh in progress may have got a login that is not in the store yet.
func TestALoginThatIsBeingRefreshedIsNotGivenToTheNext(t *testing.T) {
	p, f := newVerifyWorld(t, nil, []string{"login 2"})
	f.hold = make(chan struct{})
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1), on("b", "web-2", 1)) })
	p.at(2*time.Second, func() {
		p.send(protocol.UpdateRefreshSeed, inquiry.RefreshSeed{Holder: "a", Epoch: 1, From: 1})
	})
	p.once("it is being refreshed", func() bool { _, n := f.asked(); return n == 1 }, func() {
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true})
		if v := p.seed(); len(v.HeldBy) > 0 && v.HeldBy[0] == "b" {
			t.Errorf("given while it is refreshed: %+v", v)
		}
		close(f.hold)
	})
	p.once("the next one has it", func() bool { return strings.Join(p.seed().HeldBy, "") == "b" }, func() {
		if v := p.seed(); v.Generation != 2 {
			t.Errorf("what it got is spent: %+v", v)
		}
	})
	p.runSeed(time.Minute)
}
