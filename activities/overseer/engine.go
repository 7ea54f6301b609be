package overseer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/inquiry"
)

// Engine asks Temporal itself.
type Engine struct {
	Client client.Client
}

// A Holder is a workflow that has a lease, or waits for one.
type Holder struct {
	WorkflowID string `json:"workflow_id"`
	// FirstRun, if set, is the id of the workflow's first run. A workflow of the same
	// id with another first run is another workflow.
	FirstRun string `json:"first_run,omitempty"`
}

// FindEndedInput is the input of FindEnded.
type FindEndedInput struct {
	Holders []Holder `json:"holders"`
}

// FindEndedResult names the holders that have ended.
type FindEndedResult struct {
	Ended []Holder `json:"ended,omitempty"`
}

// FindEnded finds the workflows that have ended in any way. A lease ends with its
// holder, even if the holder could not return the lease. In doubt a workflow counts as
// running: otherwise its lease could be granted to another workflow while the first
// still uses it. Not every server reports which run was a workflow's first.
func (e *Engine) FindEnded(ctx context.Context, in FindEndedInput) (FindEndedResult, error) {
	var out FindEndedResult
	knows := sync.OnceValue(func() error { return e.knowsUs(ctx) })
	for _, h := range in.Holders {
		id := h.WorkflowID
		d, err := e.Client.DescribeWorkflowExecution(ctx, id, "")
		var gone *serviceerror.NotFound
		switch {
		case errors.As(err, &gone):
			if err := knows(); err != nil {
				return FindEndedResult{}, fmt.Errorf("ask whether %s still runs: the answer is that there is no such workflow, and it cannot be trusted: %w", id, err)
			}
			out.Ended = append(out.Ended, h)
		case err != nil:
			return out, fmt.Errorf("ask whether %s still runs: %w", id, err)
		case endedOrAnother(d.GetWorkflowExecutionInfo(), h.FirstRun):
			out.Ended = append(out.Ended, h)
		}
	}
	return out, nil
}

// endedOrAnother reports whether the workflow whose first run was first has ended, or
// another one has its id by now.
func endedOrAnother(info *workflow.WorkflowExecutionInfo, first string) bool {
	is := info.GetFirstRunId()
	return inquiry.Over(info.GetStatus()) || first != "" && is != "" && is != first
}

// knowsUs asks for this activity's own workflow. If a server does not find that
// workflow, its answers about other workflows mean nothing: it may be a proxy without
// its server, or its database is being restored.
func (e *Engine) knowsUs(ctx context.Context) error {
	if !activity.IsActivity(ctx) {
		return nil
	}
	id := activity.GetInfo(ctx).WorkflowExecution.ID
	if _, err := e.Client.DescribeWorkflowExecution(ctx, id, ""); err != nil {
		return fmt.Errorf("ask for %s, which asked: %w", id, err)
	}
	return nil
}
