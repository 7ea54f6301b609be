package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// closeGrace is how long codex may take to end a turn when the session closes.
const closeGrace = 15 * time.Second

// newlyClosing says that a close came while a turn runs and codex does not know yet.
func (s *session) newlyClosing() bool {
	if s.st.Close == nil || !s.st.Running {
		return false
	}
	id := fmt.Sprintf("%s.i%d", s.id, s.st.TurnN)
	for _, p := range s.st.Sends {
		if p.Send.ID == id {
			return false
		}
	}
	return true
}

func (s *session) queueInterruptForClose() bool {
	if s.st.Close == nil || !s.st.Running {
		return false
	}
	if s.st.Interrupt == nil {
		s.st.Interrupt = &Interrupt{By: s.st.Close.By, Reason: "the session was closed"}
	}
	return s.queueInterrupt()
}

// interruptForClose ends the running turn before a close, with codex's help if
// it gives any in time.
func (s *session) interruptForClose() error {
	s.become(Closing)
	s.queueInterruptForClose()
	s.st.CloseTries++
	if !s.st.Alive || s.st.CloseTries > 3 {
		s.giveUpTurn("interrupted", nil)
		return nil
	}
	return s.pump()
}

// cleanUp leaves the host and the leases as they were before the session. What
// it cannot prove it says.
func (s *session) cleanUp() {
	failed := s.st.Status == Failed
	if !failed {
		s.become(Closing)
	}
	for _, m := range s.st.Queue {
		if t := s.st.turn(s.findN(m.ID)); t != nil {
			t.Status, t.EndedAt = "interrupted", workflow.Now(s.ctx)
			t.Error = &Failure{Kind: "closed", Message: "the session ended before this message had its turn"}
		}
	}
	s.st.Queue = nil
	if s.st.Running {
		s.giveUpTurn("unknown", s.st.Error)
	}
	s.publish()
	s.closeOnHost()
	s.releaseLeases()
	if !failed {
		s.become(Closed)
	}
	s.publish()
}

func (s *session) findN(messageID string) int {
	if a := s.accepted(messageID); a != nil {
		return a.N
	}
	return 0
}

// closeOnHost stops, saves, wipes and removes. A host that cannot be reached is
// tried until it can, or until somebody says discard.
func (s *session) closeOnHost() {
	if s.st.Close == nil {
		s.st.Close = &Close{}
	}
	word := "closed"
	if s.st.Status == Failed {
		word = "failed"
	} else {
		s.note(activities.Note{Type: "state", Text: word, Data: map[string]string{"by": s.st.Close.By}})
	}
	if s.st.Lease == nil || s.st.Layout == nil {
		s.recordNotes()
		return
	}
	for {
		discard := s.st.Close.Discard
		out, err, again := s.tryClose(discard)
		if again {
			continue
		}
		if err != nil {
			f := failureOf(fmt.Sprintf("clean up on %s", s.st.Lease.Spec.Name), err)
			s.note(activities.Note{Type: "error", Text: f.Message, Data: failureData(f)})
			if s.st.Error == nil {
				s.st.Error = f
			}
			s.st.Closed = &CloseView{}
			s.recordNotes()
			return
		}
		s.st.Pump.Seq = out.Seq
		s.st.Notes, s.st.Handing = nil, nil
		s.st.Alive = false
		s.st.Closed = &CloseView{Wiped: out.Wiped, Removed: out.Removed, Archive: out.Archive}
		if out.Problem != nil && s.st.Error == nil {
			s.st.Error = failureOfProblem(out.Problem)
		}
		return
	}
}

// tryClose runs the activity; it is called back when somebody says discard
// while a host cannot be reached.
func (s *session) tryClose(discard bool) (out activities.CloseSessionResult, err error, again bool) {
	s.st.PumpN++
	opts := untilDone(s.ctx, "close on "+s.st.Lease.Spec.Name)
	if discard {
		opts = setUp(s.ctx, "discard on "+s.st.Lease.Spec.Name)
	}
	actx, cancel := workflow.WithCancel(opts)
	defer cancel()
	fut := workflow.ExecuteActivity(actx, sessions.CloseSession, activities.CloseSessionInput{
		Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation,
		Discard: discard, ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq,
		Notes: append(append([]activities.Note{}, s.st.Handing...), s.st.Notes...),
	})
	if err := s.await(func() bool { return fut.IsReady() || s.st.Close.Discard != discard }); err != nil {
		return out, err, false
	}
	if !fut.IsReady() {
		cancel()
		_ = fut.Get(s.ctx, nil) // wherever it stopped, the next one begins again
		return out, nil, true
	}
	err = fut.Get(s.ctx, &out)
	return out, err, false
}

func (s *session) recordNotes() {
	notes := append(append([]activities.Note{}, s.st.Handing...), s.st.Notes...)
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
