package hostpool

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/snaps"
	packing "fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// maxPayload is the largest payload that Temporal accepts.
const maxPayload = 2 << 20

// fullZone returns the state of a pool that is full in every respect. Its keys, runs and
// names differ from each other as much as in practice.
func fullZone(t *testing.T) *State {
	noise := func(n int) string {
		b := make([]byte, n)
		rand.Read(b)
		return base64.StdEncoding.EncodeToString(b)
	}
	run := func() string {
		b := make([]byte, 16)
		rand.Read(b)
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	at := time.Date(2026, 11, 23, 1, 2, 3, 456789, time.UTC)
	st := &State{Epoch: 1_000_000}
	for i := range MaxHosts {
		spec := protocol.HostSpec{Name: fmt.Sprintf("build-%04d", i), Address: fmt.Sprintf("build-%04d.eu-1.example.com", i), User: "dev", Identity: "/etc/fairlead/id",
			Root: "/srv/fairlead", HostKeys: []string{"ssh-ed25519 " + noise(51), "ecdsa-sha2-nistp256 " + noise(104)}}
		if i%2 == 0 && i > 0 {
			jump := st.Hosts[1].Spec
			spec.Jump = &jump
		}
		st.Hosts = append(st.Hosts, Host{Spec: spec, Slots: 10, Codex: "0.169.0", Reached: true, WellAt: at, Flaps: 1,
			Labels: map[string]string{"team": "release", "rack": fmt.Sprint("r", i%40)},
			Check:  &HostCheck{OK: true, At: at.Add(time.Duration(i) * time.Second), Sandbox: "landlock", Codex: "0.169.0"},
			Found:  map[string]string{"os": "linux", "arch": "amd64", "libc": "glibc", "cpus": "32", "mem": "128", "disk": fmt.Sprint(400 + i), "sandbox": "landlock", "codex": "0.169.0"}})
	}
	p := poolOf(&poolCore{zone: "default", st: st})
	if err := p.inventory.haveRoom(st.Hosts); err != nil {
		t.Fatal(err)
	}
	for i := range st.Hosts { // each host has more unknown folders than a view can name
		look := inquiry.HostLooked{At: at, Dir: "/srv/fairlead/sessions"}
		for j := range 10 {
			look.Unknown = append(look.Unknown, inquiry.FoundFolder{Session: fmt.Sprintf("%x-of-somebody-else-%d", noise(8), j), Generation: at.Unix() + int64(i*j), Since: at, Why: string(inquiry.OwnerNobody)})
		}
		p.leftovers.looked(&st.Hosts[i], look)
	}
	if n := p.leftovers.unknownFolders(); n != maxUnknown {
		t.Fatalf("%d unknown folders are named", n)
	}
	for i := range maxHolders {
		st.Leases = append(st.Leases, Lease{Holder: fmt.Sprintf("session/upgrade-all-repositories-of-the-team-%05d", i), Host: st.Hosts[i%MaxHosts].Spec.Name,
			Epoch: int64(i), Seed: "team", Run: run(), Tenant: fmt.Sprint("tenant-", i%100), Since: at.Add(time.Duration(i) * time.Millisecond)})
	}
	for i := range MaxWarm {
		l := Lease{Holder: fmt.Sprintf("session/parked-%05d", i), Host: st.Hosts[i%MaxHosts].Spec.Name, Run: run(), Tenant: "release"}
		l.Warm = &lease.LeftBehind{Host: "web-1", Generation: at.Unix(), Wiped: true, Snapshot: &snaps.SnapshotSpec{Parent: l.Holder + ".snap-1"}}
		st.Leases = append(st.Leases, l)
	}
	for i := range lease.MaxLine {
		st.Queue = append(st.Queue, lease.Ticket{Acquire: lease.Acquire{Holder: fmt.Sprintf("session/upgrade-all-repositories-of-the-team-%05d", maxHolders+i), Run: run(), AskedAt: at,
			Select: []string{"mem>=32", "gpu=no"}, Rather: []string{"rack=r7"}, Tenant: "release", Seed: "team"}, Told: "all 10000 slots of the 1000 hosts that fit are in use"})
	}
	return st
}

func TestAFullZoneGoesOnAndCanBeListed(t *testing.T) {
	st := fullZone(t)
	if n := kit.Encoded(st); n < maxPayload {
		t.Errorf("%d bytes: nothing is tried", n)
	}
	p := poolOf(&poolCore{zone: "default", st: st})
	codec := packing.NewCodec("default").DataConverter()
	for what, v := range map[string]any{"what a run hands on": Input{Zone: "default", Carry: st}, "its hosts": p.inventory.views(), "what is left on them": p.leftovers.leftThere()} {
		kept, err := codec.ToPayloads(v)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(kept.GetPayloads()[0].GetData()); n > maxPayload*3/4 {
			t.Errorf("%s: %d bytes, Temporal takes %d", what, n, maxPayload)
		} else {
			t.Logf("%s: %d bytes", what, n)
		}
	}
}

func TestAZoneGivesNoMoreSlotsThanItCanKeepAccountOf(t *testing.T) {
	c := newCrowd(t)
	c.hosts = append(c.hosts, Host{Spec: protocol.HostSpec{Name: "web-1"}, Slots: 10_000})
	for i := range maxHolders + 2 {
		c.asks(lease.Acquire{Holder: fmt.Sprint("s", i)})
	}
	if n := len(c.serve()); n != maxHolders {
		t.Fatalf("%d were served, want %d", n, maxHolders)
	}
	l := c.line()
	if got := l.serve(); len(got) > 0 || len(l.tickets) != 2 || !strings.Contains(l.tickets[0].why.Message, "another zone") {
		t.Errorf("%d more were served, %d wait", len(got), len(l.tickets))
	}
	c.ends(func(l Lease) bool { return l.Holder == "s7" })
	if n := len(c.serve()); n != 1 {
		t.Errorf("of one slot that is free again %d were served", n)
	}
}

func TestAPoolCarriesNoMoreAfterFiftyThousandGrants(t *testing.T) {
	c := newCrowd(t, 40)
	carried := func() int {
		return kit.Encoded(&State{Hosts: c.hosts, Leases: c.leases, Queue: c.queue, Shares: c.shares, Epoch: c.epoch})
	}
	var early, most int
	for round := 0; c.epoch < 50_000; round++ {
		for len(c.queue) < 60 {
			n := c.epoch*100 + int64(len(c.queue))
			c.asks(lease.Acquire{Holder: fmt.Sprintf("s%08d", n%100_000_000), Tenant: fmt.Sprint("t", n%97), Priority: int(n % 6)})
		}
		c.serve()
		if n := carried(); round < 100 {
			early = max(early, n)
		} else {
			most = max(most, n)
		}
		c.ends(func(l Lease) bool { return l.Holder[len(l.Holder)-1]%2 == byte(round%2) })
		clear(c.since)
	}
	if most > early*5/4 {
		t.Errorf("it carries %d bytes, and %d after the first grants", most, early)
	}
	if len(c.shares) > 97 {
		t.Errorf("it remembers %d tenants", len(c.shares))
	}
}
