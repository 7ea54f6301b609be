package workflows

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/internal/protocol"
)

func (r *real) teamQueue() string { return "team-" + r.zone }

// teamWorks starts a worker of a team, which knows nothing of Fairlead.
func (r *real) teamWorks() {
	r.t.Helper()
	w := worker.New(r.c, r.teamQueue(), worker.Options{Identity: neutral})
	for name, f := range map[string]any{
		"answers": func(ctx context.Context, call map[string]any) (string, error) {
			if info := activity.GetInfo(ctx); info.ActivityID != call["id"] || info.Attempt == 1 && call["again"] == true {
				return "", errors.New("not this time")
			}
			return "it is open", nil
		},
		"nothing": func(context.Context, json.RawMessage) error { return nil },
		"refuses": func(context.Context, json.RawMessage) error {
			return temporal.NewNonRetryableApplicationError("there is no ABC-1", "NotFound", nil)
		},
		"fails": func(context.Context, json.RawMessage) error { return errors.New("the desk is closed") },
		"floods": func(context.Context, json.RawMessage) ([]byte, error) {
			return bytes.Repeat([]byte("x"), protocol.MaxToolAnswer), nil
		},
		"hurries": func(context.Context, json.RawMessage) error {
			return temporal.NewApplicationErrorWithOptions("again", "", temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond})
		},
		"sleeps": func(ctx context.Context, _ json.RawMessage) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Stop)
}

// callTool has the team carry out a call, as a pump does.
func (r *real) callTool(kind string, a protocol.ToolActivity, wait time.Duration) (id string, out protocol.CallToolResult) {
	r.t.Helper()
	call := "call_" + r.zone + "-" + kind
	id = protocol.ToolCallID(call)
	a.Type = cmp.Or(a.Type, kind)
	a.Queue = cmp.Or(a.Queue, r.teamQueue())
	in := protocol.CallToolInput{ID: call, Tool: "lookup", Session: "s", Activity: a, Wait: wait, Argument: protocol.RawPayload{
		Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"id":"` + call + `","again":true}`),
	}}
	run, err := r.c.ExecuteWorkflow(r.t.Context(), client.StartWorkflowOptions{
		ID: id, TaskQueue: r.queue, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, protocol.TypeToolCall, in)
	if err == nil {
		err = run.Get(r.t.Context(), &out)
	}
	if err != nil {
		r.t.Fatalf("%s: %v", id, err)
	}
	return id, out
}

func TestACallOfATeamsActivityEndsInOneStatedWay(t *testing.T) {
	r := newReal(t)
	r.work()
	r.teamWorks()
	for kind, c := range map[string]struct {
		activity protocol.ToolActivity
		wait     time.Duration
		want     protocol.ToolOutcome
		why      string
	}{
		"answers": {protocol.ToolActivity{}, time.Minute, protocol.ToolAnswered, ""}, // at the second attempt
		"nothing": {protocol.ToolActivity{}, time.Minute, protocol.ToolAnswered, ""},
		"refuses": {protocol.ToolActivity{}, time.Minute, protocol.ToolRefused, "there is no ABC-1"},
		"fails":   {protocol.ToolActivity{Attempts: 2}, time.Minute, protocol.ToolFailed, "the desk is closed"},
		"floods":  {protocol.ToolActivity{}, time.Minute, protocol.ToolTooLong, ""},
		"hurries": {protocol.ToolActivity{}, 2 * time.Second, protocol.ToolTimedOut, "again"},
		"sleeps":  {protocol.ToolActivity{}, 2 * time.Second, protocol.ToolTimedOut, ""},
		"unknown": {protocol.ToolActivity{Attempts: 1}, 4 * time.Second, protocol.ToolFailed, "unknown"}, // no activity of this name
		"nobody":  {protocol.ToolActivity{Queue: "nobody-polls-" + r.zone}, 2 * time.Second, protocol.ToolNotBegun, ""},
	} {
		t.Run(kind, func(t *testing.T) {
			_, out := r.callTool(kind, c.activity, c.wait)
			// The team's worker may be too busy to take the call, or to try it as often as it should, in time.
			slow := func() bool {
				return out.Outcome == protocol.ToolNotBegun && c.want != protocol.ToolNotBegun ||
					out.Outcome == protocol.ToolTimedOut && (c.want != protocol.ToolTimedOut || !strings.Contains(out.Why, c.why))
			}
			for n := 0; slow() && n < 2; n++ {
				c.wait *= 4
				c.activity.Type = kind
				_, out = r.callTool(fmt.Sprintf("%s.%d", kind, n), c.activity, c.wait)
			}
			if out.Outcome != c.want || !strings.Contains(out.Why, c.why) {
				t.Errorf("it came to %+v", out)
			}
			if kind == "answers" && string(out.Answer.Data) != `"it is open"` || kind == "nothing" && out.Answer != nil {
				t.Errorf("the answer is %+v", out.Answer)
			}
		})
	}
}
