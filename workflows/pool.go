package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// PoolInput starts a HostPool workflow.
type PoolInput struct {
	Zone  string     `json:"zone"`
	Carry *poolState `json:"carry,omitempty"`
}

// poolState is all that a pool carries across continue-as-new.
type poolState struct {
	Hosts  []poolHost  `json:"hosts"`
	Leases []poolLease `json:"leases"`
	Queue  []ticket    `json:"queue"`
	Epoch  int64       `json:"epoch"` // rises with every grant
	ReapAt time.Time   `json:"reap_at"`
	// Leftovers are what sessions may have left on hosts, and the newest proofs
	// that it is gone; oldest first.
	Leftovers []poolLeftover `json:"leftovers,omitempty"`

	Shares []poolShare `json:"shares,omitempty"` // of the tenants, by name
	Seeds  []seedLimit `json:"seeds,omitempty"`  // by name
	Paused *PoolPause  `json:"paused,omitempty"`
}

type poolHost struct {
	Spec   activities.HostSpec `json:"spec"`
	Labels map[string]string   `json:"labels,omitempty"`
	Slots  int                 `json:"slots"`
	Cordon bool                `json:"cordon,omitempty"`
	Codex  string              `json:"codex,omitempty"`
	Check  *hostCheck          `json:"check,omitempty"`
	// Found are labels that a probe found: see labelsOf.
	Found    map[string]string `json:"found,omitempty"`
	Health   *HostHealth       `json:"health,omitempty"` // nil while it is well
	NewAt    time.Time         `json:"new_at,omitzero"`  // when it is to be probed for the first time
	Reached  bool              `json:"reached,omitempty"`
	WellAt   time.Time         `json:"well_at,omitzero"` // when it was well again, and
	Flaps    int               `json:"flaps,omitempty"`  // after how many probes
	Draining *Draining         `json:"draining,omitempty"`
	Folders  *HostFolders      `json:"folders,omitempty"` // nil until somebody looked
	Unknown  []UnknownFolder   `json:"unknown,omitempty"`
}

// hostCheck is what the pool keeps of a probe; the whole is the result of the
// host task.
type hostCheck struct {
	OK      bool      `json:"ok"`
	At      time.Time `json:"at"`
	Sandbox string    `json:"sandbox,omitempty"`
	Codex   string    `json:"codex,omitempty"`
}

