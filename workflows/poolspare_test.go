package workflows

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func away(h poolHost, state string, reached bool) poolHost {
	h.Health, h.Reached = &protocol.HostHealth{State: state, Kind: protocol.ErrTypeUnreachable, Reason: "no route to host"}, reached
	return h
}

// A session does not wait for an unavailable host if another host fits. The local machine
// serves it if no better host is left.
func TestAHostThatIsAwayKeepsNobodyFromThisMachine(t *testing.T) {
	for _, tc := range []struct {
		what  string
		hosts []poolHost
		ask   acquire
		want  string // the host, or the reason why there is no grant
	}{
		{"never reached", []poolHost{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, false)}, acquire{}, "local"},
		{"never reached, and not yet in quarantine", []poolHost{away(hostWith("web-1", 4, nil, nil), protocol.HealthSuspect, false)}, acquire{}, "local"},
		{"in quarantine", []poolHost{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, true)}, acquire{}, "local"},
		{"one is well", []poolHost{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, false), hostWith("web-2", 1, nil, nil)}, acquire{}, "web-2"},
		{"nobody knows whether the one that is away would do", []poolHost{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, false)},
			acquire{Select: []string{"mem>=32"}}, "local"},
		{"none else would do", []poolHost{hostWith("web-1", 4, nil, tags{"mem": "16"})}, acquire{Select: []string{"mem>=32"}}, "local"},
		{"this machine would not do", []poolHost{away(hostWith("web-1", 4, tags{"gpu": "a"}, nil), protocol.HealthQuarantined, false)},
			acquire{Labels: tags{"gpu": "a"}}, "host web-1 was never reached: no route to host"},
		{"it may be well in a second", []poolHost{away(hostWith("web-1", 4, nil, nil), protocol.HealthSuspect, true)}, acquire{}, "host web-1 is suspect since"},
		{"it is named", []poolHost{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, true)}, acquire{Host: "web-1"}, "host web-1 is quarantined since"},
	} {
		got, why := zoneOf(tc.hosts...).slots.roster().take(&ticket{acquire: tc.ask})
		if got != nil && got.Spec.Name != tc.want || got == nil && !strings.HasPrefix(why.Message, tc.want) {
			t.Errorf("%s: got %v (%+v), want %s", tc.what, got, why, tc.want)
		}
	}
	p := zoneOf(away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, false))
	p.st.Hosts[0].Cordon = true
	if why := p.slots.roster().never(&ticket{}); why != nil {
		t.Errorf("with this machine cordoned: %+v", why)
	}
	if why := p.slots.roster().never(&ticket{acquire: acquire{Host: "web-1"}}); why == nil || why.Kind != protocol.ErrTypeUnreachable {
		t.Errorf("with this machine cordoned, who names the other: %+v", why)
	}
	p = zoneOf(hostWith("web-1", 1, nil, nil))
	p.st.Leases = []poolLease{{Holder: "x", Host: "web-1"}}
	if got, why := p.slots.roster().take(&ticket{}); got != nil || why.Message != "every host that fits has all its slots in use" {
		t.Errorf("where a host is full: got %v (%+v)", got, why)
	}
}

// It is not known yet whether the new host can be reached at all.
func TestAHostThatWasNeverLookedAtComesLast(t *testing.T) {
	fresh := hostWith("web-1", 9, tags{"gpu": "no"}, nil)
	fresh.NewAt = time.Unix(1, 0)
	p := zoneOf(fresh, hostWith("web-2", 1, nil, nil))
	for _, want := range []string{"web-2", "web-1"} {
		if h, why := p.slots.roster().take(&ticket{acquire: acquire{Rather: []string{"gpu"}}}); h == nil || h.Spec.Name != want {
			t.Errorf("got %v (%+v), want %s", h, why, want)
		}
		p.st.Leases = []poolLease{{Holder: "x", Host: "web-2"}}
	}
}

// The session's own host is well, whatever the state of the others is.
func TestAParkedSessionComesBackToItsHostThoughNoOtherWasEverReached(t *testing.T) {
	p := newPoolWorld(t)
	p.hosts.finds("web-9", noRoute())
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() { p.SignalWorkflow(signalAcquire, acquire{Holder: "a", Host: "web-1", Generation: 1}) })
	p.at(2*time.Second, func() {
		p.SignalWorkflow(signalRelease, parks("a", 100))
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Labels: map[string]string{"team": "red"}}))
		in := put("web-9", 4)
		in.Labels = map[string]string{"gpu": "no"}
		p.takes(p.send(protocol.UpdatePutHost, in))
	})
	asks := acquire{Holder: "a", Prefer: "web-1", Labels: map[string]string{"gpu": "no"}, Generation: 101}
	p.at(5*time.Second, func() {
		p.forget()
		p.SignalWorkflow(signalAcquire, acquire{Holder: "b", Host: "web-1", Generation: 1})
	})
	p.at(6*time.Second, func() { p.SignalWorkflow(signalAcquire, asks) })
	p.at(7*time.Second, func() {
		p.saw("session/b got web-1", "session/a queued: a slot: host web-1, where its folder is, has all 1 slots in use; nobody waits before it")
		p.forget()
		p.SignalWorkflow(signalRelease, release{Holder: "b", Generation: 1})
	})
	p.at(8*time.Second, func() { p.saw("session/a got web-1") })
	p.finish(time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, PoolInput{})
	p.verify()
}

// A request that was accepted does not end because no host can be reached. Its holder is
// told why it gets no host, and gets one as soon as that changes. A session that has begun
// waits even if no host fits.
func TestWhoeverTakesAnyHostThatFitsWaitsWhileNoneCanBeReached(t *testing.T) {
	p := newPoolWorld(t)
	p.hosts.finds("web-9", noRoute())
	gpu := map[string]string{"gpu": "no"}
	p.at(0, func() {
		in := put("web-9", 4)
		in.Labels = gpu
		p.takes(p.send(protocol.UpdatePutHost, in))
	})
	p.at(5*time.Second, func() {
		p.SignalWorkflow(signalAcquire, acquire{Holder: "new", Labels: gpu, Generation: 1})
		p.SignalWorkflow(signalAcquire, acquire{Holder: "a", Labels: gpu, Begun: true, Generation: 9})
		p.SignalWorkflow(signalAcquire, acquire{Holder: "b", Labels: map[string]string{"team": "red"}, Begun: true, Generation: 9})
		p.SignalWorkflow(signalAcquire, acquire{Holder: "c", Select: []string{">"}, Begun: true, Generation: 9})
		p.SignalWorkflow(signalAcquire, acquire{Holder: "d", Labels: map[string]string{"team": "red"}, Generation: 9})
	})
	p.at(6*time.Second, func() {
		p.saw("session/c refused "+protocol.RefusedBadInput, "session/d refused host_not_found",
			"session/new queued: a slot: host web-9 was never reached: no route to host; nobody waits before it",
			"session/a queued: a slot: host web-9 was never reached: no route to host; 1 waits before it",
			"session/b queued: a slot: no host of zone default meets team=red: host local lacks team=red (it has no team); host web-9 lacks team=red (it has no team); 2 wait before it")
		p.forget()
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "local", Labels: map[string]string{"team": "red"}}))
		p.hosts.finds("web-9", nil)
	})
	p.at(10*time.Minute, func() { p.saw("session/b got local", "session/a got web-9", "session/new got web-9") })
	p.finish(11 * time.Minute)
	p.ExecuteWorkflow(protocol.TypeHostPool, PoolInput{})
	p.verify()
}
