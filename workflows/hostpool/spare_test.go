package hostpool

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A session does not wait for an unavailable host if another host fits. The local machine
// serves it if no better host is left.
func TestAHostThatIsAwayKeepsNobodyFromThisMachine(t *testing.T) {
	for _, tc := range []struct {
		what  string
		hosts []Host
		ask   lease.Acquire
		want  string // the host, or the reason why there is no grant
	}{
		{"never reached", []Host{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, false)}, lease.Acquire{}, "local"},
		{"never reached, and not yet in quarantine", []Host{away(hostWith("web-1", 4, nil, nil), protocol.HealthSuspect, false)}, lease.Acquire{}, "local"},
		{"in quarantine", []Host{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, true)}, lease.Acquire{}, "local"},
		{"one is well", []Host{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, false), hostWith("web-2", 1, nil, nil)}, lease.Acquire{}, "web-2"},
		{"nobody knows whether the one that is away would do", []Host{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, false)},
			lease.Acquire{Select: []string{"mem>=32"}}, "local"},
		{"none else would do", []Host{hostWith("web-1", 4, nil, tags{"mem": "16"})}, lease.Acquire{Select: []string{"mem>=32"}}, "local"},
		{"this machine would not do", []Host{away(hostWith("web-1", 4, tags{"gpu": "a"}, nil), protocol.HealthQuarantined, false)},
			lease.Acquire{Labels: tags{"gpu": "a"}}, "host web-1 was never reached: no route to host"},
		{"it may be well in a second", []Host{away(hostWith("web-1", 4, nil, nil), protocol.HealthSuspect, true)}, lease.Acquire{}, "host web-1 is suspect since"},
		{"it is named", []Host{away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, true)}, lease.Acquire{Host: "web-1"}, "host web-1 is quarantined since"},
	} {
		got, why := zoneOf(tc.hosts...).slots.roster().take(&lease.Ticket{Acquire: tc.ask})
		if got != nil && got.Spec.Name != tc.want || got == nil && !strings.HasPrefix(why.Message, tc.want) {
			t.Errorf("%s: got %v (%+v), want %s", tc.what, got, why, tc.want)
		}
	}
	p := zoneOf(away(hostWith("web-1", 4, nil, nil), protocol.HealthQuarantined, false))
	p.st.Hosts[0].Cordon = true
	if why := p.slots.roster().never(&lease.Ticket{}); why != nil {
		t.Errorf("with this machine cordoned: %+v", why)
	}
	if why := p.slots.roster().never(&lease.Ticket{Acquire: lease.Acquire{Host: "web-1"}}); why == nil || why.Kind != protocol.ErrTypeUnreachable {
		t.Errorf("with this machine cordoned, who names the other: %+v", why)
	}
	p = zoneOf(hostWith("web-1", 1, nil, nil))
	p.st.Leases = []Lease{{Holder: "x", Host: "web-1"}}
	if got, why := p.slots.roster().take(&lease.Ticket{}); got != nil || why.Message != "every host that fits has all its slots in use" {
		t.Errorf("where a host is full: got %v (%+v)", got, why)
	}
}

// It is not known yet whether the new host can be reached at all.
func TestAHostThatWasNeverLookedAtComesLast(t *testing.T) {
	fresh := hostWith("web-1", 9, tags{"gpu": "no"}, nil)
	fresh.NewAt = time.Unix(1, 0)
	p := zoneOf(fresh, hostWith("web-2", 1, nil, nil))
	for _, want := range []string{"web-2", "web-1"} {
		if h, why := p.slots.roster().take(&lease.Ticket{Acquire: lease.Acquire{Rather: []string{"gpu"}}}); h == nil || h.Spec.Name != want {
			t.Errorf("got %v (%+v), want %s", h, why, want)
		}
		p.st.Leases = []Lease{{Holder: "x", Host: "web-2"}}
	}
}

func away(h Host, state string, reached bool) Host {
	h.Health, h.Reached = &protocol.HostHealth{State: state, Kind: protocol.ErrTypeUnreachable, Reason: "no route to host"}, reached
	return h
}
