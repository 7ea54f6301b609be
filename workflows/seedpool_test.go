package workflows

import (
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
)

// These tests run a pool of seeds. The test answers for the seeds.

// is reports a seed's state to its pool. used is how many seconds ago the seed was
// used.
func (p *poolWorld) is(name, health string, free bool, used int, answers ...seed.MemberAnswer) {
	state := protocol.SeedHeld
	if free {
		state = protocol.SeedFree
	}
	p.SignalWorkflow(lease.SignalMember, seed.MemberNews{Seed: name, Health: health, State: state, Free: free, Answers: answers,
		UsedAt: time.Unix(1_800_000_000-int64(used), 0)})
}

func got(holder string) seed.MemberAnswer      { return seed.MemberAnswer{Holder: holder, Granted: true} }
func deniedTo(holder string) seed.MemberAnswer { return seed.MemberAnswer{Holder: holder} }

func (p *poolWorld) runSeedPool(until time.Duration, in seed.PoolInput) {
	p.t.Helper()
	p.finish(until)
	p.ExecuteWorkflow(protocol.TypeSeedPool, in)
	p.verify()
}

func TestThePoolAsksTheSeedThatWasUsedLeastRecently(t *testing.T) {
	p := newPoolWorld(t)
	p.at(time.Second, func() {
		p.is("x", "unknown", true, 10)
		p.is("y", protocol.Healthy, true, 30)
		p.is("z", protocol.Suspect, false, 90) // nobody holds z, but it is suspect
	})
	p.at(2*time.Second, func() { p.acquires(on("a", "web-1", 1), on("b", "web-1", 1), on("c", "web-1", 1)) })
	p.at(3*time.Second, func() {
		p.saw("seed/y asked for a, for logins", "seed/x asked for b, for logins",
			"session/c queued: seed pool logins, of which no seed is free (2 about to be given, 1 suspect); 2 wait before it")
		p.is("y", protocol.Healthy, false, 0, got("a"))
		p.is("x", protocol.Healthy, false, 0, deniedTo("b")) // a session took x directly
	})
	p.at(4*time.Second, func() {
		p.saw("session/b queued: seed pool logins, of which no seed is free (2 in use, 1 suspect); nobody waits before it",
			"session/c queued: seed pool logins, of which no seed is free (1 about to be given, 1 in use, 1 suspect); 1 waits before it",
			"session/c queued: seed pool logins, of which no seed is free (2 in use, 1 suspect); 1 waits before it")
		p.is("z", protocol.Healthy, true, 90)
	})
	p.at(5*time.Second, func() {
		p.saw("seed/z asked for b, for logins",
			"session/c queued: seed pool logins, of which no seed is free (1 about to be given, 2 in use); 1 waits before it")
		p.is("z", protocol.Healthy, false, 0, got("b"))
		p.is("y", protocol.Healthy, true, 0)
	})
	p.at(6*time.Second, func() {
		p.saw("session/c queued: seed pool logins, of which no seed is free (3 in use); nobody waits before it", "seed/y asked for c, for logins")
	})
	p.runSeedPool(7*time.Second, seed.PoolInput{Name: "logins"})
}

func TestWhoAsksAPoolAgainIsNotGivenASecondSeed(t *testing.T) {
	p := newPoolWorld(t)
	p.at(time.Second, func() {
		p.is("x", protocol.Healthy, true, 10)
		p.is("y", protocol.Healthy, true, 5)
		p.acquires(on("a", "web-1", 1))
	})
	p.at(2*time.Second, func() { p.is("x", protocol.Healthy, false, 0, got("a")) })
	p.at(3*time.Second, func() { p.forget(); p.acquires(on("a", "web-1", 1)) })
	p.at(4*time.Second, func() {
		p.saw("seed/x asked whether a has it, for logins")
		p.is("x", protocol.Healthy, true, 0, deniedTo("a")) // a gave x back meanwhile
	})
	p.at(5*time.Second, func() { p.saw("seed/y asked for a, for logins") })
	p.runSeedPool(6*time.Second, seed.PoolInput{Name: "logins"})
}

func TestWhoLeavesTheLineOfAPoolLeavesNoGrant(t *testing.T) {
	p := newPoolWorld(t)
	p.at(time.Second, func() { p.is("x", protocol.Healthy, true, 10); p.acquires(on("a", "web-1", 1), on("b", "web-1", 1)) })
	p.at(2*time.Second, func() {
		p.forget()
		p.releases(lease.Release{Holder: "a", Generation: 1, Clean: true})
	})
	p.at(3*time.Second, func() {
		p.saw("seed/x hears that a took nothing: true, epoch 0", "seed/x asked for b, for logins")
		p.is("x", protocol.Healthy, false, 0, got("b"))
	})
	p.at(4*time.Second, func() {
		if v := query[protocol.SeedPoolView](p.world, protocol.QuerySeedPool); v.Queue != 0 || len(v.Seeds) != 1 || v.Seeds[0].Free {
			t.Errorf("pool is %+v", v)
		}
	})
	p.runSeedPool(5*time.Second, seed.PoolInput{Name: "logins"})
}

