package hostpool

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A crowd is a zone without Temporal: hosts, leases and a queue.
type crowd struct {
	t      *testing.T
	epoch  int64
	now    int // minutes
	hosts  []Host
	queue  []lease.Ticket
	leases []Lease
	since  map[string]int // when each lease began
	shares []Share
	seeds  []seedLimit
}

func newCrowd(t *testing.T, slots ...int) *crowd {
	c := &crowd{t: t, since: map[string]int{}}
	for i, n := range slots {
		c.hosts = append(c.hosts, Host{Spec: protocol.HostSpec{Name: fmt.Sprint("web-", i+1)}, Slots: n, Labels: map[string]string{"n": fmt.Sprint(i + 1)}})
	}
	return c
}

// plainly sets the epoch such that the next slots are given by priority.
func (c *crowd) plainly(slots int64) {
	for n := int64(0); n < slots; n++ {
		if toAnyUrgency(c.epoch + 1 + n) {
			c.epoch, n = c.epoch+n+1, -1
		}
	}
}

func (c *crowd) asks(a lease.Acquire) {
	c.queue = append(c.queue, lease.Ticket{Acquire: a})
}

func (c *crowd) line() *line {
	p := poolOf(&poolCore{zone: "default", st: &State{Hosts: c.hosts, Leases: c.leases}})
	return newLine(c.epoch, c.queue, c.leases, c.shares, c.seeds, p.slots.roster())
}

// serve grants the free slots, and returns which holder got which host.
func (c *crowd) serve() (got []string) {
	c.t.Helper()
	l := c.line()
	if no := l.refuse(); len(no) > 0 {
		c.t.Fatalf("%s was refused: %v", no[0].Holder, no[0].why)
	}
	for _, w := range l.serve() {
		got = append(got, w.Holder)
		c.leases = append(c.leases, Lease{Holder: w.Holder, Host: w.got.Spec.Name, Seed: w.Seed, Tenant: w.Tenant})
		c.since[w.Holder] = c.now
		c.epoch++
	}
	for _, w := range l.tickets {
		if w.why == nil || w.why.Kind != "busy" {
			c.t.Fatalf("%s waits, and why is %+v", w.Holder, w.why)
		}
	}
	c.shares = l.shares()
	c.queue = slices.DeleteFunc(c.queue, func(t lease.Ticket) bool { return slices.Contains(got, t.Holder) })
	used := map[string]int{}
	for _, le := range c.leases {
		used[le.Host]++
	}
	for _, h := range c.hosts {
		if used[h.Spec.Name] > h.Slots {
			c.t.Fatalf("host %s has %d sessions on %d slots", h.Spec.Name, used[h.Spec.Name], h.Slots)
		}
	}
	return got
}

// ends releases the leases for which the function returns true.
func (c *crowd) ends(which func(Lease) bool) {
	c.leases = slices.DeleteFunc(c.leases, which)
}

func (c *crowd) order() (names []string) {
	for _, w := range c.line().order() {
		names = append(names, w.Holder)
	}
	return names
}

func (c *crowd) of(tenant string) (n int) {
	for _, l := range c.leases {
		if l.Tenant == tenant {
			n++
		}
	}
	return n
}

func same(t *testing.T, what string, got []string, want string) {
	t.Helper()
	if strings.Join(got, " ") != want {
		t.Errorf("%s: %v, want %s", what, got, want)
	}
}

func TestTheMostUrgentGoFirstAndThenThoseWhoAskedFirst(t *testing.T) {
	c := newCrowd(t, 1)
	for i, p := range []int{0, 5, 1, 3, 1, 4, 2} {
		c.asks(lease.Acquire{Holder: fmt.Sprintf("s%d-%d", i, p), Priority: p})
	}
	c.plainly(7)
	same(t, "the order", c.order(), "s2-1 s4-1 s6-2 s0-0 s3-3 s5-4 s1-5")
	var got []string
	for range 7 {
		got = append(got, c.serve()...)
		c.ends(func(Lease) bool { return true })
	}
	same(t, "they got it", got, "s2-1 s4-1 s6-2 s0-0 s3-3 s5-4 s1-5")
}

