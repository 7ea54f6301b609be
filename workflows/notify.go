package workflows

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
)

// SignalSessionEnded carries a SessionEnded. A session sends it to the workflow
// that its options name in Notify, once it has cleaned up and given back
// everything. If the first attempt to clean up fails, the session sends the signal
// then, also to the schedule firing that started it, so that neither waits for a
// host.
const SignalSessionEnded = "session_ended"

// SessionEnded is a session's final report.
type SessionEnded struct {
	ID    string        `json:"id"`
	Run   string        `json:"run"` // first run of its workflow
	State SessionStatus `json:"state"`
	// Turn is the newest turn, or nil if none began. Its final text is cut to
	// maxEndText bytes.
	Turn    *TurnView `json:"turn,omitempty"`
	Failure *Failure  `json:"failure,omitempty"`
	// Effects says whether codex may have done anything: none, some, unknown.
	Effects   string    `json:"effects"`
	Host      string    `json:"host,omitempty"`
	Attempt   int       `json:"attempt"`
	Usage     UsageView `json:"usage"`
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at"`
	Left      string    `json:"left,omitempty"`    // why something of the session may still be on the host
	Archive   string    `json:"archive,omitempty"` // the snapshot that archives it
}

// What a session may have done to the world outside codex.
const (
	EffectsNone    = "none"    // it certainly began no command and no change
	EffectsSome    = "some"    // it began at least one
	EffectsUnknown = "unknown" // nobody knows all that one of its turns did
)

// maxEndText bounds the final text in a SessionEnded, in bytes. A batch keeps many
// of them.
const maxEndText = 16 << 10

// Origins of sessions, in SessionOptions.Origin and the search attribute
// FairleadOrigin.
const (
	originBatch    = "batch/"
	originSchedule = "schedule/"
)

// OriginBatch returns the origin of the sessions of a batch.
func OriginBatch(id string) string { return originBatch + id }

// OriginSchedule returns the origin of what a schedule starts.
func OriginSchedule(name string) string { return originSchedule + name }

// checkOrigin refuses an origin that is not empty, batch/NAME or schedule/NAME.
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

// tellEnded sends the session's SessionEnded, unless it was sent already. It waits
// until Temporal has taken the signal: what a workflow sends in its last moment is
// lost.
func (s *endingPart) tellEnded() {
	if !s.st.EndTold {
		s.tell(s.opt.Notify, s.lastWord())
	}
}

// tellHeldUp sends the SessionEnded of a session that cannot clean up for now,
// once. The work is done, so whoever waits for it can go on.
func (s *endingPart) tellHeldUp(f *Failure) {
	if s.st.EndTold {
		return
	}
	s.st.EndTold = true
	e := s.lastWord()
	if s.st.Touched && s.st.Closed == nil {
		e.Left = f.Message
	}
	if s.st.Failing != nil {
		e.State, e.Failure = Failed, s.st.Failing
	}
	if e.State != Failed {
		e.State, e.Failure = Closed, nil
		if e.Turn != nil && (e.Turn.Status == "completed" || s.st.Running) {
			e.Failure = f // what closing could not do yet
		}
	}
	if s.st.Running && e.Turn != nil { // its end is in a journal that nobody could read yet
		e.Turn.Status, e.Turn.EndedAt = "unknown", e.EndedAt
		switch {
		case s.st.Pump.TurnEffects:
			e.Effects = EffectsSome
		case e.Effects == EffectsNone:
			e.Effects = EffectsUnknown
		}
	}
	s.tell(s.opt.Notify, e)
	if p := workflow.GetInfo(s.ctx).ParentWorkflowExecution; p != nil && p.ID != s.opt.Notify {
		s.tell(p.ID, e)
	}
}

func (s *endingPart) tell(to string, e SessionEnded) {
	if to == "" {
		return
	}
	err := workflow.SignalExternalWorkflow(s.ctx, to, "", SignalSessionEnded, e).Get(s.ctx, nil)
	if err != nil { // the receiver is gone
		s.log.Warn("the session's end was not told", "to", to, "error", err)
	}
}

// tellRefused sends the SessionEnded of a session whose input was refused.
func tellRefused(ctx workflow.Context, in SessionInput, err error) {
	to := in.Options.Notify
	if to == "" || len(to) > maxWord || in.Carry != nil {
		return
	}
	now := workflow.Now(ctx)
	s := assembled(&core{ctx: ctx, id: excerpt(in.ID, maxWord), opt: SessionOptions{Notify: to}, log: workflow.GetLogger(ctx),
		st: &sessionState{lifeState: lifeState{Status: Failed, Error: failureOf("start session "+excerpt(in.ID, maxWord), err), CreatedAt: now}}})
	s.ending.tellEnded()
}

func (s *endingPart) lastWord() SessionEnded {
	st := s.st
	e := SessionEnded{ID: s.id, Run: s.firstRun(), State: st.Status, Failure: st.Error, Effects: cmp.Or(st.Effects, EffectsNone),
		Host: s.hostName(), Attempt: max(st.Attempt, 1), CreatedAt: st.CreatedAt, EndedAt: workflow.Now(s.ctx), Left: st.Left,
		Usage: UsageView{Input: st.Pump.Usage.Input, Output: st.Pump.Usage.Output, Cached: st.Pump.Usage.Cached, Turns: st.TurnN - st.Skipped}}
	if st.Closed != nil {
		e.Archive = st.Closed.Archive
	}
	if t := st.turn(st.TurnN); t != nil && st.TurnN > 0 {
		v := *t
		readTurnOutput(&v)
		if len(v.FinalText) > maxEndText {
			v.FinalText, v.FinalTruncated = excerpt(v.FinalText, maxEndText), true
		}
		e.Turn = &v
	}
	return e
}
