package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// A roster is the hosts of a zone with their free slots, at one moment.
type roster struct {
	zone  string
	spots []*spot
	named map[string]*spot
	asked map[string]*demand
	dirty func(session, host string) bool // it left something there that is not wiped
}

// A spot is one host.
type spot struct {
	*poolHost
	labels map[string]string
	free   int
	shut   *Failure // it takes nobody now
}

func (p *pool) roster() *roster {
	r := &roster{zone: p.zone, named: map[string]*spot{}, asked: map[string]*demand{},
		dirty: func(session, host string) bool { return p.leftover(session, host) != nil }}
	used := map[string]int{}
	for i := range p.st.Leases {
		if l := &p.st.Leases[i]; l.Warm == nil {
			used[l.Host]++
		}
	}
	for i := range p.st.Hosts {
		h := &p.st.Hosts[i]
		r.add(&spot{poolHost: h, free: h.Slots - used[h.Spec.Name], shut: p.eligible(h)})
	}
	return r
}

func (r *roster) add(s *spot) {
	s.labels = labelsOf(s.poolHost)
	r.spots = append(r.spots, s)
	r.named[s.Spec.Name] = s
}

// open says that a session can begin there now.
func (s *spot) open() bool { return s.shut == nil && s.free > 0 }

// A demand is what several in line ask for alike, and which hosts can ever do.
type demand struct {
	spots     []*spot
	unprobed  string // a host that might, if somebody looked
	unlabeled string // what is not known of it
	never     *Failure
	full      bool // no more is free
	hope      bool // there is one that is not out, beside the worker's own machine
}

// A ticket is somebody in line, and what it was told last.
type ticket struct {
	acquire
	Told   string `json:"told,omitempty"`
	Rung   int    `json:"rung,omitempty"`   // how far from being next it was then
	Paused bool   `json:"paused,omitempty"` // it was told that nobody gets anything

	key  string // what it asks for, of the same words as others do
	size int
}

// demands finds what a ticket asks for. All of one kind are looked at once.
func (r *roster) demands(t *ticket) *demand {
	if t.key == "" {
		t.key = strings.Join(append([]string{t.Host, "\x00", selectorText(labelSelectors(t.Labels))}, t.Select...), "\x00")
	}
	d := r.asked[t.key]
	if d == nil {
		d = r.look(t)
		d.mistaken()
		r.asked[t.key] = d
	}
	return d
}

// mistaken says so where none of those that would do was ever reached: then there
// is nothing to wait for.
func (d *demand) mistaken() {
	for _, s := range d.spots {
		if s.shut == nil || s.shut.Kind == "busy" {
			return
		}
	}
	if len(d.spots) > 0 && d.unprobed == "" {
		d.never = d.spots[0].shut
	}
}

func labelSelectors(labels map[string]string) []Selector {
	all := make([]Selector, 0, len(labels))
	for _, k := range workflow.DeterministicKeys(labels) {
		all = append(all, Selector{Key: k, Op: "=", Value: labels[k]})
	}
	return all
}

func selectorText(all []Selector) string {
	texts := make([]string, 0, len(all))
	for _, s := range all {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, ", ")
}

