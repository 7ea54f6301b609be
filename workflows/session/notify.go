package session

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// MaxEndText bounds the final text in a SessionEnded, in bytes. A batch keeps many of them.
const MaxEndText = 16 << 10

// tellEnded sends the session's SessionEnded, unless it was sent already. It waits until
// Temporal has the signal: a signal that a workflow sends in its last moment is lost.
func (s *endingPart) tellEnded() {
	if !s.st.EndTold {
		s.tell(s.opt.Notify, s.lastWord())
	}
}

// tellHeldUp sends, once, the SessionEnded of a session that cannot clean up for now. The
// receiver need not wait for the cleanup.
func (s *endingPart) tellHeldUp(f *protocol.Failure) {
	if s.st.EndTold {
		return
	}
	s.st.EndTold = true
	e := s.lastWord()
	if s.st.Touched && s.st.Closed == nil {
		e.Left = f.Message
	}
	if s.st.Failing != nil {
		e.State, e.Failure = protocol.Failed, s.st.Failing
	}
	if e.State != protocol.Failed {
		e.State, e.Failure = protocol.Closed, nil
		if e.Turn != nil && (e.Turn.Status == "completed" || s.st.Running) {
			e.Failure = f // what closing could not do yet
		}
	}
	if s.st.Running && e.Turn != nil { // its end is in a journal that nobody could read yet
		e.Turn.Status, e.Turn.EndedAt = "unknown", e.EndedAt
		switch {
		case s.st.Pump.TurnEffects:
			e.Effects = protocol.EffectsSome
		case e.Effects == protocol.EffectsNone:
			e.Effects = protocol.EffectsUnknown
		}
	}
	s.tell(s.opt.Notify, e)
	if p := workflow.GetInfo(s.ctx).ParentWorkflowExecution; p != nil && p.ID != s.opt.Notify {
		s.tell(p.ID, e)
	}
}

func (s *endingPart) tell(to string, e protocol.SessionEnded) {
	if to == "" {
		return
	}
	err := workflow.SignalExternalWorkflow(s.ctx, to, "", protocol.SignalSessionEnded, e).Get(s.ctx, nil)
	if err != nil { // the receiver is gone
		s.log.Warn("the session's end was not told", "to", to, "error", err)
	}
}

// tellRefused sends the SessionEnded of a session whose input was refused.
func tellRefused(ctx workflow.Context, in Input, err error) {
	to := in.Options.Notify
	if to == "" || len(to) > kit.MaxWord || in.Carry != nil {
		return
	}
	now := workflow.Now(ctx)
	s := assembled(&core{ctx: ctx, id: kit.Cut(in.ID, kit.MaxWord), opt: Options{Notify: to}, log: workflow.GetLogger(ctx),
		st: &State{lifeState: lifeState{Status: protocol.Failed, Error: kit.FailureOf("start session "+kit.Cut(in.ID, kit.MaxWord), err), CreatedAt: now}}})
	s.ending.tellEnded()
}

func (s *endingPart) lastWord() protocol.SessionEnded {
	st := s.st
	e := protocol.SessionEnded{ID: s.id, Run: s.firstRun(), State: st.Status, Failure: st.Error, Effects: cmp.Or(st.Effects, protocol.EffectsNone),
		Host: s.hostName(), Attempt: max(st.Attempt, 1), CreatedAt: st.CreatedAt, EndedAt: workflow.Now(s.ctx), Left: st.Left,
		Usage: protocol.UsageView{Input: st.Pump.Usage.Input, Output: st.Pump.Usage.Output, Cached: st.Pump.Usage.Cached, Turns: st.TurnN - st.Skipped}}
	if st.Closed != nil {
		e.Archive = st.Closed.Archive
	}
	if t := st.turn(st.TurnN); t != nil && st.TurnN > 0 {
		v := *t
		readTurnOutput(&v)
		if len(v.FinalText) > MaxEndText {
			v.FinalText, v.FinalTruncated = kit.Cut(v.FinalText, MaxEndText), true
		}
		e.Turn = &v
	}
	return e
}
