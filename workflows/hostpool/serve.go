package hostpool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// exactlyUpTo is how many sessions at the head of the line are told each new reason why
// they wait. The others are told only at the Rungs.
const exactlyUpTo = lease.Exactly

// Rungs are the places in line at which a session is told how far it has come.
var Rungs = []int{0, 9, 99, 999}

func rungOf(place int) int {
	i := slices.IndexFunc(Rungs, func(r int) bool { return place <= r })
	if i < 0 {
		return len(Rungs)
	}
	return i
}

type slotsPart struct {
	*poolCore
	inventory *inventoryPart
	health    *healthPart
	leftovers *leftoversPart
	census    *censusPart

	no []lease.Letter
}

// serve gives slots to those who are next. It decides everything before it tells anybody,
// because sending lets other messages in.
func (p *slotsPart) serve() {
	p.work = false
	letters := append(p.no, p.tellAgain()...)
	p.no = nil
	gets := map[string]*Lease{} // the new holders, with the lease that each had on that host
	l := p.line()
	for _, w := range l.refuse() {
		letters = append(letters, p.letter(w.Who(), lease.Granted{Refused: w.why}))
	}
	if p.st.Paused == nil && p.census.calling == nil {
		for _, w := range l.serve() {
			var had *Lease
			if l := p.lease(w.Holder); l != nil && l.Host == w.got.Spec.Name {
				warm := *l
				had = &warm
			}
			gets[w.Holder] = had
			letters = append(letters, p.grant(w)) // before anybody is told a place
		}
	}
	for i, w := range l.overflow() {
		letters = append(letters, p.letter(w.Who(), lease.Granted{Refused: w.why, RetryAfter: lease.RetryAfter(i)}))
	}
	p.st.Shares = l.shares()
	for i, w := range l.order() {
		if p.census.calling != nil {
			w.why = p.census.whyCalling()
		}
		if g := w.toTell(i, p.st.Paused, p.zone); g != nil {
			letters = append(letters, p.letter(w.Who(), *g))
		}
	}
	kept := make([]lease.Ticket, 0, len(l.tickets))
	for _, w := range l.tickets {
		kept = append(kept, *w.Ticket)
	}
	p.st.Queue = kept
	for _, holder := range lease.Post(p.ctx, letters) {
		p.gone(holder, gets)
	}
}

// gone takes back a slot whose session had ended before it was told, and cleans up what the
// session left there before.
func (p *slotsPart) gone(holder string, gets map[string]*Lease) {
	had, new := gets[holder]
	if !new {
		p.ended(lease.Who{Holder: holder})
		return
	}
	p.drop(lease.Who{Holder: holder})
	if had != nil {
		p.lost(*had)
	}
}

func (p *slotsPart) line() *line {
	return newLine(p.st.Epoch, p.st.Queue, p.st.Leases, p.st.Shares, p.st.Seeds, p.roster())
}

func (p *slotsPart) letter(to lease.Who, g lease.Granted) lease.Letter {
	g.From, g.Run = protocol.PoolID(p.zone), to.Run
	return lease.Letter{To: to.Holder, Text: g}
}

// tellAgain takes sessions that hold a slot out of the line, and returns letters that
// repeat their grants.
func (p *slotsPart) tellAgain() (letters []lease.Letter) {
	var left []lease.Ticket
	for _, t := range p.st.Queue {
		l := p.lease(t.Holder)
		if l != nil && l.Run != t.Run {
			p.lost(*l) // held by an earlier session of that name
			l = nil
		}
		host := p.heldOn(l)
		if l == nil || l.Warm != nil || host == nil { // host is not in the inventory yet
			left = append(left, t)
			continue
		}
		l.Seed = cmp.Or(t.Seed, l.Seed)
		spec := host.Spec
		letters = append(letters, p.letter(t.Who(), lease.Granted{Epoch: l.Epoch, Spec: &spec, Labels: host.Labels}))
	}
	p.st.Queue = left
	return letters
}

func (p *slotsPart) grant(w *waiter) lease.Letter {
	spec := w.got.Spec
	p.comesBack(w.Holder, spec.Name)
	p.st.Epoch++
	p.st.Leases = append(p.st.Leases, Lease{Holder: w.Holder, Host: spec.Name, Epoch: p.st.Epoch, Seed: w.Seed, Run: w.Run,
		Tenant: w.Tenant, Since: workflow.Now(p.ctx)})
	return p.letter(w.Who(), lease.Granted{Epoch: p.st.Epoch, Spec: &spec, Labels: w.got.Labels})
}

// toTell returns news about its place for a session, or nil if there is none worth a
// letter.
func (w *waiter) toTell(place int, paused *protocol.PoolPause, zone string) *lease.Granted {
	why := pausedText(paused, zone)
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
	return &lease.Granted{Queued: "a slot: " + why + lease.Before(place)}
}

