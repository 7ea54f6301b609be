package workflows

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
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
}

type poolHost struct {
	Spec   activities.HostSpec         `json:"spec"`
	Labels map[string]string           `json:"labels,omitempty"`
	Slots  int                         `json:"slots"`
	Cordon bool                        `json:"cordon,omitempty"`
	Codex  string                      `json:"codex,omitempty"`
	Check  *activities.CheckHostResult `json:"check,omitempty"`
}

type poolLease struct {
	Holder string `json:"holder"`
	Host   string `json:"host"`
	Epoch  int64  `json:"epoch"`
}

// ticket is somebody in line, and what it was told last.
type ticket struct {
	acquire
	Told string `json:"told,omitempty"`
}

// letter is an answer on its way.
type letter struct {
	to   string
	text granted
}

// defaultSlots is how many sessions share a host unless somebody says otherwise.
const defaultSlots = 4

// reapEvery is how often a pool looks whether those who hold a lease still live.
const reapEvery = 5 * time.Minute

// HostPool is the inventory of a zone and hands out slots. It never ends.
func HostPool(ctx workflow.Context, in PoolInput) error {
	p := &pool{ctx: ctx, zone: in.Zone, st: in.Carry}
	if p.zone == "" {
		p.zone = "default"
	}
	if p.st == nil {
		p.st = &poolState{Hosts: []poolHost{{Spec: activities.HostSpec{Name: activities.LocalHost}, Slots: defaultSlots}}}
	}
	if err := p.listen(); err != nil {
		return err
	}
	return p.run()
}

type pool struct {
	ctx  workflow.Context
	zone string
	st   *poolState
	acq  workflow.ReceiveChannel
	rel  workflow.ReceiveChannel
	fnd  workflow.ReceiveChannel
	work bool // something arrived: look who can be served
}

func (p *pool) listen() error {
	p.acq = workflow.GetSignalChannel(p.ctx, signalAcquire)
	p.rel = workflow.GetSignalChannel(p.ctx, signalRelease)
	p.fnd = workflow.GetSignalChannel(p.ctx, signalFound)
	return firstError(
		workflow.SetQueryHandler(p.ctx, QueryHosts, func() ([]HostView, error) { return p.views(), nil }),
		workflow.SetQueryHandler(p.ctx, QueryHost, func(name string) (HostView, error) {
			h := p.host(name)
			if h == nil {
				return HostView{}, refuse(RefusedNotFound, "zone %s has no host %q", p.zone, name)
			}
			return p.view(h), nil
		}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdatePutHost,
			func(_ workflow.Context, in PutHost) (HostView, error) { return p.put(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in PutHost) error { return p.checkPut(in) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdateRemoveHost,
			func(_ workflow.Context, in RemoveHost) (HostView, error) { return p.remove(in.Name), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in RemoveHost) error { return p.checkRemove(in.Name) }}),
		workflow.SetUpdateHandlerWithOptions(p.ctx, UpdateSetHost,
			func(_ workflow.Context, in SetHost) (HostView, error) { return p.set(in), nil },
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, in SetHost) error {
				if p.host(in.Name) == nil {
					return refuse(RefusedNotFound, "zone %s has no host %q", p.zone, in.Name)
				}
				return nil
			}}),
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
		ready := func() bool { p.drain(); return p.work || workflow.GetInfo(p.ctx).GetContinueAsNewSuggested() }
		var err error
		if len(p.st.Leases) > 0 {
			var ok bool
			if ok, err = workflow.AwaitWithTimeout(p.ctx, reapEvery, ready); err == nil && !ok {
				err = p.reap()
			}
		} else {
			err = workflow.Await(p.ctx, ready)
		}
		if err != nil {
			return err
		}
		if workflow.GetInfo(p.ctx).GetContinueAsNewSuggested() && !p.work {
			return p.rollOver()
		}
	}
}

func (p *pool) rollOver() error {
	err := workflow.Await(p.ctx, func() bool { p.drain(); return workflow.AllHandlersFinished(p.ctx) })
	if err != nil {
		return err
	}
	p.drain()
	return workflow.NewContinueAsNewError(p.ctx, HostPool, PoolInput{Zone: p.zone, Carry: p.st})
}

// drain takes the signals that lie unread; see session.drain for why so.
func (p *pool) drain() {
	for {
		var a acquire
		if !p.acq.ReceiveAsync(&a) {
			break
		}
		p.enqueue(a)
	}
	for {
		var r release
		if !p.rel.ReceiveAsync(&r) {
			break
		}
		p.drop(r.Holder)
	}
	for {
		var f SetHost
		if !p.fnd.ReceiveAsync(&f) {
			break
		}
		p.found(f)
	}
}

