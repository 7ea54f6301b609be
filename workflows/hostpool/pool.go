package hostpool

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// Input starts a HostPool workflow.
type Input struct {
	Auth  *protocol.Auth `json:"auth,omitempty"` // of who starts it, as in all signed starts
	Zone  string         `json:"zone"`
	Carry *State         `json:"carry,omitempty"`

	newer kit.Newer // a field that this program does not know
}

// UnmarshalJSON notes a field that this program does not know.
func (in *Input) UnmarshalJSON(raw []byte) (err error) {
	type plain Input
	in.newer, err = kit.Known(raw, (*plain)(in))
	return err
}

// Required implements newer.Input.
func (in Input) Required() []string { return nil }

// Unknown implements newer.Input.
func (in Input) Unknown() []string { return in.newer.Fields() }

// Given returns the JSON of an input that has a field which this program does not know, and
// otherwise nil. The signature of a start is of this JSON.
func (in Input) Given() []byte { return in.newer.Given() }

// State is all that a pool carries across continue-as-new.
type State struct {
	Hosts  []Host         `json:"hosts"`
	Leases []Lease        `json:"leases"`
	Queue  []lease.Ticket `json:"queue"`
	Epoch  int64          `json:"epoch"`
	ReapAt time.Time      `json:"reap_at"`
	// Leftovers has the newest proofs too, oldest first.
	Leftovers []Leftover `json:"leftovers,omitempty"`

	Shares []Share             `json:"shares,omitempty"` // sorted by tenant
	Seeds  []seedLimit         `json:"seeds,omitempty"`  // sorted by name
	Paused *protocol.PoolPause `json:"paused,omitempty"`

	// Calling is set until the sessions were asked which slots they hold: see census.go.
	Calling bool `json:"calling,omitempty"`
	// NoList is the failure of the last attempt to list the sessions, or nil.
	NoList *kit.Trouble `json:"no_list,omitempty"`
	// Commands are those that were signed, so that each counts once.
	Commands command.Nonces `json:"commands,omitzero"`
	// Audit has the records of accepted commands that may not be in the store.
	Audit audit.Chain `json:"audit,omitzero"`
}

// Host is a host of the zone, with what is known of it.
type Host struct {
	Spec     protocol.HostSpec        `json:"spec"`
	Labels   map[string]string        `json:"labels,omitempty"`
	Slots    int                      `json:"slots"`
	Cordon   bool                     `json:"cordon,omitempty"`
	Codex    string                   `json:"codex,omitempty"`
	Check    *HostCheck               `json:"check,omitempty"`
	Found    map[string]string        `json:"found,omitempty"`
	Health   *protocol.HostHealth     `json:"health,omitempty"` // nil while it is well
	NewAt    time.Time                `json:"new_at,omitzero"`  // first probe
	Reached  bool                     `json:"reached,omitempty"`
	WellAt   time.Time                `json:"well_at,omitzero"` // its last recovery
	Flaps    int                      `json:"flaps,omitempty"`  // probes that recovery took
	Draining *protocol.Draining       `json:"draining,omitempty"`
	Folders  *protocol.HostFolders    `json:"folders,omitempty"` // nil until somebody looked
	Unknown  []protocol.UnknownFolder `json:"unknown,omitempty"`
}

// HostCheck is what the pool keeps of a check.
type HostCheck struct {
	OK      bool      `json:"ok"`
	At      time.Time `json:"at"`
	Sandbox string    `json:"sandbox,omitempty"`
	Codex   string    `json:"codex,omitempty"`
}

