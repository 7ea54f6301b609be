package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/admit"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// The agent of a session may start other sessions by the tool start_session, and wait for
// them by wait_session. A pump reports each call once as a request of KindChild and returns.
// The session starts the child, or waits without a pump, and answers as it answers with a
// person's decision. So a call has one effect and one reply, even if codex or a worker dies
// meanwhile: the history has the child's id, and codex takes one reply.
//
// When a child begins, the number of sessions that it may start is subtracted from what its
// parent may start. So the number of sessions below one that a person started never exceeds its
// Max.

type childrenPart struct {
	*core
	follows *followsPart // begins sessions

	wake *kit.Wake // a wait has reached its timeout
}

type childState struct {
	Child children `json:"child,omitzero"`
}

type children struct {
	N       int                  `json:"n,omitempty"`       // newest number; each is used once
	Used    int                  `json:"used,omitempty"`    // of Children.Max
	Replies int                  `json:"replies,omitempty"` // newest number of a reply
	Calls   []childCall          `json:"calls,omitempty"`   // not answered, oldest first
	Started []protocol.ChildView `json:"started,omitempty"` // oldest first; at most Children.Max
	Over    bool                 `json:"over,omitempty"`    // the children were told that the session ends
}

// A childCall is a call of one of protocol.ChildTools that codex waits for.
type childCall struct {
	RPC         json.RawMessage `json:"rpc"`
	Incarnation int             `json:"incarnation"`
	Turn        int             `json:"turn"`
	Tool        string          `json:"tool"`
	Args        string          `json:"args,omitempty"`
	// of a wait
	Sessions []string  `json:"sessions,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

const (
	// keptPrompt bounds what is shown of a child's prompt, in bytes.
	keptPrompt = 200
	// maxChildReply bounds the texts in a reply of wait_session, in bytes.
	maxChildReply = 32 << 10
	// childTTL bounds the life of a child.
	childTTL = 24 * time.Hour
)

func (o Options) checkChildren() error {
	if o.Children == nil {
		return nil
	}
	//workflowcheck:ignore // a pure function
	if err := o.Children.Check(); err != nil {
		return fmt.Errorf("children: %w", err)
	}
	if o.TeamTools != nil {
		for _, name := range o.TeamTools.Names {
			if slices.Contains(protocol.ChildTools, name) {
				return fmt.Errorf("children: the team's tool %s has the name of a tool that starts or awaits sessions: choose another one", name)
			}
		}
	}
	return nil
}

// tools are those that the thread gets when it begins.
func (o Options) tools() []string {
	if o.Children == nil {
		return o.Tools
	}
	return append(slices.Clone(o.Tools), protocol.ChildTools...)
}

func (o Options) childrenWords() string {
	if o.Children == nil {
		return ""
	}
	return o.Children.Words()
}

// waitsForChildren reports whether codex waits for the answer to a call.
func (st *State) waitsForChildren() bool { return len(st.Child.Calls) > 0 }

// forgetCalls drops the calls that codex no longer waits for. The children go on.
func (st *State) forgetCalls() { st.Child.Calls = nil }

func (st *State) withdrawCall(incarnation int, rpc json.RawMessage) {
	st.Child.Calls = slices.DeleteFunc(st.Child.Calls, func(c childCall) bool { return c.Incarnation == incarnation && string(c.RPC) == string(rpc) })
}

// called takes a call that a pump reports.
func (s *childrenPart) called(r protocol.Request) {
	if s.st.Running && s.st.Interrupt != nil {
		return // codex drops it when it ends the turn
	}
	c := childCall{RPC: r.RPC, Incarnation: r.Incarnation, Turn: s.st.TurnN, Tool: r.Tool, Args: r.Args}
	s.st.UpdatedAt = workflow.Now(s.ctx)
	if c.Tool != protocol.ToolWaitSession {
		s.st.Child.Calls = append(s.st.Child.Calls, c) // startDue answers it
		return
	}
	//workflowcheck:ignore // JSON is a pure function
	w, err := protocol.ReadWaitChildren(c.Args)
	if err == nil {
		err = s.known(w.Sessions)
	}
	if err != nil {
		s.refuse(c, "Nothing is waited for: "+err.Error()+".")
		return
	}
	c.Args, c.Sessions = "", w.Sessions
	if len(c.Sessions) == 0 {
		for _, v := range s.st.Child.Started {
			c.Sessions = append(c.Sessions, v.Session)
		}
	}
	wait := protocol.MaxChildWait
	if w.TimeoutSeconds > 0 {
		wait = time.Duration(w.TimeoutSeconds) * time.Second
	}
	c.Until = workflow.Now(s.ctx).Add(wait)
	s.st.Child.Calls = append(s.st.Child.Calls, c)
	s.answerWaits()
}

func (s *childrenPart) known(ids []string) error {
	for _, id := range ids {
		if s.child(id) == nil {
			return fmt.Errorf("%.100q is no session that you started", id)
		}
	}
	if len(s.st.Child.Started) == 0 {
		return errors.New("you have started no session")
	}
	return nil
}

func (s *childrenPart) child(id string) *protocol.ChildView {
	i := slices.IndexFunc(s.st.Child.Started, func(v protocol.ChildView) bool { return v.Session == id })
	if i < 0 {
		return nil
	}
	return &s.st.Child.Started[i]
}

// reply answers a call.
func (s *childrenPart) reply(c childCall, outcome protocol.Outcome, text string) {
	s.st.withdrawCall(c.Incarnation, c.RPC)
	s.st.Child.Replies++
	id := fmt.Sprintf("%s.t%d", s.id, s.st.Child.Replies)
	s.track(id, string(conversation.SendDecision), c.Turn, decidedHere)
	s.st.Sends = append(s.st.Sends, pendingSend{Send: conversation.Send{ID: id, Kind: conversation.SendDecision, RPC: c.RPC, Incarnation: c.Incarnation,
		RequestKind: protocol.KindChild, Outcome: outcome, Turn: c.Turn, Reason: text}})
}

func (s *childrenPart) refuse(c childCall, text string) { s.reply(c, protocol.Decline, text) }

// mayStart reports whether a session is to be started.
func (s *childrenPart) mayStart() bool {
	return s.st.Running && s.st.Close == nil && slices.ContainsFunc(s.st.Child.Calls, func(c childCall) bool { return c.Tool == protocol.ToolStartSession })
}

// startDue starts the sessions that codex asked for, all at the same time.
func (s *childrenPart) startDue() {
	type start struct {
		call childCall
		view protocol.ChildView
		fut  workflow.Future
	}
	var starts []start
	for _, c := range slices.Clone(s.st.Child.Calls) {
		if c.Tool != protocol.ToolStartSession {
			continue
		}
		//workflowcheck:ignore // JSON is a pure function
		args, err := protocol.ReadStartChild(c.Args)
		if err == nil {
			err = s.opt.Children.Allows(args, s.opt.Children.Max-s.st.Child.Used)
		}
		if err == nil {
			err = keepsProfile(s.opt, args)
		}
		var in Input
		var fut workflow.Future
		if err == nil {
			// The number and what the child may start count even if its start fails.
			s.st.Child.N++
			s.st.Child.Used += 1 + args.Children
			var tag string
			if tag, err = tagOf(s.ctx, "children have ids of their own"); err == nil {
				in = NewInput(followUpID(s.id, "child", s.st.Child.N, tag), s.childOptions(args), &protocol.Message{ID: "task", Text: args.Prompt, By: s.opt.By})
				fut, err = s.follows.begin(s.ctx, in)
			}
		}
		if err != nil {
			s.refuse(c, "The session was not started: "+err.Error()+".")
			continue
		}
		starts = append(starts, start{call: c, fut: fut, view: protocol.ChildView{Session: in.ID, Turn: c.Turn, Outcome: protocol.ChildRunning,
			Prompt: kit.Cut(args.Prompt, keptPrompt), Children: args.Children, StartedAt: workflow.Now(s.ctx)}})
	}
	for _, one := range starts {
		var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
		err := one.fut.Get(s.ctx, nil)
		id := one.view.Session
		switch {
		case errors.As(err, &taken):
			s.refuse(one.call, fmt.Sprintf("The session was not started: another one has the id %s. Call start_session again.", id))
			continue
		case err != nil:
			s.refuse(one.call, "The session was not started: "+kit.FailureOf("start session "+id, err).Message+".")
			continue
		}
		s.st.Child.Started = append(s.st.Child.Started, one.view)
		s.note(conversation.Note{Type: protocol.EntryState, Turn: one.call.Turn, Text: "child session " + id + " was started", Data: map[string]string{"child": id, "prompt": one.view.Prompt}})
		s.reply(one.call, protocol.Answer, encoded(map[string]any{"session": id}))
	}
	s.st.UpdatedAt = workflow.Now(s.ctx)
}

func encoded(v any) string {
	//workflowcheck:ignore // JSON is a pure function: map keys are sorted
	text, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// keepsProfile returns an error if a child would be free of its parent's permission profile. A
// read-only session may read all, and a profile may hide something.
func keepsProfile(o Options, a protocol.StartChild) error {
	if a.ReadOnly && o.Confine.Profile != "" {
		return errors.New("read_only does not go with the permission profile of this session, which each child keeps: leave read_only out")
	}
	return nil
}

func (s *childrenPart) childOptions(a protocol.StartChild) Options {
	o := s.opt
	o.From, o.Origin, o.Notify, o.CloseAfter, o.FollowUps = "", protocol.OriginParent(s.id), protocol.SessionID(s.id), true, nil
	o.Dir, o.Workspace, o.Files = "", workspaces.Workspace{}, nil
	o.Model, o.Effort = cmp.Or(a.Model, s.st.Model, o.Model), cmp.Or(a.Effort, s.st.Effort, o.Effort)
	if a.Host != "" {
		o.Host, o.Labels, o.Select, o.Rather = a.Host, nil, nil, nil
	}
	if a.Seed != "" || a.SeedPool != "" {
		o.Seed, o.SeedPool = a.Seed, a.SeedPool
	}
	if a.ReadOnly {
		o.Sandbox, o.Confine.Profile = protocol.ReadOnly, ""
	}
	may := *s.opt.Children
	if o.Children = nil; a.Children > 0 {
		may.Max, may.Depth = a.Children, may.Deep()-1
		o.Children = &may
	}
	o.ParkAfter, o.TTL = 0, min(cmp.Or(o.TTL, childTTL), childTTL)
	return o
}

// ended takes the end of a session, and reports whether it is a child's.
func (s *childrenPart) ended(e protocol.SessionEnded) bool {
	v := s.child(e.ID)
	if v == nil || v.Ended() {
		return v != nil
	}
	v.Outcome, v.Error = protocol.ChildOutcome(e)
	v.EndedAt = e.EndedAt
	if t := e.Turn; t != nil {
		v.Text = kit.Cut(t.FinalText, protocol.MaxChildText)
		v.Truncated = t.FinalTruncated || len(v.Text) < len(t.FinalText)
	}
	if v.Error != nil {
		short := *v.Error
		short.Message, short.Hint = kit.Cut(short.Message, kit.MaxReason), kit.Cut(short.Hint, kit.MaxReason)
		v.Error = &short
	}
	s.note(conversation.Note{Type: protocol.EntryState, Turn: v.Turn, Text: fmt.Sprintf("child session %s ended: %s", v.Session, v.Outcome), Data: map[string]string{"child": v.Session, "outcome": v.Outcome}})
	s.st.UpdatedAt = workflow.Now(s.ctx)
	s.answerWaits()
	return true
}

// over reports whether a wait is to be answered.
func (s *childrenPart) over(c childCall) bool {
	if c.Tool != protocol.ToolWaitSession {
		return false
	}
	return !workflow.Now(s.ctx).Before(c.Until) ||
		!slices.ContainsFunc(c.Sessions, func(id string) bool { v := s.child(id); return v != nil && !v.Ended() })
}

// waitIsOver reports whether a wait is to be answered.
func (s *childrenPart) waitIsOver() bool {
	return s.st.Running && slices.ContainsFunc(s.st.Child.Calls, s.over)
}

func (s *childrenPart) answerWaits() {
	for _, c := range slices.Clone(s.st.Child.Calls) {
		if s.over(c) {
			s.reply(c, protocol.Answer, s.results(c))
		}
	}
}

// results is the reply to a wait.
func (s *childrenPart) results(c childCall) string {
	type result struct {
		Session   string            `json:"session"`
		Outcome   string            `json:"outcome"`
		Text      string            `json:"text,omitempty"`
		Truncated bool              `json:"truncated,omitempty"`
		Error     map[string]string `json:"error,omitempty"`
	}
	var out struct {
		Sessions []result `json:"sessions"`
		TimedOut bool     `json:"timed_out,omitempty"`
	}
	most := maxChildReply / max(len(c.Sessions), 1)
	for _, id := range c.Sessions {
		v := s.child(id)
		if v == nil {
			continue
		}
		r := result{Session: id, Outcome: v.Outcome, Text: kit.Cut(v.Text, most)}
		r.Truncated = v.Truncated || len(r.Text) < len(v.Text)
		if v.Error != nil {
			r.Error = map[string]string{"kind": v.Error.Kind, "message": v.Error.Message}
		}
		out.TimedOut = out.TimedOut || !v.Ended()
		out.Sessions = append(out.Sessions, r)
	}
	return encoded(out)
}

// setWake has the session wake up for the first timeout of a wait.
func (s *childrenPart) setWake() {
	var next time.Time
	for _, c := range s.st.Child.Calls {
		if c.Tool == protocol.ToolWaitSession && (next.IsZero() || c.Until.Before(next)) {
			next = c.Until
		}
	}
	if !next.IsZero() {
		s.wake.Set(next)
	} else if s.wake.IsSet() {
		s.wake.Off()
	}
}

// waitsText says for which children codex waits.
func (st *State) waitsText() string {
	var ids []string
	for _, c := range st.Child.Calls {
		ids = append(ids, c.Sessions...)
	}
	slices.Sort(ids)
	return "child sessions: " + strings.Join(slices.Compact(ids), ", ")
}

// closeAll tells the children that go on to close, when the session ends.
func (s *childrenPart) closeAll() {
	if s.opt.Children == nil || s.opt.Children.Keep || s.st.Child.Over {
		return
	}
	s.st.Child.Over = true
	c := protocol.Close{By: "session " + s.id}
	if was := s.st.Close; was != nil && was.By != "" {
		c.By = was.By
	}
	if admit.Judges(s.ctx) {
		c.Sender = protocol.Sender{From: protocol.SessionID(s.id)}
	}
	var told []workflow.Future
	var to []*protocol.ChildView
	for i := range s.st.Child.Started {
		if v := &s.st.Child.Started[i]; v.Outcome == protocol.ChildRunning {
			told, to = append(told, workflow.SignalExternalWorkflow(s.ctx, protocol.SessionID(v.Session), "", protocol.SignalClose, c)), append(to, v)
		}
	}
	for i, f := range told {
		if err := f.Get(s.ctx, nil); err != nil { // it has ended
			s.log.Info("a child was not told to close", "child", to[i].Session, "error", err)
		} else if to[i].Outcome == protocol.ChildRunning {
			to[i].Outcome = protocol.ChildClosing
		}
	}
}
