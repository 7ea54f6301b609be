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

// A roster is the hosts of a zone, with their free slots, at one moment.
type roster struct {
	zone  string
	spots []*spot
	named map[string]*spot
	asked map[string]*demand
	dirty func(session, host string) bool // whether a leftover of the session is on the host
}

type spot struct {
	*Host
	labels map[string]string
	free   int
	shut   *protocol.Failure // why it takes no session now, or nil
}

func (p *slotsPart) roster() *roster {
	r := &roster{zone: p.zone, named: map[string]*spot{}, asked: map[string]*demand{},
		dirty: func(session, host string) bool { return p.leftovers.leftover(session, host) != nil }}
	used := map[string]int{}
	for i := range p.st.Leases {
		if l := &p.st.Leases[i]; l.Warm == nil {
			used[l.Host]++
		}
	}
	for i := range p.st.Hosts {
		h := &p.st.Hosts[i]
		r.add(&spot{Host: h, free: h.Slots - used[h.Spec.Name], shut: p.health.eligible(h)})
	}
	return r
}

func (r *roster) add(s *spot) {
	s.labels = labelsOf(s.Host)
	r.spots = append(r.spots, s)
	r.named[s.Spec.Name] = s
}

func (s *spot) open() bool { return s.shut == nil && s.free > 0 }

// A demand is a requirement that tickets may share, and the hosts that can meet it.
type demand struct {
	spots     []*spot
	unprobed  string
	unlabeled string
	never     *protocol.Failure
	full      bool
	hope      bool // a host other than the worker's own machine is not out
}

func (r *roster) demands(t *lease.Ticket) *demand {
	if t.Key == "" {
		t.Key = strings.Join(append([]string{t.Host, "\x00", selectorText(labelSelectors(t.Labels))}, t.Select...), "\x00")
		if t.Elsewhere {
			t.Key += "\x00elsewhere"
		}
	}
	d := r.asked[t.Key]
	if d == nil {
		d = r.look(t)
		if t.Host != "" {
			d.mistaken()
		}
		r.asked[t.Key] = d
	}
	return d
}

// mistaken refuses a demand for a named host that was never reached: its address or key may
// be wrong. Demands for any host wait, because the hosts may be behind a jump host that is
// down.
func (d *demand) mistaken() {
	if d.unreached() {
		d.never = d.spots[0].shut
	}
}

// unreached reports whether no host that can meet the demand was ever reached. A host that
// is cordoned or drained counts as reached.
func (d *demand) unreached() bool {
	for _, s := range d.spots {
		if s.shut == nil || s.shut.Kind == "busy" {
			return false
		}
	}
	return len(d.spots) > 0 && d.unprobed == ""
}

func labelSelectors(labels map[string]string) []protocol.Selector {
	all := make([]protocol.Selector, 0, len(labels))
	for _, k := range workflow.DeterministicKeys(labels) {
		all = append(all, protocol.Selector{Key: k, Op: "=", Value: labels[k]})
	}
	return all
}

func selectorText(all []protocol.Selector) string {
	texts := make([]string, 0, len(all))
	for _, s := range all {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, ", ")
}

func (r *roster) look(t *lease.Ticket) *demand {
	if t.Host != "" {
		s := r.named[t.Host]
		if s == nil {
			return &demand{never: &protocol.Failure{Kind: "host_not_found", Message: fmt.Sprintf("zone %s has no host %q", r.zone, t.Host),
				Hint: "`ctl host list` shows those there are; `ctl host add` makes one"}}
		}
		return &demand{spots: []*spot{s}}
	}
	more, err := protocol.ParseSelectors(t.Select)
	if err != nil {
		return &demand{never: &protocol.Failure{Kind: protocol.RefusedBadInput, Message: err.Error(), Hint: "correct the selector given with --label"}}
	}
	wants := append(labelSelectors(t.Labels), more...)
	d := &demand{}
	var near []lacking
	var spare *spot // the worker's own machine, unless one of its labels is asked for
	var unknown string
	for _, s := range r.spots {
		l := s.lacks(wants)
		switch {
		case s.Spec.Name == protocol.LocalHost && t.Elsewhere:
			continue
		case len(l.what) > 0:
			near = append(near, l)
		case s.Spec.Name == protocol.LocalHost && !s.meant(wants):
			spare, unknown = s, l.unknown
		case l.unknown != "":
			d.unprobed, d.unlabeled = s.Spec.Name, l.unknown
			d.hope = d.hope || !s.out()
		default:
			d.spots = append(d.spots, s)
			d.hope = d.hope || !s.out()
		}
	}
	if spare != nil && !d.hope {
		d.fallBack(spare, unknown)
	}
	if len(d.spots) == 0 && d.unprobed == "" {
		d.never = &protocol.Failure{Kind: "host_not_found", Message: kit.Cut(r.nobody(wants, near), kit.MaxFailure),
			Hint: "`ctl host list` shows hosts and their labels"}
		if t.Elsewhere && r.named[protocol.LocalHost] != nil {
			d.never.Hint += "; host local, this worker's machine, takes only sessions that name it (--host local)"
		}
	}
	return d
}

// out reports whether a host is unavailable until a probe succeeds. A host that failed just
// now is not, because it is probed again in a second.
func (s *spot) out() bool {
	return s.Health != nil && (s.Health.State == protocol.HealthQuarantined || !s.Reached)
}

// fallBack lets the worker's own machine serve if no other host that fits is available.
// unknown is its label that was not probed, or empty.
func (d *demand) fallBack(spare *spot, unknown string) {
	switch {
	case unknown == "" && (spare.shut == nil || len(d.spots) == 0):
		d.spots = append(d.spots, spare)
	case unknown != "" && len(d.spots) == 0:
		d.unprobed, d.unlabeled = spare.Spec.Name, unknown
	}
}