type poolLease struct {
	Holder string `json:"holder"`
	Host   string `json:"host"`
	Epoch  int64  `json:"epoch"`
	Seed   string `json:"seed,omitempty"` // that it will plant there
	Run    string `json:"run,omitempty"`  // of the holder's workflow: another one is another session
	// Tenant is for whom it counts, and Since when.
	Tenant string    `json:"tenant,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Warm is of a holder that is parked: it takes no slot, and its folder on
	// the host waits for it.
	Warm *leftBehind `json:"warm,omitempty"`
	// Leaves is since when its host is drained, as the holder was told.
	Leaves time.Time `json:"leaves,omitzero"`
}

// defaultSlots is how many sessions share a host unless somebody says otherwise.
const defaultSlots = 4

// Bounds of what a pool carries: some hundred bytes each. All of it, packed as
// payloads are, has to stay below the 2 MiB that Temporal takes.
const (
	maxHosts   = 1000
	maxHost    = 16 << 10 // bytes of one host's spec and labels
	maxOfHosts = 1 << 20  // of all of them
	maxHolders = 5000     // who have slots
	maxLine    = 2000
	maxAsked   = 1 << 20 // bytes of all that they ask for
	maxWarm    = 1500    // folders that wait for their sessions, some 300 bytes each
)

// HostPool is the inventory of a zone and hands out slots. It never ends.
func HostPool(ctx workflow.Context, in PoolInput) error {
	p := &pool{ctx: ctx, zone: in.Zone, st: in.Carry, watches: map[string]*watch{},
		due: map[string]bool{}, cleaning: map[string]bool{}, probing: map[string]bool{}, alarm: newAlarm(ctx, "look after holders"), roll: newRollover(ctx)}
	if p.zone == "" {
		p.zone = "default"
	}
	if p.st == nil {
		p.st = &poolState{Hosts: []poolHost{{Spec: activities.HostSpec{Name: activities.LocalHost}, Slots: defaultSlots}}}
	}
	p.probes = &wake{ctx: ctx, what: "hosts are due to be probed"}
	if err := p.listen(); err != nil {
		return err
	}
	p.cleanAll() // what the former run was at
	return p.run()
}

type pool struct {
	ctx  workflow.Context
	zone string
	st   *poolState
	acq  workflow.ReceiveChannel
	rel  workflow.ReceiveChannel
	fnd  workflow.ReceiveChannel
	bck  workflow.ReceiveChannel
	awy  workflow.ReceiveChannel
	lkd  workflow.ReceiveChannel
	work bool     // something arrived: look who can be served
	no   []letter // to whom what they asked for is refused, not sent

	watches  map[string]*watch // by host
	due      map[string]bool   // hosts to be cleaned of leftovers
	cleaning map[string]bool   // hosts where somebody does
	probing  map[string]bool   // hosts that are looked at
	probes   *wake             // for the next that are due

	alarm *alarm // for the holders; its time is carried, so that no rollover puts it off
	roll  *rollover
}

func (p *pool) listen() error {
	p.acq = workflow.GetSignalChannel(p.ctx, signalAcquire)
	p.rel = workflow.GetSignalChannel(p.ctx, signalRelease)
	p.fnd = workflow.GetSignalChannel(p.ctx, signalFound)
	p.bck = workflow.GetSignalChannel(p.ctx, signalHostBack)
	p.awy = workflow.GetSignalChannel(p.ctx, signalHostAway)
	p.lkd = workflow.GetSignalChannel(p.ctx, signalLooked)
	return firstError(
		p.listenPool(),
		workflow.SetQueryHandler(p.ctx, QueryHosts, func() ([]HostView, error) { return p.views(), nil }),
		workflow.SetQueryHandler(p.ctx, activities.QueryLeft, func() ([]activities.LeftThere, error) { return p.leftThere(), nil }),
		workflow.SetQueryHandler(p.ctx, activities.QueryFolders, func() ([]activities.LeftThere, error) { return p.folders(), nil }),
		workflow.SetQueryHandler(p.ctx, QueryHost, func(name string) (HostView, error) {
			h := p.host(name)
			if h == nil {
				return HostView{}, refuse(RefusedNotFound, "zone %s has no host %q", p.zone, name)
			}
			return p.view(h), nil
		}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdatePutHost,
			func(_ workflow.Context, in PutHost) (HostView, error) { p.roll.took(); return p.put(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in PutHost) error { return p.checkPutAll(PutHosts{Hosts: []PutHost{in}}) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdatePutHosts,
			func(_ workflow.Context, in PutHosts) (PutHostsDone, error) { p.roll.took(); return p.putAll(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in PutHosts) error { return p.checkPutAll(in) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdateRemoveHost,
			func(_ workflow.Context, in RemoveHost) (HostView, error) {
				p.roll.took()
				return p.remove(in.Name), nil
			},
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in RemoveHost) error { return p.checkRemove(in) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdateSetHost,
			func(_ workflow.Context, in SetHost) (HostView, error) { p.roll.took(); return p.set(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in SetHost) error { return p.checkSet(in) }}),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// run serves the queue whenever something changed, looks after the holders from
// time to time, and continues as new when its history grows.
func (p *pool) run() error {
	for {
		p.serve()
		p.haveLeave()
		p.probe()
		p.keepWatch()
		p.clean()
		if len(p.st.Leases)+len(p.watches) > 0 || p.unclean() {
			if p.st.ReapAt.IsZero() {
				p.st.ReapAt = workflow.Now(p.ctx).Add(reapEvery)
			}
			p.alarm.set(p.st.ReapAt)
		}
		err := workflow.Await(p.ctx, func() bool {
			p.drain()
			return p.work || p.alarm.due() || p.probes.due() || p.roll.due()
		})
		if err != nil {
			return err
		}
		if p.alarm.off() {
			p.st.ReapAt = time.Time{}
			p.reap()
			p.tendWatches()
			p.cleanAll()
		}
		if p.roll.due() { // whatever there is to do: somebody may ask all the time
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
		if p.drain(); len(p.no) == 0 {
			break
		}
		no := p.no // is not carried
		p.no = nil
		for _, holder := range post(p.ctx, no) {
			p.ended(who{Holder: holder})
		}
	}
	return workflow.NewContinueAsNewError(p.ctx, HostPool, PoolInput{Zone: p.zone, Carry: p.st})
}

// drain takes the signals that lie unread; see session.drain for why so.
func (p *pool) drain() {
	for {
		var a acquire
		if !p.acq.ReceiveAsync(&a) {
			break
		}
		if NamePattern.MatchString(a.Holder) {
			p.enqueue(a)
		}
	}
	for {
		var r release
		if !p.rel.ReceiveAsync(&r) {
			break
		}
		p.release(r)
	}
	for {
		var f SetHost
		if !p.fnd.ReceiveAsync(&f) {
			break
		}
		p.found(f)
	}
	p.drainAway()
	p.drainBack()
	p.drainLooked()
}

// release takes a slot back. What its holder asks for since is not taken back
// with it, in whichever order the two are read.
func (p *pool) release(r release) {
	by := who{r.Holder, r.Run}
	l := p.lease(r.Holder)
	if l != nil && !by.is(who{l.Holder, l.Run}) {
		l = nil
	}
	p.st.Queue = slices.DeleteFunc(p.st.Queue, func(t ticket) bool { return by.is(t.who()) && t.Generation <= r.Generation })
	p.work = true
	if h := p.heldOn(l); h != nil && r.Failed != nil && activities.HostFault(r.Failed.Kind) {
		p.failed(h, r.Failed)
	} else if h != nil && r.Left == nil {
		h.Reached = true // it was cleaned up there
	}
	switch {
	case r.Left != nil && (l != nil || p.host(r.Left.Host) != nil):
		was := poolLease{Holder: r.Holder, Host: r.Left.Host}
		if l != nil {
			was.Seed = l.Seed
			was.Host = orElse(was.Host, l.Host)
		}
		p.leave(was, *r.Left)
	case r.Warm != nil && l != nil:
		l.Warm = r.Warm
		p.coolDown()
		return
	}
	p.dropLease(by)
}

// coolDown has the folder of the session cleaned up that is parked longest, when
// more wait than a pool can carry: its session finds all of it in the store.
func (p *pool) coolDown() {
	n, first := 0, -1
	for i, l := range p.st.Leases {
		if l.Warm == nil {
			continue
		}
		if n++; first < 0 {
			first = i
		}
	}
	if n > maxWarm {
		p.giveUpWarm(p.st.Leases[first], "more parked sessions have a folder on a host than its pool can remember")
	}
}

// giveUpWarm has the folder of a parked session cleaned up.
func (p *pool) giveUpWarm(l poolLease, why string) {
	left := *l.Warm
	left.Why = why
	p.leave(l, left)
	p.dropLease(who{l.Holder, l.Run})
}

// comesBack ends that a holder is parked. The folder of one that goes on
// elsewhere is cleaned up.
func (p *pool) comesBack(holder, host string) {
	switch l := p.lease(holder); {
	case l == nil:
	case l.Host != host:
		p.giveUpWarm(*l, fmt.Sprintf("session %s goes on on host %s", holder, host))
	default:
		p.dropLease(who{Holder: holder})
	}
}

func (p *pool) lease(holder string) *poolLease {
	for i := range p.st.Leases {
		if p.st.Leases[i].Holder == holder {
			return &p.st.Leases[i]
		}
	}
	return nil
}

func (p *pool) drop(h who) {
	p.dropLease(h)
	p.st.Queue = slices.DeleteFunc(p.st.Queue, func(t ticket) bool { return h.is(t.who()) })
	p.work = true
}

func (p *pool) dropLease(h who) {
	p.st.Leases = slices.DeleteFunc(p.st.Leases, func(l poolLease) bool { return h.is(who{l.Holder, l.Run}) })
}

// reap takes back the leases of those who ended without a word.
func (p *pool) reap() {
	var holders []who
	for _, l := range p.st.Leases {
		holders = append(holders, who{l.Holder, l.Run})
	}
	ended, err := findEnded(p.ctx, holders)
	if err != nil {
		workflow.GetLogger(p.ctx).Warn("holders not looked at", "error", err)
		return
	}
	for _, h := range ended {
		p.ended(h)
	}
}

// ended takes back what somebody held who can say nothing any more, and sees
// to what is left of him.
func (p *pool) ended(h who) {
	if l := p.lease(h.Holder); l != nil && h.is(who{l.Holder, l.Run}) {
		p.lost(*l)
	}
	p.drop(h)
}

// lost takes a slot back from a session that ended without a word.
func (p *pool) lost(l poolLease) {
	const why = "the session's workflow ended without having cleaned up"
	if l.Warm != nil {
		p.giveUpWarm(l, why)
		return
	}
	p.leave(l, leftBehind{Why: why})
	p.st.Leases = slices.DeleteFunc(p.st.Leases, func(x poolLease) bool { return x == l })
}

func (p *pool) host(name string) *poolHost {
	for i := range p.st.Hosts {
		if p.st.Hosts[i].Spec.Name == name {
			return &p.st.Hosts[i]
		}
	}
	return nil
}

func (p *pool) used(name string) int {
	n := 0
	for _, l := range p.st.Leases {
		if l.Host == name && l.Warm == nil {
			n++
		}
	}
	return n
}
