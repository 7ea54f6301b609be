package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A pool that drains a host grants it to no new sessions, and tells each session there to
// leave. Such a session begins no further turn there. It parks, and comes up on another
// host: at once, or with the next message. The folders of parked sessions are removed too,
// since the host may be about to go. A session without snapshots cannot leave.
//
//	a turn runs, or waits for a person   it ends first, however long that takes
//	messages are queued                  their turns begin elsewhere
//	the session cannot park              it stays, says why, and tries again after leaveAgain
//	the host cannot be reached           move: it goes on from its newest snapshot; park: as above
//	uncordon                             sessions that have not left stay

// leaveAgain is the pause after a session could not leave.
const leaveAgain = 5 * time.Minute

func (s *parkingPart) leave(l lease.LeaveHost) {
	switch was := s.st.Leave; {
	case l.Off && was != nil && was.Epoch == l.Epoch:
		s.st.Leave = nil
	case !l.Off && (was == nil || l.Epoch >= was.Epoch):
		s.st.Leave = &l
	}
}

// leaves returns the order to leave the present host, or nil if there is none or the
// session cannot leave.
func (s *parkingPart) leaves() *lease.LeaveHost {
	l := s.st.Leave
	if l == nil || s.st.Lease == nil || s.st.Lease.Epoch != l.Epoch || s.opt.Snapshot.When == protocol.SnapshotOff {
		return nil
	}
	return l
}

// leaveAt returns when a session in which nothing runs leaves its host. Zero means never.
func (s *parkingPart) leaveAt() time.Time {
	l := s.leaves()
	if l == nil || !s.quiet() {
		return time.Time{}
	}
	if l.Again.After(l.Since) {
		return l.Again
	}
	return l.Since
}

func (s *parkingPart) leaveOrStay() (again bool) {
	if s.leaveOrPark() {
		return true
	}
	s.stillHere()
	return false
}

// leaveOrPark parks the session. If the drain says move, it comes up elsewhere at once,
// unless it is pinned to that host.
func (s *parkingPart) leaveOrPark() (again bool) {
	l := s.leaves()
	if l == nil && s.toldToGo() {
		_, again = s.parkAsTold()
		return again
	}
	if l == nil {
		s.park()
		return false
	}
	l.Again = workflow.Now(s.ctx).Add(leaveAgain)
	name := s.hostName()
	if l.How != protocol.DrainMove || s.opt.Host == name {
		s.park()
	} else {
		s.st.Resume = &protocol.Resume{By: l.Who()}
		s.obeyed = s.st.Resume
		s.moving.leaveAfter(s.park())
	}
	if s.st.Lease != nil && s.st.Close == nil && !s.full() {
		s.sleep = kit.NewAlarm(s.ctx, "a session leaves its host") // the present alarm may fire later than Again
		s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("the session has not left host %s, which is being drained; it tries again at %s", name, kit.Clock(l.Again))})
	}
	return false
}
