package workflows

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

// These tests check what a seed does in each of its states. The host is a fake.

type fetch = func() (inquiry.RecoverSeedResult, error)

func brings(n string) fetch {
	return func() (inquiry.RecoverSeedResult, error) {
		return inquiry.RecoverSeedResult{Saved: &protocol.SeedRef{Blob: "b" + n, Digest: "d" + n, Kind: "chatgpt"}, Auth: "auth" + n, Files: auth(n)}, nil
	}
}

func wipes() (inquiry.RecoverSeedResult, error) {
	return inquiry.RecoverSeedResult{Wiped: true}, nil
}

func findsNothing() (inquiry.RecoverSeedResult, error) {
	return inquiry.RecoverSeedResult{Absent: true, Wiped: true}, nil
}

func isAway() (inquiry.RecoverSeedResult, error) {
	return inquiry.RecoverSeedResult{}, temporal.NewNonRetryableApplicationError("no route to host", protocol.ErrTypeUnreachable, nil)
}

func (p *poolWorld) acquires(as ...lease.Acquire) {
	for _, a := range as {
		p.SignalWorkflow(lease.SignalAcquire, a)
	}
}

func (p *poolWorld) releases(r lease.Release) { p.SignalWorkflow(lease.SignalRelease, r) }

func TestTheLineForALoginIsServedInOrder(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1), on("b", "web-1", 1), on("c", "web-1", 1)) })
	p.at(2*time.Second, func() {
		p.saw("session/a got team", "session/b queued: seed team, held by a; nobody waits before it", "session/c queued: seed team, held by a; 1 waits before it")
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true})
		p.acquires(on("a", "web-1", 2)) // a asks again, after the others
	})
	p.at(3*time.Second, func() {
		p.saw("session/b got team", "session/c queued: seed team, held by b; nobody waits before it", "session/a queued: seed team, held by b; 1 waits before it")
		p.releases(lease.Release{Holder: "b", Epoch: 2, Generation: 1, Clean: true})
	})
	p.at(4*time.Second, func() {
		p.saw("session/c got team", "session/a queued: seed team, held by c; nobody waits before it")
	})
	p.runSeed(5 * time.Second)
}

