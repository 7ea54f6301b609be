package workflows

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/activities"
)

// closeGrace is how long codex may take to end a turn when the session closes.
const closeGrace = 15 * time.Second

// newlyClosing says that a close came while a turn runs and codex does not know yet.
func (s *session) newlyClosing() bool {
	return s.st.Close != nil && s.st.Running && s.st.sending(activities.SendInterrupt) == nil
}

func (s *session) queueInterruptForClose() {
	if !s.newlyClosing() {
		return
	}
	if s.st.Interrupt == nil {
		s.st.Interrupt = &Interrupt{By: s.st.Close.By, Reason: closedReason}
	}
	s.queueInterrupt()
}

// interruptForClose ends the running turn before a close, with codex's help if
// it gives any in time.
func (s *session) interruptForClose() error {
	s.become(Closing)
	if !s.st.Alive || s.st.GraceOver || s.st.CloseTries >= 3 {
		if s.inDoubt() {
			s.giveUpTurn("unknown", s.st.Cut)
		} else {
			s.giveUpTurn("interrupted", nil)
		}
		return nil
	}
	s.queueInterruptForClose()
	s.st.CloseTries++
	return s.pump()
}

// cleanUp leaves the host and the leases as they were before the session. What
// it cannot prove it says. It tells whether it only stopped to continue as new.
func (s *session) cleanUp() (again bool) {
	failed := s.st.Status == Failed
	if !failed {
		s.become(Closing)
	}
	if s.st.Running {
		s.giveUpTurn("unknown", s.st.Error)
	}
	if !s.st.Ended {
		s.st.Ended = true
		if s.st.Close == nil {
			s.st.Close = &Close{}
		}
		if !failed {
			s.note(activities.Note{Type: "state", Text: "closed", Data: map[string]string{"by": s.st.Close.By}})
		}
	}
	s.publish()
	if s.closeOnHost() {
		return true
	}
	s.releaseLeases()
	if !failed {
		s.become(Closed)
	}
	s.publish()
	s.drain() // what came too late is refused on record
	return false
}

// closeOnHost stops, saves, wipes and removes. What cannot be done is tried
// until it can, or until somebody says discard. It tells whether it only
// stopped to continue as new.
func (s *session) closeOnHost() (again bool) {
	switch {
	case s.st.Touched:
	case s.st.Warm != nil:
		s.closeWarm()
		return false
	default:
		s.recordNotes()
		if s.st.Begun { // it holds nothing, and what it had is kept
			gone := s.st.LeftOn == "" // else its pool sees to that, and nobody has looked yet
			s.st.Closed = &CloseView{Wiped: gone, Removed: gone, Archive: s.goodSnapshot()}
		}
		return false
	}
	s.hush() // closing takes the last one
	for {
		// A first prepare that failed left nothing worth saving. One that was to
		// bring the session back may have found work there of a former time.
		unprepared := s.layoutThere() == nil
		discard := s.st.Close.Discard || unprepared && !s.st.Begun
		out, err, calledBack := s.tryClose(discard)
		switch {
		case calledBack:
			continue
		case wasBusy(err) && s.full():
			return true
		}
		if err == nil {
			s.st.Pump.Seq = out.Seq
			s.st.Notes, s.st.Handing = nil, nil
			s.st.Alive = false
			s.st.Closed = &CloseView{Wiped: out.Wiped, Removed: out.Removed, Archive: out.Archive, Unsaved: out.Unsaved, Kept: out.Kept}
			if s.st.Error != nil && s.st.Error.Message == s.st.CleanError {
				s.st.Error = nil // it stays there no more
			}
			if out.Problem != nil && s.st.Error == nil {
				s.st.Error = failureOfProblem(out.Problem)
			}
			return false
		}
		f := failureOf(fmt.Sprintf("clean up on %s", s.st.Lease.Spec.Name), err)
		if f.Message != s.st.CleanError {
			s.st.CleanError = f.Message
			s.note(activities.Note{Type: "error", Text: f.Message, Data: failureData(f)})
		}
		if s.st.Status != Failed {
			s.st.Error = f
		}
		// A host that a newer holder of this session uses is not ours to clean.
		if discard || unprepared || f.Kind == activities.ErrTypeFenced {
			s.st.Closed = &CloseView{}
			if f.Kind != activities.ErrTypeFenced {
				s.st.Left = f.Message
			}
			s.recordNotes()
			return false
		}
		if s.holdClean() {
			return true
		}
	}
}

