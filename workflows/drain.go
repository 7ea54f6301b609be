package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// A host is drained by its pool, so that whoever asked for it may go home: no
// new session comes, and each that is there leaves when its turn has ended. A
// session that is told so begins no further turn on that host. It parks, with
// all that it takes to go on in the store, and comes up elsewhere when it is
// wanted, or at once. What parked sessions have there is removed as well, since
// the host may be about to go. One that takes no snapshots cannot leave: it
// goes on where it is, and is what is left.
//
//	a turn runs, or waits for a person   it ends first, however long that takes
//	messages are queued                  their turns begin elsewhere
//	it cannot park                       it stays, says why, and tries again after leaveAgain
//	the host cannot be reached           move: it goes on from its newest snapshot; park: as above
//	uncordon                             who has not left stays

// signalLeave tells a session that its host is being drained, or is no more.
const signalLeave = "leave"

// leaveAgain is how long a session that could not park stays before it tries again.
const leaveAgain = 5 * time.Minute

// leaveHost is what it is told. The epoch is that of its lease: it is not of a
// host to which it comes later.
type leaveHost struct {
	Draining
	Host  string    `json:"host"`
	Epoch int64     `json:"epoch"`
	Off   bool      `json:"off,omitempty"`
	Again time.Time `json:"again,omitzero"` // not before, since it could not park
}

func (l leaveHost) by() string {
	if l.By == "" {
		return "drain of " + l.Host
	}
	return fmt.Sprintf("drain of %s by %s", l.Host, l.By)
}

func checkDrain(d *Draining) error {
	if err := short([]text{{"by", d.By, maxWord}}); err != nil {
		return refuse(RefusedBadInput, "drain: %v", err)
	}
	switch d.How {
	case "", DrainPark, DrainMove:
		return nil
	}
	return refuse(RefusedBadInput, "drain: %.100q is none of park, move", d.How)
}

// beginDrain empties a host from now on. Asked for again in the same way, it
// goes on as it is.
func (p *pool) beginDrain(h *poolHost, d Draining) {
	d.How = orElse(d.How, DrainPark)
	if was := h.Draining; was != nil && was.How == d.How {
		return
	}
	d.Since = workflow.Now(p.ctx)
	h.Draining, h.Cordon = &d, true
	p.work = true
}

// haveLeave tells those who hold a slot of a host that is drained to leave it,
// and those who were told, and are there still when that is over, to stay.
func (p *pool) haveLeave() {
	type told struct {
		holder string
		what   leaveHost
	}
	var letters []told
	var cold []poolLease
	for i := range p.st.Leases {
		l := &p.st.Leases[i]
		var d *Draining
		if h := p.host(l.Host); h != nil {
			d = h.Draining
		}
		switch {
		case d != nil && l.Warm != nil:
			cold = append(cold, *l)
		case d != nil && !l.Leaves.Equal(d.Since):
			l.Leaves = d.Since
			letters = append(letters, told{l.Holder, leaveHost{Draining: *d, Host: l.Host, Epoch: l.Epoch}})
		case d == nil && !l.Leaves.IsZero():
			l.Leaves = time.Time{}
			letters = append(letters, told{l.Holder, leaveHost{Host: l.Host, Epoch: l.Epoch, Off: true}})
		}
	}
	for _, l := range cold {
		p.giveUpWarm(l, fmt.Sprintf("host %s is being drained", l.Host))
	}
	sent := make([]workflow.Future, 0, len(letters))
	for _, l := range letters {
		sent = append(sent, workflow.SignalExternalWorkflow(p.ctx, SessionID(l.holder), "", signalLeave, l.what))
	}
	for i, fut := range sent {
		if err := fut.Get(p.ctx, nil); err != nil { // who looks after the holders sees to that
			workflow.GetLogger(p.ctx).Warn("holder not told to leave", "holder", letters[i].holder, "error", err)
		}
	}
}

// drained says that nothing of any session is on a host.
func (p *pool) drained(h *poolHost) bool {
	name := h.Spec.Name
	return p.used(name) == 0 && p.parkedOn(name) == 0 && !p.lies(name)
}

// leave takes what the pool says of the session's host.
func (s *session) leave(l leaveHost) {
	switch was := s.st.Leave; {
	case l.Off && was != nil && was.Epoch == l.Epoch:
		s.st.Leave = nil
	case !l.Off && (was == nil || l.Epoch >= was.Epoch):
		s.st.Leave = &l
	}
}

// leaves says that the session is to leave the host on which it is, and can.
func (s *session) leaves() *leaveHost {
	l := s.st.Leave
	if l == nil || s.st.Lease == nil || s.st.Lease.Epoch != l.Epoch || s.opt.Snapshot.When == SnapshotOff {
		return nil
	}
	return l
}

// leaveAt is when it does that, once its turn has ended.
func (s *session) leaveAt() time.Time {
	l := s.leaves()
	if l == nil || !s.quiet() {
		return time.Time{}
	}
	if l.Again.After(l.Since) {
		return l.Again
	}
	return l.Since
}

// leaveOrPark parks. A session that leaves for good comes up elsewhere at once,
// unless it was to be on that host and no other.
func (s *session) leaveOrPark() {
	l := s.leaves()
	if l == nil {
		s.park()
		return
	}
	l.Again = workflow.Now(s.ctx).Add(leaveAgain)
	name := s.hostName()
	if l.How != DrainMove || s.opt.Host == name {
		s.park()
	} else {
		s.st.Resume = &Resume{By: l.by()}
		s.move()
	}
	if s.st.Lease != nil && s.st.Close == nil && !s.full() {
		s.sleep = newAlarm(s.ctx, "a session leaves its host") // sooner than that one, if it runs
		s.note(activities.Note{Type: activities.EntryState, Text: fmt.Sprintf("the session has not left host %s, which is being drained; it tries again at %s", name, clock(l.Again))})
	}
}