func TestAPoolWithNoUseRefuses(t *testing.T) {
	p := newPoolWorld(t)
	p.at(time.Second, func() { p.is("x", protocol.Dead, false, 10); p.acquires(on("a", "web-1", 1)) })
	p.at(2*time.Second, func() {
		p.saw("session/a refused seed_dead")
		p.SignalWorkflow(lease.SignalMember, seed.MemberNews{Seed: "x", Gone: true})
	})
	p.ExecuteWorkflow(protocol.TypeSeedPool, seed.PoolInput{Name: "logins"}) // ends with its last member
	if err := p.GetWorkflowError(); err != nil {
		t.Error(err)
	}
	p.verify()

	p = newPoolWorld(t)
	p.at(time.Second, func() { p.acquires(on("b", "web-1", 1)) })
	p.ExecuteWorkflow(protocol.TypeSeedPool, seed.PoolInput{Name: "logins"})
	p.saw("session/b refused seed_pool_empty")
	p.verify()
}

func TestAPoolOutlivesASeedThatIsGoneAndSessionsThatAre(t *testing.T) {
	p := newPoolWorld(t)
	p.at(time.Second, func() { p.is("x", protocol.Healthy, false, 10); p.is("y", protocol.Healthy, false, 10) })
	p.at(2*time.Second, func() { p.acquires(on("killed", "web-1", 1), on("b", "web-1", 1)) })
	p.at(3*time.Second, func() { p.forget(); p.engine.ended["session/killed"] = true })
	p.at(2*kit.Usual.Reap, func() {
		p.saw("seed/x asked for , for logins", "seed/y asked for , for logins") // a survey of the seeds' present state
		if v := query[protocol.SeedPoolView](p.world, protocol.QuerySeedPool); v.Queue != 1 {
			t.Errorf("pool is %+v", v)
		}
		p.is("x", protocol.Healthy, true, 0)
	})
	p.at(2*kit.Usual.Reap+time.Second, func() { p.saw("seed/x asked for b, for logins") })
	p.runSeedPool(2*kit.Usual.Reap+2*time.Second, seed.PoolInput{Name: "logins"})
}

func TestAPoolRollsOverWithItsLineAndWhatItAsked(t *testing.T) {
	p := newPoolWorld(t)
	p.at(time.Second, func() { p.is("x", protocol.Healthy, true, 10) })
	p.at(2*time.Second, func() { p.acquires(on("a", "web-1", 1), on("b", "web-1", 1)) })
	p.at(3*time.Second, func() { p.fill(); p.releases(lease.Release{Holder: "nobody"}) })
	p.ExecuteWorkflow(protocol.TypeSeedPool, seed.PoolInput{Name: "logins"})
	p.verify()
	in := carriedAs[seed.PoolInput](t, p.continued())

	p = newPoolWorld(t)
	p.at(time.Second, func() { p.is("x", protocol.Healthy, false, 0, got("a")) })
	p.at(2*time.Second, func() {
		p.saw("session/b queued: seed pool logins, of which no seed is free (1 in use); nobody waits before it")
		p.SignalWorkflow(lease.SignalMember, seed.MemberNews{Seed: "x", Health: protocol.Healthy, State: protocol.SeedFree, Free: true, Left: []string{"a"}})
	})
	p.at(3*time.Second, func() { p.saw("seed/x asked for b, for logins") })
	p.runSeedPool(4*time.Second, in)
}

// This test checks the seed's part.
func TestASeedGrantsAPoolNowOrNotAtAll(t *testing.T) {
	p := newPoolWorld(t)
	byPool := func(holder string, again bool) lease.Acquire {
		a := on(holder, "web-1", 1)
		a.Pool, a.Again = "logins", again
		return a
	}
	pools := []string{"logins"}
	mine := login("1")
	mine.Pools = &pools
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutSeed, mine)) })
	p.at(time.Second, func() {
		p.saw("seedpool/logins hears of team: gone false, free true, unknown, [], left []")
		p.acquires(byPool("a", false), byPool("b", false), on("c", "web-1", 1))
	})
	p.at(2*time.Second, func() {
		p.saw("session/a got team", "session/c queued: seed team, held by a; nobody waits before it",
			"seedpool/logins hears of team: gone false, free false, unknown, [{a true}], left []",
			"seedpool/logins hears of team: gone false, free false, unknown, [{b false}], left []")
		p.acquires(byPool("a", true), byPool("b", true))
	})
	p.at(3*time.Second, func() {
		p.saw("session/a got team", "seedpool/logins hears of team: gone false, free false, unknown, [{a true}], left []",
			"seedpool/logins hears of team: gone false, free false, unknown, [{b false}], left []")
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true})
	})
	p.at(4*time.Second, func() { // a session that waits for the seed itself comes first
		p.saw("session/c got team", "seedpool/logins hears of team: gone false, free false, unknown, [], left [a]")
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Pool: "logins"})
	})
	p.at(5*time.Second, func() {
		p.saw("seedpool/logins hears of team: gone false, free false, unknown, [], left []")
		none := []string{}
		p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Pools: &none}))
		p.refuses(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Pools: &[]string{"Not A Name"}}), protocol.RefusedBadInput)
	})
	p.at(6*time.Second, func() {
		p.saw("seedpool/logins hears of team: gone true, free false, unknown, [], left []")
		if v := p.seed(); len(v.Pools) != 0 || !slices.Equal(v.HeldBy, []string{"c"}) {
			t.Errorf("seed is %+v", v)
		}
	})
	p.runSeed(7 * time.Second)
}