func TestAReleaseOfAnOlderEpochChangesNothing(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1)) })
	p.at(2*time.Second, func() { p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true}) })
	p.at(3*time.Second, func() { p.acquires(on("a", "web-1", 2), on("b", "web-1", 1)) })
	p.at(4*time.Second, func() {
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true})
		p.releases(lease.Release{Holder: "a", Epoch: 0, Generation: 1, Clean: true})
		p.releases(lease.Release{Holder: "b", Epoch: 2, Generation: 1, Clean: true})
		p.SignalWorkflow(lease.SignalReport, lease.Report{Holder: "a", Epoch: 1, Verdict: lease.VerdictSuspect, Reason: "an old story"})
	})
	p.at(5*time.Second, func() {
		if v := p.seed(); strings.Join(v.HeldBy, "") != "a" || v.Epoch != 2 || v.Queue != 1 || v.Health != "unknown" {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(6 * time.Second)
}

// A holder that never took its grant gives it back without an epoch. The release counts
// even if it arrives before the holder's own request.
func TestWhoNeverTookItGivesItBack(t *testing.T) {
	p := newSeedWorld(t)
	p.at(time.Second, func() {
		p.acquires(on("a", "web-1", 1))
		p.releases(lease.Release{Holder: "a", Generation: 1, Clean: true})
	})
	p.at(2*time.Second, func() {
		if v := p.seed(); v.State != protocol.SeedFree || v.Queue != 0 {
			t.Errorf("seed is %+v", v)
		}
		p.acquires(on("b", "web-1", 1))
	})
	p.at(3*time.Second, func() { p.releases(lease.Release{Holder: "b", Generation: 1, Clean: true}) })
	p.at(4*time.Second, func() {
		if v := p.seed(); v.State != protocol.SeedFree {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(5 * time.Second)
}

func TestAnUncleanHoldersLoginIsSavedAndWipedBeforeTheNextGrant(t *testing.T) {
	p := newSeedWorld(t)
	p.seeds.answers = []fetch{isAway, brings("2"), wipes}
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100), on("b", "web-1", 100)) })
	p.at(2*time.Second, func() {
		p.takes(p.send(protocol.UpdateRotatedSeed, inquiry.RotatedSeed{Holder: "a", Epoch: 1, Auth: "auth2"}))
	})
	p.at(3*time.Second, func() { p.forget(); p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 100}) })
	p.once("the host was tried", func() bool { v := p.seed(); return v.Recovery != nil && v.Recovery.Problem != nil }, func() {
		v := p.seed()
		if v.State != protocol.SeedRecovering || v.Health != protocol.Suspect || !strings.Contains(v.Reason, "no route to host") || v.Hint == "" || v.Rotated == nil ||
			len(v.HeldBy) != 0 || v.Queue != 1 {
			t.Errorf("seed is %+v", v)
		}
		p.refuses(p.send(protocol.UpdateSaveSeed, saves("a", 1, 1, "3")), protocol.RefusedFenced)
		p.refuses(p.send(protocol.UpdateDeleteSeed, protocol.DeleteSeed{}), protocol.RefusedState)
	})
	p.once("the next one has it", func() bool { return strings.Join(p.seed().HeldBy, "") == "b" }, func() {
		v := p.seed()
		if v.Generation != 2 || v.Rotated != nil || v.Recovery != nil || v.Health == protocol.Suspect || v.Epoch != 2 {
			t.Errorf("seed is %+v", v)
		}
		for i, in := range p.seeds.fetches() {
			if in.Claim.Session != "a" || in.Claim.Host.Name != "web-1" || in.Generation != 100 || in.Claim.Generation <= 100 || in.Claim.Pump != int64(i+1) {
				t.Errorf("fetch %d was %+v", i+1, in)
			}
		}
		if f := p.seeds.fetches(); len(f) != 3 || f[1].Seed.Blob != "seeds/team/b1" || f[2].Seed.Blob != "b2" {
			t.Errorf("fetched %+v", f)
		}
	})
	p.runSeed(4 * time.Minute)
}

// A host that can never be reached again blocks the seed until a person intervenes.
func TestAPersonEndsARecoveryThatCannotEnd(t *testing.T) {
	for _, how := range []string{"revive", "import"} {
		p := newSeedWorld(t)
		p.seeds.answers = []fetch{isAway, isAway, isAway, isAway, isAway, isAway, isAway, isAway, isAway, isAway, isAway, isAway}
		p.at(time.Second, func() { p.acquires(on("a", "web-1", 100), on("b", "web-1", 100)) })
		p.at(2*time.Second, func() { p.engine.ended["session/a"] = true })
		p.at(25*time.Minute, func() {
			if v := p.seed(); v.State != protocol.SeedRecovering || v.Health != protocol.Suspect || v.Queue != 1 || v.Recovery.Tries < 4 {
				t.Errorf("seed is %+v", v)
			}
			if how == "revive" {
				p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{By: "bob"}))
			} else {
				p.takes(p.send(protocol.UpdatePutSeed, login("9")))
			}
		})
		p.at(26*time.Minute, func() {
			if v := p.seed(); strings.Join(v.HeldBy, "") != "b" || v.Health != "unknown" || v.Recovery != nil {
				t.Errorf("after %s the seed is %+v", how, v)
			}
		})
		p.runSeed(27 * time.Minute)
	}
}

