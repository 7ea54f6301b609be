package hostpool

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A line is the queue for slots at one moment, and decides who gets one by the rules in
// doc.go. It is pure: it sees hosts only through the interface room, and does not know the
// time. Within a tenant the ticket that has waited longest is first. A ticket for which
// there is no room, or whose tenant or seed is at its limit, holds up nobody.
type line struct {
	tickets []*waiter
	tenants map[string]*competitor
	inTurn  []*competitor // in the order in which shares, leases and tickets name them
	seeds   map[string]*seedUse
	room    room
	next    int64 // epoch of the next grant
	held    int

	// slots are shared by the tenants that compete; weights is the sum of their weights.
	slots, weights int64
}

type room interface {
	never(*lease.Ticket) *protocol.Failure
	// take takes a free slot for a ticket, or returns why there is none. Having refused a
	// ticket, it refuses that ticket for the rest of this line.
	take(*lease.Ticket) (*Host, *protocol.Failure)
	free() int
}

// lot returns a number from 0 to 99, which depends on the epoch only, so that no regular
// pattern among the sessions decides who is passed over.
func lot(epoch int64) uint32 { return uint32(epoch) * 2654435761 >> 16 % 100 }

// toEldest and toAnyUrgency report whether the slot of an epoch is given without regard to
// priority: to the ticket that has waited longest, or by shares only.
func toEldest(epoch int64) bool     { return lot(epoch) == 0 }
func toAnyUrgency(epoch int64) bool { return lot(epoch) <= 10 }

// A Share is what a tenant may have, and its place in the rotation.
type Share struct {
	Tenant string `json:"tenant"`
	Weight int    `json:"weight,omitempty"` // 0 means 1
	Limit  int    `json:"limit,omitempty"`  // slots at a time; 0 means no limit
	// Pass rises by stride/Weight with each slot that the tenant gets. The tenant with the
	// lowest pass is next.
	Pass  int64 `json:"pass,omitempty"`
	Waits bool  `json:"waits,omitempty"` // had tickets in line when slots were last given
}

func (s Share) weight() int64 { return int64(max(1, s.Weight)) }

const stride = 1_000_000

type competitor struct {
	Share
	used, queued int

	has, pass int64 // including the current round
}

func (c *competitor) full() bool { return c.Limit > 0 && c.used >= c.Limit }

type seedUse struct{ limit, used int }

type waiter struct {
	*lease.Ticket
	by   *competitor
	n    int // in the order of asking
	done bool
	got  *Host
	why  *protocol.Failure
}

// newLine returns the line of a queue. epoch is that of the newest lease.
func newLine(epoch int64, queue []lease.Ticket, leases []Lease, shares []Share, seeds []seedLimit, where room) *line {
	l := &line{tenants: map[string]*competitor{}, seeds: map[string]*seedUse{}, room: where, next: epoch + 1}
	for _, s := range shares {
		l.tenant(s.Tenant).Share = s
	}
	for _, s := range seeds {
		l.seeds[s.Seed] = &seedUse{limit: s.Limit}
	}
	for i := range leases {
		if le := &leases[i]; le.Warm == nil {
			l.held++
			l.tenant(le.tenant()).used++
			if s := l.seeds[le.Seed]; s != nil {
				s.used++
			}
		}
	}
	for i := range queue {
		t := &queue[i]
		c := l.tenant(t.TenantName())
		c.queued++
		l.tickets = append(l.tickets, &waiter{Ticket: t, by: c, n: i})
	}
	l.join()
	return l
}

func (l *line) tenant(name string) *competitor {
	c := l.tenants[name]
	if c == nil {
		c = &competitor{Share: Share{Tenant: name}}
		l.tenants[name] = c
		l.inTurn = append(l.inTurn, c)
	}
	return c
}

// join raises the pass of tenants that begin to wait to the lowest of those that waited
// before, so that they do not make up for turns that they did not want.
func (l *line) join() {
	least, any := l.least(func(c *competitor) bool { return c.Waits })
	for _, c := range l.inTurn {
		if any && !c.Waits && c.queued > 0 {
			c.Pass = max(c.Pass, least)
		}
	}
}

func (l *line) least(of func(*competitor) bool) (least int64, any bool) {
	for _, c := range l.inTurn {
		if of(c) && (!any || c.Pass < least) {
			least, any = c.Pass, true
		}
	}
	return least, any
}

