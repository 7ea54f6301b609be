package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"
)

// exactlyUpTo is how many at the head of the line hear of each new reason. Those
// behind hear when they have come a good deal nearer: who waits in vain costs
// a grant no more than a few letters, however long the line.
const exactlyUpTo = exactly

// rungs are the places at which one who waits is told how far it has come.
var rungs = []int{0, 9, 99, 999}

func rungOf(place int) int {
	i := slices.IndexFunc(rungs, func(r int) bool { return place <= r })
	if i < 0 {
		return len(rungs)
	}
	return i
}

// serve gives slots to those who are next. All is decided before anybody is
// told, since telling lets other messages in.
func (p *pool) serve() {
	p.work = false
	letters := append(p.no, p.tellAgain()...)
	p.no = nil
	gets := map[string]*poolLease{} // who gets a slot, and what it had of the host before
	l := p.line()
	for _, w := range l.refuse() {
		letters = append(letters, p.letter(w.who(), granted{Refused: w.why}))
	}
	if p.st.Paused == nil {
		for _, w := range l.serve() {
			var had *poolLease
			if l := p.lease(w.Holder); l != nil && l.Host == w.got.Spec.Name {
				warm := *l
				had = &warm
			}
			gets[w.Holder] = had
			letters = append(letters, p.grant(w)) // before anybody hears of places
		}
	}
	for _, w := range l.overflow() {
		letters = append(letters, p.letter(w.who(), granted{Refused: w.why}))
	}
	p.st.Shares = l.shares()
	for i, w := range l.order() {
		if g := w.toTell(i, p.st.Paused, p.zone); g != nil {
			letters = append(letters, p.letter(w.who(), *g))
		}
	}
	kept := make([]ticket, 0, len(l.tickets))
	for _, w := range l.tickets {
		kept = append(kept, *w.ticket)
	}
	p.st.Queue = kept
	for _, holder := range post(p.ctx, letters) {
		p.gone(holder, gets)
	}
}

// gone frees what somebody was given who never heard of it, and sees to what he
// left on a host before.
func (p *pool) gone(holder string, gets map[string]*poolLease) {
	had, new := gets[holder]
	if !new {
		p.ended(who{Holder: holder})
		return
	}
	p.drop(who{Holder: holder})
	if had != nil {
		p.lost(*had)
	}
}

// line is who waits by now.
func (p *pool) line() *line {
	return newLine(p.st.Epoch, p.st.Queue, p.st.Leases, p.st.Shares, p.st.Seeds, p.roster())
}

func (p *pool) letter(to who, g granted) letter {
	g.From, g.Run = PoolID(p.zone), to.Run
	return letter{to.Holder, g}
}

// tellAgain takes those out of the line who hold a slot already: they asked
// again.
func (p *pool) tellAgain() (letters []letter) {
	var left []ticket
	for _, t := range p.st.Queue {
		l := p.lease(t.Holder)
		if l != nil && l.Run != t.Run {
			p.lost(*l) // by an earlier session of that name
			l = nil
		}
		if l == nil || l.Warm != nil {
			left = append(left, t)
			continue
		}
		l.Seed = orElse(t.Seed, l.Seed)
		host := p.host(l.Host)
		spec := host.Spec
		letters = append(letters, p.letter(t.who(), granted{Epoch: l.Epoch, Spec: &spec, Labels: host.Labels}))
	}
	p.st.Queue = left
	return letters
}

// grant puts a lease down.
func (p *pool) grant(w *waiter) letter {
	spec := w.got.Spec
	p.comesBack(w.Holder, spec.Name)
	p.st.Epoch++
	p.st.Leases = append(p.st.Leases, poolLease{Holder: w.Holder, Host: spec.Name, Epoch: p.st.Epoch, Seed: w.Seed, Run: w.Run,
		Tenant: w.Tenant, Since: workflow.Now(p.ctx)})
	return p.letter(w.who(), granted{Epoch: p.st.Epoch, Spec: &spec, Labels: w.got.Labels})
}

// toTell is what one who waits is told of its place, if it is worth a letter.
func (w *waiter) toTell(place int, paused *PoolPause, zone string) *granted {
	why := paused.text(zone)
	if paused == nil {
		why = w.why.Message
	}
	rung, first := rungOf(place), w.Told == ""
	if !first && rung >= w.Rung && (paused != nil) == w.Paused && (w.Told == why || place >= exactlyUpTo && paused == nil) {
		return nil
	}
	if !first {
		rung = min(rung, w.Rung)
	}
	w.Told, w.Rung, w.Paused = why, rung, paused != nil
	return &granted{Queued: "a slot: " + why + before(place)}
}

// before says how many come before one who waits.
func before(n int) string {
	switch n {
	case 0:
		return "; nobody waits before it"
	case 1:
		return "; 1 waits before it"
	}
	return fmt.Sprintf("; %d wait before it", n)
}

// enqueue takes somebody who asks. One that asks again keeps its place and is
// told again.
func (p *pool) enqueue(a acquire) {
	p.work = true
	if no := p.cannotWait(a); no != nil {
		p.no = append(p.no, *no)
		return
	}
	if now := workflow.Now(p.ctx); a.AskedAt.IsZero() || a.AskedAt.After(now) {
		a.AskedAt = now
	}
	if i := slices.IndexFunc(p.st.Queue, func(q ticket) bool { return q.Holder == a.Holder }); i >= 0 {
		if was := p.st.Queue[i].AskedAt; !was.IsZero() && p.st.Queue[i].Run == a.Run {
			a.AskedAt = was
		}
		p.st.Queue[i] = ticket{acquire: a}
		return
	}
	p.st.Queue = append(p.st.Queue, ticket{acquire: a})
}

// bytes is how many a ticket takes in what is carried, about.
func (t *ticket) bytes() int {
	if t.size == 0 {
		t.size = encoded(t.acquire)
	}
	return t.size
}

// cannotWait refuses what no line can hold.
func (p *pool) cannotWait(a acquire) *letter {
	if a.tooLarge() {
		no := a.decline(PoolID(p.zone))
		return &no
	}
	err := (SessionOptions{Select: a.Select, Rather: a.Rather, Tenant: a.Tenant, Priority: a.Priority}).checkPlace()
	if err == nil {
		return nil
	}
	no := p.letter(who{a.Holder, a.Run}, granted{Refused: &Failure{Kind: RefusedBadInput, Message: excerpt(err.Error(), maxFailure),
		Hint: "`ctl run --help` says what can be asked for"}})
	return &no
}

func (a *acquire) tenant() string   { return orElse(a.Tenant, DefaultTenant) }
func (l *poolLease) tenant() string { return orElse(l.Tenant, DefaultTenant) }

// share is a tenant's, and is made if there is none.
func (p *pool) share(tenant string) *poolShare {
	i, found := slices.BinarySearchFunc(p.st.Shares, tenant, func(s poolShare, name string) int { return strings.Compare(s.Tenant, name) })
	if !found {
		p.st.Shares = slices.Insert(p.st.Shares, i, poolShare{Tenant: tenant})
	}
	return &p.st.Shares[i]
}
