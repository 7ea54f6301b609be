package workflows

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

// anew starts a seed whose earlier workflow granted leases with epochs up to 100.
var anew = seed.Input{Name: "team", Carry: &seed.State{Epoch: 100, First: 100}}

func (p *poolWorld) runAnew(until time.Duration) {
	p.t.Helper()
	p.finish(until)
	p.ExecuteWorkflow(protocol.TypeSeed, anew)
	p.verify()
}

// leaves returns the request to save a login after codex has ended on the holder's host.
func leaves(holder string, epoch, from int64, n string) inquiry.SaveSeed {
	in := saves(holder, epoch, from, n)
	in.Left = true
	return in
}

// A login that codex rotated under a lease of an earlier workflow of the seed is
// accepted, unless somebody holds the seed.
func TestALoginOfAForgottenLeaseIsTakenWhileNobodyHoldsTheSeed(t *testing.T) {
	p := newSeedWorld(t)
	seen := inquiry.RotatedSeed{Holder: "a", Epoch: 7, Auth: "auth2", Left: true}
	p.at(time.Second, func() {
		if now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow); now.First != 100 {
			t.Errorf("first is %d", now.First)
		}
		p.refuses(p.send(protocol.UpdateSaveSeed, saves("a", 7, 1, "2")), protocol.RefusedFenced) // codex may still run
		p.refuses(p.send(protocol.UpdateSaveSeed, leaves("a", 101, 1, "2")), protocol.RefusedFenced)
		p.acquires(on("b", "web-1", 1))
	})
	p.at(2*time.Second, func() {
		p.saw("session/b got team")
		p.refuses(p.send(protocol.UpdateRotatedSeed, seen), protocol.RefusedFenced)
		p.refuses(p.send(protocol.UpdateSaveSeed, leaves("a", 7, 1, "2")), protocol.RefusedFenced)
		p.releases(lease.Release{Holder: "b", Epoch: 101, Generation: 1, Clean: true})
	})
	p.at(3*time.Second, func() { p.takes(p.send(protocol.UpdateRotatedSeed, seen)) })
	p.at(4*time.Second, func() { p.acquires(on("b", "web-1", 2)) })
	p.at(5*time.Second, func() {
		p.saw("session/b queued: seed team, which was rotated and is not saved; nobody waits before it")
		p.takes(p.send(protocol.UpdateSaveSeed, leaves("a", 7, 1, "2")))
	})
	p.at(6*time.Second, func() {
		p.saw("session/b got team")
		if v := p.seed(); v.Generation != 2 || v.Rotated != nil {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runAnew(7 * time.Second)
}

// A session that ends without its seed reports where the login is. The login is
// fetched before anybody gets the seed.
func TestASessionThatEndsWithoutItsSeedHasTheLoginFetched(t *testing.T) {
	p := newSeedWorld(t)
	p.seeds.answers = []fetch{brings("2"), wipes}
	p.at(time.Second, func() {
		p.releases(lease.Release{Holder: "a", Epoch: 7, Generation: 5, At: on("a", "web-1", 5).At})
		p.acquires(on("b", "web-2", 1))
	})
	p.at(time.Minute, func() {
		if v := p.seed(); v.Generation != 2 {
			t.Errorf("seed is %+v", v)
		}
		p.releases(lease.Release{Holder: "a", Epoch: 7, Generation: 5, At: on("a", "web-1", 5).At}) // too late: b holds the seed
	})
	p.runAnew(2 * time.Minute)
	if got := p.told[len(p.told)-1]; got != "session/b got team" {
		t.Errorf("told %v", p.told)
	}
	if got := p.seeds.fetches(); len(got) != 2 || got[0].Claim.Host.Name != "web-1" || got[0].Generation != 5 {
		t.Errorf("fetched %+v", got)
	}
}

// A person who revives a seed that is not in doubt gives up the logins under leases
// that earlier workflows granted.
func TestRevivingASeedGivesUpForgottenLeases(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() { p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{})) })
	p.at(2*time.Second, func() {
		if now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow); now.First != 0 {
			t.Errorf("first is %d", now.First)
		}
		p.refuses(p.send(protocol.UpdateSaveSeed, leaves("a", 7, 1, "2")), protocol.RefusedFenced)
	})
	p.runAnew(3 * time.Second)
}

// A person who revives a seed for another reason may not know that a host still has a login
// of a lease that an earlier workflow granted.
func TestRevivingASeedThatIsInDoubtKeepsForgottenLeases(t *testing.T) {
	p := newSeedWorld(t)
	revives := func(at time.Duration, want int64) {
		p.at(at, func() { p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{})) })
		p.at(at+time.Second/2, func() {
			if now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow); now.First != want || now.Rotated != nil {
				t.Errorf("after %v the seed is %+v", at, now)
			}
		})
	}
	p.at(time.Second, func() {
		p.takes(p.send(protocol.UpdateRotatedSeed, inquiry.RotatedSeed{Holder: "a", Epoch: 7, Auth: "auth2", Left: true}))
	})
	revives(2*time.Second, 100)
	revives(3*time.Second, 0)
	p.runAnew(4 * time.Second)
}
