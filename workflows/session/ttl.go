package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// After its time to live a session begins no further turn. It closes when the running turn
// has ended, or after TTLGrace, in whatever state it is.

// TTLGrace bounds how long the last turn may go on.
const TTLGrace = 15 * time.Minute

// byTTL is the By of that close.
const byTTL = "ttl"

func (s *endingPart) ttlAt() time.Time {
	if s.opt.TTL <= 0 {
		return time.Time{}
	}
	return s.st.CreatedAt.Add(s.opt.TTL)
}

func (s *endingPart) outlived() bool {
	at := s.ttlAt()
	return !at.IsZero() && !workflow.Now(s.ctx).Before(at)
}

func (s *endingPart) endLife(ctx workflow.Context) {
	at := s.ttlAt()
	if at.IsZero() || !s.pauseUntil(ctx, at, "the session has lived as long as it may") {
		return
	}
	grace := at.Add(TTLGrace)
	over := workflow.NewTimerWithOptions(ctx, max(grace.Sub(workflow.Now(ctx)), time.Millisecond), workflow.TimerOptions{Summary: "its last turn has had its time"})
	if err := workflow.Await(ctx, func() bool { return !s.st.Running || s.st.Close != nil || over.IsReady() }); err != nil || s.st.Close != nil {
		return
	}
	text := fmt.Sprintf("the session has lived for %v, as long as it may (ttl): it closes", s.opt.TTL)
	if s.st.Running {
		text += fmt.Sprintf(", and turn %d, which still runs %v later, is interrupted", s.st.TurnN, TTLGrace)
	}
	s.note(conversation.Note{Type: protocol.EntryState, Text: text, Data: map[string]string{"by": byTTL}})
	s.st.Close = &protocol.Close{By: byTTL}
}

// pauseUntil waits until at, and returns false if it was cancelled.
func (s *endingPart) pauseUntil(ctx workflow.Context, at time.Time, what string) bool {
	d := at.Sub(workflow.Now(ctx))
	if d <= 0 {
		return true
	}
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: what}).Get(ctx, nil) == nil
}
