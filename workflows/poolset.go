package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
)

// Updates and queries of a pool that are not about its hosts.
const (
	UpdateSetPool   = "set_pool"   // SetPool → PoolView
	UpdatePausePool = "pause_pool" // PausePool → PoolView
	QueryPool       = "pool"       // → PoolView
	QueryPlace      = "place"      // PlaceQuery → PlaceView
)

// SetPool sets what a tenant or a seed may have. What is nil stays as it is.
type SetPool struct {
	Tenant string `json:"tenant,omitempty"`
	Seed   string `json:"seed,omitempty"`
	Weight *int   `json:"weight,omitempty"` // of a tenant's share of the slots; default 1
	Limit  *int   `json:"limit,omitempty"`  // slots at a time; 0 means no limit
	By     string `json:"by,omitempty"`
}

// PausePool stops the granting of slots, or resumes it.
type PausePool struct {
	Resume bool   `json:"resume,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// PoolPause says why no slots are granted.
type PoolPause struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	Since  time.Time `json:"since"`
}

func pausedText(p *PoolPause, zone string) string {
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

// PoolView is the Pool JSON of the command line.
type PoolView struct {
	Zone   string     `json:"zone"`
	Paused *PoolPause `json:"paused,omitempty"`
	// WaitingFor is why a pool that was begun anew grants no slot: it cannot list
	// the sessions that may hold some.
	WaitingFor *WaitingView `json:"waiting_for,omitempty"`

	Slots  int   `json:"slots"` // of all hosts
	Used   int   `json:"used"`
	Free   int   `json:"free"` // on hosts that take sessions now
	Parked int   `json:"parked"`
	Grants int64 `json:"grants"` // since the zone began

	Hosts   []PoolHost   `json:"hosts"`
	Waiting int          `json:"waiting"`
	Queue   []PoolWaiter `json:"queue"` // in the order in which they would be served
	Tenants []PoolTenant `json:"tenants"`
	Seeds   []PoolSeed   `json:"seeds"` // that have a limit here
}

// PoolHost is what a pool's view says of a host.
type PoolHost struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Slots int    `json:"slots"`
	Used  int    `json:"used"`
	// Health is nil while the host is well.
	Health *HostHealth `json:"health,omitempty"`
}

// PoolWaiter is one who waits for a slot.
type PoolWaiter struct {
	Session  string    `json:"session"`
	Position int       `json:"position"` // 1 is next
	Reason   string    `json:"reason"`
	Tenant   string    `json:"tenant"`
	Priority int       `json:"priority"`
	Host     string    `json:"host,omitempty"`    // the one that it asked for
	Selects  []string  `json:"selects,omitempty"` // what its host must meet
	Seed     string    `json:"seed,omitempty"`
	Since    time.Time `json:"since"`
}

// PoolTenant is what a tenant has, and may have.
type PoolTenant struct {
	Name    string `json:"name"`
	Weight  int    `json:"weight"`
	Limit   int    `json:"limit"` // 0 means no limit
	Used    int    `json:"used"`
	Waiting int    `json:"waiting"`
}

// PoolSeed says how many sessions use a seed on this zone's hosts, and how many
// may.
type PoolSeed struct {
	Name  string `json:"name"`
	Limit int    `json:"limit"`
	Used  int    `json:"used"`
}

// seedLimit bounds how many sessions use a seed at a time.
type seedLimit struct {
	Seed  string `json:"seed"`
	Limit int    `json:"limit"`
}

// Bounds of what people set.
const (
	MaxWeight = 1000
	MaxLimit  = 100_000
	maxSet    = 1000 // tenants and seeds together
)

func (p *slotsPart) listenPool() error {
	return firstError(
		workflow.SetQueryHandler(p.ctx, QueryPool, func() (PoolView, error) { return p.poolView(), nil }),
		workflow.SetQueryHandler(p.ctx, QueryPlace, p.placeFor),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdateSetPool,
			func(_ workflow.Context, in SetPool) (PoolView, error) { return p.setPool(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in SetPool) error { return p.checkSetPool(in) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdatePausePool,
			func(_ workflow.Context, in PausePool) (PoolView, error) { return p.pause(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in PausePool) error { return p.checkPause(in) }}),
	)
}

func (p *slotsPart) checkSetPool(in SetPool) error {
	name := cmp.Or(in.Tenant, in.Seed)
	switch err := short([]text{{"by", in.By, maxWord}}); {
	case err != nil:
		return refuse(RefusedBadInput, "set zone %s: %v", p.zone, err)
	case (in.Tenant == "") == (in.Seed == ""):
		return refuse(RefusedBadInput, "set zone %s: name a tenant or a seed", p.zone)
	case !NamePattern.MatchString(name):
		return refuse(RefusedBadInput, "set zone %s: %q is no name of a tenant or a seed", p.zone, excerpt(name, maxWord))
	case in.Weight == nil && in.Limit == nil:
		return refuse(RefusedBadInput, "set %s in zone %s: say its weight or its limit", name, p.zone)
	case in.Weight != nil && in.Seed != "":
		return refuse(RefusedBadInput, "set seed %s in zone %s: weights are of tenants", name, p.zone)
	case in.Weight != nil && (*in.Weight < 1 || *in.Weight > MaxWeight):
		return refuse(RefusedBadInput, "set %s in zone %s: weight %d is out of range (1 to %d)", name, p.zone, *in.Weight, MaxWeight)
	case in.Limit != nil && (*in.Limit < 0 || *in.Limit > MaxLimit):
		return refuse(RefusedBadInput, "set %s in zone %s: limit %d is out of range (1 to %d; 0 is none)", name, p.zone, *in.Limit, MaxLimit)
	case !p.isSet(in) && p.haveSet() >= maxSet:
		return refuse(RefusedState, "set %s in zone %s: it knows %d tenants and seeds already", name, p.zone, maxSet)
	}
	return nil
}

func (p *slotsPart) isSet(in SetPool) bool {
	if in.Tenant == "" {
		return slices.ContainsFunc(p.st.Seeds, func(s seedLimit) bool { return s.Seed == in.Seed })
	}
	return slices.ContainsFunc(p.st.Shares, func(s poolShare) bool { return s.Tenant == in.Tenant && s.kept() })
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

func (s poolShare) kept() bool { return s.Weight != 0 || s.Limit != 0 }

func (p *slotsPart) setPool(in SetPool) PoolView {
	p.roll.took()
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

func (p *slotsPart) checkPause(in PausePool) error {
	err := short([]text{{"by", in.By, maxWord}, {"reason", in.Reason, maxReason}})
	switch {
	case err != nil:
		return refuse(RefusedBadInput, "pause zone %s: %v", p.zone, err)
	case in.Resume && in.Reason != "":
		return refuse(RefusedBadInput, "resume zone %s: that needs no reason", p.zone)
	}
	return nil
}

// pause pauses or resumes the zone. A second pause gives another reason.
func (p *slotsPart) pause(in PausePool) PoolView {
	p.roll.took()
	switch p.work = true; {
	case in.Resume:
		p.st.Paused = nil
	case p.st.Paused != nil:
		p.st.Paused.By, p.st.Paused.Reason = in.By, in.Reason
	default:
		p.st.Paused = &PoolPause{Reason: in.Reason, By: in.By, Since: workflow.Now(p.ctx)}
	}
	return p.brief()
}

// brief returns the view without the queue, which may be long.
func (p *slotsPart) brief() PoolView {
	v := p.poolView()
	v.Queue = []PoolWaiter{}
	return v
}

func (p *slotsPart) poolView() PoolView {
	v := PoolView{Zone: p.zone, Paused: p.st.Paused, WaitingFor: p.census.waitingView(), Grants: p.st.Epoch, Waiting: len(p.st.Queue),
		Hosts: []PoolHost{}, Queue: []PoolWaiter{}, Tenants: []PoolTenant{}, Seeds: []PoolSeed{}}
	for _, h := range p.inventory.views() {
		v.Hosts = append(v.Hosts, PoolHost{Name: h.Name, State: h.State, Slots: h.Slots, Used: h.Used, Health: h.Health})
		v.Slots, v.Used = v.Slots+h.Slots, v.Used+h.Used
		v.Parked += p.parkedOn(h.Name)
	}
	r := p.roster()
	v.Free = r.free()
	l := newLine(p.st.Epoch, slices.Clone(p.st.Queue), p.st.Leases, p.st.Shares, p.st.Seeds, r)
	for _, c := range l.inTurn {
		v.Tenants = append(v.Tenants, PoolTenant{Name: c.Tenant, Weight: int(c.weight()), Limit: c.Limit, Used: c.used, Waiting: c.queued})
	}
	slices.SortFunc(v.Tenants, func(a, b PoolTenant) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range p.st.Seeds {
		v.Seeds = append(v.Seeds, PoolSeed{Name: s.Seed, Limit: s.Limit, Used: l.seeds[s.Seed].used})
	}
	for i, w := range l.order() {
		v.Queue = append(v.Queue, w.view(i+1))
	}
	return v
}

func (w *waiter) view(position int) PoolWaiter {
	v := PoolWaiter{Session: w.Holder, Position: position, Reason: w.Told, Tenant: w.by.Tenant, Priority: w.priority(),
		Host: w.Host, Seed: w.Seed, Since: w.AskedAt}
	for _, s := range labelSelectors(w.Labels) {
		v.Selects = append(v.Selects, s.String())
	}
	v.Selects = append(v.Selects, w.Select...)
	return v
}

// PlaceQuery asks a pool whether any of its hosts can ever serve a session.
type PlaceQuery struct {
	Host   string            `json:"host,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Select []string          `json:"select,omitempty"`
}

// PlaceView is the answer: the hosts that can serve it, or why none ever can.
type PlaceView struct {
	Hosts  []string   `json:"hosts"`
	Never  *Failure   `json:"never,omitempty"`
	Paused *PoolPause `json:"paused,omitempty"`
}

func (p *slotsPart) placeFor(q PlaceQuery) (PlaceView, error) {
	a := acquire{Host: q.Host, Labels: q.Labels, Select: q.Select}
	if a.tooLarge() {
		return PlaceView{}, fmt.Errorf("what is asked for takes %d bytes, at most %d", encoded(a), maxHost)
	}
	d := p.roster().demands(&ticket{acquire: a})
	v := PlaceView{Hosts: []string{}, Never: d.never, Paused: p.st.Paused}
	for _, s := range d.spots {
		v.Hosts = append(v.Hosts, s.Spec.Name)
	}
	return v, nil
}