// enqueue adds a request. A session that asks again keeps its place and is told it again.
func (p *slotsPart) enqueue(a lease.Acquire) {
	p.work = true
	if no := p.cannotWait(a); no != nil {
		p.no = append(p.no, *no)
		return
	}
	if now := workflow.Now(p.ctx); a.AskedAt.IsZero() || a.AskedAt.After(now) {
		a.AskedAt = now
	}
	if i := slices.IndexFunc(p.st.Queue, func(q lease.Ticket) bool { return q.Holder == a.Holder }); i >= 0 {
		if was := p.st.Queue[i].AskedAt; !was.IsZero() && p.st.Queue[i].Run == a.Run {
			a.AskedAt = was
		}
		p.st.Queue[i] = lease.Ticket{Acquire: a}
		return
	}
	p.st.Queue = append(p.st.Queue, lease.Ticket{Acquire: a})
}

// cannotWait refuses a request that is too large or not valid, or returns nil.
func (p *slotsPart) cannotWait(a lease.Acquire) *lease.Letter {
	if a.TooLarge() {
		no := a.Decline(protocol.PoolID(p.zone))
		return &no
	}
	err := a.CheckWants()
	if err == nil {
		return nil
	}
	no := p.letter(lease.Who{Holder: a.Holder, Run: a.Run}, lease.Granted{Refused: &protocol.Failure{Kind: protocol.RefusedBadInput, Message: kit.Cut(err.Error(), kit.MaxFailure),
		Hint: "`ctl run --help` says what can be asked for"}})
	return &no
}

func (l *Lease) tenant() string { return cmp.Or(l.Tenant, protocol.DefaultTenant) }

func (p *slotsPart) share(tenant string) *Share {
	i, found := slices.BinarySearchFunc(p.st.Shares, tenant, func(s Share, name string) int { return strings.Compare(s.Tenant, name) })
	if !found {
		p.st.Shares = slices.Insert(p.st.Shares, i, Share{Tenant: tenant})
	}
	return &p.st.Shares[i]
}

// release takes a slot back. A request that the holder made later stays in the queue, in
// whichever order the two signals are read.
func (p *slotsPart) release(r lease.Release) {
	by := lease.Who{Holder: r.Holder, Run: r.Run}
	l := p.lease(r.Holder)
	if l != nil && !by.Is(lease.Who{Holder: l.Holder, Run: l.Run}) {
		l = nil
	}
	p.st.Queue = slices.DeleteFunc(p.st.Queue, func(t lease.Ticket) bool { return by.Is(t.Who()) && t.Generation <= r.Generation })
	p.work = true
	if h := p.heldOn(l); h != nil && r.Failed != nil && hosts.HostFault(r.Failed.Kind) {
		p.health.failed(h, r.Failed)
	} else if h != nil && r.Left == nil {
		h.Reached = true // the session was cleaned up there
	}
	switch {
	case r.Left != nil && (l != nil || p.host(r.Left.Host) != nil):
		was := Lease{Holder: r.Holder, Host: r.Left.Host}
		if l != nil {
			was.Seed = l.Seed
			was.Host = cmp.Or(was.Host, l.Host)
		}
		p.leftovers.leave(was, *r.Left)
	case r.Warm != nil && l != nil:
		l.Warm = r.Warm
		p.coolDown()
		return
	}
	p.dropLease(by)
}

// coolDown cleans up the folder that is parked longest if there are more than MaxWarm. The
// store has all of the session.
func (p *slotsPart) coolDown() {
	n, first := 0, -1
	for i, l := range p.st.Leases {
		if l.Warm == nil {
			continue
		}
		if n++; first < 0 {
			first = i
		}
	}
	if n > MaxWarm {
		p.giveUpWarm(p.st.Leases[first], "the pool keeps track of too many folders of parked sessions")
	}
}

func (p *slotsPart) giveUpWarm(l Lease, why string) {
	left := *l.Warm
	left.Why = why
	p.leftovers.leave(l, left)
	p.dropLease(lease.Who{Holder: l.Holder, Run: l.Run})
}

// comesBack ends the parking of a holder that gets a slot. A folder on another host is
// cleaned up.
func (p *slotsPart) comesBack(holder, host string) {
	switch l := p.lease(holder); {
	case l == nil:
	case l.Host != host:
		p.giveUpWarm(*l, fmt.Sprintf("session %s goes on on host %s", holder, host))
	default:
		p.dropLease(lease.Who{Holder: holder})
	}
}

// reap takes back the leases of sessions that ended without a release.
func (p *slotsPart) reap() {
	var holders []lease.Who
	for _, l := range p.st.Leases {
		holders = append(holders, lease.Who{Holder: l.Holder, Run: l.Run})
	}
	ended, err := lease.FindEnded(p.ctx, p.roll, holders)
	if err != nil {
		workflow.GetLogger(p.ctx).Warn("holders not looked at", "error", err)
		return
	}
	for _, h := range ended {
		p.ended(h)
	}
}

// ended takes back all that an ended session held.
func (p *slotsPart) ended(h lease.Who) {
	if l := p.lease(h.Holder); l != nil && h.Is(lease.Who{Holder: l.Holder, Run: l.Run}) {
		p.lost(*l)
	}
	p.drop(h)
}

func (p *slotsPart) lost(l Lease) {
	const why = "the session's workflow ended without having cleaned up"
	if l.Warm != nil {
		p.giveUpWarm(l, why)
		return
	}
	p.leftovers.leave(l, lease.LeftBehind{Why: why})
	p.st.Leases = slices.DeleteFunc(p.st.Leases, func(x Lease) bool { return x == l })
}
