package flows

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// NotArchived is the condition of a list without archived sessions.
const NotArchived = "FairleadArchived IS NULL"

// List returns at most limit matching workflows, newest first.
func (t *Conn) List(ctx context.Context, doing, query string, limit int) ([]*workflowpb.WorkflowExecutionInfo, error) {
	ctx, cancel := t.Bounded(ctx, 30*time.Second)
	defer cancel()
	var out []*workflowpb.WorkflowExecutionInfo
	var next []byte
	for {
		res, err := t.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: t.Namespace, Query: query, PageSize: int32(min(limit-len(out), 1000)), NextPageToken: next,
		})
		if err != nil {
			return nil, t.Explain(ctx, doing, err)
		}
		out = append(out, res.GetExecutions()...)
		if next = res.GetNextPageToken(); len(next) == 0 || len(out) >= limit {
			return out, nil
		}
	}
}

// BegunBefore counts the workflows that Temporal keeps from before a time.
func (t *Conn) BegunBefore(ctx context.Context, when time.Time) (int64, error) {
	const doing = "count the workflows from before payloads were encrypted for their place"
	res, err := t.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: t.Namespace, Query: "StartTime < '" + when.UTC().Format(time.RFC3339) + "'",
	})
	return res.GetCount(), t.Explain(ctx, doing, err)
}

// Kept returns a session as Temporal keeps it, without a worker.
func (t *Conn) Kept(ctx context.Context, id string) (protocol.SessionView, error) {
	d, err := t.DescribeWorkflowExecution(ctx, protocol.SessionID(id), "")
	if err != nil {
		return protocol.SessionView{}, t.Explain(ctx, "show session "+id, err)
	}
	return KeptView(d.GetWorkflowExecutionInfo(), t.Codec), nil
}

// KeptView reads a session from its search attributes.
func KeptView(info *workflowpb.WorkflowExecutionInfo, codec *payload.Codec) protocol.SessionView {
	attrs := info.GetSearchAttributes().GetIndexedFields()
	v := protocol.SessionView{
		ID:    strings.TrimPrefix(info.GetExecution().GetWorkflowId(), "session/"),
		State: protocol.SessionStatus(Attr[string](attrs, "FairleadState")),
		Host:  Attr[string](attrs, "FairleadHost"), Seed: Attr[string](attrs, "FairleadSeed"),
		ThreadID: Attr[string](attrs, "FairleadThread"), Waits: Attr[string](attrs, "FairleadWaits"),
		Requests: []protocol.RequestBrief{}, Attempt: 1,
		Name: Attr[string](attrs, "FairleadName"), Archived: Attr[bool](attrs, "FairleadArchived"),
		CreatedAt: info.GetStartTime().AsTime(),
	}
	// The first run has no such memo. If it is missing or ctl cannot decrypt it, the start
	// of this run is shown. A run before an upgrade may have made it.
	var began time.Time
	if p := info.GetMemo().GetFields()[protocol.MemoCreated]; p != nil && codec.Of(info.GetExecution().GetWorkflowId(), time.Time{}).FromPayload(p, &began) == nil {
		v.CreatedAt = began
	}
	v.Origin = Attr[string](attrs, "FairleadOrigin")
	v.Parent = protocol.ParentOf(v.Origin)
	if text := Attr[string](attrs, "FairleadProgress"); text != "" {
		v.Progress = &protocol.ProgressView{Text: text}
	}
	if n := Attr[int64](attrs, "FairleadTurn"); n > 0 {
		v.Turn = &protocol.TurnBrief{N: int(n)}
	}
	if v.State == "" {
		v.State = protocol.Queued
	}
	if info.GetCloseTime() != nil {
		v.UpdatedAt = info.GetCloseTime().AsTime()
	}
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED:
		v.State = protocol.Failed // a session that could not start has no state attribute
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		v.State, v.Waits = protocol.Failed, ""
		v.Error = &protocol.Failure{Kind: "terminated", Message: "the workflow was ended from outside; nothing was cleaned up on the host"}
	}
	return v
}

// keptSession is a session read only from search attributes. Unknown values are null in
// JSON.
type keptSession struct{ protocol.SessionView }

// AsKnown returns the session for JSON output. Unknown values are null if the session
// itself did not answer.
func AsKnown(v protocol.SessionView) any {
	if v.Budget == nil { // read from search attributes
		return keptSession{v}
	}
	return v
}

func (k keptSession) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(k.SessionView)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for _, name := range []string{"requests", "attempt", "process", "usage", "messages"} {
		fields[name] = nil
	}
	if turn, ok := fields["turn"].(map[string]any); ok {
		turn["id"], turn["status"], turn["started_at"] = nil, nil, nil
	}
	if k.UpdatedAt.IsZero() {
		fields["updated_at"] = nil
	}
	return json.Marshal(fields)
}

// Attr decodes a search attribute, which is never encrypted.
func Attr[T any](attrs map[string]*commonpb.Payload, name string) T {
	var v T
	if p := attrs[name]; p != nil {
		if converter.GetDefaultDataConverter().FromPayload(p, &v) != nil {
			var zero T
			return zero
		}
	}
	return v
}

var states = []protocol.SessionStatus{protocol.Queued, protocol.Preparing, protocol.Starting, protocol.Idle, protocol.Running,
	protocol.Waiting, protocol.Parked, protocol.Resuming, protocol.Interrupted, protocol.Closing, protocol.Closed, protocol.Failed}

// StateWords returns the states of sessions.
func StateWords() []string {
	var out []string
	for _, s := range states {
		out = append(out, string(s))
	}
	return out
}

// KnownState reports whether word is a state of sessions.
func KnownState(word string) bool {
	for _, s := range states {
		if string(s) == word {
			return true
		}
	}
	return false
}