func TestARotationThatIsNowhereMakesTheSeedSuspect(t *testing.T) {
	for name, give := range map[string]func(p *poolWorld){
		"nothing on the host": func(p *poolWorld) { p.engine.ended["session/a"] = true; p.acquires(on("c", "web-1", 1)) },
		"discarded": func(p *poolWorld) {
			p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 100, Clean: true, Discarded: true})
		},
		"wiped unsaved": func(p *poolWorld) { p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 100, Clean: true}) },
	} {
		p := newSeedWorld(t)
		p.seeds.answers = []fetch{findsNothing}
		p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
		p.at(2*time.Second, func() {
			p.takes(p.send(protocol.UpdateRotatedSeed, inquiry.RotatedSeed{Holder: "a", Epoch: 1, Auth: "auth2"}))
			p.refuses(p.send(protocol.UpdatePutSeed, login("2")), protocol.RefusedState)
		})
		p.at(3*time.Second, func() {
			p.refuses(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{}), protocol.RefusedState) // the holder has the seed still
			give(p)
		})
		p.at(time.Minute, func() {
			p.forget()
			p.acquires(on("b", "web-1", 1))
		})
		p.at(2*time.Minute, func() {
			if v := p.seed(); v.Health != protocol.Suspect || v.State != protocol.SeedFree || v.Rotated != nil || !strings.Contains(v.Reason, "rotated") || v.Hint == "" {
				t.Errorf("%s: seed is %+v", name, v)
			}
			p.mu.Lock()
			told := strings.Join(p.told, "\n")
			p.mu.Unlock()
			if !strings.Contains(told, "session/b queued: seed team, which is suspect") || !strings.Contains(told, "ctl seed revive team") {
				t.Errorf("%s: told %s", name, told)
			}
			p.takes(p.send(protocol.UpdateReviveSeed, protocol.ReviveSeed{By: "bob"}))
		})
		p.at(3*time.Minute, func() {
			if v := p.seed(); v.State != protocol.SeedHeld || v.Health != "unknown" {
				t.Errorf("%s: after revive the seed is %+v", name, v)
			}
		})
		p.runSeed(4 * time.Minute)
	}
}

func TestAnAPIKeyIsSharedByAsManyAsItMay(t *testing.T) {
	p := newPoolWorld(t)
	two := 2
	key := protocol.PutSeed{Name: "team", Share: &two, Ref: protocol.SeedRef{Blob: "seeds/team/b1", Digest: "d", Kind: "api_key"}}
	p.at(0, func() {
		many := login("1")
		many.Share = &two
		p.refuses(p.send(protocol.UpdatePutSeed, many), protocol.RefusedBadInput)
		p.takes(p.send(protocol.UpdatePutSeed, key))
	})
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1), on("b", "web-1", 1), on("c", "web-1", 1), on("d", "web-1", 1)) })
	p.at(2*time.Second, func() {
		p.saw("session/a got team", "session/b got team", "session/c queued: seed team, which 2 sessions use, as many as may; nobody waits before it",
			"session/d queued: seed team, which 2 sessions use, as many as may; 1 waits before it")
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1}) // the release of a copy needs no proof that it is gone
	})
	p.at(3*time.Second, func() {
		p.saw("session/c got team")
		p.engine.ended["session/b"] = true // the same if the holder has ended
	})
	p.at(2*kit.Usual.Reap, func() {
		p.saw("session/d got team")
		p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Share: new(int)}))
	})
	p.at(2*kit.Usual.Reap+time.Second, func() { p.acquires(on("e", "web-1", 1), on("f", "web-1", 1)) })
	p.at(2*kit.Usual.Reap+2*time.Second, func() { p.saw("session/e got team", "session/f got team") })
	p.runSeed(3 * kit.Usual.Reap)
}

func TestADoubtStopsGrantsUntilALaterTurnDispelsIt(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: protocol.SeedRef{Blob: "seeds/team/b1", Digest: "d", Kind: "api_key"}}))
	})
	var doubted time.Time
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1)) })
	p.at(2*time.Second, func() {
		doubted = p.Now()
		p.SignalWorkflow(lease.SignalReport, lease.Report{Holder: "a", Epoch: 1, Verdict: lease.VerdictSuspect, Reason: "401", Hint: "import it anew"})
		p.acquires(on("b", "web-1", 1))
	})
	p.at(3*time.Second, func() {
		p.saw("session/a got team", "session/b queued: seed team, which is suspect: 401 (import it anew); nobody waits before it")
		// A turn that began earlier proves nothing.
		p.SignalWorkflow(lease.SignalReport, lease.Report{Holder: "a", Epoch: 1, Verdict: lease.VerdictAlive, Began: doubted.Add(-time.Second)})
	})
	p.at(4*time.Second, func() {
		p.saw()
		p.SignalWorkflow(lease.SignalReport, lease.Report{Holder: "a", Epoch: 1, Verdict: lease.VerdictAlive, Began: doubted.Add(time.Second)})
	})
	p.at(5*time.Second, func() {
		p.saw("session/b got team")
		if v := p.seed(); v.Health != protocol.Healthy || v.VerifiedAt == nil || v.Reason != "" {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(6 * time.Second)
}

func TestADeadSeedRefusesWhoAsks(t *testing.T) {
	p := newPoolWorld(t)
	carry := &seed.State{Ref: &protocol.SeedRef{Name: "team", Generation: 1, Blob: "b1", Digest: "d", Kind: "chatgpt"},
		Health: seed.Health{State: protocol.Dead, Reason: "its issuer does not know it any more", Hint: "log in anew"}}
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 1)) })
	p.at(2*time.Second, func() { p.saw("session/a refused seed_dead") })
	p.finish(3 * time.Second)
	p.ExecuteWorkflow(protocol.TypeSeed, seed.Input{Name: "team", Carry: carry})
	p.verify()
}

