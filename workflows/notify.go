package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
)

// SignalSessionEnded is what a session sends to the workflow that its options
// name in Notify, once all of it is cleaned up and given back: a SessionEnded.
const SignalSessionEnded = "session_ended"

// SessionEnded is the last word of a session.
type SessionEnded struct {
	ID    string        `json:"id"`
	Run   string        `json:"run"` // the first of its workflow
	State SessionStatus `json:"state"`
	// Turn is the newest one; nil where none began. Of its final text there is
	// as much as a message may say inline.
	Turn    *TurnView `json:"turn,omitempty"`
	Failure *Failure  `json:"failure,omitempty"`
	// Effects says whether codex may have done anything: none, some, unknown.
	Effects   string    `json:"effects"`
	Host      string    `json:"host,omitempty"`
	Attempt   int       `json:"attempt"`
	Usage     UsageView `json:"usage"`
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at"`
	Left      string    `json:"left,omitempty"`    // why something of it may still be on the host
	Archive   string    `json:"archive,omitempty"` // the snapshot that it was kept as
}

// What a session may have done to the world outside codex.
const (
	EffectsNone    = "none"    // it certainly began no command and no change
	EffectsSome    = "some"    // it began one at least
	EffectsUnknown = "unknown" // nobody heard what a turn of it did to its end
)

// maxEndText bounds the final text in a session's last word: a batch keeps many.
const maxEndText = 16 << 10

// Origins of sessions, in SessionOptions.Origin and the search attribute
// FairleadOrigin.
const (
	originBatch    = "batch/"
	originSchedule = "schedule/"
)

// OriginBatch is that of a batch's sessions.
func OriginBatch(id string) string { return originBatch + id }

// OriginSchedule is that of what a schedule started.
func OriginSchedule(name string) string { return originSchedule + name }

// checkOrigin refuses an origin that nobody could be found by.
func (o SessionOptions) checkOrigin() error {
	if o.Origin == "" {
		return nil
	}
	name, ok := strings.CutPrefix(o.Origin, originBatch)
	if !ok {
		name, ok = strings.CutPrefix(o.Origin, originSchedule)
	}
	if !ok || !NamePattern.MatchString(name) {
		return fmt.Errorf("origin %q is neither batch/NAME nor schedule/NAME", excerpt(o.Origin, maxWord))
	}
	return nil
}

// takeFirst queues the message that came with the start. One that would be
// refused as an update ends the session before it asks for anything.
func (s *session) takeFirst(m *Message) error {
	if m == nil {
		return nil
	}
	//workflowcheck:ignore // reading a schema's JSON is a pure function
	_, err := s.takeMessage(*m)
	if err != nil { // whoever asks it afterwards is told
		s.st.Error = failureOf("first message", err)
		s.become(Failed)
	}
	return err
}

// tellEnded sends the session's last word to whoever wants it. It waits until
// that is on its way: what a workflow sends in its last moment is lost.
func (s *session) tellEnded() {
	if s.opt.Notify == "" {
		return
	}
	err := workflow.SignalExternalWorkflow(s.ctx, s.opt.Notify, "", SignalSessionEnded, s.lastWord()).Get(s.ctx, nil)
	if err != nil { // it is gone, and has no use for it
		s.log.Warn("the session's end was not told", "to", s.opt.Notify, "error", err)
	}
}

// tellRefused sends the last word of a session that could not even begin.
func tellRefused(ctx workflow.Context, in SessionInput, err error) {
	to := in.Options.Notify
	if to == "" || len(to) > maxWord || in.Carry != nil {
		return
	}
	now := workflow.Now(ctx)
	s := &session{ctx: ctx, id: excerpt(in.ID, maxWord), opt: SessionOptions{Notify: to}, log: workflow.GetLogger(ctx),
		st: &sessionState{Status: Failed, Error: failureOf("start session "+excerpt(in.ID, maxWord), err), CreatedAt: now}}
	s.tellEnded()
}

func (s *session) lastWord() SessionEnded {
	st := s.st
	e := SessionEnded{ID: s.id, Run: s.firstRun(), State: st.Status, Failure: st.Error, Effects: orElse(st.Effects, EffectsNone),
		Host: s.hostName(), Attempt: max(st.Attempt, 1), CreatedAt: st.CreatedAt, EndedAt: workflow.Now(s.ctx), Left: st.Left,
		Usage: UsageView{Input: st.Pump.Usage.Input, Output: st.Pump.Usage.Output, Cached: st.Pump.Usage.Cached, Turns: st.TurnN - st.Skipped}}
	if st.Closed != nil {
		e.Archive = st.Closed.Archive
	}
	if t := st.turn(st.TurnN); t != nil && st.TurnN > 0 {
		v := *t
		v.readOutput()
		if len(v.FinalText) > maxEndText {
			v.FinalText, v.FinalTruncated = excerpt(v.FinalText, maxEndText), true
		}
		e.Turn = &v
	}
	return e
}

// mayHaveDone records that a turn had effects, or that nobody can know.
func (s *session) mayHaveDone(effects, known bool) {
	switch {
	case effects:
		s.st.Effects = EffectsSome
	case !known && s.st.Effects == "":
		s.st.Effects = EffectsUnknown
	}
}
