package workflows

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities"
)

// While a session was parked, somebody else had its login and rotated it: it goes
// on with what the login is now.
func TestAParkedSessionGoesOnWithWhatItsLoginBecameElsewhere(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(SignalPark, Park{})) })
	w.at(time.Hour, func() {
		if got := strings.Join(w.released, " "); got != "seed/team pool/default" {
			t.Errorf("given back %s", got)
		}
		w.seedNow = &activities.SeedRef{Name: "team", Generation: 9, Blob: "rotated", Digest: "d9", Kind: "chatgpt", Epoch: 12}
		w.send(SignalMessage, hello("m2"))
	})
	w.at(2*time.Hour, func() {
		if v := w.view(); v.State != Idle || v.Turn.N != 2 || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(3 * time.Hour)
	w.start(SessionOptions{Seed: "team"})
	for what, s := range map[string]*activities.SeedRef{"prepared": w.lastPrepared().Seed, "pumped": w.lastPump().Seed, "closed": w.fake.closed[0].Seed} {
		if s == nil || s.Blob != "rotated" || s.Generation != 9 || s.Epoch != 12 {
			t.Errorf("%s with %+v", what, s)
		}
	}
	if s := w.fake.prepared[0].Seed; s.Blob != "b" || s.Epoch != 7 {
		t.Errorf("at first with %+v", s)
	}
}

// A lease has no clock: whoever waits for a person for hours still has its login,
// without having said so, and nobody else has.
func TestALoginIsHeldForAsLongAsItsSessionRuns(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1), on("b", "web-1", 1)) })
	p.at(2*time.Second, func() {
		p.saw("session/a got team", "session/b queued: seed team, held by a; nobody waits before it")
	})
	p.at(30*time.Hour, func() {
		p.saw() // nobody was told anything
		if v := p.seed(); len(v.HeldBy) != 1 || v.HeldBy[0] != "a" {
			t.Errorf("seed is %+v", v)
		}
		p.takes(p.send(activities.UpdateSaveSeed, saves("a", 1, 1, "2"))) // and may still save
		p.releases(release{Holder: "a", Epoch: 1, Generation: 1, Clean: true})
	})
	p.at(31*time.Hour, func() { p.saw("session/a got team", "session/b got team") }) // what it saved, it is told to go on with
	p.runSeed(32 * time.Hour)
}
