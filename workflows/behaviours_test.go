package workflows

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// While a session was parked, another session held the seed and rotated the login. The
// parked session goes on with the rotated login.
func TestAParkedSessionGoesOnWithWhatItsLoginBecameElsewhere(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(time.Hour, func() {
		if got := strings.Join(w.released, " "); got != "seed/team pool/default" {
			t.Errorf("given back %s", got)
		}
		w.seedNow = &protocol.SeedRef{Name: "team", Generation: 9, Blob: "rotated", Digest: "d9", Kind: "chatgpt", Epoch: 12}
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(2*time.Hour, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 2 || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(3 * time.Hour)
	w.start(session.Options{Seed: "team"})
	for what, s := range map[string]*protocol.SeedRef{"prepared": w.lastPrepared().Seed, "pumped": w.lastPump().Seed, "closed": w.fake.closed[0].Seed} {
		if s == nil || s.Blob != "rotated" || s.Generation != 9 || s.Epoch != 12 {
			t.Errorf("%s with %+v", what, s)
		}
	}
	if s := w.fake.prepared[0].Seed; s.Blob != "b" || s.Epoch != 7 {
		t.Errorf("at first with %+v", s)
	}
}

// A lease does not expire. A session that waits hours for a person still has its
// login without renewing it, and no other session gets the login.
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
		p.takes(p.send(protocol.UpdateSaveSeed, saves("a", 1, 1, "2"))) // a may still save its login
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true})
	})
	p.at(31*time.Hour, func() { p.saw("session/a got team", "session/b got team") }) // a is told of the login that it saved, and then b gets it
	p.runSeed(32 * time.Hour)
}
