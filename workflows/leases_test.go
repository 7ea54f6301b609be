package workflows

import (
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

func TestABusyPoolStillLooksAfterItsHolders(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "killed", Host: "web-1"}) })
	p.at(2*time.Second, func() { p.engine.ended["session/killed"] = true })
	for m := time.Minute; m < 2*kit.Usual.Reap; m += time.Minute {
		p.at(m, func() { p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "nobody"}) })
	}
	p.at(2*kit.Usual.Reap, func() {
		if h := query[protocol.HostView](p.world, protocol.QueryHost, "web-1"); h.Used != 0 {
			t.Errorf("host is %+v", h)
		}
	})
	p.finish(3 * kit.Usual.Reap)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestABusySeedStillLooksAfterItsHolders(t *testing.T) {
	p := newPoolWorld(t)
	ref := protocol.SeedRef{Name: "team", Blob: "seeds/team/b1", Digest: "d", Kind: "chatgpt"}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: ref})) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "killed"}) })
	p.at(2*time.Second, func() { p.engine.ended["session/killed"] = true })
	for m := time.Minute; m < 2*kit.Usual.Reap; m += time.Minute {
		p.at(m, func() { p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "nobody"}) })
	}
	p.at(2*kit.Usual.Reap, func() {
		if v := query[protocol.SeedView](p.world, protocol.QuerySeed); len(v.HeldBy) != 0 {
			t.Errorf("seed is %+v", v)
		}
	})
	p.finish(3 * kit.Usual.Reap)
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	p.verify()
}

func TestWhoAsksAgainKeepsItsPlaceAndIsToldAgain(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		for _, s := range []string{"a", "b", "c"} {
			p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: s, Host: "web-1"})
		}
	})
	p.at(2*time.Second, func() {
		p.forget()
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Host: "web-1"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Host: "web-1"})
	})
	p.at(3*time.Second, func() {
		p.saw("session/b queued: a slot: host web-1 has all 1 slots in use; nobody waits before it", "session/a got web-1")
		p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: "a"})
	})
	p.at(4*time.Second, func() {
		p.saw("session/b got web-1", "session/c queued: a slot: host web-1 has all 1 slots in use; nobody waits before it")
	})
	p.finish(5 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestAPoolRefusesMoreThanItCanHold(t *testing.T) {
	p := newPoolWorld(t)
	carry := &hostpool.State{Hosts: []hostpool.Host{{Spec: protocol.HostSpec{Name: "local"}, Slots: 1}}, Leases: []hostpool.Lease{{Holder: "x", Host: "local"}}}
	for i := range lease.MaxLine {
		carry.Queue = append(carry.Queue, lease.Ticket{Acquire: lease.Acquire{Holder: fmt.Sprint("s", i), Host: "local"}, Told: "host local has all 1 slots in use"})
	}
	for i := range hostpool.MaxHosts - 1 {
		carry.Hosts = append(carry.Hosts, hostpool.Host{Spec: put(fmt.Sprint("h", i), 1).Spec, Slots: 1, Check: &hostpool.HostCheck{}})
	}
	if n := kit.Encoded(carry); n > session.MaxCarry {
		t.Errorf("a full pool carries %d bytes", n)
	}
	p.at(time.Second, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "late", Host: "local"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "No Name", Host: "local"})
		p.refuses(p.send(protocol.UpdatePutHost, put("one-more", 1)), protocol.RefusedState)
		big := put("h0", 1)
		big.Replace = true
		for range 1000 {
			big.Spec.HostKeys = append(big.Spec.HostKeys, "SHA256:0123456789abcdef")
		}
		p.refuses(p.send(protocol.UpdatePutHost, big), protocol.RefusedBadInput)
	})
	p.at(2*time.Second, func() { p.saw("session/late refused busy for now") })
	p.finish(3 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{Carry: carry})
	p.verify()
}

func TestEveryHopIsPinnedAndACordonStays(t *testing.T) {
	p := newPoolWorld(t)
	yes := true
	p.at(0, func() {
		hop := put("web-1", 1)
		hop.Spec.Jump = &protocol.HostSpec{Name: "gate", Address: "192.0.2.9"}
		p.refuses(p.send(protocol.UpdatePutHost, hop), protocol.RefusedBadInput)
		hop.Spec.Jump.HostKeys = []string{"SHA256:def"}
		p.takes(p.send(protocol.UpdatePutHost, hop))
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Cordon: &yes}))
		hop.Replace = true
		p.takes(p.send(protocol.UpdatePutHost, hop))
	})
	p.at(time.Second, func() {
		if h := query[protocol.HostView](p.world, protocol.QueryHost, "web-1"); h.State != "cordoned" {
			t.Errorf("host is %s", h.State)
		}
	})
	p.finish(2 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestASeedThatIsDeletedTellsThoseWhoAskAndTakesNothing(t *testing.T) {
	p := newPoolWorld(t)
	p.seeds.blobs, p.seeds.hold = 1, make(chan struct{})
	ref := protocol.SeedRef{Name: "team", Blob: "seeds/team/b1", Digest: "d", Kind: "chatgpt"}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: ref})) })
	p.at(time.Millisecond, func() { p.takes(p.send(protocol.UpdateDeleteSeed, protocol.DeleteSeed{Purge: true})) })
	p.at(20*time.Millisecond, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a"})
		p.refuses(p.send(protocol.UpdatePutSeed, protocol.PutSeed{Name: "team", Ref: ref}), protocol.RefusedState)
		p.refuses(p.send(protocol.UpdateDeleteSeed, protocol.DeleteSeed{}), protocol.RefusedNotFound)
	})
	p.at(40*time.Millisecond, func() {
		p.saw("session/a refused seed_not_found")
		close(p.seeds.hold)
	})
	p.ExecuteWorkflow(protocol.TypeSeed, newSeed)
	if err := p.GetWorkflowError(); err != nil {
		t.Error(err)
	}
	p.verify()
}

func TestALineThatIsFullHasThoseWhoComeAskAgainLater(t *testing.T) {
	ref := protocol.SeedRef{Name: "team", Blob: "seeds/team/b1", Digest: "d", Kind: "chatgpt"}
	for kind, in := range map[string]any{
		protocol.TypeSeed: seed.Input{Name: "team", Carry: &seed.State{Ref: &ref, Leases: []seed.Lease{{Holder: "x", Rotates: true}}}},
		protocol.TypeSeedPool: seed.PoolInput{Name: "all", Carry: &seed.PoolState{Heard: true,
			Members: []seed.Member{{MemberNews: seed.MemberNews{Seed: "team", Health: protocol.Healthy}}}}},
	} {
		t.Run(kind, func(t *testing.T) {
			p := newPoolWorld(t)
			for i := range lease.MaxLine {
				a := lease.Acquire{Holder: fmt.Sprint("s", i)}
				switch in := in.(type) {
				case seed.Input:
					in.Carry.Queue = append(in.Carry.Queue, lease.Ticket{Acquire: a})
				case seed.PoolInput:
					in.Carry.Queue = append(in.Carry.Queue, seed.Ticket{Ticket: lease.Ticket{Acquire: a}})
				}
			}
			p.hears(lease.MaxLine, func() {
				p.forget()
				p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "late"})
				p.hears(1, func() {
					p.saw("session/late refused busy for now")
					p.CancelWorkflow()
				})
			})
			p.ExecuteWorkflow(kind, in)
			p.verify()
		})
	}
}
