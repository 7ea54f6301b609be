package hostpool

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// zoneOf returns the pool of a zone with these hosts and the host local.
func zoneOf(hosts ...Host) *pool {
	local := Host{Spec: protocol.HostSpec{Name: protocol.LocalHost}, Slots: 4, Found: map[string]string{"os": "linux", "mem": "64"}}
	return poolOf(&poolCore{zone: "default", st: &State{Hosts: append([]Host{local}, hosts...)}})
}

func hostWith(name string, slots int, labels, found map[string]string) Host {
	return Host{Spec: protocol.HostSpec{Name: name, Address: "192.0.2.1"}, Slots: slots, Labels: labels, Found: found}
}

type tags = map[string]string

func TestAHostIsChosenByWhatItIs(t *testing.T) {
	p := zoneOf(
		hostWith("small", 9, tags{"gpu": "no"}, tags{"os": "linux", "mem": "16", "codex": "0.160.0"}),
		hostWith("big", 2, tags{"gpu": "no"}, tags{"os": "linux", "mem": "64", "codex": "0.169.0"}),
		hostWith("gpu", 1, tags{"gpu": "a100", "mem": "8"}, tags{"os": "linux", "mem": "128", "codex": "0.169.0"}),
		hostWith("mac", 1, nil, tags{"os": "darwin", "mem": "32", "codex": "0.169.0"}),
	)
	for _, tc := range []struct {
		what string
		ask  lease.Acquire
		want string
	}{
		{"the one with most free slots", lease.Acquire{}, "small"},
		{"a number that is enough", lease.Acquire{Select: []string{"mem>=32"}}, "big"},
		{"people's word over the probe's", lease.Acquire{Select: []string{"mem<16"}}, "gpu"},
		{"all of them at once", lease.Acquire{Labels: tags{"gpu": "no"}, Select: []string{"mem>=16", "codex>0.160.0"}}, "big"},
		{"what it has not", lease.Acquire{Select: []string{"!gpu"}}, "mac"},
		{"what it has", lease.Acquire{Select: []string{"gpu", "gpu!=no"}}, "gpu"},
		{"rather what is preferred", lease.Acquire{Rather: []string{"mem>=60"}}, "big"},
		{"what meets most of it", lease.Acquire{Rather: []string{"gpu", "gpu!=no", "os=linux"}}, "gpu"},
		{"any, if none is as preferred", lease.Acquire{Rather: []string{"mem>=1000"}}, "small"},
		{"where its folder is, before all that", lease.Acquire{Prefer: "mac", Rather: []string{"gpu"}}, "mac"},
		{"this machine, if it is named", lease.Acquire{Host: "local"}, "local"},
		{"not this machine because it happens to do", lease.Acquire{Select: []string{"mem=64", "os=linux"}}, "big"},
	} {
		h, why := p.slots.roster().take(&lease.Ticket{Acquire: tc.ask})
		if h == nil || h.Spec.Name != tc.want {
			t.Errorf("%s: got %v (%v), want %s", tc.what, h, why, tc.want)
		}
	}
	p.st.Hosts[0].Labels = tags{"mine": "yes"}
	if h, _ := p.slots.roster().take(&lease.Ticket{Acquire: lease.Acquire{Labels: tags{"mine": "yes"}}}); h == nil || h.Spec.Name != "local" {
		t.Errorf("this machine was not taken by a label that somebody gave it: %v", h)
	}
}

func TestWhatNoHostCanEverMeetIsToldWithTheNearest(t *testing.T) {
	p := zoneOf(
		hostWith("web-1", 1, tags{"gpu": "no"}, tags{"os": "linux", "mem": "16"}),
		hostWith("web-2", 1, nil, tags{"os": "linux", "mem": "31"}),
		hostWith("web-3", 1, tags{"gpu": "a100"}, tags{"os": "darwin", "mem": "many"}),
		hostWith("web-4", 1, nil, tags{"os": "darwin"}),
		hostWith("web-5", 1, nil, tags{"os": "darwin"}),
	)
	p.st.Hosts[2].Cordon = true // a cordoned host still counts
	why := p.slots.roster().never(&lease.Ticket{Acquire: lease.Acquire{Labels: tags{"os": "linux"}, Select: []string{"mem>=32", "gpu"}}})
	want := "no host of zone default meets os=linux, mem>=32, gpu: host local lacks gpu (it has no gpu); host web-1 lacks mem>=32 (its mem is 16); " +
		"host web-2 lacks mem>=32 (its mem is 31) and gpu (it has no gpu); 3 more lack as much or more"
	if why == nil || why.Kind != "host_not_found" || why.Message != want {
		t.Errorf("refused with %+v, want\n%s", why, want)
	}
	if why := p.slots.roster().never(&lease.Ticket{Acquire: lease.Acquire{Select: []string{"mem>=31"}}}); why != nil {
		t.Errorf("what a cordoned host meets was refused: %+v", why)
	}
	if _, why := p.slots.roster().take(&lease.Ticket{Acquire: lease.Acquire{Select: []string{"mem>=31"}}}); why.Message != "host web-2 is cordoned" {
		t.Errorf("it waits since %s", why.Message)
	}
	if why := p.slots.roster().never(&lease.Ticket{Acquire: lease.Acquire{Select: []string{"mem>="}}}); why == nil || why.Kind != protocol.RefusedBadInput {
		t.Errorf("a bad selector was taken: %+v", why)
	}
}

