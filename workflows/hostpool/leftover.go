package hostpool

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// Leftover is what a session left on a host, with what is needed to wipe it.
type Leftover struct {
	protocol.Leftover
	Planted  *protocol.SeedRef   `json:"planted,omitempty"`
	Layout   *protocol.Layout    `json:"layout,omitempty"`
	ThreadID string              `json:"thread_id,omitempty"`
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
	// Found is the Unix time of the first attempt to wipe. It is reset when the session
	// leaves something there again.
	Found int64 `json:"found,omitempty"`
}

// keepProofs is how many wiped leftovers a pool remembers.
const keepProofs = 200

func (l *Leftover) open() bool { return l.WipedAt.IsZero() }

type leftoversPart struct {
	*poolCore
	health *healthPart

	bck      workflow.ReceiveChannel
	lkd      workflow.ReceiveChannel
	due      map[string]bool
	cleaning map[string]bool
}

// leftover returns a session's unwiped leftover on a host, or nil.
func (p *leftoversPart) leftover(session, host string) *Leftover {
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() && l.Session == session && l.Host == host {
			return l
		}
	}
	return nil
}

func (p *leftoversPart) leave(lease Lease, left lease.LeftBehind) {
	l := p.leftover(lease.Holder, lease.Host)
	if l == nil {
		p.st.Leftovers = append(p.st.Leftovers, Leftover{Leftover: protocol.Leftover{
			Session: lease.Holder, Host: lease.Host, Since: workflow.Now(p.ctx)}})
		l = &p.st.Leftovers[len(p.st.Leftovers)-1]
	}
	l.Found = 0 // the session may have left something else there
	l.Why, l.Discard = kit.Cut(left.Why, kit.MaxFailure), l.Discard || left.Discard
	l.Generation = max(l.Generation, left.Generation)
	l.Planted, l.Layout, l.ThreadID, l.Snapshot = left.Seed, left.Layout, left.ThreadID, left.Snapshot
	if l.Seed = lease.Seed; left.Wiped {
		l.Seed = ""
	}
	if left.Seed != nil {
		l.Seed = left.Seed.Name
	} else if l.Seed != "" {
		l.Planted = &protocol.SeedRef{Name: l.Seed}
	}
	workflow.GetLogger(p.ctx).Warn("a session may have left something on a host", "host", l.Host, "session", l.Session, "seed", l.Seed, "why", l.Why)
	p.tryCleaning(l.Host)
}

func (p *leftoversPart) tryCleaning(host string) {
	if p.nextLeft(host, nil) != nil {
		p.due[host], p.work = true, true
	}
}

// clean wipes the hosts that are due, one leftover at a time on each.
func (p *leftoversPart) clean() {
	for _, host := range workflow.DeterministicKeys(p.due) {
		if p.cleaning[host] {
			continue // it stays due
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

func (p *leftoversPart) nextLeft(host string, seen map[string]bool) *Leftover {
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() && l.Host == host && !seen[l.Session] {
			return l
		}
	}
	return nil
}

// wipe returns false if most likely the host cannot be reached.
func (p *leftoversPart) wipe(ctx workflow.Context, l *Leftover) (reached bool) {
	session, host := l.Session, l.Host
	if p.host(host) == nil {
		return false
	}
	var out places.WipeLeftoverResult
	gone := func() bool { return p.leftover(session, host) == nil || p.host(host) == nil }
	err := kit.InLine(kit.ForAWhile(ctx, gone), func() (err error) {
		out, err = kit.Do(kit.Carrying(kit.SetUp(ctx, fmt.Sprintf("wipe what %s left on %s", session, host))), placeJobs.WipeLeftover,
			p.leftover(session, host).tried(workflow.Now(ctx), p.host(host).Spec))
		return err
	})
	if l = p.leftover(session, host); l == nil {
		return true // the host was removed from the inventory
	}
	if err != nil {
		f := kit.FailureOf("on "+host, err)
		l.Error, l.Hint = f.Message, f.Hint
		return f.Kind == protocol.ErrTypeLoginUnsaved || f.Kind == protocol.ErrTypeSeed || kit.WasBusy(err)
	}
	p.health.gotIn(p.host(host))
	l.Error, l.Hint, l.WipedAt, l.Removed = "", "", out.At, out.Removed
	l.Kept, l.Archive, l.GivenUp, l.Ended = out.Kept, out.Archive, out.GivenUp, len(out.Survivors)
	l.Planted, l.Layout, l.Snapshot = nil, nil, nil
	p.forgetProofs()
	p.work = true // a session may wait for this
	return true
}

func (l *Leftover) tried(now time.Time, on protocol.HostSpec) places.WipeLeftoverInput {
	l.Tries, l.TriedAt = l.Tries+1, now
	l.Found = cmp.Or(l.Found, now.Unix())
	in := places.WipeLeftoverInput{
		// higher than the session's own generation, which may be unknown
		Claim:      protocol.Claim{Session: l.Session, Host: on, Generation: now.Unix(), Pump: int64(l.Tries)},
		Found:      l.Found,
		Generation: l.Generation, ThreadID: l.ThreadID, Seed: l.Planted, Discard: l.Discard, Snapshot: l.Snapshot,
	}
	if l.Layout != nil {
		in.Layout = *l.Layout
	}
	return in
}

// forgetProofs drops the oldest proofs beyond keepProofs, those of work that stays on a
// host last.
func (p *leftoversPart) forgetProofs() {
	for _, kept := range []bool{false, true} {
		n := 0
		for i := range p.st.Leftovers {
			if !p.st.Leftovers[i].open() {
				n++
			}
		}
		p.st.Leftovers = slices.DeleteFunc(p.st.Leftovers, func(l Leftover) bool {
			if n <= keepProofs || l.open() || (l.Kept != "") != kept {
				return false
			}
			n--
			return true
		})
	}
}

func (p *leftoversPart) cleanAll() {
	for i := range p.st.Hosts {
		p.tryCleaning(p.st.Hosts[i].Spec.Name)
	}
}

func (p *leftoversPart) unclean() bool {
	return slices.ContainsFunc(p.st.Leftovers, func(l Leftover) bool { return l.open() })
}

func (p *leftoversPart) leftThere() []inquiry.LeftThere {
	all := []inquiry.LeftThere{}
	for _, l := range p.st.Leases {
		all = append(all, inquiry.LeftThere{Session: l.Holder, Host: l.Host, Held: true})
	}
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() {
			all = append(all, inquiry.LeftThere{Session: l.Session, Host: l.Host})
		}
	}
	return all
}

func (p *leftoversPart) drainBack() {
	for {
		var b protocol.HostBack
		if !p.bck.ReceiveAsync(&b) {
			return
		}
		p.tryCleaning(b.Host)
		if h := p.host(b.Host); h != nil {
			p.health.gotIn(h)
		}
	}
}
