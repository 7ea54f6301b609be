package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

func (p *poolWorld) zone() protocol.PoolView {
	return query[protocol.PoolView](p.world, protocol.QueryPool)
}

func TestAPausedZoneGivesNobodyASlotAndSaysWhy(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 2))) })
	p.at(time.Second, func() { p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "has", Host: "web-1"}) })
	p.at(2*time.Second, func() {
		p.forget()
		p.takes(p.send(protocol.UpdatePausePool, protocol.PausePool{By: "ann", Reason: "the disk is being changed"}))
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "new"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "never", Select: []string{"gpu"}})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "has", Host: "web-1"}) // this holder keeps its lease
	})
	p.at(3*time.Second, func() {
		p.saw("session/has got web-1", "session/never refused host_not_found",
			"session/new queued: a slot: zone default is paused by ann: the disk is being changed; nobody waits before it")
		v := p.zone()
		if v.Paused == nil || v.Paused.Reason != "the disk is being changed" || v.Used != 1 || v.Waiting != 1 || v.Queue[0].Session != "new" ||
			!strings.Contains(v.Queue[0].Reason, "paused by ann") {
			t.Errorf("the zone is %+v", v)
		}
		p.takes(p.send(protocol.UpdatePausePool, protocol.PausePool{By: "bob", Reason: "still"}))
	})
	p.at(4*time.Second, func() {
		p.saw("session/new queued: a slot: zone default is paused by bob: still; nobody waits before it")
		p.refuses(p.send(protocol.UpdatePausePool, protocol.PausePool{Resume: true, Reason: "why not"}), protocol.RefusedBadInput)
		p.takes(p.send(protocol.UpdatePausePool, protocol.PausePool{Resume: true}))
	})
	p.at(5*time.Second, func() {
		p.saw("session/new got web-1")
		if v := p.zone(); v.Paused != nil || v.Used != 2 || v.Waiting != 0 || v.Grants != 2 {
			t.Errorf("the zone is %+v", v)
		}
	})
	p.finish(6 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestWhatTenantsAndSeedsMayHaveIsSetAndShown(t *testing.T) {
	p := newPoolWorld(t)
	n := func(i int) *int { return &i }
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 9))) })
	p.at(time.Second, func() {
		p.takes(p.send(protocol.UpdateSetPool, protocol.SetPool{Tenant: "night", Limit: n(1), Weight: n(3)}))
		p.takes(p.send(protocol.UpdateSetPool, protocol.SetPool{Seed: "team", Limit: n(1)}))
		for _, bad := range []protocol.SetPool{{}, {Tenant: "a"}, {Tenant: "a", Seed: "b", Limit: n(1)}, {Tenant: "No Name", Limit: n(1)}, {Seed: "team", Weight: n(2)},
			{Tenant: "a", Weight: n(0)}, {Tenant: "a", Weight: n(protocol.MaxWeight + 1)}, {Tenant: "a", Limit: n(-1)}} {
			p.refuses(p.send(protocol.UpdateSetPool, bad), protocol.RefusedBadInput)
		}
		for i := range 2 {
			p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: fmt.Sprint("n", i), Tenant: "night", Priority: 1})
			p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: fmt.Sprint("t", i), Seed: "team", Select: []string{"!gpu"}})
		}
	})
	p.at(2*time.Second, func() {
		p.saw("session/n0 got web-1", "session/t0 got web-1",
			"session/n1 queued: a slot: tenant night has 1 slots, as many as it may have; nobody waits before it",
			"session/t1 queued: a slot: 1 sessions use seed team, as many as may; 1 waits before it")
		v := p.zone()
		if fmt.Sprint(v.Tenants) != "[{default 1 0 1 1} {night 3 1 1 1}]" || fmt.Sprint(v.Seeds) != "[{team 1 1}]" || v.Slots != 13 || v.Used != 2 || v.Free != 11 {
			t.Errorf("the zone is %+v", v)
		}
		if q := v.Queue[1]; q.Session != "t1" || q.Position != 2 || q.Priority != 3 || q.Tenant != protocol.DefaultTenant || q.Seed != "team" || strings.Join(q.Selects, "") != "!gpu" || q.Since.IsZero() {
			t.Errorf("who waits is %+v", q)
		}
		p.takes(p.send(protocol.UpdateSetPool, protocol.SetPool{Tenant: "night", Limit: n(0), Weight: n(1)}))
		p.takes(p.send(protocol.UpdateSetPool, protocol.SetPool{Seed: "team", Limit: n(0)}))
	})
	p.at(3*time.Second, func() {
		p.forget()
		if v := p.zone(); v.Used != 4 || v.Waiting != 0 || len(v.Seeds) != 0 {
			t.Errorf("without limits the zone is %+v", v)
		}
	})
	p.finish(4 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestWhatIsAskedForIsLookedAt(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() {
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "a", Select: []string{"mem>=x"}})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "b", Rather: []string{"="}})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "c", Tenant: "A B"})
		p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: "d", Priority: 9})
	})
	p.at(time.Second, func() {
		p.saw("session/a refused bad_input", "session/b refused bad_input", "session/c refused bad_input", "session/d refused bad_input")
		if v := query[protocol.PlaceView](p.world, protocol.QueryPlace, protocol.PlaceQuery{Labels: map[string]string{"gpu": "a100"}}); v.Never == nil || !strings.Contains(v.Never.Message, "host local lacks gpu=a100 (it has no gpu)") {
			t.Errorf("there is a place: %+v", v)
		}
		if v := query[protocol.PlaceView](p.world, protocol.QueryPlace, protocol.PlaceQuery{Select: []string{"!gpu"}}); v.Never != nil || strings.Join(v.Hosts, "") != "local" {
			t.Errorf("there is no place: %+v", v)
		}
	})
	p.finish(2 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

// A grant causes few messages, however long the queue is, and each session learns in time
// that its turn is near.
func TestAGrantIsToldToFew(t *testing.T) {
	p := newPoolWorld(t)
	const n = 150
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		for i := range n {
			p.SignalWorkflow(lease.SignalAcquire, lease.Acquire{Holder: fmt.Sprintf("s%03d", i), Host: "web-1"})
		}
	})
	p.at(2*time.Second, func() { p.forget() })
	letters, places := 0, map[string][]string{}
	for i := range n - 1 {
		p.at(time.Duration(3+i)*time.Second, func() { p.SignalWorkflow(lease.SignalRelease, lease.Release{Holder: fmt.Sprintf("s%03d", i)}) })
		p.at(time.Duration(3+i)*time.Second+500*time.Millisecond, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.told) > len(hostpool.Rungs)+1 {
				t.Errorf("grant %d was told to %d: %v", i, len(p.told), p.told)
			}
			for _, text := range p.told {
				id, said, _ := strings.Cut(text, " ")
				places[id] = append(places[id], said)
			}
			letters += len(p.told)
			p.told = nil
		})
	}
	p.at((n+5)*time.Second, func() {
		if got := places[fmt.Sprintf("session/s%03d", n-1)]; len(got) != 4 || !strings.HasSuffix(got[0], "; 99 wait before it") ||
			!strings.HasSuffix(got[1], "; 9 wait before it") || !strings.HasSuffix(got[2], "; nobody waits before it") || got[3] != "got web-1" {
			t.Errorf("the last one heard %q", got)
		}
		if letters > 4*n {
			t.Errorf("%d letters for %d grants", letters, n-1)
		}
	})
	p.finish((n + 6) * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestADrainLetsNothingElseIn(t *testing.T) {
	p := newPoolWorld(t)
	p.at(0, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1)))
		p.refuses(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Drain: &protocol.Draining{}, Slots: 1_000_000}), protocol.RefusedBadInput)
		p.refuses(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Drain: &protocol.Draining{}, Labels: map[string]string{"k": string(make([]byte, lease.MaxHost))}}), protocol.RefusedBadInput)
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Drain: &protocol.Draining{}}))
	})
	p.finish(time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}

func TestALimitIsChangedHoweverManyThereAre(t *testing.T) {
	p := newPoolWorld(t)
	carry := &hostpool.State{Hosts: []hostpool.Host{{Spec: protocol.HostSpec{Name: protocol.LocalHost}, Slots: 4}}}
	for i := range hostpool.MaxSet {
		carry.Shares = append(carry.Shares, hostpool.Share{Tenant: fmt.Sprintf("t%04d", i), Limit: 1})
	}
	none, one := 0, 1
	p.at(0, func() {
		p.refuses(p.send(protocol.UpdateSetPool, protocol.SetPool{Tenant: "new", Limit: &one}), protocol.RefusedState)
		p.takes(p.send(protocol.UpdateSetPool, protocol.SetPool{Tenant: "t0007", Limit: &none}))
	})
	p.finish(time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{Carry: carry})
	p.verify()
}
