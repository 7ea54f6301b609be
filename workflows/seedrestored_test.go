package workflows

import (
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

// fromStore returns the adoption of login n as generation 4, by a seed that is at generation 1.
func fromStore(n string) inquiry.AdoptSeed {
	return inquiry.AdoptSeed{Generation: 1, Auth: "auth1", Highest: 4, Former: []string{"auth2", "auth3"}, Files: auth(n),
		Ref: &protocol.SeedRef{Name: "team", Blob: "seeds/team/b" + n, Digest: "d" + n, Kind: "chatgpt"}}
}

// After a restore of Temporal's database, the later login in the store becomes the seed's, with
// a number above all that the store has. Its holder is told, and the logins in between are
// recognized at an import.
func TestASeedAdoptsALaterLoginOfTheStore(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
	p.at(2*time.Second, func() {
		for _, change := range []func(*inquiry.AdoptSeed){
			func(in *inquiry.AdoptSeed) { in.Ref.Blob = "seeds/other/b4" },
			func(in *inquiry.AdoptSeed) { in.Ref.Kind = "api_key" },
			func(in *inquiry.AdoptSeed) { in.Files = nil },
		} {
			in := fromStore("4")
			change(&in)
			p.refuses(p.send(protocol.UpdateAdoptSeed, in), protocol.RefusedBadInput)
		}
		late := fromStore("4")
		late.Generation = 2
		p.refuses(p.send(protocol.UpdateAdoptSeed, late), protocol.RefusedState)
		p.takes(p.send(protocol.UpdateAdoptSeed, fromStore("4")))
	})
	p.at(3*time.Second, func() {
		p.saw("session/a got team", "session/a got team") // the second letter brings the newer generation
		now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow)
		if now.Generation != 4 || now.Auth != "auth4" || now.Ref.Blob != "seeds/team/b4" || now.Holders["a"] != 1 {
			t.Errorf("now is %+v", now)
		}
		p.takes(p.send(protocol.UpdateSaveSeed, saves("a", 1, 4, "5")))
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 100, Clean: true})
	})
	p.at(4*time.Second, func() {
		if v := p.seed(); v.Generation != 5 || len(v.HeldBy) != 0 {
			t.Errorf("seed is %+v", v)
		}
		for _, n := range []string{"1", "2", "3", "4"} {
			p.refuses(p.send(protocol.UpdatePutSeed, login(n)), protocol.RefusedState)
		}
		p.refuses(p.send(protocol.UpdateAdoptSeed, fromStore("4")), protocol.RefusedState)
	})
	p.runSeed(5 * time.Second)
}

// A seed that may have a later login than the store gives nobody the one that it has. When a person
// revives it, it tells the time, so that a repeated reconciliation finds no doubt that is older.
func TestASeedThatTheStoreLeavesInDoubtIsGrantedToNobody(t *testing.T) {
	p := newSeedWorld(t)
	settled := func() time.Time { return query[inquiry.SeedNow](p.world, protocol.QuerySeedNow).Settled }
	p.at(time.Second, func() {
		p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{}))
		p.takes(p.send(protocol.UpdateAdoptSeed, inquiry.AdoptSeed{Generation: 1, Auth: "auth1", Doubt: "generation 3 cannot be read", Hint: "import it"}))
		p.acquires(on("a", "web-1", 100))
	})
	p.at(2*time.Second, func() {
		if at := settled(); !at.IsZero() {
			t.Errorf("settled before it was reconciled: %v", at)
		}
		p.saw("session/a queued: seed team, which is suspect: generation 3 cannot be read (import it); nobody waits before it")
		if v := p.seed(); v.Generation != 1 || v.Health != protocol.Suspect {
			t.Errorf("seed is %+v", v)
		}
		p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{}))
	})
	var revived time.Time
	p.at(3*time.Second, func() {
		p.saw("session/a got team")
		if revived = settled(); revived.IsZero() {
			t.Error("it does not tell that a person revived it")
		}
		p.releases(lease.Release{Holder: "a", Epoch: query[inquiry.SeedNow](p.world, protocol.QuerySeedNow).Holders["a"], Generation: 100, Clean: true})
	})
	p.at(4*time.Second, func() { p.takes(p.send(protocol.UpdatePutSeed, login("5"))) })
	p.at(5*time.Second, func() {
		if at := settled(); !at.After(revived) {
			t.Errorf("it was revived at %v, and an import was at %v", revived, at)
		}
	})
	p.runSeed(6 * time.Second)
}

