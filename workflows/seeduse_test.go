package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// limitsOf returns rate limits that were seen at a time.
func limitsOf(at time.Time, used int, resets time.Time) *protocol.RateLimits {
	return &protocol.RateLimits{Primary: &protocol.RateWindow{UsedPercent: used, WindowMinutes: 300, ResetsAt: resets.Unix()}, Plan: "plus", AtMS: at.UnixMilli()}
}

func TestASeedLearnsFromAReleaseAndFromAVerificationHowMuchIsUsed(t *testing.T) {
	p, f := newVerifyWorld(t, []string{"fresh"}, nil)
	f.account = &protocol.SeedAccount{}
	p.at(time.Second, func() {
		v := p.seed()
		if v.Account != nil {
			t.Errorf("before anything is known: %+v", v.Account)
		}
		p.acquires(on("a", "web-1", 1))
	})
	p.at(time.Minute, func() {
		now := p.Now()
		p.releases(lease.Release{Holder: "a", Epoch: 1, Generation: 1, Clean: true,
			Served: &protocol.ModelUse{Requests: 3, Retries: 1, Input: 100, Output: 20, Money: protocol.Unit, Spent: 2 * protocol.Unit, FirstByte: 3 * time.Second},
			Use:    &protocol.SeedUse{Limits: limitsOf(now, 97, now.Add(time.Hour)), SeedQuota: protocol.SeedQuota{Met: now, Until: now.Add(time.Hour)}}})
	})
	p.at(2*time.Minute, func() {
		a := p.seed().Account
		if a == nil || a.Plan != "plus" || *a.UsedPercent != 97 || a.State != protocol.UsedUp || a.ResetsAt == nil {
			t.Errorf("after the release it is %+v", a)
		}
		if g := p.seed().Gateway; g == nil || g.Requests != 3 || g.Retries != 1 || g.Input != 100 || g.Money != protocol.Unit || g.Spent != 0 || g.FirstByte != 3*time.Second {
			t.Errorf("the gateway did %+v", g)
		}
		// A release of a lease that has ended is of use that has happened.
		p.releases(lease.Release{Holder: "b", Epoch: 99, Generation: 1, Served: &protocol.ModelUse{Requests: 2, Failed: 1, LastKind: "auth", LastError: strings.Repeat("x", 1<<20)}})
		now := p.Now()
		f.account = &protocol.SeedAccount{Identity: "ann@example.com", Plan: "pro", Limits: limitsOf(now, 3, now.Add(time.Hour))}
		f.account.Limits.Plan = "pro"
		p.send(protocol.UpdateVerifySeed, protocol.VerifySeed{By: kit.Maintenance})
	})
	p.at(3*time.Minute, func() {
		a := p.seed().Account
		if a == nil || a.Identity != "ann@example.com" || a.Plan != "pro" || *a.UsedPercent != 3 || a.State != "" {
			t.Errorf("after the verification it is %+v", a)
		}
		if g := p.seed().Gateway; g == nil || g.Requests != 5 || g.Failed != 1 || g.LastKind != "auth" || len(g.LastError) > 4<<10 {
			t.Errorf("the gateway did %+v", g)
		}
		again := login("2")
		again.Account = &protocol.SeedAccount{Identity: "ann@example.com", Plan: "pro"}
		p.takes(p.send(protocol.UpdatePutSeed, again))
	})
	p.at(3*time.Minute+time.Second, func() {
		if a := p.seed().Account; a == nil || a.Identity != "ann@example.com" || a.UsedPercent != nil {
			t.Errorf("the same login, imported anew, is shown as %+v", a)
		}
		next := login("3")
		next.Account = &protocol.SeedAccount{Identity: "bob@example.com", Plan: "team"}
		p.takes(p.send(protocol.UpdatePutSeed, next))
	})
	p.at(4*time.Minute, func() {
		if a := p.seed().Account; a == nil || a.Identity != "bob@example.com" || a.UsedPercent != nil {
			t.Errorf("the login of another account is shown as %+v", a)
		}
	})
	p.runSeed(5 * time.Minute)
}

// uses reports a free seed and the use of its account to the pool.
func (p *poolWorld) uses(name, use string, percent int, until time.Time, used int, answers ...seed.MemberAnswer) {
	p.SignalWorkflow(lease.SignalMember, seed.MemberNews{Seed: name, Health: protocol.Healthy, State: protocol.SeedFree, Free: true,
		UsedAt: time.Unix(1_800_000_000-int64(used), 0), Use: use, Percent: percent, UseUntil: until, Answers: answers})
}

