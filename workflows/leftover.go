package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// A Leftover is what a session that has ended may have left on a host, because
// nobody could clean up there: its credential before all. The pool of the
// host's zone sees to it as soon as the host can be reached, and keeps the
// proof.
type Leftover struct {
	Session    string    `json:"session"`
	Host       string    `json:"host"`
	Seed       string    `json:"seed,omitempty"`
	Generation int64     `json:"generation,omitempty"` // of the session; 0 where it could not say
	Since      time.Time `json:"since"`
	Why        string    `json:"why"`
	// Discard: a person gave up what could not be saved.
	Discard bool `json:"discard,omitempty"`

	Tries   int       `json:"tries,omitempty"`
	TriedAt time.Time `json:"tried_at,omitzero"`
	Error   string    `json:"error,omitempty"` // of the newest try
	Hint    string    `json:"hint,omitempty"`

	// WipedAt is when the credential was looked for and not found any more.
	WipedAt time.Time `json:"wiped_at,omitzero"`
	Removed bool      `json:"removed,omitempty"` // the session's folder is gone, looked at
	Kept    string    `json:"kept,omitempty"`    // the folder with work and conversation that stays
	Archive string    `json:"archive,omitempty"`
	GivenUp bool      `json:"given_up,omitempty"` // a rotated login that nobody waited for went with it
	Ended   int       `json:"ended,omitempty"`    // processes that still ran
}

// poolLeftover is what the pool carries of one.
type poolLeftover struct {
	Leftover
	Planted  *activities.SeedRef      `json:"planted,omitempty"`
	Layout   *activities.Layout       `json:"layout,omitempty"`
	ThreadID string                   `json:"thread_id,omitempty"`
	Snapshot *activities.SnapshotSpec `json:"snapshot,omitempty"`
	// Found is when it was tried first since it was left, as a generation.
	Found int64 `json:"found,omitempty"`
}

// leftBehind is what a session says of its host when it gives back the slot
// without having cleaned up.
type leftBehind struct {
	Host       string              `json:"host,omitempty"` // where it is not that of the lease
	Why        string              `json:"why"`
	Generation int64               `json:"generation"`
	Seed       *activities.SeedRef `json:"seed,omitempty"`
	Layout     *activities.Layout  `json:"layout,omitempty"`
	ThreadID   string              `json:"thread_id,omitempty"`
	Discard    bool                `json:"discard,omitempty"`
	// Wiped says that the credential is gone, which was looked at.
	Wiped bool `json:"wiped,omitempty"`
	// Snapshot is how its work is kept, and the newest snapshot of it.
	Snapshot *activities.SnapshotSpec `json:"snapshot,omitempty"`
}

// Bounds of what a pool carries of them: what is not wiped is never forgotten
// while its host is in the inventory.
const keepProofs = 200

// signalHostBack tells a pool that a host can be reached again.
const signalHostBack = "host_back"

func (l *poolLeftover) open() bool { return l.WipedAt.IsZero() }

// leftover finds what a session left on a host and is not wiped yet.
func (p *pool) leftover(session, host string) *poolLeftover {
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() && l.Session == session && l.Host == host {
			return l
		}
	}
	return nil
}

// leave puts down what a holder left behind, and sees to it at once.
func (p *pool) leave(lease poolLease, left leftBehind) {
	l := p.leftover(lease.Holder, lease.Host)
	if l == nil {
		p.st.Leftovers = append(p.st.Leftovers, poolLeftover{Leftover: Leftover{
			Session: lease.Holder, Host: lease.Host, Since: workflow.Now(p.ctx)}})
		l = &p.st.Leftovers[len(p.st.Leftovers)-1]
	}
	l.Found = 0 // what lies there now may be something else
	l.Why, l.Discard = excerpt(left.Why, maxFailure), l.Discard || left.Discard
	l.Generation = max(l.Generation, left.Generation)
	l.Planted, l.Layout, l.ThreadID, l.Snapshot = left.Seed, left.Layout, left.ThreadID, left.Snapshot
	if l.Seed = lease.Seed; left.Wiped {
		l.Seed = ""
	}
	if left.Seed != nil {
		l.Seed = left.Seed.Name
	} else if l.Seed != "" {
		l.Planted = &activities.SeedRef{Name: l.Seed}
	}
	workflow.GetLogger(p.ctx).Warn("a session may have left something on a host", "host", l.Host, "session", l.Session, "seed", l.Seed, "why", l.Why)
	p.tryCleaning(l.Host)
}

// tryCleaning has a host seen to in the next round of the loop.
func (p *pool) tryCleaning(host string) {
	if p.nextLeft(host, nil) != nil {
		p.due[host], p.work = true, true
	}
}