// serve grants slots in the order of asking; somebody who waits for one host
// does not hold up those who can have another. All is decided before anybody
// is told, since telling lets other messages in.
func (p *pool) serve() {
	p.work = false
	var letters []letter
	say := func(holder string, g granted) {
		g.From = PoolID(p.zone)
		letters = append(letters, letter{holder, g})
	}
	var left []ticket
	for _, t := range p.st.Queue {
		if l := p.lease(t.Holder); l != nil { // asked again: told again
			spec := p.host(l.Host).Spec
			say(t.Holder, granted{Epoch: l.Epoch, Spec: &spec})
			continue
		}
		h, why := p.choose(t.acquire)
		switch {
		case h != nil:
			p.st.Epoch++
			p.st.Leases = append(p.st.Leases, poolLease{Holder: t.Holder, Host: h.Spec.Name, Epoch: p.st.Epoch})
			spec := h.Spec
			say(t.Holder, granted{Epoch: p.st.Epoch, Spec: &spec})
		case why.Kind != "busy":
			say(t.Holder, granted{Refused: why})
		default:
			left = append(left, t)
			if t.Told != why.Message {
				left[len(left)-1].Told = why.Message
				say(t.Holder, granted{Queued: fmt.Sprintf("%s; number %d in line", why.Message, len(left))})
			}
		}
	}
	p.st.Queue = left
	for _, l := range letters {
		if !tell(p.ctx, l.to, l.text) {
			p.drop(l.to) // gone: what it was given is free again
		}
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

func (p *pool) enqueue(a acquire) {
	p.st.Queue = slices.DeleteFunc(p.st.Queue, func(q ticket) bool { return q.Holder == a.Holder })
	p.st.Queue = append(p.st.Queue, ticket{acquire: a})
	p.work = true
}

func (p *pool) drop(holder string) {
	p.st.Leases = slices.DeleteFunc(p.st.Leases, func(l poolLease) bool { return l.Holder == holder })
	p.st.Queue = slices.DeleteFunc(p.st.Queue, func(q ticket) bool { return q.Holder == holder })
	p.work = true
}

// reap takes back the leases of those who ended without a word.
func (p *pool) reap() error {
	var holders []string
	for _, l := range p.st.Leases {
		holders = append(holders, l.Holder)
	}
	ended, err := findEnded(p.ctx, holders)
	if err != nil {
		workflow.GetLogger(p.ctx).Warn("holders not looked at", "error", err)
		return nil
	}
	for _, h := range ended {
		p.drop(h)
	}
	return nil
}

// choose finds the host with most free slots among those that fit; the reason
// says why there is none, with kind "busy" when one may come free.
func (p *pool) choose(a acquire) (*poolHost, *Failure) {
	if a.Host != "" {
		h := p.host(a.Host)
		switch {
		case h == nil:
			return nil, &Failure{Kind: "host_not_found", Message: fmt.Sprintf("zone %s has no host %q", p.zone, a.Host),
				Hint: "`ctl host list` shows those there are; `ctl host add` makes one"}
		case h.Cordon:
			return nil, &Failure{Kind: "busy", Message: fmt.Sprintf("host %s is cordoned", a.Host)}
		case p.used(a.Host) >= h.Slots:
			return nil, &Failure{Kind: "busy", Message: fmt.Sprintf("host %s has all %d slots in use", a.Host, h.Slots)}
		}
		return h, nil
	}
	var best *poolHost
	fits := false
	for i := range p.st.Hosts {
		h := &p.st.Hosts[i]
		if len(a.Labels) == 0 && h.Spec.Name == activities.LocalHost && len(p.st.Hosts) > 1 {
			continue // the worker's own machine only when somebody asks for it, or there is no other
		}
		if !matches(h.Labels, a.Labels) {
			continue
		}
		fits = true
		if h.Cordon || p.used(h.Spec.Name) >= h.Slots {
			continue
		}
		if best == nil || h.Slots-p.used(h.Spec.Name) > best.Slots-p.used(best.Spec.Name) {
			best = h
		}
	}
	switch {
	case best != nil:
		return best, nil
	case fits:
		return nil, &Failure{Kind: "busy", Message: "every host that fits has all its slots in use"}
	}
	return nil, &Failure{Kind: "host_not_found", Message: fmt.Sprintf("no host of zone %s has the labels %s", p.zone, labelText(a.Labels)),
		Hint: "`ctl host list` shows hosts and their labels"}
}

func matches(have, want map[string]string) bool {
	for _, k := range workflow.DeterministicKeys(want) {
		if have[k] != want[k] {
			return false
		}
	}
	return true
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range workflow.DeterministicKeys(labels) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ", ")
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
		if l.Host == name {
			n++
		}
	}
	return n
}

// NamePattern is what names of hosts, seeds and sessions look like.
var NamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

