package workflows

import (
	"context"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// begins runs a session that gets its first message with its start.
func (w *world) begins(first protocol.Message, opt session.Options) protocol.SessionEnded {
	w.t.Helper()
	w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: opt, First: &first})
	if !w.IsWorkflowCompleted() {
		w.t.Fatal("the session did not end")
	}
	w.verify()
	if len(w.ended) != 1 {
		w.t.Fatalf("it was told %d times that the session ended: %+v", len(w.ended), w.ended)
	}
	return w.ended[0]
}

func TestTheFirstMessageComesWithTheStartAndTheEndIsTold(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", strings.Repeat("long ", 4<<10)))
	e := w.begins(hello("m1"), session.Options{CloseAfter: true, Notify: "batch/b1", Origin: protocol.OriginBatch("b1")})
	if err := w.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if e.ID != "s1" || e.State != protocol.Closed || e.Failure != nil || e.Effects != protocol.EffectsNone || e.Host != "web-1" {
		t.Errorf("the end was told as %+v", e)
	}
	if e.Turn == nil || e.Turn.Status != "completed" || e.Turn.MessageID != "m1" || !e.Turn.FinalTruncated || len(e.Turn.FinalText) > session.MaxEndText+3 {
		t.Errorf("its turn is %.200v", e.Turn)
	}
	if len(w.released) != 1 || w.released[0] != protocol.PoolID("") {
		t.Errorf("released %q before it was told", w.released)
	}
}

func TestWhatASessionMayHaveDoneIsTold(t *testing.T) {
	effects := func(status string) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
			out, err := endsTurn(status, "")(ctx, in)
			out.Pump.Turn.Effects = true
			out.Pump.Turn.Problem = &protocol.Problem{Kind: "other", Message: "no"}
			return out, err
		}
	}
	for name, c := range map[string]struct {
		pump func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error)
		want string
	}{
		"it failed and had begun nothing":              {endsTurn("failed", ""), protocol.EffectsNone},
		"it failed after a command":                    {effects("failed"), protocol.EffectsSome},
		"its process died with the message":            {dies(protocol.Acknowledged, true), protocol.EffectsUnknown},
		"its process died and may have had it":         {dies(protocol.Sent, true), protocol.EffectsUnknown},
		"codex refused the session before the message": {refuses("bad_request", protocol.Decided), protocol.EffectsNone},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = append(w.fake.pumps, c.pump)
			e := w.begins(hello("m1"), session.Options{CloseAfter: true, Notify: "batch/b1"})
			if e.Effects != c.want || e.Turn == nil || e.Turn.Status == "completed" {
				t.Errorf("the end was told as %+v, want effects %s", e, c.want)
			}
		})
	}
}

func TestASessionThatCannotBeginTellsSo(t *testing.T) {
	for name, c := range map[string]struct {
		first protocol.Message
		opt   session.Options
	}{
		"its first message is empty": {protocol.Message{ID: "m1"}, session.Options{}},
		"its options are wrong":      {hello("m1"), session.Options{Sandbox: "glass"}},
		"its origin is none":         {hello("m1"), session.Options{Origin: "chance"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.opt.Notify = "batch/b1"
			e := w.begins(c.first, c.opt)
			if e.State != protocol.Failed || e.Failure == nil || e.Failure.Kind != protocol.RefusedBadInput || e.Effects != protocol.EffectsNone {
				t.Errorf("the end was told as %+v", e)
			}
			if typeOf(w.GetWorkflowError()) != protocol.RefusedBadInput || len(w.asked) > 0 {
				t.Errorf("it ended with %v and asked for %+v", w.GetWorkflowError(), w.asked)
			}
		})
	}
}

func TestASessionThatRefusedItsFirstMessageSaysSoWhenItIsAsked(t *testing.T) {
	w := newWorld(t)
	w.begins(protocol.Message{ID: "m1"}, session.Options{Notify: "batch/b1"})
	answer, err := w.QueryWorkflow(protocol.QueryDetail)
	if err != nil {
		t.Fatal(err)
	}
	var d protocol.SessionDetail
	if err := answer.Get(&d); err != nil {
		t.Fatal(err)
	}
	if d.View.State != protocol.Failed || d.View.Error == nil || d.View.Error.Kind != protocol.RefusedBadInput || !strings.Contains(d.View.Error.Message, "m1 is empty") {
		t.Errorf("it is %s: %+v", d.View.State, d.View.Error)
	}
}

// A session whose options are refused ends at once. Queries are answered with the reason.
func TestASessionThatRefusedItsOptionsSaysSoWhenItIsAsked(t *testing.T) {
	w := newWorld(t)
	w.begins(protocol.Message{ID: "m1", Text: "hi"}, session.Options{Notify: "batch/b1", From: "s0.snap-1", Workspace: workspaces.Workspace{Snapshot: "s0.snap-2"}})
	if typeOf(w.GetWorkflowError()) != protocol.RefusedBadInput {
		t.Fatalf("it ended with %v", w.GetWorkflowError())
	}
	d := query[protocol.SessionDetail](w, protocol.QueryDetail)
	for name, v := range map[string]protocol.SessionView{"detail": d.View, "state": query[protocol.SessionView](w, protocol.QueryState)} {
		if v.ID != "s1" || v.State != protocol.Failed || v.Error == nil || v.Error.Kind != protocol.RefusedBadInput || !strings.Contains(v.Error.Message, "more than one of") {
			t.Errorf("%s: it is %q, %s: %+v", name, v.ID, v.State, v.Error)
		}
	}
	if got := query[[]protocol.Approval](w, protocol.QueryApprovals); len(got) != 0 {
		t.Errorf("approvals are %+v", got)
	}
}
