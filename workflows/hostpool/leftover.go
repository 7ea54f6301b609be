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
	// Found is the time of the first attempt to wipe, in Unix seconds like a generation. It
	// is reset when the session leaves something on the host again.
	Found int64 `json:"found,omitempty"`
}

// keepProofs is how many wiped leftovers a pool remembers. While a host is in the
// inventory, the pool never forgets the leftovers there that are not wiped.
const keepProofs = 200

func (l *Leftover) open() bool { return l.WipedAt.IsZero() }

// leftoversPart cleans up what sessions left on hosts.
type leftoversPart struct {
	*poolCore
	health *healthPart

	bck      workflow.ReceiveChannel
	lkd      workflow.ReceiveChannel
	due      map[string]bool // hosts to be cleaned of leftovers
	cleaning map[string]bool // hosts that are being cleaned
}

// leftover returns the leftover of a session on a host; nil if there is none that is not
// wiped yet.
func (p *leftoversPart) leftover(session, host string) *Leftover {
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() && l.Session == session && l.Host == host {
			return l
		}
	}
	return nil
}

// leave records what a holder left behind, and has it wiped at once.
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

// tryCleaning schedules the wiping of a host for the next round of the loop.
func (p *leftoversPart) tryCleaning(host string) {
	if p.nextLeft(host, nil) != nil {
		p.due[host], p.work = true, true
	}
}

// clean wipes the leftovers of the hosts that are due, one at a time on each host. It ends
// the round on a host that cannot be reached.
func (p *leftoversPart) clean() {
	for _, host := range workflow.DeterministicKeys(p.due) {
		if p.cleaning[host] {
			continue // the host stays due
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

// nextLeft returns a leftover of a host that is not wiped yet and whose session is not in
// seen, or nil. seen has the sessions tried in this round.
func (p *leftoversPart) nextLeft(host string, seen map[string]bool) *Leftover {
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; l.open() && l.Host == host && !seen[l.Session] {
			return l
		}
	}
	return nil
}

// wipe tries to wipe one leftover. It reports whether to go on with the other leftovers of
// the host. It returns false if most likely the host cannot be reached.
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
		return true // the host was removed from the inventory meanwhile
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
	p.work = true // a session may wait until the host is clean
	return true
}

func (l *Leftover) tried(now time.Time, on protocol.HostSpec) places.WipeLeftoverInput {
	l.Tries, l.TriedAt = l.Tries+1, now
	l.Found = cmp.Or(l.Found, now.Unix())
	in := places.WipeLeftoverInput{
		// This is higher than the session's own generation, which may be unknown.
		Claim:      protocol.Claim{Session: l.Session, Host: on, Generation: now.Unix(), Pump: int64(l.Tries)},
		Found:      l.Found,
		Generation: l.Generation, ThreadID: l.ThreadID, Seed: l.Planted, Discard: l.Discard, Snapshot: l.Snapshot,
	}
	if l.Layout != nil {
		in.Layout = *l.Layout
	}
	return in
}

// forgetProofs drops the oldest wiped leftovers beyond keepProofs. It drops those whose
// work stays on a host only if there are no others to drop.
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

// cleanAll has the leftovers of all hosts wiped. It is called with each check for ended
// holders.
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