func (p *pool) checkPut(in PutHost) error {
	s := in.Spec
	old := p.host(s.Name)
	switch {
	case !NamePattern.MatchString(s.Name):
		return refuse(RefusedBadInput, "host name %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", s.Name)
	case old != nil && !in.Replace && s.Name != activities.LocalHost:
		return refuse(RefusedState, "host %s is in zone %s already (remove it first, or replace it)", s.Name, p.zone)
	case s.Name != activities.LocalHost && s.Address == "":
		return refuse(RefusedBadInput, "host %s needs an address", s.Name)
	case s.Port < 0 || s.Port > 65535:
		return refuse(RefusedBadInput, "host %s: port %d is none", s.Name, s.Port)
	case in.Slots < 0 || in.Slots > 10_000:
		return refuse(RefusedBadInput, "host %s: %d slots is out of range (1 to 10000)", s.Name, in.Slots)
	case s.Name != activities.LocalHost && len(s.HostKeys) == 0 && s.KnownHosts == "":
		return refuse(RefusedBadInput, "host %s has no pinned key: give --host-key or --known-hosts", s.Name)
	case in.Jump != "" && p.host(in.Jump) == nil:
		return refuse(RefusedNotFound, "host %s: zone %s has no jump host %q", s.Name, p.zone, in.Jump)
	case in.Jump == s.Name && in.Jump != "":
		return refuse(RefusedBadInput, "host %s cannot be its own jump host", s.Name)
	}
	return nil
}

func (p *pool) put(in PutHost) HostView {
	if in.Slots == 0 {
		in.Slots = defaultSlots
	}
	if in.Jump != "" {
		jump := p.host(in.Jump).Spec
		in.Spec.Jump = &jump
	}
	h := p.host(in.Spec.Name)
	if h == nil {
		p.st.Hosts = append(p.st.Hosts, poolHost{})
		h = &p.st.Hosts[len(p.st.Hosts)-1]
	}
	*h = poolHost{Spec: in.Spec, Labels: in.Labels, Slots: in.Slots}
	p.work = true
	return p.view(h)
}

func (p *pool) checkRemove(name string) error {
	switch h := p.host(name); {
	case h == nil:
		return refuse(RefusedNotFound, "zone %s has no host %q", p.zone, name)
	case name == activities.LocalHost:
		return refuse(RefusedBadInput, "host %s is this machine: it cannot be removed (cordon it)", name)
	case p.used(name) > 0:
		return refuse(RefusedState, "host %s is in use by %s", name, strings.Join(p.holders(name), ", "))
	}
	return nil
}

func (p *pool) remove(name string) HostView {
	v := p.view(p.host(name))
	p.st.Hosts = slices.DeleteFunc(p.st.Hosts, func(h poolHost) bool { return h.Spec.Name == name })
	p.work = true
	return v
}

// found takes what a host task reports.
func (p *pool) found(f SetHost) {
	if p.host(f.Name) != nil {
		p.set(f)
	}
}

func (p *pool) set(in SetHost) HostView {
	h := p.host(in.Name)
	if in.Cordon != nil {
		h.Cordon = *in.Cordon
		p.work = true
	}
	if in.Check != nil {
		h.Check = in.Check
	}
	if in.Codex != "" {
		h.Codex = in.Codex
	}
	return p.view(h)
}

func (p *pool) holders(name string) []string {
	var out []string
	for _, l := range p.st.Leases {
		if l.Host == name {
			out = append(out, l.Holder)
		}
	}
	return out
}

func (p *pool) views() []HostView {
	out := make([]HostView, 0, len(p.st.Hosts))
	for i := range p.st.Hosts {
		out = append(out, p.view(&p.st.Hosts[i]))
	}
	slices.SortFunc(out, func(a, b HostView) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (p *pool) view(h *poolHost) HostView {
	spec := h.Spec
	v := HostView{
		Name: spec.Name, Address: spec.Address, User: spec.User, Port: spec.Port, Labels: map[string]string{},
		Slots: h.Slots, Used: p.used(spec.Name), Zone: p.zone, Codex: h.Codex,
		Fingerprint: fingerprint(spec), Holders: p.holders(spec.Name), Spec: &spec, State: "unchecked",
	}
	if v.Port == 0 && spec.Name != activities.LocalHost {
		v.Port = 22
	}
	for _, k := range workflow.DeterministicKeys(h.Labels) {
		v.Labels[k] = h.Labels[k]
	}
	for _, q := range p.st.Queue {
		if q.Host == spec.Name {
			v.Queue++
		}
	}
	if c := h.Check; c != nil {
		v.CheckedAt, v.Sandbox, v.State = c.CheckedAt, c.Facts["sandbox"], "ready"
		if v.Codex == "" {
			v.Codex = c.Facts["codex"]
		}
		if !c.OK {
			v.State = "unfit"
		}
	}
	if h.Cordon {
		v.State = "cordoned"
	}
	return v
}