// clean wipes what is left on the hosts that are due: on each one thing after
// another, and the first that fails ends it until the next time, since most
// likely the host cannot be reached.
func (p *pool) clean() {
	for _, host := range workflow.DeterministicKeys(p.due) {
		if p.cleaning[host] {
			continue // it is looked at again after that
		}
		delete(p.due, host)
		p.cleaning[host] = true
		workflow.Go(p.ctx, func(ctx workflow.Context) {
			seen := map[string]bool{}
			for l := p.nextLeft(host, seen); l != nil; l = p.nextLeft(host, seen) {
				seen[l.Session] = true
				if !p.wipe(ctx, l) {
					break
				}
			}
			delete(p.cleaning, host)
			p.work = true
		})
	}
}

// nextLeft is a leftover of a host that was not tried in this round.
func (p *pool) nextLeft(host string, seen map[string]bool) *poolLeftover {
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() && l.Host == host && !seen[l.Session] {
			return l
		}
	}
	return nil
}

// wipe tries one. It says whether the host could be reached: what waits for
// something else holds up nobody.
func (p *pool) wipe(ctx workflow.Context, l *poolLeftover) (reached bool) {
	session, host := l.Session, l.Host
	if p.host(host) == nil {
		return false
	}
	var out activities.WipeLeftoverResult
	gone := func() bool { return p.leftover(session, host) == nil || p.host(host) == nil }
	err := inLine(forAWhile(ctx, gone), func() (err error) {
		out, err = do(carrying(setUp(ctx, fmt.Sprintf("wipe what %s left on %s", session, host))), sessions.WipeLeftover,
			p.leftover(session, host).tried(workflow.Now(ctx), p.host(host).Spec))
		return err
	})
	if l = p.leftover(session, host); l == nil {
		return true // the host was taken out of the inventory meanwhile
	}
	if err != nil {
		f := failureOf("on "+host, err)
		l.Error, l.Hint = f.Message, f.Hint
		return f.Kind == activities.ErrTypeLoginUnsaved || f.Kind == activities.ErrTypeSeed || wasBusy(err)
	}
	p.gotIn(p.host(host))
	l.Error, l.Hint, l.WipedAt, l.Removed = "", "", out.At, out.Removed
	l.Kept, l.Archive, l.GivenUp, l.Ended = out.Kept, out.Archive, out.GivenUp, len(out.Survivors)
	l.Planted, l.Layout, l.Snapshot = nil, nil, nil
	p.forgetProofs()
	p.work = true // somebody may wait for just this
	return true
}

// tried is what is asked for with another try.
func (l *poolLeftover) tried(now time.Time, on activities.HostSpec) activities.WipeLeftoverInput {
	l.Tries, l.TriedAt = l.Tries+1, now
	l.Found = cmp.Or(l.Found, now.Unix())
	in := activities.WipeLeftoverInput{
		// Above the session's, where it is not known of which generation that was.
		Claim:      activities.Claim{Session: l.Session, Host: on, Generation: now.Unix(), Pump: int64(l.Tries)},
		Found:      l.Found,
		Generation: l.Generation, ThreadID: l.ThreadID, Seed: l.Planted, Discard: l.Discard, Snapshot: l.Snapshot,
	}
	if l.Layout != nil {
		in.Layout = *l.Layout
	}
	return in
}

// forgetProofs keeps the newest ones, and of those whose work stays on a host all
// that there is room for.
func (p *pool) forgetProofs() {
	for _, kept := range []bool{false, true} {
		n := 0
		for i := range p.st.Leftovers {
			if !p.st.Leftovers[i].open() {
				n++
			}
		}
		p.st.Leftovers = slices.DeleteFunc(p.st.Leftovers, func(l poolLeftover) bool {
			if n <= keepProofs || l.open() || (l.Kept != "") != kept {
				return false
			}
			n--
			return true
		})
	}
}

// cleanAll tries wherever something is left: what every look after the holders does.
func (p *pool) cleanAll() {
	for i := range p.st.Hosts {
		p.tryCleaning(p.st.Hosts[i].Spec.Name)
	}
}

func (p *pool) unclean() bool {
	return slices.ContainsFunc(p.st.Leftovers, func(l poolLeftover) bool { return l.open() })
}

// leftThere are the sessions of which a host may have something.
func (p *pool) leftThere() []activities.LeftThere {
	all := []activities.LeftThere{}
	for _, l := range p.st.Leases {
		all = append(all, activities.LeftThere{Session: l.Holder, Host: l.Host, Held: true})
	}
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() {
			all = append(all, activities.LeftThere{Session: l.Session, Host: l.Host})
		}
	}
	return all
}

// leftOn counts what is not wiped on a host, and lists that with the proofs.
func (p *pool) leftOn(host string) (open int, all []Leftover) {
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

// drainBack takes the words of those who reached a host again.
func (p *pool) drainBack() {
	for {
		var b activities.HostBack
		if !p.bck.ReceiveAsync(&b) {
			return
		}
		p.tryCleaning(b.Host)
		if h := p.host(b.Host); h != nil {
			p.gotIn(h)
		}
	}
}
