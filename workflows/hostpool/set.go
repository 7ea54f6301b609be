package hostpool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

func pausedText(p *protocol.PoolPause, zone string) string {
	if p == nil {
		return ""
	}
	text := "zone " + zone + " is paused"
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

type seedLimit struct {
	Seed  string `json:"seed"`
	Limit int    `json:"limit"`
}

const (
	MaxSet = 1000 // tenants and seeds together, with settings
)

func (p *slotsPart) listenPool() error {
	return kit.FirstError(
		workflow.SetQueryHandler(p.ctx, protocol.QueryPool, func() (protocol.PoolView, error) { return p.poolView(), nil }),
		workflow.SetQueryHandler(p.ctx, protocol.QueryPlace, p.placeFor),
		workflow.SetUpdateHandlerWithOptions(p.ctx, protocol.UpdateSetPool,
			func(_ workflow.Context, in protocol.SetPool) (protocol.PoolView, error) { return p.setPool(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in protocol.SetPool) error { return p.checkSetPool(in) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, protocol.UpdatePausePool,
			func(_ workflow.Context, in protocol.PausePool) (protocol.PoolView, error) { return p.pause(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in protocol.PausePool) error { return p.checkPause(in) }}),
	)
}

func (p *slotsPart) checkSetPool(in protocol.SetPool) error {
	name := cmp.Or(in.Tenant, in.Seed)
	switch err := kit.Short([]kit.Text{{What: "by", Is: in.By, Max: kit.MaxWord}}); {
	case err != nil:
		return kit.Refuse(protocol.RefusedBadInput, "set zone %s: %v", p.zone, err)
	case (in.Tenant == "") == (in.Seed == ""):
		return kit.Refuse(protocol.RefusedBadInput, "set zone %s: name a tenant or a seed", p.zone)
	case !protocol.NamePattern.MatchString(name):
		return kit.Refuse(protocol.RefusedBadInput, "set zone %s: %q is not a valid name of a tenant or a seed", p.zone, kit.Cut(name, kit.MaxWord))
	case in.Weight == nil && in.Limit == nil:
		return kit.Refuse(protocol.RefusedBadInput, "set %s in zone %s: say its weight or its limit", name, p.zone)
	case in.Weight != nil && in.Seed != "":
		return kit.Refuse(protocol.RefusedBadInput, "set seed %s in zone %s: only tenants have a weight; give a seed a limit", name, p.zone)
	case in.Weight != nil && (*in.Weight < 1 || *in.Weight > protocol.MaxWeight):
		return kit.Refuse(protocol.RefusedBadInput, "set %s in zone %s: weight %d is out of range (1 to %d)", name, p.zone, *in.Weight, protocol.MaxWeight)
	case in.Limit != nil && (*in.Limit < 0 || *in.Limit > protocol.MaxLimit):
		return kit.Refuse(protocol.RefusedBadInput, "set %s in zone %s: limit %d is out of range (1 to %d, 0 for no limit)", name, p.zone, *in.Limit, protocol.MaxLimit)
	case !p.isSet(in) && p.haveSet() >= MaxSet:
		return kit.Refuse(protocol.RefusedState, "set %s in zone %s: the zone has settings for %d tenants and seeds already, and can hold no more", name, p.zone, MaxSet)
	}
	return nil
}

func (p *slotsPart) isSet(in protocol.SetPool) bool {
	if in.Tenant == "" {
		return slices.ContainsFunc(p.st.Seeds, func(s seedLimit) bool { return s.Seed == in.Seed })
	}
	return slices.ContainsFunc(p.st.Shares, func(s Share) bool { return s.Tenant == in.Tenant && s.kept() })
}

func (p *slotsPart) haveSet() int {
	n := len(p.st.Seeds)
	for _, s := range p.st.Shares {
		if s.kept() {
			n++
		}
	}
	return n
}

func (s Share) kept() bool { return s.Weight != 0 || s.Limit != 0 }

func (p *slotsPart) setPool(in protocol.SetPool) protocol.PoolView {
	p.roll.Took()
	p.work = true
	if in.Tenant == "" {
		p.st.Seeds = slices.DeleteFunc(p.st.Seeds, func(s seedLimit) bool { return s.Seed == in.Seed })
		if *in.Limit > 0 {
			p.st.Seeds = append(p.st.Seeds, seedLimit{in.Seed, *in.Limit})
		}
		slices.SortFunc(p.st.Seeds, func(a, b seedLimit) int { return strings.Compare(a.Seed, b.Seed) })
		return p.brief()
	}
	s := p.share(in.Tenant)
	if in.Weight != nil {
		if s.Weight = *in.Weight; s.Weight == 1 {
			s.Weight = 0 // the default
		}
	}
	if in.Limit != nil {
		s.Limit = *in.Limit
	}
	return p.brief()
}

func (p *slotsPart) checkPause(in protocol.PausePool) error {
	err := kit.Short([]kit.Text{{What: "by", Is: in.By, Max: kit.MaxWord}, {What: "reason", Is: in.Reason, Max: kit.MaxReason}})
	switch {
	case err != nil:
		return kit.Refuse(protocol.RefusedBadInput, "pause zone %s: %v", p.zone, err)
	case in.Resume && in.Reason != "":
		return kit.Refuse(protocol.RefusedBadInput, "resume zone %s: a reason can be given only with a pause", p.zone)
	}
	return nil
}

// pause pauses or resumes the zone. A second pause replaces the person and the reason.
func (p *slotsPart) pause(in protocol.PausePool) protocol.PoolView {
	p.roll.Took()
	switch p.work = true; {
	case in.Resume:
		p.st.Paused = nil
	case p.st.Paused != nil:
		p.st.Paused.By, p.st.Paused.Reason = in.By, in.Reason
	default:
		p.st.Paused = &protocol.PoolPause{Reason: in.Reason, By: in.By, Since: workflow.Now(p.ctx)}
	}
	return p.brief()
}

// brief returns the view without the queue, which may be long.
func (p *slotsPart) brief() protocol.PoolView {
	v := p.poolView()
	v.Queue = []protocol.PoolWaiter{}
	return v
}

func (p *slotsPart) poolView() protocol.PoolView {
	v := protocol.PoolView{Zone: p.zone, Paused: p.st.Paused, WaitingFor: p.census.waitingView(), Grants: p.st.Epoch, Waiting: len(p.st.Queue),
		Hosts: []protocol.PoolHost{}, Queue: []protocol.PoolWaiter{}, Tenants: []protocol.PoolTenant{}, Seeds: []protocol.PoolSeed{}}
	for _, h := range p.inventory.views() {
		v.Hosts = append(v.Hosts, protocol.PoolHost{Name: h.Name, State: h.State, Slots: h.Slots, Used: h.Used, Health: h.Health})
		v.Slots, v.Used = v.Slots+h.Slots, v.Used+h.Used
		v.Parked += p.parkedOn(h.Name)
	}
	r := p.roster()
	v.Free = r.free()
	l := newLine(p.st.Epoch, slices.Clone(p.st.Queue), p.st.Leases, p.st.Shares, p.st.Seeds, r)
	for _, c := range l.inTurn {
		v.Tenants = append(v.Tenants, protocol.PoolTenant{Name: c.Tenant, Weight: int(c.weight()), Limit: c.Limit, Used: c.used, Waiting: c.queued})
	}
	slices.SortFunc(v.Tenants, func(a, b protocol.PoolTenant) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range p.st.Seeds {
		v.Seeds = append(v.Seeds, protocol.PoolSeed{Name: s.Seed, Limit: s.Limit, Used: l.seeds[s.Seed].used})
	}
	for i, w := range l.order() {
		v.Queue = append(v.Queue, w.view(i+1))
	}
	return v
}

func (w *waiter) view(position int) protocol.PoolWaiter {
	v := protocol.PoolWaiter{Session: w.Holder, Position: position, Reason: w.Told, Tenant: w.by.Tenant, Priority: w.Urgency(),
		Host: w.Host, Seed: w.Seed, Since: w.AskedAt}
	for _, s := range labelSelectors(w.Labels) {
		v.Selects = append(v.Selects, s.String())
	}
	v.Selects = append(v.Selects, w.Select...)
	return v
}

func (p *slotsPart) placeFor(q protocol.PlaceQuery) (protocol.PlaceView, error) {
	a := lease.Acquire{Host: q.Host, Labels: q.Labels, Select: q.Select, Elsewhere: q.Elsewhere}
	if a.TooLarge() {
		return protocol.PlaceView{}, fmt.Errorf("the host, labels and selectors of the request take %d bytes; at most %d are allowed", kit.Encoded(a), lease.MaxHost)
	}
	d := p.roster().demands(&lease.Ticket{Acquire: a})
	v := protocol.PlaceView{Hosts: []string{}, Never: d.never, Paused: p.st.Paused}
	for _, s := range d.spots {
		v.Hosts = append(v.Hosts, s.Spec.Name)
	}
	return v, nil
}