// holdClean waits before the next try: a minute first, an hour in the end.
func (s *session) holdClean() (again bool) {
	wait := min(time.Minute<<min(s.st.CleanTries, 6), time.Hour)
	s.st.CleanTries++
	s.publish()
	_, err := s.awaitFor(wait, func() bool { return s.st.Close.Discard || s.full() })
	return err == nil && s.full()
}

// tryClose runs the activity; it is called back when somebody says discard
// while a host cannot be reached.
func (s *session) tryClose(discard bool) (out activities.CloseSessionResult, err error, calledBack bool) {
	opts := untilDone(s.ctx, "close on "+s.st.Lease.Spec.Name)
	if discard || s.layoutThere() == nil { // nobody waits: its pool sees to it later
		opts = setUp(s.ctx, "discard on "+s.st.Lease.Spec.Name)
	}
	var layout activities.Layout // empty where preparing failed: the activity finds it
	if l := s.layoutThere(); l != nil {
		layout = *l
	}
	err = s.inLine(s.full, func() (err error) {
		s.st.PumpN++ // above what an attempt may have said to the host before
		out, err = doingUnless(s, opts, func() bool { return s.st.Close.Discard && !discard }, sessions.CloseSession, activities.CloseSessionInput{
			Claim: s.claim(), Layout: layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation,
			Discard: discard, ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq, Notes: s.unwritten(),
			Snapshot: s.lastSnapshot(), Workspace: s.workspace(),
		})
		return err
	})
	// Wherever it stopped, the next one begins again.
	return out, err, err != nil && s.st.Close.Discard && !discard
}

// closeWarm removes the folder that a parked session has left. It takes no slot,
// and all that is in the folder is kept; so where the host is away, its pool
// sees to it later and nobody waits for that.
func (s *session) closeWarm() {
	w := s.st.Warm
	var out activities.CloseSessionResult
	err := s.inLine(forAWhile(s.ctx, never), func() (err error) {
		s.st.PumpN++
		out, err = doing(s, setUp(s.ctx, "close on "+w.Spec.Name), sessions.CloseSession, activities.CloseSessionInput{
			Claim:  activities.Claim{Session: s.id, Host: w.Spec, Generation: w.Generation, Pump: s.st.PumpN, Told: s.st.Told},
			Layout: w.Layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation, Discard: s.st.Close.Discard,
			ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq, Notes: s.unwritten(), Snapshot: s.lastSnapshot(), Workspace: s.workspace(),
		})
		return err
	})
	if err != nil {
		f := failureOf("clean up on "+w.Spec.Name, err)
		s.note(activities.Note{Type: "error", Text: f.Message + "; its pool goes on trying", Data: failureData(f)})
		s.st.Closed, s.st.Left = &CloseView{Wiped: true, Archive: s.goodSnapshot()}, f.Message
		s.recordNotes()
		return
	}
	s.st.Pump.Seq = out.Seq
	s.st.Notes, s.st.Handing = nil, nil
	s.st.Closed = &CloseView{Wiped: out.Wiped, Removed: out.Removed, Archive: orElse(out.Archive, s.goodSnapshot()), Unsaved: out.Unsaved, Kept: out.Kept}
}

// unwritten are the transcript entries that no pump wrote for certain.
func (s *session) unwritten() []activities.Note {
	return append(append([]activities.Note{}, s.st.Handing...), s.st.Notes...)
}

func (s *session) recordNotes() {
	notes := s.unwritten()
	if len(notes) == 0 {
		return
	}
	out, err := doing(s, setUp(s.ctx, "write the transcript"), sessions.RecordNotes, activities.RecordNotesInput{
		Session: s.id, Seq: s.st.Pump.Seq, Notes: notes,
	})
	if err != nil {
		s.log.Error("last transcript entries not written", "error", err)
		return
	}
	s.st.Pump.Seq = out.Seq
	s.st.Notes, s.st.Handing = nil, nil
}