// meant reports whether wants names a label that people gave this host.
func (s *spot) meant(wants []protocol.Selector) bool {
	return slices.ContainsFunc(wants, func(w protocol.Selector) bool { _, ok := s.Labels[w.Key]; return ok })
}

type lacking struct {
	host    string
	what    []string
	unknown string
}

var probed = []string{"os", "arch", "libc", "cpus", "mem", "disk", "sandbox", "codex"}

// tried reports whether only a check finds a label, by starting codex.
func tried(label string) bool { return label == "sandbox" || label == "codex" }

func (s *spot) lacks(wants []protocol.Selector) lacking {
	l := lacking{host: s.Spec.Name}
	for _, w := range wants {
		_, known := s.labels[w.Key]
		switch {
		case !known && (s.Found == nil || s.Check == nil && tried(w.Key)) && slices.Contains(probed, w.Key):
			l.unknown = w.Key
		case !w.Meets(s.labels):
			l.what = append(l.what, w.Lacks(s.labels))
		}
	}
	return l
}

const nearestHosts = 3

func (r *roster) nobody(wants []protocol.Selector, near []lacking) string {
	if len(near) == 0 {
		return fmt.Sprintf("zone %s has no host for sessions", r.zone)
	}
	slices.SortStableFunc(near, func(a, b lacking) int {
		return cmp.Or(len(a.what)-len(b.what), strings.Compare(a.host, b.host))
	})
	parts := []string{}
	for _, l := range near[:min(nearestHosts, len(near))] {
		parts = append(parts, fmt.Sprintf("host %s lacks %s", l.host, strings.Join(l.what, " and ")))
	}
	text := fmt.Sprintf("no host of zone %s meets %s: %s", r.zone, selectorText(wants), strings.Join(parts, "; "))
	if more := len(near) - len(parts); more > 0 {
		text += fmt.Sprintf("; %d more lack as much or more", more)
	}
	return text
}

func (r *roster) free() (n int) {
	for _, s := range r.spots {
		if s.open() {
			n += s.free
		}
	}
	return n
}

// never returns why no host can ever serve a ticket, or nil. A session that has begun may
// use its folder's host even if a new one would not get it. It waits for a change of the
// inventory where a new one would be refused.
func (r *roster) never(t *lease.Ticket) *protocol.Failure {
	never := r.demands(t).never
	if never != nil && (r.home(t) != nil || t.Begun && never.Kind != protocol.RefusedBadInput) {
		return nil
	}
	return never
}

func (r *roster) home(t *lease.Ticket) *spot {
	s := r.named[t.Prefer]
	if t.Host != "" || s == nil || s.out() || r.dirty(t.Holder, t.Prefer) {
		return nil
	}
	return s
}

// take prefers the host with the session's folder, then the most preferences met, then the
// most free slots. Hosts that nobody has probed come last.
func (r *roster) take(t *lease.Ticket) (*Host, *protocol.Failure) {
	d := r.demands(t)
	best, waits := r.best(t, d)
	if best == nil {
		return nil, r.taken(t, d, waits)
	}
	best.free--
	return best.Host, nil
}

func (r *roster) best(t *lease.Ticket, d *demand) (best *spot, unclean string) {
	if s := r.home(t); s != nil && s.open() {
		return s, ""
	}
	if d.full || d.never != nil {
		return nil, ""
	}
	rather, _ := protocol.ParseSelectors(t.Rather) // checked when the ticket came
	likes := 0
	for _, s := range d.spots {
		n := s.likes(rather)
		switch {
		case !s.open():
		case r.dirty(t.Holder, s.Spec.Name):
			unclean = s.Spec.Name
		case best == nil, best.unseen() && !s.unseen():
			best, likes = s, n
		case s.unseen() && !best.unseen():
		case n > likes, n == likes && s.free > best.free:
			best, likes = s, n
		}
	}
	d.full = best == nil && unclean == ""
	return best, unclean
}

func (s *spot) unseen() bool { return !s.Reached && !s.NewAt.IsZero() }

func (s *spot) likes(rather []protocol.Selector) (n int) {
	for _, w := range rather {
		if w.Meets(s.labels) {
			n++
		}
	}
	return n
}

func (r *roster) taken(t *lease.Ticket, d *demand, unclean string) *protocol.Failure {
	home := r.home(t)
	only := home != nil && (d.never != nil || d.unreached())
	switch {
	case only && home.shut != nil:
		return home.shut
	case d.never != nil && home == nil:
		return d.never
	case only:
		return busyWith("host %s, where its folder is, has all %d slots in use", home.Spec.Name, home.Slots)
	case unclean != "":
		return busyWith("host %s is not yet cleaned of what session %s left there before", unclean, t.Holder)
	case t.Host != "" && d.spots[0].shut != nil:
		return d.spots[0].shut
	case t.Host != "":
		return busyWith("host %s has all %d slots in use", t.Host, d.spots[0].Slots)
	case len(d.spots) == 0:
		return busyWith("host %s might do, and its %s is not known: `ctl host check %s` looks", d.unprobed, d.unlabeled, d.unprobed)
	}
	shut := 0
	for _, s := range d.spots {
		if s.shut != nil {
			shut++
		}
	}
	switch {
	case shut == 1 && len(d.spots) == 1:
		return d.spots[0].shut
	case shut == len(d.spots):
		return busyWith("none of the %d hosts that fit takes sessions now: %s", shut, d.spots[0].shut.Message)
	case shut > 0:
		return busyWith("every host that fits has all its slots in use, and %d that fit take nobody now", shut)
	}
	return busyWith("every host that fits has all its slots in use")
}