// The leases that were granted after the point of the restore are recognized: what codex made of
// the login under them is saved, and no later lease has such an epoch.
func TestLeasesThatTemporalHasForgottenAreFencedOff(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() {
		p.refuses(p.send(protocol.UpdateSaveSeed, leaves("a", 7, 1, "2")), protocol.RefusedFenced)
		if now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow); !now.Forgot("a", 7) || now.Forgot("b", now.Epoch) {
			t.Errorf("before: now is %+v", now)
		}
		p.takes(p.send(protocol.UpdateAdoptSeed, inquiry.AdoptSeed{Generation: 1, Auth: "auth1"}))
	})
	p.at(2*time.Second, func() {
		now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow)
		if !now.Forgot("a", 7) || now.Forgot("a", 0) || now.Epoch <= 7 {
			t.Errorf("after: now is %+v", now)
		}
		p.takes(p.send(protocol.UpdateSaveSeed, leaves("a", 7, 1, "2")))
		p.acquires(on("b", "web-2", 100))
	})
	p.at(3*time.Second, func() {
		p.saw("session/b got team")
		now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow)
		if held := now.Holders["b"]; held != now.Epoch || now.Forgot("b", held) || !now.Forgot("a", 7) || now.Auth != "auth2" {
			t.Errorf("with a new holder: now is %+v", now)
		}
		p.refuses(p.send(protocol.UpdateSaveSeed, leaves("a", 7, 2, "3")), protocol.RefusedFenced)
	})
	p.finish(4 * time.Second)
	p.ExecuteWorkflow(protocol.TypeSeed, seed.Input{Name: "team", Carry: &seed.State{Epoch: 3}})
	p.verify()
}

// After a restore, a session may get a lease with the number of a forgotten one before the seed is
// reconciled. The holder of the forgotten one is told from it, before and after that.
func TestALeaseWithTheNumberOfAForgottenOneIsNotTakenForIt(t *testing.T) {
	p := newSeedWorld(t)
	forgets := func(when string) {
		now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow)
		for _, of := range []struct {
			holder string
			epoch  int64
			want   bool
		}{{"a", 3, false}, {"a", 4, true}, {"b", 4, false}, {"a", 9, true}, {"b", 9, true}} {
			if got := now.Forgot(of.holder, of.epoch); got != of.want {
				t.Errorf("%s: epoch %d of %s is forgotten: %v; now is %+v", when, of.epoch, of.holder, got, now)
			}
		}
	}
	p.at(time.Second, func() { p.acquires(on("b", "web-2", 100)) })
	p.at(2*time.Second, func() {
		p.saw("session/b got team")
		forgets("before")
		p.takes(p.send(protocol.UpdateAdoptSeed, inquiry.AdoptSeed{Generation: 1, Auth: "auth1"}))
	})
	p.at(3*time.Second, func() {
		forgets("after")
		p.refuses(p.send(protocol.UpdateSaveSeed, leaves("a", 4, 1, "2")), protocol.RefusedFenced) // b holds the seed
		p.releases(lease.Release{Holder: "b", Epoch: 4, Generation: 100, Clean: true})
	})
	p.at(4*time.Second, func() {
		p.refuses(p.send(protocol.UpdateSaveSeed, leaves("b", 4, 1, "2")), protocol.RefusedFenced)
		p.refuses(p.send(protocol.UpdateSaveSeed, leaves("a", 3, 1, "2")), protocol.RefusedFenced)
		p.takes(p.send(protocol.UpdateSaveSeed, leaves("a", 4, 1, "2")))
	})
	p.at(5*time.Second, func() {
		forgets("after a save")
		p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{}))
	})
	p.at(6*time.Second, func() {
		if now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow); now.Forgot("a", 4) || now.Forgot("a", 9) {
			t.Errorf("a person gave up what was left, and now is %+v", now)
		}
	})
	p.finish(7 * time.Second)
	p.ExecuteWorkflow(protocol.TypeSeed, seed.Input{Name: "team", Carry: &seed.State{Epoch: 3}})
	p.verify()
}

// What was fetched from a host while the seed adopted a later login is fetched again, and
// compared with that one.
func TestALoginFetchedMeanwhileDoesNotReplaceTheAdoptedOne(t *testing.T) {
	p := newPoolWorld(t)
	adopted := make(chan struct{})
	p.seeds.answers = []fetch{func() (inquiry.RecoverSeedResult, error) { <-adopted; return brings("2")() }, wipes}
	p.once("it is being fetched", func() bool { return len(p.seeds.fetches()) == 1 }, func() {
		p.takes(p.send(protocol.UpdateAdoptSeed, fromStore("4")))
		p.at(10*time.Millisecond, func() { close(adopted) })
		p.once("nothing is left there", func() bool { return p.seed().State == protocol.SeedFree }, func() {
			if now := query[inquiry.SeedNow](p.world, protocol.QuerySeedNow); now.Auth != "auth4" || now.Generation != 4 {
				t.Errorf("now is %+v", now)
			}
			p.CancelWorkflow()
		})
	})
	ref := protocol.SeedRef{Name: "team", Generation: 1, Blob: "seeds/team/b1", Digest: "d1", Kind: "chatgpt"}
	p.ExecuteWorkflow(protocol.TypeSeed, seed.Input{Name: "team", Carry: &seed.State{Epoch: 1, Ref: &ref, Files: auth("1"),
		Leases: []seed.Lease{{Holder: "a", Epoch: 1, At: on("a", "web-1", 5).At, Generation: 5, Rotates: true, Ended: "it ended"}}}})
	p.verify()
	if got := p.seeds.fetches(); len(got) != 2 || got[1].Seed.Blob != "seeds/team/b4" {
		t.Errorf("fetched %+v", got)
	}
}
