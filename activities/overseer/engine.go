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

// A Holder is a workflow with a lease, or in line for one.
type Holder struct {
	WorkflowID string `json:"workflow_id"`
	// FirstRun, if set, tells workflows of the same id apart.
	FirstRun string `json:"first_run,omitempty"`
}

// FindEndedInput is the input of FindEnded.
type FindEndedInput struct {
	Holders []Holder `json:"holders"`
}

// FindEndedResult names the ended holders.
type FindEndedResult struct {
	Ended []Holder `json:"ended,omitempty"`
}

// FindEnded finds workflows that ended in any way: a lease ends with its holder. In doubt a
// workflow counts as running, or its lease could be granted twice. Not every server reports
// first runs.
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
				return FindEndedResult{}, fmt.Errorf("ask whether %s still runs: Temporal does not know it, but the answer is not trusted, since the same question about this activity's own workflow failed: %w", id, err)
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

func endedOrAnother(info *workflow.WorkflowExecutionInfo, first string) bool {
	is := info.GetFirstRunId()
	return inquiry.Over(info.GetStatus()) || first != "" && is != "" && is != first
}

// knowsUs asks for this activity's own workflow. A server that does not know it says
// nothing about others: it may be a proxy without its server, or a database that is being
// restored.
func (e *Engine) knowsUs(ctx context.Context) error {
	if !activity.IsActivity(ctx) {
		return nil
	}
	id := activity.GetInfo(ctx).WorkflowExecution.ID
	if _, err := e.Client.DescribeWorkflowExecution(ctx, id, ""); err != nil {
		return fmt.Errorf("look up workflow %s: %w", id, err)
	}
	return nil
}
