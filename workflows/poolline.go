package workflows

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// A line is who waits for slots at one moment, and decides who gets one. It is
// pure: it knows hosts only as room, and the time not at all.
//
// Priority goes first. Within one, each tenant that wants slots is entitled to
// its share of all there are, by weight: who has less comes first, the odd slots
// go round by weight, and what one does not want the others get. Within a tenant
// the longest waiting is first. Somebody for whom there is no room, or whose
// tenant or seed has all it may have, is passed over and holds up nobody. So
// that nobody starves, about one slot in ten is given without regard to
// priority, and one in a hundred to who has waited longest of all.
type line struct {
	tickets []*waiter // in the order of asking
	tenants map[string]*competitor
	inTurn  []*competitor // the same, by their first share, lease or ticket
	seeds   map[string]*seedUse
	room    room
	next    int64 // epoch
	held    int   // slots that are taken

	// slots are for those who compete to share, by weights in all.
	slots, weights int64
}

// room is where slots are.
type room interface {
	// never says why no host can ever do for a ticket; nil where one can.
	never(*ticket) *Failure
	// take takes a free slot for it, or says why there is none now. What it has
	// refused in this line it refuses again.
	take(*ticket) (*poolHost, *Failure)
	// free is how many slots there are to take.
	free() int
}

// lot is drawn for each slot, so that turns which sessions take themselves do
// not decide who is passed over. It is the same for all who look.
func lot(epoch int64) uint32 { return uint32(epoch) * 2654435761 >> 16 % 100 }

// What a lot means.
func toEldest(epoch int64) bool     { return lot(epoch) == 0 }
func toAnyUrgency(epoch int64) bool { return lot(epoch) <= 10 }

// A poolShare is what a tenant may have, and whose turn it is.
type poolShare struct {
	Tenant string `json:"tenant"`
	Weight int    `json:"weight,omitempty"` // 0 is 1
	Limit  int    `json:"limit,omitempty"`  // slots at a time; 0 is none
	// Pass rises with each slot, the less the more it weighs; the lowest is next.
	Pass  int64 `json:"pass,omitempty"`
	Waits bool  `json:"waits,omitempty"` // it had somebody in line when slots were given last
}

func (s poolShare) weight() int64 { return int64(max(1, s.Weight)) }

// stride is how far a slot moves the pass of a tenant of weight 1.
const stride = 1_000_000

// A competitor is a tenant at this moment.
type competitor struct {
	poolShare
	used, queued int

	has, pass int64 // with what it gets in the round that goes on
}

func (c *competitor) full() bool { return c.Limit > 0 && c.used >= c.Limit }

type seedUse struct{ limit, used int }

// A waiter is a ticket in line.
type waiter struct {
	*ticket
	by   *competitor
	n    int // in the order of asking
	done bool
	got  *poolHost
	why  *Failure // there is nothing for it
}

// newLine is who waits for slots, among those who have some; epoch is that of
// the newest lease.
func newLine(epoch int64, queue []ticket, leases []poolLease, shares []poolShare, seeds []seedLimit, where room) *line {
	l := &line{tenants: map[string]*competitor{}, seeds: map[string]*seedUse{}, room: where, next: epoch + 1}
	for _, s := range shares {
		l.tenant(s.Tenant).poolShare = s
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
		c := l.tenant(t.tenant())
		c.queued++
		l.tickets = append(l.tickets, &waiter{ticket: t, by: c, n: i})
	}
	l.join()
	return l
}

func (l *line) tenant(name string) *competitor {
	c := l.tenants[name]
	if c == nil {
		c = &competitor{poolShare: poolShare{Tenant: name}}
		l.tenants[name] = c
		l.inTurn = append(l.inTurn, c)
	}
	return c
}

// join has those who begin to wait begin where the others are: a turn that they
// did not want before they do not get now.
func (l *line) join() {
	least, any := l.least(func(c *competitor) bool { return c.Waits })
	for _, c := range l.inTurn {
		if any && !c.Waits && c.queued > 0 {
			c.Pass = max(c.Pass, least)
		}
	}
}

// least is the lowest pass of those tenants.
func (l *line) least(of func(*competitor) bool) (least int64, any bool) {
	for _, c := range l.inTurn {
		if of(c) && (!any || c.Pass < least) {
			least, any = c.Pass, true
		}
	}
	return least, any
}

// priority is what was asked for.
func (t *ticket) priority() int {
	if t.Priority < FirstPriority || t.Priority > LastPriority {
		return DefaultPriority
	}
	return t.Priority
}

// refuse takes those out of the line for whom no host can ever do.
func (l *line) refuse() (no []*waiter) {
	l.tickets = slices.DeleteFunc(l.tickets, func(w *waiter) bool {
		if w.why = l.room.never(w.ticket); w.why != nil {
			w.by.queued--
			no = append(no, w)
		}
		return w.why != nil
	})
	return no
}