func TestNobodyStarves(t *testing.T) {
	c := newCrowd(t, 2)
	c.shares = []Share{{Tenant: "big", Weight: protocol.MaxWeight}}
	c.asks(lease.Acquire{Holder: "patient", Tenant: "small", Priority: 5})
	c.asks(lease.Acquire{Holder: "pinned", Tenant: "small", Priority: 5, Host: "web-1"})
	served := 0
	for ; c.waiting("small") > 0 && served < 1000; served++ {
		for range 3 {
			c.asks(lease.Acquire{Holder: fmt.Sprint("urgent", c.epoch, len(c.queue)), Tenant: "big", Priority: 1})
		}
		c.serve()
		c.ends(func(Lease) bool { return true })
	}
	if served > 60 {
		t.Errorf("they were served after %d others", served)
	}
}

// run simulates tenants that always have twenty requests queued. The sessions of a tenant
// last as long as length says. run returns each tenant's part of the slot time.
func (c *crowd) run(length map[string]int, weight map[string]int, tenants ...string) map[string]float64 {
	for _, name := range tenants {
		c.shares = append(c.shares, Share{Tenant: name, Weight: weight[name]})
	}
	had, all, n := map[string]float64{}, 0., 0
	for range 1500 {
		for _, name := range tenants {
			for have := c.waiting(name); have < 20; have++ {
				n++
				c.asks(lease.Acquire{Holder: fmt.Sprint(name, n), Tenant: name})
			}
		}
		c.serve()
		for _, l := range c.leases {
			had[l.Tenant]++
			all++
		}
		c.now++
		c.ends(func(l Lease) bool { return c.now-c.since[l.Holder] >= length[l.Tenant] })
	}
	for _, name := range tenants {
		had[name] /= all
	}
	return had
}

func (c *crowd) waiting(tenant string) (n int) {
	for i := range c.queue {
		if c.queue[i].Tenant == tenant {
			n++
		}
	}
	return n
}

func TestSlotTimeIsSharedByWeight(t *testing.T) {
	even := map[string]int{"a": 5, "b": 5, "c": 5}
	for name, tc := range map[string]struct {
		slots  int
		length map[string]int
		weight map[string]int
		want   map[string]float64
	}{
		"evenly":           {12, even, nil, map[string]float64{"a": .33, "b": .33, "c": .33}},
		"by weight":        {12, even, map[string]int{"a": 6, "b": 3, "c": 1}, map[string]float64{"a": .6, "b": .3, "c": .1}},
		"on a single slot": {1, even, map[string]int{"a": 6, "b": 3, "c": 1}, map[string]float64{"a": .6, "b": .3, "c": .1}},
		"whatever sessions last": {12, map[string]int{"a": 60, "b": 5, "c": 1}, map[string]int{"b": 2},
			map[string]float64{"a": .25, "b": .5, "c": .25}},
	} {
		t.Run(name, func(t *testing.T) {
			had := newCrowd(t, tc.slots).run(tc.length, tc.weight, "a", "b", "c")
			for tenant, want := range tc.want {
				if got := had[tenant]; got < want-.07 || got > want+.07 {
					t.Errorf("tenant %s had %.2f of the slot time, want %.2f", tenant, got, want)
				}
			}
		})
	}
}

