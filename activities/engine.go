package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
)

// Engine asks Temporal itself.
type Engine struct {
	Client client.Client
}

// A Holder is a workflow that has a lease, or waits for one.
type Holder struct {
	WorkflowID string `json:"workflow_id"`
	// FirstRun, if set, is the workflow's first run: a workflow of that id with
	// another first run is not it.
	FirstRun string `json:"first_run,omitempty"`
}

// FindEndedInput is the input of FindEnded.
type FindEndedInput struct {
	Holders []Holder `json:"holders"`
}

// FindEndedResult names those of them that run no more.
type FindEndedResult struct {
	Ended []Holder `json:"ended,omitempty"`
}

// over reports whether a workflow can do nothing any more. A paused one can.
func over(status enums.WorkflowExecutionStatus) bool {
	switch status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return true
	}
	return false // also continued as new: the next run goes on
}

// FindEnded finds the workflows that have ended, however they did: a lease ends with its
// holder, even if the holder could not give it back. In doubt a workflow counts as
// running, or its lease would be given away while it uses it. Not every server says
// which run was a workflow's first.
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
	return over(info.GetStatus()) || first != "" && is != "" && is != first
}

// knowsUs asks for this activity's own workflow. A server that does not find that knows
// nothing of others: it is a proxy without its server, or a database that is being
// restored.
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