func TestASeedRollsOverInEachState(t *testing.T) {
	p := newSeedWorld(t)
	p.seeds.answers = []fetch{isAway}
	pools := []string{}
	p.at(0, func() { p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Pools: &pools})) })
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100), on("b", "web-2", 101)) })
	p.at(2*time.Second, func() {
		p.takes(p.send(protocol.UpdateRotatedSeed, inquiry.RotatedSeed{Holder: "a", Epoch: 1, Auth: "auth2", Reason: "the store is down"}))
	})
	p.at(3*time.Second, func() { p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 100}) })
	p.once("the host was tried", func() bool { v := p.seed(); return v.Recovery != nil && v.Recovery.Problem != nil }, func() {
		p.fill()
		p.releases(lease.Release{Holder: "nobody"})
	})
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	p.verify()
	in := carriedAs[seed.Input](t, p.continued())

	p = newPoolWorld(t)
	p.seeds.answers = []fetch{brings("2"), wipes}
	p.at(time.Millisecond, func() {
		if v := p.seed(); v.State != protocol.SeedRecovering || v.Health != protocol.Suspect || v.Rotated == nil || v.Queue != 1 {
			t.Errorf("carried %+v", v)
		}
	})
	p.once("the next one has it", func() bool { return strings.Join(p.seed().HeldBy, "") == "b" }, func() {
		if v := p.seed(); v.Generation != 2 || v.Rotated != nil || v.Holders[0].Host != "web-2" {
			t.Errorf("seed is %+v", v)
		}
		p.fill()
		p.releases(lease.Release{Holder: "nobody"})
	})
	p.ExecuteWorkflow(protocol.TypeSeed, in)
	p.verify()
	if c := carriedAs[seed.Input](t, p.continued()).Carry; len(c.Leases) != 1 || c.Leases[0].Epoch != 2 || c.Leases[0].Generation != 101 || c.Leases[0].At.Name != "web-2" {
		t.Errorf("carried %+v", c)
	}
}

// Another session of the same name counts as another holder, and so does the same session
// on another host.
func TestANewPlaceOfARotatingLoginIsNotBelieved(t *testing.T) {
	p := newSeedWorld(t)
	p.seeds.answers = []fetch{wipes, wipes}
	p.at(time.Second, func() { p.acquires(on("a", "web-1", 100)) })
	p.at(2*time.Second, func() { p.acquires(on("a", "web-2", 200)) })
	p.once("it has it there", func() bool { v := p.seed(); return len(v.HeldBy) == 1 && v.Holders[0].Host == "web-2" && v.Epoch == 2 }, func() {
		again := on("a", "web-2", 300)
		again.Run = "another"
		p.acquires(again)
	})
	p.once("the new one has it", func() bool { v := p.seed(); return len(v.HeldBy) == 1 && v.Epoch == 3 }, func() {
		if f := p.seeds.fetches(); len(f) != 2 || f[0].Claim.Host.Name != "web-1" || f[1].Claim.Host.Name != "web-2" {
			t.Errorf("fetched %+v", f)
		}
	})
	p.runSeed(time.Minute)
}