// refuse removes the tickets that no host can ever serve.
func (l *line) refuse() (no []*waiter) {
	l.tickets = slices.DeleteFunc(l.tickets, func(w *waiter) bool {
		if w.why = l.room.never(w.Ticket); w.why != nil {
			w.by.queued--
			no = append(no, w)
		}
		return w.why != nil
	})
	return no
}

// serve removes the tickets that get a free slot.
func (l *line) serve() (got []*waiter) {
	got = l.each(l.served)
	for _, c := range l.inTurn {
		c.Pass = c.pass
	}
	l.next += int64(len(got))
	l.tickets = slices.DeleteFunc(l.tickets, func(w *waiter) bool { return w.done })
	return got
}

func (l *line) served(w *waiter) bool {
	c, seed := w.by, l.seeds[w.Seed]
	switch {
	case l.held >= maxHolders:
		w.why = busyWith("%d sessions have slots, as many as one zone keeps account of: more take another zone", l.held)
		return false
	case c.full():
		w.why = busyWith("tenant %s has %d slots, as many as it may have", c.Tenant, c.used)
		return false
	case seed != nil && seed.used >= seed.limit:
		w.why = busyWith("%d sessions use seed %s, as many as may", seed.used, w.Seed)
		return false
	}
	if w.got, w.why = l.room.take(w.Ticket); w.got == nil {
		return false
	}
	l.held++
	c.used++
	c.queued--
	if seed != nil {
		seed.used++
	}
	return true
}

// busyWith returns why a ticket waits. Its text is carried, and another text is another
// signal to the session: a changed text would break the replay of pools that began before.
func busyWith(format string, args ...any) *protocol.Failure {
	return &protocol.Failure{Kind: "busy", Message: kit.Cut(fmt.Sprintf(format, args...), kit.MaxFailure)}
}

// order returns the tickets in the order in which they are served if every host meets every
// demand.
func (l *line) order() []*waiter {
	whys := make([]*protocol.Failure, len(l.tickets))
	for i, w := range l.tickets {
		whys[i], w.why = w.why, nil
	}
	all := l.each(func(*waiter) bool { return true })
	for i, w := range l.tickets {
		w.why, w.done = whys[i], false
	}
	return all
}

// A round lets each ticket try for a slot until it fails once.
type round struct {
	*line
	try    func(*waiter) bool
	got    []*waiter
	oldest int                                 // all tickets before this index have tried
	by     [protocol.LastPriority + 1]*contest // by priority; 0 is for all
}

func (l *line) each(try func(*waiter) bool) []*waiter {
	l.share()
	r := round{line: l, try: try}
	for p := range r.by {
		r.by[p] = l.contest(p)
	}
	for r.step(l.next + int64(len(r.got))) {
	}
	return r.got
}

func (r *round) step(epoch int64) bool {
	if toEldest(epoch) {
		for ; r.oldest < len(r.tickets); r.oldest++ {
			if r.take(r.tickets[r.oldest]) {
				return true
			}
		}
	}
	if toAnyUrgency(epoch) {
		return r.of(r.by[0])
	}
	for _, c := range r.by[protocol.FirstPriority:] {
		if r.of(c) {
			return true
		}
	}
	return false
}

func (r *round) of(c *contest) bool {
	heap.Init(c) // other contests may have changed the order
	for len(c.of) > 0 {
		for e := c.of[0]; e.at < len(e.list); e.at++ {
			if r.take(e.list[e.at]) {
				return true
			}
		}
		heap.Pop(c)
	}
	return false
}

func (r *round) take(w *waiter) bool {
	if w.done || w.why != nil {
		return false
	}
	if w.done = r.try(w); w.done {
		r.got = append(r.got, w)
		w.by.has++
		w.by.pass += stride / w.by.weight()
	}
	return w.done
}

// share computes the slots to share, and the weights of the tenants that share them. A
// tenant that wants no more, or may have no more, keeps what it has.
func (l *line) share() {
	l.slots, l.weights = int64(l.room.free()), 0
	for _, c := range l.inTurn {
		c.has, c.pass = int64(c.used), c.Pass
		if c.queued > 0 && !c.full() {
			l.slots += int64(c.used)
			l.weights += c.weight()
		}
	}
}

// A contest is a heap of the tenants with tickets of a priority.
type contest struct {
	*line
	of []*entrant
}