func TestAnAbsentTenantSavesNothingUp(t *testing.T) {
	c := newCrowd(t, 4)
	for i := range 100 {
		c.asks(lease.Acquire{Holder: fmt.Sprint("a", i), Tenant: "a"})
	}
	for range 10 { // the tenant is alone for hours
		c.serve()
		c.ends(func(Lease) bool { return true })
	}
	for i := range 100 {
		c.asks(lease.Acquire{Holder: fmt.Sprint("b", i), Tenant: "b"})
	}
	for range 5 {
		c.serve()
		if n := c.of("b"); n < 1 || n > 3 {
			t.Fatalf("the tenant that came later has %d of 4 slots", n)
		}
		c.ends(func(Lease) bool { return true })
	}
	c.queue = nil
	c.serve()
	if len(c.shares) != 0 {
		t.Errorf("nobody waits, and %+v is kept", c.shares)
	}
}

func TestWhoWaitsForOneHostHoldsUpNobodyElse(t *testing.T) {
	c := newCrowd(t, 1, 2)
	c.asks(lease.Acquire{Holder: "first", Host: "web-1"})
	c.serve()
	for i := range 5 {
		c.asks(lease.Acquire{Holder: fmt.Sprint("stuck", i), Host: "web-1", Priority: 1})
		c.asks(lease.Acquire{Holder: fmt.Sprint("choosy", i), Labels: map[string]string{"n": "1"}, Priority: 1})
	}
	c.asks(lease.Acquire{Holder: "any", Priority: 5})
	c.asks(lease.Acquire{Holder: "other", Priority: 5, Tenant: "else"})
	c.plainly(4)
	same(t, "they got it", c.serve(), "other any")
	c.ends(func(l Lease) bool { return l.Host == "web-1" })
	same(t, "then", c.serve(), "stuck0")
}

func TestNoTenantAndNoSeedHasMoreThanItMay(t *testing.T) {
	c := newCrowd(t, 10)
	c.shares = []Share{{Tenant: "night", Limit: 3}}
	c.seeds = []seedLimit{{Seed: "team", Limit: 2}}
	for i := range 10 {
		c.asks(lease.Acquire{Holder: fmt.Sprint("n", i), Tenant: "night", Priority: 1})
		c.asks(lease.Acquire{Holder: fmt.Sprint("t", i), Tenant: "day", Seed: "team", Priority: 2})
	}
	c.asks(lease.Acquire{Holder: "free", Priority: 5})
	c.plainly(20)
	same(t, "they got it", c.serve(), "n0 n1 n2 t0 t1 free")
	l := c.line()
	l.serve()
	for _, w := range l.tickets {
		want := "tenant night has 3 slots, as many as it may have"
		if w.Seed != "" {
			want = "2 sessions use seed team, as many as may"
		}
		if w.why.Message != want {
			t.Errorf("%s waits since %s, want %s", w.Holder, w.why.Message, want)
		}
	}
	c.ends(func(l Lease) bool { return l.Holder == "n1" || l.Holder == "t0" })
	same(t, "then", c.serve(), "n3 t2")
	c.shares[slices.IndexFunc(c.shares, func(s Share) bool { return s.Tenant == "night" })].Limit = 0
	same(t, "without the limit", c.serve(), "n4 n5 n6 n7")
}

// The request that is told to be next gets the next slot, and one tenant's requests are
// served in their order.
func TestWhoIsToldToBeNextIsNext(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := newCrowd(t, 3)
	for i := range 5 {
		c.shares = append(c.shares, Share{Tenant: fmt.Sprint("t", i), Weight: 1 + random.IntN(9)})
	}
	for i := range 200 {
		c.asks(lease.Acquire{Holder: fmt.Sprint("s", i), Tenant: fmt.Sprint("t", random.IntN(5)), Priority: random.IntN(6)})
	}
	c.serve()
	for len(c.queue) > 0 {
		ends := c.leases[random.IntN(3)].Holder
		c.ends(func(l Lease) bool { return l.Holder == ends })
		places := c.order()
		if len(places) != len(c.queue) {
			t.Fatalf("%d of %d have a place", len(places), len(c.queue))
		}
		same(t, "next", c.serve(), places[0])
	}
}

