package workflows

import (
	"cmp"
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

	Shares []poolShare `json:"shares,omitempty"` // of tenants, sorted by name
	Seeds  []seedLimit `json:"seeds,omitempty"`  // sorted by name
	Paused *PoolPause  `json:"paused,omitempty"`

	// Calling is set until the pool has asked which slots sessions hold; see rollcall.go.
	Calling bool `json:"calling,omitempty"`
	// NoList is why the pool could not list those sessions at the last attempt; nil if
	// it could, or has not tried.
	NoList *trouble `json:"no_list,omitempty"`
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
	WellAt   time.Time         `json:"well_at,omitzero"` // when it was last well again
	Flaps    int               `json:"flaps,omitempty"`  // how many probes that took
	Draining *Draining         `json:"draining,omitempty"`
	Folders  *HostFolders      `json:"folders,omitempty"` // nil until somebody looked
	Unknown  []UnknownFolder   `json:"unknown,omitempty"`
}

// hostCheck is what the pool keeps of a probe. The result of the host task has all
// of it.
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
	Seed   string `json:"seed,omitempty"` // the seed that the holder will plant there
	Run    string `json:"run,omitempty"`  // first run of the holder's workflow: another run is another session
	// Tenant is whose share the slot counts against. Since is when the slot was
	// granted.
	Tenant string    `json:"tenant,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Warm is set if the holder is parked. It takes no slot then, and its folder on
	// the host waits for it.
	Warm *leftBehind `json:"warm,omitempty"`
	// Leaves is when the drain of its host began, as the holder was told.
	Leaves time.Time `json:"leaves,omitzero"`
}

// defaultSlots is how many sessions share a host unless somebody says otherwise.
const defaultSlots = 4

// Bounds of what a pool carries, some hundred bytes each. All of it, encoded as a
// payload, must stay below Temporal's limit of 2 MiB.
const (
	maxHosts   = 1000
	maxHost    = 16 << 10 // bytes of one host's spec and labels
	maxOfHosts = 1 << 20  // of all of them
	maxHolders = 5000     // sessions with slots; more wait
	// maxLine and maxAsked bound the line. A session that finds no place in it is
	// told when to ask again (lineFull).
	maxLine  = 2000
	maxAsked = 1 << 20 // bytes of all that the tickets ask for
	maxWarm  = 1500    // folders that wait for their sessions, some 300 bytes each
)

// hostPool is the inventory of a zone and hands out slots. It never ends.
func (every intervals) hostPool(ctx workflow.Context, in PoolInput) error {
	p := &pool{ctx: ctx, reapEvery: every.reap, zone: in.Zone, st: in.Carry, watches: map[string]*watch{},
		due: map[string]bool{}, cleaning: map[string]bool{}, probing: map[string]bool{}, alarm: newAlarm(ctx, "look after holders"), roll: newRollover(ctx)}
	if p.zone == "" {
		p.zone = "default"
	}
	if p.st == nil {
		p.st = &poolState{Hosts: []poolHost{{Spec: activities.HostSpec{Name: activities.LocalHost}, Slots: defaultSlots}}, Calling: true}
	}
	p.probes = &wake{ctx: ctx, what: "hosts are due to be probed"}
	if err := p.listen(); err != nil {
		return err
	}
	if p.st.Calling {
		p.calling = map[string]bool{}
		workflow.Go(ctx, p.callRoll)
	}
	p.cleanAll() // the former run may have stopped while cleaning
	return p.run()
}

type pool struct {
	ctx       workflow.Context
	reapEvery time.Duration
	zone      string
	st        *poolState
	acq       workflow.ReceiveChannel
	rel       workflow.ReceiveChannel
	fnd       workflow.ReceiveChannel
	bck       workflow.ReceiveChannel
	awy       workflow.ReceiveChannel
	lkd       workflow.ReceiveChannel
	hld       workflow.ReceiveChannel
	// calling holds the sessions that have yet to say what they hold. It is nil
	// unless the pool waits for that.
	calling map[string]bool
	work    bool     // something arrived: serve has to look
	no      []letter // refusals that are not sent yet

	watches  map[string]*watch // by host
	due      map[string]bool   // hosts to be cleaned of leftovers
	cleaning map[string]bool   // hosts that are being cleaned
	probing  map[string]bool   // hosts that are being probed
	probes   *wake             // for the next hosts that are due

	alarm *alarm // to look after holders; its time is carried, so that no rollover delays it
	roll  *rollover
}

func (p *pool) listen() error {
	p.acq = workflow.GetSignalChannel(p.ctx, signalAcquire)
	p.rel = workflow.GetSignalChannel(p.ctx, signalRelease)
	p.fnd = workflow.GetSignalChannel(p.ctx, signalFound)
	p.bck = workflow.GetSignalChannel(p.ctx, signalHostBack)
	p.awy = workflow.GetSignalChannel(p.ctx, signalHostAway)
	p.hld = workflow.GetSignalChannel(p.ctx, signalHolds)
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
				p.st.ReapAt = workflow.Now(p.ctx).Add(p.reapEvery)
			}
			p.alarm.set(p.st.ReapAt)
		}
		err := workflow.Await(p.ctx, func() bool {
			p.drain()
			return p.work || p.alarm.due() || p.probes.due() || p.full()
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
		if p.drain(); len(p.no) == 0 {
			break
		}
		no := p.no // not carried
		p.no = nil
		for _, holder := range post(p.ctx, no) {
			p.ended(who{Holder: holder})
		}
	}
	return workflow.NewContinueAsNewError(p.ctx, TypeHostPool, PoolInput{Zone: p.zone, Carry: p.st})
}

// drain receives the signals that have arrived; session.drain says why it is done
// so.
func (p *pool) drain() {
	p.drainHolds() // before what the same sessions give back
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

// full reports whether this run is to end because its history is long enough. The
// next run would ask anew who has slots. So the run first gets the answers, unless
// its history becomes too long.
func (p *pool) full() bool { return p.roll.due() && (p.calling == nil || p.roll.overdue()) }

// release takes a slot back. What its holder asked for after that stays in the
// queue, in whichever order the two are read.
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
			was.Host = cmp.Or(was.Host, l.Host)
		}
		p.leave(was, *r.Left)
	case r.Warm != nil && l != nil:
		l.Warm = r.Warm
		p.coolDown()
		return
	}
	p.dropLease(by)
}

// coolDown cleans up the folder of the session that is parked longest, if there are
// more such folders than a pool can carry. The store has all of the session.
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

// comesBack ends the parking of a holder that gets a slot on host. If its folder is
// on another host, the folder is cleaned up.
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

// reap takes back the leases of sessions that ended without a release.
func (p *pool) reap() {
	var holders []who
	for _, l := range p.st.Leases {
		holders = append(holders, who{l.Holder, l.Run})
	}
	ended, err := findEnded(p.ctx, p.roll, holders)
	if err != nil {
		workflow.GetLogger(p.ctx).Warn("holders not looked at", "error", err)
		return
	}
	for _, h := range ended {
		p.ended(h)
	}
}

// ended takes back what a session held whose workflow has ended, and has its
// leftovers cleaned up.
func (p *pool) ended(h who) {
	if l := p.lease(h.Holder); l != nil && h.is(who{l.Holder, l.Run}) {
		p.lost(*l)
	}
	p.drop(h)
}

// lost takes a slot back from a session that ended without a release.
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