type entrant struct {
	*competitor
	list []*waiter
	at   int
}

func (l *line) contest(priority int) *contest {
	c := &contest{line: l}
	entrants := map[*competitor]*entrant{}
	for _, w := range l.tickets {
		if priority != 0 && w.Urgency() != priority {
			continue
		}
		e := entrants[w.by]
		if e == nil {
			e = &entrant{competitor: w.by}
			entrants[w.by] = e
			c.of = append(c.of, e)
		}
		e.list = append(e.list, w)
	}
	return c
}

func (c *contest) Len() int      { return len(c.of) }
func (c *contest) Swap(i, j int) { c.of[i], c.of[j] = c.of[j], c.of[i] }
func (c *contest) Push(e any)    { c.of = append(c.of, e.(*entrant)) }
func (c *contest) Pop() any {
	last := len(c.of) - 1
	e := c.of[last]
	c.of = c.of[:last]
	return e
}

func (c *contest) Less(i, j int) bool {
	a, b := c.of[i], c.of[j]
	below := c.below(a.competitor)
	if other := c.below(b.competitor); below != other {
		return below < other
	}
	if below != odd {
		if x, y := a.has*b.weight(), b.has*a.weight(); x != y {
			return x < y
		}
	}
	if a.pass != b.pass {
		return a.pass < b.pass
	}
	return a.first() < b.first()
}

// How many slots a tenant has, compared with its share.
const (
	lessThan = iota // by one slot or more
	odd             // by a part of a slot
	enough
)

func (l *line) below(c *competitor) int {
	switch share := l.slots * c.weight(); {
	case (c.has+1)*l.weights <= share:
		return lessThan
	case c.has*l.weights < share:
		return odd
	}
	return enough
}

// first returns the place in line of the entrant's next ticket, or -1.
func (e *entrant) first() int {
	for ; e.at < len(e.list); e.at++ {
		if w := e.list[e.at]; !w.done && w.why == nil {
			return w.n
		}
	}
	return -1
}

// overflow removes the tickets for which the pool has no room.
func (l *line) overflow() (no []*waiter) {
	n, asked := 0, 0
	l.tickets = slices.DeleteFunc(l.tickets, func(w *waiter) bool {
		n, asked = n+1, asked+w.Bytes()
		if n <= lease.MaxLine && asked <= maxAsked {
			return false
		}
		w.by.queued--
		w.why = lease.LineFull(fmt.Sprintf("a place in the line: %d sessions wait for a host already", n-1-len(no)), "add hosts")
		no = append(no, w)
		return true
	})
	return no
}

// maxBeyond bounds how many tenants are remembered only because their pass is higher than
// that of those who wait. Without it the pool would remember every tenant while one ticket
// waits for an absent host. A forgotten tenant gets its next turn a little early.
const maxBeyond = 256

// shares returns what the pool keeps of tenants: settings, and the pass of those that wait
// or are beyond them.
func (l *line) shares() []Share {
	least, any := l.least(func(c *competitor) bool { return c.queued > 0 })
	var kept []Share
	for _, c := range l.inTurn {
		s := c.Share
		if s.Waits = c.queued > 0; !s.Waits && (!any || s.Pass <= least) {
			s.Pass = 0
		}
		if s.Weight != 0 || s.Limit != 0 || s.Pass != 0 || s.Waits {
			kept = append(kept, s)
		}
	}
	kept = l.forgetting(kept)
	slices.SortFunc(kept, func(a, b Share) int { return strings.Compare(a.Tenant, b.Tenant) })
	return kept
}

func (l *line) forgetting(kept []Share) []Share {
	var gone []Share // tenants without a setting, request or slot
	for _, s := range kept {
		if c := l.tenants[s.Tenant]; s.Weight == 0 && s.Limit == 0 && !s.Waits && c.used == 0 {
			gone = append(gone, s)
		}
	}
	if len(gone) <= maxBeyond {
		return kept
	}
	slices.SortFunc(gone, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Pass, a.Pass), strings.Compare(a.Tenant, b.Tenant))
	})
	drop := make(map[string]bool, len(gone)-maxBeyond)
	for _, s := range gone[maxBeyond:] {
		drop[s.Tenant] = true
	}
	return slices.DeleteFunc(kept, func(s Share) bool { return drop[s.Tenant] })
}