func TestAPoolAvoidsSeedsThatAreNearlyUsedUpUntilTheirWindowResets(t *testing.T) {
	p := newPoolWorld(t)
	var resets time.Time
	p.at(time.Second, func() {
		resets = p.Now().Add(32 * time.Minute) // between two looks after the line
		p.uses("x", protocol.NearlyUsedUp, 96, resets, 90)
		p.is("y", protocol.Healthy, true, 10)
		p.acquires(on("a", "web-1", 1))
	})
	p.at(2*time.Second, func() {
		p.saw("seed/y asked for a, for logins") // although x was used less recently
		p.is("y", protocol.Healthy, false, 0, got("a"))
		p.acquires(on("b", "web-1", 1))
	})
	p.at(3*time.Second, func() {
		p.saw("session/b queued: seed pool logins, of which no seed is free (1 in use, 1 nearly used up, the first limit resets at " + kit.Clock(resets) + "); nobody waits before it")
	})
	p.at(32*time.Minute-time.Second, func() { p.forget() })
	p.at(32*time.Minute+2*time.Second, func() { p.saw("seed/x asked for b, for logins") })
	p.runSeedPool(32*time.Minute+3*time.Second, seed.PoolInput{Name: "logins"})
}

func TestIfAllSeedsAreNearlyUsedUpThePoolLendsThatWithMostLeft(t *testing.T) {
	p := newPoolWorld(t)
	var resets time.Time
	p.at(time.Second, func() {
		resets = p.Now().Add(time.Hour)
		p.uses("x", protocol.NearlyUsedUp, 99, resets, 90)
		p.uses("y", protocol.NearlyUsedUp, 95, resets, 10)
		p.uses("z", protocol.UsedUp, 100, resets.Add(time.Hour), 95)
		p.is("dead", protocol.Dead, false, 5) // it does not count
		p.acquires(on("a", "web-1", 1), on("b", "web-1", 1), on("c", "web-1", 1))
	})
	p.at(2*time.Second, func() {
		v := query[protocol.SeedPoolView](p.world, protocol.QuerySeedPool)
		if z := v.Seeds[3]; z.Use != protocol.UsedUp || z.UseUntil == nil {
			t.Errorf("pool is %+v", v)
		}
		p.saw("seed/y asked for a, for logins", "seed/x asked for b, for logins",
			"session/c queued: seed pool logins, of which no seed is free (1 dead, 2 nearly used up, 1 used up, the first limit resets at "+kit.Clock(resets)+"); 2 wait before it")
	})
	p.runSeedPool(3*time.Second, seed.PoolInput{Name: "logins"})
}

func TestASessionTellsItsSeedOfTheUseWithTheRelease(t *testing.T) {
	w := newWorld(t)
	met := meets(w, protocol.EndQuota, false, time.Hour)
	w.fake.pumps = []pumpFunc{func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := met(ctx, in)
		out.Pump.State.RateLimits = limitsOf(w.Now(), 100, w.Now().Add(time.Hour))
		out.Model = &protocol.ModelUse{Requests: 2, Output: 9, Spent: 7}
		return out, err
	}}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "failed", func() {
		if v := w.view(); v.Gateway == nil || v.Gateway.Spent != 7 || v.SeedGateway == nil || v.SeedGateway.Requests != 2 || v.SeedGateway.Spent != 0 {
			t.Errorf("the gateway did %+v, of which the seed is not told %+v", v.Gateway, v.SeedGateway)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Seed: "team"})
	if got := strings.Join(w.released, " "); got != "seed/team pool/default" || w.back[0].Use == nil || w.back[1].Use != nil {
		t.Fatalf("released %q with %+v", got, w.back)
	}
	if u := w.back[0].Use; u.Met.IsZero() || !u.Until.After(u.Met) || u.Limits == nil || u.Limits.Primary.UsedPercent != 100 {
		t.Errorf("the seed is told %+v", u)
	}
	if u := w.back[0].Served; u == nil || u.Requests != 2 || u.Output != 9 || u.Spent != 0 || w.back[1].Served != nil {
		t.Errorf("the seed is told that the gateway did %+v", u)
	}
	if v := w.view(); v.Gateway == nil || v.Gateway.Requests != 2 || v.SeedGateway != nil {
		t.Errorf("the session has %+v, of which the seed is not told %+v", v.Gateway, v.SeedGateway)
	}
}
