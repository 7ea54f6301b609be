package hostpool

import (
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

type inventoryPart struct {
	*poolCore
	health    *healthPart
	leftovers *leftoversPart
	census    *censusPart
}

func (p *inventoryPart) checkPut(in protocol.PutHost) error {
	s := in.Spec
	old := p.host(s.Name)
	switch {
	case !protocol.NamePattern.MatchString(s.Name):
		return kit.Refuse(protocol.RefusedBadInput, "host name %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", s.Name)
	case old != nil && !in.Replace && s.Name != protocol.LocalHost:
		return kit.Refuse(protocol.RefusedState, "host %s is in zone %s already (--replace changes it, `ctl host remove %s` takes it out)", s.Name, p.zone, s.Name)
	case s.Name != protocol.LocalHost && s.Address == "":
		return kit.Refuse(protocol.RefusedBadInput, "host %s needs an address", s.Name)
	case s.Port < 0 || s.Port > 65535:
		return kit.Refuse(protocol.RefusedBadInput, "host %s: port %d is out of range (1 to 65535, 0 for the default)", s.Name, s.Port)
	case in.Slots < 0 || in.Slots > 10_000:
		return kit.Refuse(protocol.RefusedBadInput, "host %s: %d slots is out of range (1 to 10000)", s.Name, in.Slots)
	case old == nil && len(p.st.Hosts) >= MaxHosts:
		return kit.Refuse(protocol.RefusedState, "zone %s has %d hosts already: use another zone", p.zone, len(p.st.Hosts))
	case kit.Encoded(s)+kit.Encoded(in.Labels) > lease.MaxHost:
		return kit.Refuse(protocol.RefusedBadInput, "host %s: its addresses, keys and labels take more than %d bytes", s.Name, lease.MaxHost)
	case unpinned(&s) != nil:
		return kit.Refuse(protocol.RefusedBadInput, "host %s has no pinned key: give --host-key or --known-hosts", unpinned(&s).Name)
	case old != nil && p.lies(s.Name) && elsewhere(old.Spec, s):
		return kit.Refuse(protocol.RefusedState, "host %s cannot become another machine, user or root: sessions may have left a credential on it that must be wiped first (if it never comes back: `ctl host remove --force`)", s.Name)
	case old != nil && p.used(s.Name)+p.parkedOn(s.Name) > 0 && elsewhere(old.Spec, s):
		return kit.Refuse(protocol.RefusedState, "%d sessions have folders on host %s, so it cannot become another machine, user or root: run `ctl host drain %s` first, or add the other machine under another name",
			p.used(s.Name)+p.parkedOn(s.Name), s.Name, s.Name)
	case in.Jump != "" && p.host(in.Jump) == nil:
		return kit.Refuse(protocol.RefusedNotFound, "host %s: zone %s has no jump host %q", s.Name, p.zone, in.Jump)
	case in.Jump == s.Name && in.Jump != "":
		return kit.Refuse(protocol.RefusedBadInput, "host %s cannot be its own jump host", s.Name)
	}
	return nil
}

// unpinned returns the first of s and its jump hosts that has no pinned key, or nil.
func unpinned(s *protocol.HostSpec) *protocol.HostSpec {
	for ; s != nil; s = s.Jump {
		if s.Name != protocol.LocalHost && len(s.HostKeys) == 0 && s.KnownHosts == "" {
			return s
		}
	}
	return nil
}

func (p *inventoryPart) put(in protocol.PutHost) protocol.HostView {
	if in.Slots == 0 {
		in.Slots = defaultSlots
	}
	if in.Jump != "" {
		jump := p.host(in.Jump).Spec
		in.Spec.Jump = &jump
	}
	h := p.host(in.Spec.Name)
	if h == nil {
		p.st.Hosts = append(p.st.Hosts, Host{})
		h = &p.st.Hosts[len(p.st.Hosts)-1]
	}
	// The new spec may mean another machine, so the findings are dropped.
	*h = Host{Spec: in.Spec, Labels: in.Labels, Slots: in.Slots, Cordon: h.Cordon, Draining: h.Draining, NewAt: workflow.Now(p.ctx)}
	p.work = true
	return p.view(h)
}

// elsewhere reports whether two specs may mean different machines, accounts or roots. Keys
// identify a machine, because its address may change.
func elsewhere(a, b protocol.HostSpec) bool {
	same := func(key string) bool { return slices.Contains(b.HostKeys, key) }
	machine := slices.ContainsFunc(a.HostKeys, same) || len(a.HostKeys)+len(b.HostKeys) == 0 && a.KnownHosts == b.KnownHosts && a.Address == b.Address && a.Port == b.Port
	return !machine || a.User != b.User || a.Root != b.Root
}

func (p *inventoryPart) checkRemove(in protocol.RemoveHost) error {
	name := in.Name
	left, _ := p.leftOn(name)
	switch h := p.host(name); {
	case h == nil:
		return kit.Refuse(protocol.RefusedNotFound, "zone %s has no host %q", p.zone, name)
	case name == protocol.LocalHost:
		return kit.Refuse(protocol.RefusedBadInput, "host %s is this machine: it cannot be removed (cordon it)", name)
	case p.parkedOn(name) > 0 && !in.Force:
		return kit.Refuse(protocol.RefusedState, "%d parked sessions have folders on host %s that would stay there: close them with `ctl session close`, or use `ctl host remove --force`", p.parkedOn(name), name)
	case p.used(name) > 0:
		return kit.Refuse(protocol.RefusedState, "host %s is in use by %s", name, strings.Join(p.holders(name), ", "))
	case left > 0 && !in.Force:
		return kit.Refuse(protocol.RefusedState, "%d sessions may have left a credential on host %s, and the pool wipes it only while the host is in the inventory (if the host never comes back: `ctl host remove --force`)", left, name)
	}
	return nil
}

func (p *inventoryPart) remove(name string) protocol.HostView {
	v := p.view(p.host(name))
	p.st.Hosts = slices.DeleteFunc(p.st.Hosts, func(h Host) bool { return h.Spec.Name == name })
	p.st.Leftovers = slices.DeleteFunc(p.st.Leftovers, func(l Leftover) bool { return l.Host == name })
	p.st.Leases = slices.DeleteFunc(p.st.Leases, func(l Lease) bool { return l.Host == name }) // checkRemove lets through only leases of parked sessions
	p.work = true
	return v
}

func (p *inventoryPart) found(f protocol.SetHost) {
	if p.host(f.Name) != nil {
		p.set(f)
	}
	if f.Codex != "" || f.Check != nil { // whatever the result, the host was reached
		p.leftovers.tryCleaning(f.Name)
	}
}

func (p *inventoryPart) checkSet(in protocol.SetHost) error {
	if p.host(in.Name) == nil {
		return kit.Refuse(protocol.RefusedNotFound, "zone %s has no host %q", p.zone, in.Name)
	}
	if in.Drain != nil {
		if err := checkDrain(in.Drain); err != nil {
			return err
		}
	}
	h := p.host(in.Name)
	switch {
	case in.Slots < 0 || in.Slots > 10_000:
		return kit.Refuse(protocol.RefusedBadInput, "host %s: %d slots is out of range (1 to 10000)", in.Name, in.Slots)
	case kit.Encoded(h.Spec)+kit.Encoded(in.Relabelled(h.Labels)) > lease.MaxHost:
		return kit.Refuse(protocol.RefusedBadInput, "host %s: its addresses, keys and labels take more than %d bytes", in.Name, lease.MaxHost)
	case len(in.Labels) > 0:
		all := slices.Clone(p.st.Hosts)
		all[slices.IndexFunc(all, func(h Host) bool { return h.Spec.Name == in.Name })].Labels = in.Relabelled(h.Labels)
		return p.haveRoom(all)
	}
	return nil
}

func (p *inventoryPart) set(in protocol.SetHost) protocol.HostView {
	h := p.host(in.Name)
	if in.Cordon != nil {
		h.Cordon = *in.Cordon
		if !h.Cordon {
			h.Draining = nil
		}
		p.work = true
	}
	if in.Drain != nil {
		p.health.beginDrain(h, *in.Drain)
	}
	if len(in.Labels)+len(in.Unlabel) > 0 {
		h.Labels, p.work = in.Relabelled(h.Labels), true
	}
	if in.Slots > 0 {
		h.Slots, p.work = in.Slots, true
	}
	if in.Check != nil {
		h.Check = &HostCheck{OK: in.Check.OK, At: in.Check.CheckedAt,
			Sandbox: kit.Cut(in.Check.Facts["sandbox"], kit.MaxWord), Codex: kit.Cut(in.Check.Facts["codex"], kit.MaxWord)}
		p.health.foundOut(h, in.Check.Facts)
		if in.Check.OK {
			p.health.well(h)
		} else {
			p.health.gotIn(h)
		}
	}
	if in.Failed != nil && hosts.HostFault(in.Failed.Kind) {
		p.health.failed(h, in.Failed)
	}
	if in.Codex != "" {
		if h.Health != nil && lacksCodex(h.Health) {
			p.health.well(h)
		} else {
			p.health.gotIn(h)
		}
		h.Codex = kit.Cut(in.Codex, kit.MaxWord)
	}
	return p.view(h)
}

func (p *inventoryPart) views() []protocol.HostView {
	out := make([]protocol.HostView, 0, len(p.st.Hosts))
	for i := range p.st.Hosts {
		v := p.view(&p.st.Hosts[i])
		v.Leftovers, v.UnknownFolders = nil, nil
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b protocol.HostView) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (p *inventoryPart) view(h *Host) protocol.HostView {
	spec := h.Spec
	v := protocol.HostView{
		Name: spec.Name, Address: spec.Address, User: spec.User, Port: spec.Port, Labels: map[string]string{},
		Slots: h.Slots, Used: p.used(spec.Name), Zone: p.zone, Codex: h.Codex,
		Fingerprint: fingerprint(spec), Holders: p.holders(spec.Name), Spec: &spec, State: "unchecked",
	}
	v.Paused, v.WaitingFor = p.st.Paused, p.census.waitingView()
	v.Unclean, v.Leftovers = p.leftOn(spec.Name)
	v.Folders, v.UnknownFolders = h.Folders, h.Unknown
	if v.Port == 0 && spec.Name != protocol.LocalHost {
		v.Port = 22
	}
	for _, k := range workflow.DeterministicKeys(h.Labels) {
		v.Labels[k] = h.Labels[k]
	}
	for _, k := range workflow.DeterministicKeys(h.Found) {
		if v.Found == nil {
			v.Found = map[string]string{}
		}
		v.Found[k] = h.Found[k]
	}
	for _, q := range p.st.Queue {
		if q.Host == spec.Name {
			v.Queue++
		}
	}
	if c := h.Check; c != nil {
		v.CheckedAt, v.Sandbox, v.State = &c.At, c.Sandbox, "ready"
		if v.Codex == "" {
			v.Codex = c.Codex
		}
		if !c.OK {
			v.State = "unfit"
		}
	}
	v.Health, v.Drain = h.Health, h.Draining
	switch {
	case h.Draining != nil && p.health.drained(h):
		v.State = "drained"
	case h.Draining != nil:
		v.State = "draining"
	case h.Cordon:
		v.State = "cordoned"
	case h.Health != nil && h.Health.State == protocol.HealthQuarantined:
		v.State = "quarantined"
	case h.Health != nil:
		v.State = "suspect"
	}
	return v
}
