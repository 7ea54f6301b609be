package hostpool

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

type poolCore struct {
	ctx workflow.Context
	// reapEvery is the interval of the checks for ended holders.
	reapEvery time.Duration

	zone string
	st   *State
	roll *kit.Rollover
	work bool // something arrived: serve has to look
}

// pool is the workflow while it runs. Each part does the work for one subject. Its fields
// name the other parts that it calls.
type pool struct {
	*poolCore
	inventory *inventoryPart
	slots     *slotsPart
	health    *healthPart
	leftovers *leftoversPart
	watches   *watchesPart
	census    *censusPart

	acq   workflow.ReceiveChannel
	rel   workflow.ReceiveChannel
	fnd   workflow.ReceiveChannel
	alarm *kit.Alarm // its time is carried, so that no rollover delays it
}

func poolOf(c *poolCore) *pool {
	p := &pool{poolCore: c, inventory: new(inventoryPart), slots: new(slotsPart), health: new(healthPart), leftovers: new(leftoversPart),
		watches: &watchesPart{poolCore: c, running: map[string]*watch{}}, census: new(censusPart), alarm: kit.NewAlarm(c.ctx, "look after holders")}
	*p.inventory = inventoryPart{poolCore: c, health: p.health, leftovers: p.leftovers, census: p.census}
	*p.slots = slotsPart{poolCore: c, inventory: p.inventory, health: p.health, leftovers: p.leftovers, census: p.census}
	*p.health = healthPart{poolCore: c, leftovers: p.leftovers, probing: map[string]bool{}, probes: kit.NewWake(c.ctx, "hosts are due to be probed")}
	*p.leftovers = leftoversPart{poolCore: c, health: p.health, due: map[string]bool{}, cleaning: map[string]bool{}}
	*p.census = censusPart{poolCore: c, slots: p.slots, drain: p.drain}
	return p
}

func (p *poolCore) host(name string) *Host {
	for i := range p.st.Hosts {
		if p.st.Hosts[i].Spec.Name == name {
			return &p.st.Hosts[i]
		}
	}
	return nil
}

func (p *poolCore) lease(holder string) *Lease {
	for i := range p.st.Leases {
		if p.st.Leases[i].Holder == holder {
			return &p.st.Leases[i]
		}
	}
	return nil
}

func (p *poolCore) used(name string) int {
	n := 0
	for _, l := range p.st.Leases {
		if l.Host == name && l.Warm == nil {
			n++
		}
	}
	return n
}

func (p *poolCore) drop(h lease.Who) {
	p.dropLease(h)
	p.st.Queue = slices.DeleteFunc(p.st.Queue, func(t lease.Ticket) bool { return h.Is(t.Who()) })
	p.work = true
}

func (p *poolCore) dropLease(h lease.Who) {
	p.st.Leases = slices.DeleteFunc(p.st.Leases, func(l Lease) bool { return h.Is(lease.Who{Holder: l.Holder, Run: l.Run}) })
}

func (p *poolCore) heldOn(l *Lease) *Host {
	if l == nil {
		return nil
	}
	return p.host(l.Host)
}

func (p *poolCore) parkedOn(name string) int {
	n := 0
	for _, l := range p.st.Leases {
		if l.Host == name && l.Warm != nil {
			n++
		}
	}
	return n
}

func (p *poolCore) holders(name string) []string {
	var out []string
	for _, l := range p.st.Leases {
		if l.Host == name && l.Warm == nil {
			out = append(out, l.Holder)
		}
	}
	return out
}

// lies reports whether a credential may remain on a host after its session ended.
func (p *poolCore) lies(name string) bool {
	left, _ := p.leftOn(name)
	return left > 0
}

// leftOn counts the unwiped leftovers on a host, and lists all with their proofs.
func (p *poolCore) leftOn(host string) (open int, all []protocol.Leftover) {
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.Host == host {
			all = append(all, l.Leftover)
			if l.open() {
				open++
			}
		}
	}
	return open, all
}