// serve gives out what there is, and takes those who get something out of the line.
func (l *line) serve() (got []*waiter) {
	got = l.each(l.served)
	for _, c := range l.inTurn {
		c.Pass = c.pass
	}
	l.next += int64(len(got))
	l.tickets = slices.DeleteFunc(l.tickets, func(w *waiter) bool { return w.done })
	return got
}

// served gives somebody a slot, or puts down why there is none for him.
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
	if w.got, w.why = l.room.take(w.ticket); w.got == nil {
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

func busyWith(format string, args ...any) *Failure {
	return &Failure{Kind: "busy", Message: excerpt(fmt.Sprintf(format, args...), maxFailure)}
}

// order is who would come next if all hosts did for all: what is told to those
// who wait.
func (l *line) order() []*waiter {
	whys := make([]*Failure, len(l.tickets))
	for i, w := range l.tickets {
		whys[i], w.why = w.why, nil
	}
	all := l.each(func(*waiter) bool { return true })
	for i, w := range l.tickets {
		w.why, w.done = whys[i], false
	}
	return all
}

// A round lets all in line try, each once at most in vain.
type round struct {
	*line
	try    func(*waiter) bool
	got    []*waiter                  // who got something, in that order
	oldest int                        // all before it tried
	by     [LastPriority + 1]*contest // by priority; the first is of all
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

// step gives one slot, or says that nobody can have any.
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
	for _, c := range r.by[FirstPriority:] {
		if r.of(c) {
			return true
		}
	}
	return false
}

// of gives one to the tenant whose turn it is among those of a contest.
func (r *round) of(c *contest) bool {
	heap.Init(c) // what they got in other contests counts
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

// share finds out what there is to share, and for whom: who wants no more, or
// may have no more, keeps what it has.
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

// A contest is a heap of tenants that have somebody in line with a priority;
// the first is the one whose turn it is.
type contest struct {
	*line
	of []*entrant
}

// An entrant is a tenant with those it has in a contest.
type entrant struct {
	*competitor
	list []*waiter
	at   int
}

// contest is of one priority, or of all.
func (l *line) contest(priority int) *contest {
	c := &contest{line: l}
	entrants := map[*competitor]*entrant{}
	for _, w := range l.tickets {
		if priority != 0 && w.priority() != priority {
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

// How a tenant stands to its share of the slots.
const (
	lessThan = iota // by a slot or more
	odd             // by a part of one
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

// first is when the one asked whose turn it is among a tenant's.
func (e *entrant) first() int {
	for ; e.at < len(e.list); e.at++ {
		if w := e.list[e.at]; !w.done && w.why == nil {
			return w.n
		}
	}
	return -1 // it leaves
}

// overflow takes those out of the line for whom a pool has no room: the last
// who came.
func (l *line) overflow() (no []*waiter) {
	n, asked := 0, 0
	l.tickets = slices.DeleteFunc(l.tickets, func(w *waiter) bool {
		n, asked = n+1, asked+w.bytes()
		if n <= maxLine && asked <= maxAsked {
			return false
		}
		w.by.queued--
		w.why = &Failure{Kind: "busy", Hint: "try again later, or add hosts", Message: fmt.Sprintf("%d sessions wait for a host already", n-1-len(no))}
		no = append(no, w)
		return true
	})
	return no
}

// maxBeyond bounds how many tenants are remembered only since they are beyond
// those who wait, and have no slot any more: while somebody waits for a host that
// is not to be had, they would be all who ever came. One that is forgotten gets
// its next turn a little early.
const maxBeyond = 256

// shares is what is kept of the tenants for the next time: what people set, and
// the pass of those who wait, or are beyond those who do.
func (l *line) shares() []poolShare {
	least, any := l.least(func(c *competitor) bool { return c.queued > 0 })
	var kept []poolShare
	for _, c := range l.inTurn {
		s := c.poolShare
		if s.Waits = c.queued > 0; !s.Waits && (!any || s.Pass <= least) {
			s.Pass = 0
		}
		if s.Weight != 0 || s.Limit != 0 || s.Pass != 0 || s.Waits {
			kept = append(kept, s)
		}
	}
	kept = l.forgetting(kept)
	slices.SortFunc(kept, func(a, b poolShare) int { return strings.Compare(a.Tenant, b.Tenant) })
	return kept
}

// forgetting leaves out those that are least beyond the others, where too many are.
func (l *line) forgetting(kept []poolShare) []poolShare {
	var gone []poolShare // they have come and gone
	for _, s := range kept {
		if c := l.tenants[s.Tenant]; s.Weight == 0 && s.Limit == 0 && !s.Waits && c.used == 0 {
			gone = append(gone, s)
		}
	}
	if len(gone) <= maxBeyond {
		return kept
	}
	slices.SortFunc(gone, func(a, b poolShare) int {
		return cmp.Or(cmp.Compare(b.Pass, a.Pass), strings.Compare(a.Tenant, b.Tenant))
	})
	drop := make(map[string]bool, len(gone)-maxBeyond)
	for _, s := range gone[maxBeyond:] {
		drop[s.Tenant] = true
	}
	return slices.DeleteFunc(kept, func(s poolShare) bool { return drop[s.Tenant] })
}
