package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// meet records a failure that passes, and schedules the next attempt.
func (s *core) meet(doing string, f *protocol.Failure) {
	now := workflow.Now(s.ctx)
	t := s.st.Trouble
	if t == nil {
		t = &kit.Trouble{Since: now}
		s.st.Trouble = t
	}
	if t.Attempt == 0 || t.Kind != f.Kind || t.Doing != doing {
		s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("waits and tries again to %s: %s", doing, f.Message), Data: failureData(f)})
	}
	t.Attempt++
	t.Doing, t.Kind, t.Error = doing, f.Kind, kit.Cut(f.Message, kit.MaxTrouble)
	t.NextAt = now.Add(kit.PauseAfter(t.Attempt))
	if by := s.startBy(); !by.IsZero() && by.Before(t.NextAt) {
		t.NextAt = by
	}
}

func (s *core) tryNow() {
	if s.st.Trouble != nil {
		s.st.Trouble.NextAt = workflow.Now(s.ctx)
	}
}

func (s *core) overcome() {
	if t := s.st.Trouble; t != nil {
		s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("managed to %s, after %d attempts that failed since %s", t.Doing, t.Attempt, kit.Clock(t.Since))})
		s.st.Trouble = nil
	}
}

// keepTrying calls try until it works, or fails in a way that waiting cannot mend. Between
// attempts the session waits, longer each time. If the history becomes full, the next run
// goes on with the wait.
//
// A wait ends early when leave returns true, when the session is to close or to resume, or
// when its turn is interrupted. Then keepTrying returns the newest failure, and the caller
// finds out why. A wish to resume ends only one wait: the caller sets obeyed to the wish
// that it knows.
func (s *core) keepTrying(doing string, leave func() bool, try func() (f *protocol.Failure, again bool)) (f *protocol.Failure, again bool) {
	for {
		if f, again := s.waitOut(leave); f != nil || again {
			return f, again
		}
		f, again := try()
		switch {
		case again:
			return f, true
		case f == nil:
			if t := s.st.Trouble; t != nil && t.Doing == doing && s.st.Close == nil && s.st.Lost == nil {
				s.overcome()
			}
			return nil, false
		case !kit.FailurePasses(f) || s.st.Close != nil || leave():
			return f, false
		}
		s.meet(doing, f)
		if late := s.tooLateToStart(); late != nil {
			return late, false
		}
	}
}

// waitOut waits until the next attempt is due. After an early end it returns the failure
// that was waited out.
func (s *core) waitOut(leave func() bool) (f *protocol.Failure, again bool) {
	t := s.st.Trouble
	if t == nil {
		return nil, false
	}
	s.publish()
	called := func() bool {
		return s.st.Close != nil || s.st.Resume != nil && s.st.Resume != s.obeyed || s.st.Down != nil || s.st.Running && s.st.Interrupt != nil || leave()
	}
	wait := t.NextAt.Sub(workflow.Now(s.ctx))
	if wait <= 0 {
		return s.tooLateToStart(), false
	}
	if _, err := s.awaitFor(wait, func() bool { return called() || s.full() }); err != nil {
		return &protocol.Failure{Kind: protocol.ErrTypeInternal, Message: fmt.Sprintf("wait to %s: %v", t.Doing, err)}, false
	}
	switch {
	case called():
		return t.Failure(), false
	case s.full():
		return nil, true
	}
	return s.tooLateToStart(), false
}

func (s *core) waitsForAttempt() bool {
	return s.st.Trouble != nil && s.st.Close == nil && workflow.Now(s.ctx).Before(s.st.Trouble.NextAt)
}

func (s *core) waitsToComeBack() bool {
	return s.waitsForAttempt() && s.st.Begun && s.st.Layout == nil
}

func (s *core) waitingView() *protocol.WaitingView {
	t := s.st.Trouble
	if t == nil {
		return nil
	}
	v := protocol.WaitingView(*t)
	return &v
}

// startBy returns the time by which the session has to begin; zero means no limit.
func (s *core) startBy() time.Time {
	limit := protocol.StartTimeout
	if s.opt.StartTimeout != nil {
		limit = *s.opt.StartTimeout
	}
	if limit == 0 || s.hasStarted() {
		return time.Time{}
	}
	return s.st.CreatedAt.Add(limit)
}

// hasStarted reports whether the first turn could begin.
func (s *core) hasStarted() bool {
	return s.st.Started || s.st.Pump.Opened > 0 || s.st.hadTurn()
}

// tooLateToStart returns the failure of a session that could not begin in time, or nil.
func (s *core) tooLateToStart() *protocol.Failure {
	by := s.startBy()
	if by.IsZero() || workflow.Now(s.ctx).Before(by) {
		return nil
	}
	f := &protocol.Failure{Kind: kit.KindStartTimeout, Final: true,
		Message: fmt.Sprintf("the session could not begin within %v", by.Sub(s.st.CreatedAt)),
		Hint:    "see what it waited for, then start it again; --start-timeout gives it more time, 0 any"}
	if t := s.st.Trouble; t != nil {
		f.Message += fmt.Sprintf(": it tried to %s %d times since %s, and the last error was: %s", t.Doing, t.Attempt, kit.Clock(t.Since), t.Error)
	} else if s.st.Waits != "" {
		f.Message += ": it waited for " + s.st.Waits
	}
	f.Message = kit.Cut(f.Message, kit.MaxFailure)
	return f
}