func (r *roster) look(t *ticket) *demand {
	if t.Host != "" {
		s := r.named[t.Host]
		if s == nil {
			return &demand{never: &Failure{Kind: "host_not_found", Message: fmt.Sprintf("zone %s has no host %q", r.zone, t.Host),
				Hint: "`ctl host list` shows those there are; `ctl host add` makes one"}}
		}
		return &demand{spots: []*spot{s}}
	}
	more, err := ParseSelectors(t.Select)
	if err != nil {
		return &demand{never: &Failure{Kind: RefusedBadInput, Message: err.Error(), Hint: "mend --label"}}
	}
	wants := append(labelSelectors(t.Labels), more...)
	d := &demand{}
	var near []lacking
	var spare *spot // the worker's own machine, unless somebody means it
	var unknown string
	for _, s := range r.spots {
		l := s.lacks(wants)
		switch {
		case len(l.what) > 0:
			near = append(near, l)
		case s.Spec.Name == activities.LocalHost && !s.meant(wants):
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
		d.never = &Failure{Kind: "host_not_found", Message: excerpt(r.nobody(wants, near), maxFailure),
			Hint: "`ctl host list` shows hosts and their labels"}
	}
	return d
}

// out says that a host is not to be had until a probe finds it well. One that
// failed just now is looked at again in a second, one that is full or closed to
// new sessions is waited for.
func (s *spot) out() bool {
	return s.Health != nil && (s.Health.State == HealthQuarantined || !s.Reached)
}

// fallBack has the worker's own machine serve, where no other host that fits is
// to be had; of what it has, unknown was not looked at.
func (d *demand) fallBack(spare *spot, unknown string) {
	switch {
	case unknown == "" && (spare.shut == nil || len(d.spots) == 0):
		d.spots = append(d.spots, spare)
	case unknown != "" && len(d.spots) == 0:
		d.unprobed, d.unlabeled = spare.Spec.Name, unknown
	}
}

// meant says that a label which people gave a host is among those asked for.
func (s *spot) meant(wants []Selector) bool {
	return slices.ContainsFunc(wants, func(w Selector) bool { _, ok := s.Labels[w.Key]; return ok })
}

// lacking is a host, and what it lacks.
type lacking struct {
	host    string
	what    []string
	unknown string // what nobody has looked at, and may be there
}

// probed are the labels that a probe finds, or may find.
var probed = []string{"os", "arch", "libc", "cpus", "mem", "disk", "sandbox", "codex"}

// tried are labels for which codex has to be started: only a check does that.
func tried(label string) bool { return label == "sandbox" || label == "codex" }

func (s *spot) lacks(wants []Selector) lacking {
	l := lacking{host: s.Spec.Name}
	for _, w := range wants {
		_, known := s.labels[w.Key]
		switch {
		case !known && (s.Found == nil || s.Check == nil && tried(w.Key)) && slices.Contains(probed, w.Key):
			l.unknown = w.Key
		case !w.Meets(s.labels):
			l.what = append(l.what, w.lacks(s.labels))
		}
	}
	return l
}

// nearestHosts is how many of those that do not do are named.
const nearestHosts = 3

// nobody says that no host can ever do, and what those lack that come nearest.
func (r *roster) nobody(wants []Selector, near []lacking) string {
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

// never says why no host can ever do. One that has work behind it goes on where
// its folder is, if that host is well, whatever it would get were it new; and it
// waits for a change where others are refused.
func (r *roster) never(t *ticket) *Failure {
	never := r.demands(t).never
	if never != nil && (r.home(t) != nil || t.Begun && never.Kind != RefusedBadInput) {
		return nil
	}
	return never
}

// home is the host where its folder is, unless that is not to be had.
func (r *roster) home(t *ticket) *spot {
	s := r.named[t.Prefer]
	if t.Host != "" || s == nil || s.out() || r.dirty(t.Holder, t.Prefer) {
		return nil
	}
	return s
}

// take takes a slot of the host where its folder is, or of the one that meets
// most of what is preferred, and among those of the one with most free slots.
// One that nobody has looked at yet comes last.
func (r *roster) take(t *ticket) (*poolHost, *Failure) {
	d := r.demands(t)
	best, waits := r.best(t, d)
	if best == nil {
		return nil, r.taken(t, d, waits)
	}
	best.free--
	return best.poolHost, nil
}

func (r *roster) best(t *ticket, d *demand) (best *spot, unclean string) {
	if s := r.home(t); s != nil && s.open() {
		return s, ""
	}
	if d.full || d.never != nil {
		return nil, ""
	}
	rather, _ := ParseSelectors(t.Rather) // looked at when it came
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

// unseen says that nobody looked yet whether a host is there: it comes after all
// of which somebody knows.
func (s *spot) unseen() bool { return !s.Reached && !s.NewAt.IsZero() }

// likes is how much of what is preferred a host meets.
func (s *spot) likes(rather []Selector) (n int) {
	for _, w := range rather {
		if w.Meets(s.labels) {
			n++
		}
	}
	return n
}

// taken says why there is nothing now.
func (r *roster) taken(t *ticket, d *demand, unclean string) *Failure {
	switch home := r.home(t); {
	case d.never != nil && home == nil:
		return d.never
	case d.never != nil && home.shut != nil:
		return home.shut
	case d.never != nil:
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