func TestAHostNobodyLookedAtMayStillDo(t *testing.T) {
	p := zoneOf(hostWith("new", 1, tags{"gpu": "no"}, nil), hostWith("old", 1, nil, tags{"mem": "8"}))
	ask := &lease.Ticket{Acquire: lease.Acquire{Select: []string{"mem>=32", "gpu=no"}}}
	r := p.slots.roster()
	if why := r.never(ask); why != nil {
		t.Fatalf("refused: %+v", why)
	}
	if h, why := r.take(ask); h != nil || why.Kind != "busy" || !strings.Contains(why.Message, "host new might do, and its mem is not known: `ctl host check new` looks") {
		t.Errorf("got %v (%+v)", h, why)
	}
	if why := r.never(&lease.Ticket{Acquire: lease.Acquire{Select: []string{"mem>=32", "gpu=yes"}}}); why == nil {
		t.Error("what it lacks for certain was not told")
	}
	p.st.Hosts[1].Found = tags{"mem": "64"}
	if h, why := p.slots.roster().take(ask); h == nil || h.Spec.Name != "new" {
		t.Errorf("once it is looked at: got %v (%+v)", h, why)
	}
}

func TestWhyAHostIsNotGivenIsTold(t *testing.T) {
	p := zoneOf(hostWith("web-1", 1, tags{"a": "1"}, nil), hostWith("web-2", 2, tags{"a": "1"}, nil))
	ask := &lease.Ticket{Acquire: lease.Acquire{Holder: "s", Labels: tags{"a": "1"}}}
	says := func(what, want string) {
		t.Helper()
		if h, why := p.slots.roster().take(ask); h != nil || why.Message != want {
			t.Errorf("%s: got %v (%+v), want %s", what, h, why, want)
		}
	}
	p.st.Leases = []Lease{{Holder: "x", Host: "web-1"}, {Holder: "y", Host: "web-2"}, {Holder: "z", Host: "web-2"}}
	says("all taken", "every host that fits has all its slots in use")
	p.st.Hosts[1].Cordon = true
	says("one is cordoned", "every host that fits has all its slots in use, and 1 that fit take nobody now")
	p.st.Hosts[2].Health = &protocol.HostHealth{State: protocol.HealthQuarantined, Reason: "no route to host", Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	says("none takes anybody", "none of the 2 hosts that fit takes sessions now: host web-1 is cordoned")
	p.st.Leases, p.st.Hosts[1].Cordon = nil, false
	p.st.Leftovers = []Leftover{{Leftover: protocol.Leftover{Session: "s", Host: "web-1"}}}
	says("it left something there", "host web-1 is not yet cleaned of what session s left there before")
}

func TestThisMachineServesOnlyWhoNamesIt(t *testing.T) {
	p := zoneOf(away(hostWith("web-1", 4, nil, tags{"os": "linux"}), protocol.HealthQuarantined, false))
	p.st.Hosts[0].Labels = tags{"mine": "yes"}
	for _, tc := range []struct {
		what string
		ask  lease.Acquire
		want string // the host, or the reason why there is no grant
	}{
		{"any host", lease.Acquire{Elsewhere: true}, "host web-1 was never reached"},
		{"a label that this machine has", lease.Acquire{Elsewhere: true, Select: []string{"os=linux"}}, "host web-1 was never reached"},
		{"a label that this machine alone was given", lease.Acquire{Elsewhere: true, Labels: tags{"mine": "yes"}}, "no host of zone default meets mine=yes"},
		{"by name", lease.Acquire{Host: "local"}, "local"},
		{"where its folder is", lease.Acquire{Elsewhere: true, Prefer: "local"}, "local"},
		{"asked as before v0.2", lease.Acquire{}, "local"},
	} {
		h, why := p.slots.roster().take(&lease.Ticket{Acquire: tc.ask})
		if h != nil && h.Spec.Name != tc.want || h == nil && !strings.HasPrefix(why.Message, tc.want) {
			t.Errorf("%s: got %v (%+v), want %s", tc.what, h, why, tc.want)
		}
	}
	alone := zoneOf()
	why := alone.slots.roster().never(&lease.Ticket{Acquire: lease.Acquire{Elsewhere: true}})
	if why == nil || why.Kind != "host_not_found" || !strings.Contains(why.Hint, "--host local") {
		t.Errorf("with no other host: %+v", why)
	}
	// Equal demands share what was found for them.
	r := alone.slots.roster()
	if h, _ := r.take(&lease.Ticket{}); h == nil {
		t.Error("this machine is not given to who would take it")
	}
	if h, why := r.take(&lease.Ticket{Acquire: lease.Acquire{Elsewhere: true}}); h != nil || why == nil {
		t.Errorf("it is given to who would not: %v", h)
	}
}