// A line of ten thousand requests is served: first all slots are granted at once, and then
// a few at a time as they become free.
func TestALineOfTenThousandIsServed(t *testing.T) {
	c := newCrowd(t)
	for i := range 200 {
		c.hosts = append(c.hosts, Host{Spec: protocol.HostSpec{Name: fmt.Sprint("h", i)}, Slots: 10, Labels: map[string]string{"mem": fmt.Sprint(i), "zone": fmt.Sprint(i % 7)}})
	}
	for i := range 10_000 {
		c.asks(lease.Acquire{Holder: fmt.Sprint("s", i), Tenant: fmt.Sprint("t", i%50), Priority: i % 6, Select: []string{fmt.Sprint("mem>=", i%100)}, Rather: []string{"zone=3"}})
	}
	if n := len(c.serve()); n != 2000 {
		t.Fatalf("%d were served, want all 2000 slots taken", n)
	}
	places := c.order()
	slices.Sort(places)
	if n := len(slices.Compact(places)); n != 8000 {
		t.Errorf("%d have a place, want 8000", n)
	}
	for i := range 20 {
		name := fmt.Sprint("h", i+100)
		c.ends(func(l Lease) bool { return l.Host == name && l.Holder < "s5" })
		c.serve()
		if len(c.leases) != 2000 {
			t.Fatalf("%d slots are taken, want 2000", len(c.leases))
		}
	}
}

func BenchmarkServe10000(b *testing.B) {
	c := newCrowd(&testing.T{}, 1000)
	for i := range 10_000 {
		c.asks(lease.Acquire{Holder: fmt.Sprint("s", i), Tenant: fmt.Sprint("t", i%50), Priority: i % 6, Select: []string{"n>=1"}})
	}
	c.serve()
	for b.Loop() {
		l := c.line()
		l.refuse()
		l.serve()
		l.order()
	}
}

// A tenant may wait for a host that is not available, and never get a slot. Many other
// tenants come and go meanwhile. The number of them that the pool remembers is bounded, and
// so is the size of the state that the pool carries.
func TestAPoolForgetsTenantsThatCameAndWent(t *testing.T) {
	c := newCrowd(t, 2, 0) // web-2 has no slots
	c.asks(lease.Acquire{Holder: "stuck", Tenant: "stuck", Labels: map[string]string{"n": "2"}})
	c.shares = []Share{{Tenant: "night", Limit: 3}}
	most := 0
	for n := range 10_000 {
		c.asks(lease.Acquire{Holder: fmt.Sprintf("s%05d", n), Tenant: fmt.Sprintf("tenant-%05d", n), Labels: map[string]string{"n": "1"}})
		if got := c.serve(); len(got) != 1 {
			t.Fatalf("%d: got %v", n, got)
		}
		if len(c.shares) > maxBeyond+4 { // the tenant stuck, the tenant with a limit, and two that have slots
			t.Fatalf("after %d tenants it remembers %d", n+1, len(c.shares))
		}
		if n%50 == 0 || n > 9_900 { // the size is checked only now and then: all names are equally long, and their number is checked each time
			most = max(most, kit.Encoded(&State{Hosts: c.hosts, Leases: c.leases, Queue: c.queue, Shares: c.shares, Epoch: c.epoch}))
		}
		c.ends(func(l Lease) bool { return l.Tenant != fmt.Sprintf("tenant-%05d", n) })
		clear(c.since)
	}
	if !slices.ContainsFunc(c.shares, func(s Share) bool { return s.Tenant == "night" && s.Limit == 3 }) {
		t.Errorf("what people set is gone: %+v", c.shares)
	}
	if !slices.ContainsFunc(c.shares, func(s Share) bool { return s.Tenant == "tenant-09999" && s.Pass > 0 }) {
		t.Error("who has a slot is forgotten")
	}
	if most > 32<<10 {
		t.Errorf("it carries %d bytes", most)
	}
	t.Logf("it carries %d bytes at most", most)
}
