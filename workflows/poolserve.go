package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"
)

// exactlyUpTo is how many sessions at the head of the line are told each new
// reason. Those behind are told when they have come to a lower rung. So a grant
// costs only a few letters, however long the line is.
const exactlyUpTo = exactly

// rungs are the places in line at which a session is told how far it has come.
var rungs = []int{0, 9, 99, 999}

func rungOf(place int) int {
	i := slices.IndexFunc(rungs, func(r int) bool { return place <= r })
	if i < 0 {
		return len(rungs)
	}
	return i
}

// serve gives slots to those who are next. It decides everything before it tells
// anybody, because sending lets other messages in.
func (p *pool) serve() {
	p.work = false
	letters := append(p.no, p.tellAgain()...)
	p.no = nil
	gets := map[string]*poolLease{} // the new holders, with the lease that each had on that host before
	l := p.line()
	for _, w := range l.refuse() {
		letters = append(letters, p.letter(w.who(), granted{Refused: w.why}))
	}
	if p.st.Paused == nil && p.calling == nil {
		for _, w := range l.serve() {
			var had *poolLease
			if l := p.lease(w.Holder); l != nil && l.Host == w.got.Spec.Name {
				warm := *l
				had = &warm
			}
			gets[w.Holder] = had
			letters = append(letters, p.grant(w)) // before anybody is told a place
		}
	}
	for i, w := range l.overflow() {
		letters = append(letters, p.letter(w.who(), granted{Refused: w.why, RetryAfter: retryAfter(i)}))
	}
	p.st.Shares = l.shares()
	for i, w := range l.order() {
		if p.calling != nil {
			w.why = p.whyCalling()
		}
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

// gone takes back what was given to a session that could not be told, because it
// has ended. It also has cleaned up what the session left on a host before.
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

func (p *pool) line() *line {
	return newLine(p.st.Epoch, p.st.Queue, p.st.Leases, p.st.Shares, p.st.Seeds, p.roster())
}

func (p *pool) letter(to who, g granted) letter {
	g.From, g.Run = PoolID(p.zone), to.Run
	return letter{to.Holder, g}
}

// tellAgain removes those who hold a slot already from the line, because they asked
// again, and returns letters that repeat their grants.
func (p *pool) tellAgain() (letters []letter) {
	var left []ticket
	for _, t := range p.st.Queue {
		l := p.lease(t.Holder)
		if l != nil && l.Run != t.Run {
			p.lost(*l) // held by an earlier session of that name
			l = nil
		}
		host := p.heldOn(l)
		if l == nil || l.Warm != nil || host == nil { // or the host is not in the inventory yet
			left = append(left, t)
			continue
		}
		l.Seed = cmp.Or(t.Seed, l.Seed)
		spec := host.Spec
		letters = append(letters, p.letter(t.who(), granted{Epoch: l.Epoch, Spec: &spec, Labels: host.Labels}))
	}
	p.st.Queue = left
	return letters
}

func (p *pool) grant(w *waiter) letter {
	spec := w.got.Spec
	p.comesBack(w.Holder, spec.Name)
	p.st.Epoch++
	p.st.Leases = append(p.st.Leases, poolLease{Holder: w.Holder, Host: spec.Name, Epoch: p.st.Epoch, Seed: w.Seed, Run: w.Run,
		Tenant: w.Tenant, Since: workflow.Now(p.ctx)})
	return p.letter(w.who(), granted{Epoch: p.st.Epoch, Spec: &spec, Labels: w.got.Labels})
}

// toTell returns what a waiting session is told of its place, or nil if that is not
// worth a letter.
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

func before(n int) string {
	switch n {
	case 0:
		return "; nobody waits before it"
	case 1:
		return "; 1 waits before it"
	}
	return fmt.Sprintf("; %d wait before it", n)
}

// enqueue adds a request to the line. A session that asks again keeps its place and
// is told again.
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

func (t *ticket) bytes() int {
	if t.size == 0 {
		t.size = encoded(t.acquire)
	}
	return t.size
}

// cannotWait returns the refusal of a request that is too large or not valid, or
// nil.
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

func (a *acquire) tenant() string   { return cmp.Or(a.Tenant, DefaultTenant) }
func (l *poolLease) tenant() string { return cmp.Or(l.Tenant, DefaultTenant) }

// share returns a tenant's share, and creates it if there is none.
func (p *pool) share(tenant string) *poolShare {
	i, found := slices.BinarySearchFunc(p.st.Shares, tenant, func(s poolShare, name string) int { return strings.Compare(s.Tenant, name) })
	if !found {
		p.st.Shares = slices.Insert(p.st.Shares, i, poolShare{Tenant: tenant})
	}
	return &p.st.Shares[i]
}