// Lease is a slot that a session holds, or the folder of a parked session.
type Lease struct {
	Holder string `json:"holder"`
	Host   string `json:"host"`
	Epoch  int64  `json:"epoch"`
	Seed   string `json:"seed,omitempty"` // to be planted there
	Run    string `json:"run,omitempty"`  // first run of the holder's workflow: another run is another session
	// Tenant is that against whose share the slot counts. Since is the time of the grant.
	Tenant string    `json:"tenant,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Warm is set if the holder is parked: it takes no slot, and its folder stays.
	Warm *lease.LeftBehind `json:"warm,omitempty"`
	// Leaves is the start of the drain of which the holder was told, or zero.
	Leaves time.Time `json:"leaves,omitzero"`
}

const defaultSlots = 4

// Bounds of the state, which as a payload must stay below Temporal's limit of 2 MiB.
const (
	MaxHosts = 1000

	MaxOfHosts = 1 << 20 // bytes of all specs and labels
	maxHolders = 5000    // sessions with slots; further sessions wait

	maxAsked = 1 << 20 // bytes of all tickets
	MaxWarm  = 1500    // folders of parked sessions, some 300 bytes each
)

// Run returns the workflow HostPool.
func Run(every kit.Intervals) func(workflow.Context, Input) error {
	return func(ctx workflow.Context, in Input) error { return runPool(ctx, every, in) }
}

func runPool(ctx workflow.Context, every kit.Intervals, in Input) error {
	p := poolOf(&poolCore{ctx: ctx, reapEvery: every.Reap, zone: in.Zone, st: in.Carry, roll: kit.NewRollover(ctx)})
	if p.zone == "" {
		p.zone = "default"
	}
	if p.st == nil {
		p.st = &State{Hosts: []Host{{Spec: protocol.HostSpec{Name: protocol.LocalHost}, Slots: defaultSlots}}, Calling: true}
	}
	authority.Remember(ctx, &p.st.Commands)
	authority.Record(ctx, &p.st.Audit).Keep()
	if err := p.listen(); err != nil {
		return err
	}
	if p.st.Calling {
		p.census.calling = map[string]bool{}
		workflow.Go(ctx, p.census.callRoll)
	}
	p.leftovers.cleanAll() // the former run may have stopped while cleaning
	return p.run()
}

func (p *pool) listen() error {
	p.acq = workflow.GetSignalChannel(p.ctx, lease.SignalAcquire)
	p.rel = workflow.GetSignalChannel(p.ctx, lease.SignalRelease)
	p.fnd = workflow.GetSignalChannel(p.ctx, lease.SignalFound)
	p.leftovers.bck = workflow.GetSignalChannel(p.ctx, lease.SignalHostBack)
	p.health.awy = workflow.GetSignalChannel(p.ctx, protocol.SignalHostAway)
	p.census.hld = workflow.GetSignalChannel(p.ctx, lease.SignalHolds)
	p.leftovers.lkd = workflow.GetSignalChannel(p.ctx, lease.SignalLooked)
	authority.KnowHosts(p.ctx, func(name string) (map[string]string, bool) {
		h := p.host(name)
		if h == nil {
			return nil, false
		}
		return h.Labels, true
	})
	return kit.FirstError(
		p.slots.listenPool(),
		workflow.SetQueryHandler(p.ctx, protocol.QueryHosts, func() ([]protocol.HostView, error) { return p.inventory.views(), nil }),
		workflow.SetQueryHandler(p.ctx, protocol.QueryLeft, func() ([]inquiry.LeftThere, error) { return p.leftovers.leftThere(), nil }),
		workflow.SetQueryHandler(p.ctx, protocol.QueryFolders, func() ([]inquiry.LeftThere, error) { return p.leftovers.folders(), nil }),
		workflow.SetQueryHandler(p.ctx, protocol.QueryHost, func(name string) (protocol.HostView, error) {
			h := p.host(name)
			if h == nil {
				return protocol.HostView{}, kit.Refuse(protocol.RefusedNotFound, "zone %s has no host %q", p.zone, name)
			}
			return p.inventory.view(h), nil
		}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, protocol.UpdatePutHost,
			func(_ workflow.Context, in protocol.PutHost) (protocol.HostView, error) {
				p.roll.Took()
				return p.inventory.put(in), nil
			},
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in protocol.PutHost) error {
				return p.inventory.checkPutAll(protocol.PutHosts{Hosts: []protocol.PutHost{in}})
			}}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, protocol.UpdatePutHosts,
			func(_ workflow.Context, in protocol.PutHosts) (protocol.PutHostsDone, error) {
				p.roll.Took()
				return p.inventory.putAll(in), nil
			},
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in protocol.PutHosts) error { return p.inventory.checkPutAll(in) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, protocol.UpdateRemoveHost,
			func(_ workflow.Context, in protocol.RemoveHost) (protocol.HostView, error) {
				p.roll.Took()
				return p.inventory.remove(in.Name), nil
			},
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in protocol.RemoveHost) error { return p.inventory.checkRemove(in) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, protocol.UpdateSetHost,
			func(_ workflow.Context, in protocol.SetHost) (protocol.HostView, error) {
				p.roll.Took()
				return p.inventory.set(in), nil
			},
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in protocol.SetHost) error { return p.inventory.checkSet(in) }}),
	)
}

func (p *pool) run() error {
	for {
		p.slots.serve()
		p.slots.haveLeave()
		p.health.probe()
		p.watches.keepWatch()
		p.leftovers.clean()
		if len(p.st.Leases)+len(p.watches.running) > 0 || p.leftovers.unclean() {
			if p.st.ReapAt.IsZero() {
				p.st.ReapAt = workflow.Now(p.ctx).Add(p.reapEvery)
			}
			p.alarm.Set(p.st.ReapAt)
		}
		err := workflow.Await(p.ctx, func() bool {
			p.drain()
			return p.work || p.alarm.Due() || p.health.probes.Due() || p.full()
		})
		if err != nil {
			return err
		}
		if p.alarm.Off() {
			p.st.ReapAt = time.Time{}
			p.slots.reap()
			p.watches.tendWatches()
			p.leftovers.cleanAll()
		}
		if p.full() { // even if there is work to do: requests may never stop
			return p.rollOver()
		}
	}
}

func (p *pool) rollOver() error {
	for {
		err := workflow.Await(p.ctx, func() bool { p.drain(); return workflow.AllHandlersFinished(p.ctx) })
		if err != nil {
			return err
		}
		if p.drain(); len(p.slots.no) == 0 {
			break
		}
		no := p.slots.no // the refusals are not carried to the next run
		p.slots.no = nil
		for _, holder := range lease.Post(p.ctx, no) {
			p.slots.ended(lease.Who{Holder: holder})
		}
	}
	return workflow.NewContinueAsNewError(p.ctx, protocol.TypeHostPool, Input{Zone: p.zone, Carry: p.st})
}

// drain receives the signals that have arrived; session.drain says why no coroutine does
// that.
func (p *pool) drain() {
	p.census.drainHolds() // before the releases of the same sessions
	for {
		var a lease.Acquire
		if !p.acq.ReceiveAsync(&a) {
			break
		}
		if protocol.NamePattern.MatchString(a.Holder) {
			p.slots.enqueue(a)
		}
	}
	for {
		var r lease.Release
		if !p.rel.ReceiveAsync(&r) {
			break
		}
		p.slots.release(r)
	}
	for {
		var f protocol.SetHost
		if !p.fnd.ReceiveAsync(&f) {
			break
		}
		p.inventory.found(f)
	}
	p.health.drainAway()
	p.leftovers.drainBack()
	p.leftovers.drainLooked()
}

// full reports whether the run is to end. While sessions are asked what they hold, it goes
// on unless its history becomes too long, because the next run would have to ask again.
func (p *pool) full() bool { return p.roll.Due() && (p.census.calling == nil || p.roll.Overdue()) }
