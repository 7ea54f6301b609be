package session

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A session consists of a core and parts. All parts work on the state in the core; a part's
// fields are the other parts that it calls.
//
// A result named again means that the function stopped only to continue in the next run of
// the workflow.

type core struct {
	whole
	// ctx outlives a cancellation of the workflow, which the session treats as a close.
	ctx  workflow.Context
	id   string
	opt  Options
	st   *State
	log  log.Logger
	roll *kit.Rollover

	admission admission
	owned     bool             // the session's id is its owner's
	audited   bool             // commands and events are on record
	handed    int64            // the newest record that the present activity carries
	crowded   bool             // the present step waits for busy workers
	insists   bool             // the present step must end within this run
	obeyed    *protocol.Resume // the request to resume that the present step serves
}

type whole interface {
	drain()
	publish()
	view() protocol.SessionView
	still(step string) bool // whether the loop would still choose that step
	decided(raw []byte) *audit.Decision
}

func (s *core) await(cond func() bool) error {
	return workflow.Await(s.ctx, func() bool { s.drain(); return cond() })
}

// awaitFor is await for at most d. met reports whether cond was met.
func (s *core) awaitFor(d time.Duration, cond func() bool) (met bool, err error) {
	if s.drain(); cond() {
		return true, nil
	}
	ctx, cancel := workflow.WithCancel(s.ctx)
	defer cancel() // the SDK's AwaitWithTimeout does not cancel its timer
	timer := workflow.NewTimer(ctx, d)
	err = s.await(func() bool { met = cond(); return met || timer.IsReady() })
	return met, err
}

// doing runs one activity and takes signals meanwhile.
func doing[In, Out any](s *core, ctx workflow.Context, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	return doingUnless(s, ctx, func() bool { return false }, activity, in)
}

// unlessClosing is doing, but cancels the activity when the session is to close. The
// activity may stop anywhere: closing cleans up from any state.
func unlessClosing[In, Out any](s *core, ctx workflow.Context, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	return doingUnless(s, ctx, func() bool { return s.st.Close != nil }, activity, in)
}

func doingUnless[In, Out any](s *core, ctx workflow.Context, callBack func() bool, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	var out Out
	actx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	fut := workflow.ExecuteActivity(actx, activity, in)
	err := s.await(func() bool { return fut.IsReady() || callBack() })
	if err == nil && !fut.IsReady() {
		cancel()
		err = s.await(fut.IsReady)
	}
	if err != nil {
		return out, err
	}
	err = fut.Get(s.ctx, &out)
	return out, err
}

func (s *core) full() bool { return !s.insists && s.roll.Due() }

func (s *core) become(status protocol.SessionStatus) {
	if s.st.Status == status {
		return
	}
	s.st.Status = status
	s.st.UpdatedAt = workflow.Now(s.ctx)
}

func (s *core) fail(f *protocol.Failure) {
	s.st.Error = f
	s.become(protocol.Failed)
	s.note(conversation.Note{Type: "error", Text: f.Message, Data: map[string]string{"kind": f.Kind, "hint": f.Hint}})
	s.publish()
}

// note keeps a transcript entry until an activity writes the transcript.
func (s *core) note(n conversation.Note) {
	s.st.NoteN++
	n.ID = fmt.Sprintf("w%d", s.st.NoteN)
	n.At = workflow.Now(s.ctx)
	if n.Turn == 0 {
		n.Turn = s.st.TurnN
	}
	s.st.Notes = append(s.st.Notes, n)
}

func (s *core) ends() error {
	switch {
	case s.st.Status == protocol.Closed || s.st.Status == protocol.Failed:
		return kit.Refuse(protocol.RefusedState, "session %s is %s", s.id, s.st.Status)
	case s.st.Close != nil:
		return kit.Refuse(protocol.RefusedState, "session %s is closing", s.id)
	}
	return nil
}

// discarding reports whether the close gives up all that cannot be saved.
func (s *core) discarding() bool { return s.st.Close != nil && s.st.Close.Discard }

func (s *core) hostName() string {
	if s.st.Lease != nil {
		return s.st.Lease.Spec.Name
	}
	return s.opt.Host
}

// firstRun distinguishes this session from others of the same name.
func (s *core) firstRun() string { return workflow.GetInfo(s.ctx).FirstRunID }

func (s *core) claim() protocol.Claim {
	return protocol.Claim{Session: s.id, Host: s.st.Lease.Spec, Generation: s.st.Generation, Pump: s.st.PumpN, Told: s.st.Told}
}

func (s *core) mayHaveDone(effects, known bool) {
	switch {
	case effects:
		s.st.Effects = protocol.EffectsSome
	case !known && s.st.Effects == "":
		s.st.Effects = protocol.EffectsUnknown
	}
}

func (s *core) track(id, kind string, turn int, state string) {
	now := workflow.Now(s.ctx)
	for i := range s.st.Messages {
		if m := &s.st.Messages[i]; m.ID == id {
			if m.State != state {
				m.State, m.At = state, now
			}
			m.Kind, m.Turn = kind, turn
			return
		}
	}
	s.st.Messages = append(s.st.Messages, protocol.MessageView{ID: id, Kind: kind, Turn: turn, State: state, At: now})
	s.st.trimMessages()
}

func (s *core) approvalID(n int) string { return s.id + "." + strconv.Itoa(n) }

// workspace returns the initial content of the work folder and the hooks; nil if there are
// neither.
func (s *core) workspace() *workspaces.Workspace {
	if s.opt.Workspace == (workspaces.Workspace{}) {
		return nil
	}
	return &s.opt.Workspace
}

// inLine is kit.InLine for a session: it also shows that the session waits.
func (s *core) inLine(leave func() bool, try func() error) error {
	defer func() { s.crowded = false }()
	return kit.InLine(leave, func() error {
		err := try()
		if was := s.crowded; kit.WasBusy(err) && !leave() {
			if s.crowded = true; !was {
				s.publish()
			}
		}
		return err
	})
}
