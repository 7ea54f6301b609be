package activities

import (
	"context"
	"errors"
	"fmt"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// Engine asks Temporal itself.
type Engine struct {
	Client client.Client
}

// A Holder is a workflow that has a lease, or waits for one.
type Holder struct {
	WorkflowID string `json:"workflow_id"`
	// FirstRun, if set, is the run that it began with: a workflow of that id
	// which began with another one is not it.
	FirstRun string `json:"first_run,omitempty"`
}

// FindEndedInput names holders.
type FindEndedInput struct {
	Holders []Holder `json:"holders"`
}

// FindEndedResult names those of them that run no more.
type FindEndedResult struct {
	Ended []Holder `json:"ended,omitempty"`
}

// over says that a workflow can do nothing any more. One that is paused can.
func over(status enums.WorkflowExecutionStatus) bool {
	switch status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return true
	}
	return false // also continued as new: the next run goes on
}

// FindEnded says which workflows have ended, however they did: a lease ends
// with its holder, also when the holder could not give it back.
func (e *Engine) FindEnded(ctx context.Context, in FindEndedInput) (FindEndedResult, error) {
	var out FindEndedResult
	for _, h := range in.Holders {
		id := h.WorkflowID
		d, err := e.Client.DescribeWorkflowExecution(ctx, id, "")
		var gone *serviceerror.NotFound
		switch {
		case errors.As(err, &gone):
			out.Ended = append(out.Ended, h)
		case err != nil:
			return out, fmt.Errorf("ask whether %s still runs: %w", id, err)
		case over(d.GetWorkflowExecutionInfo().GetStatus()),
			h.FirstRun != "" && d.GetWorkflowExecutionInfo().GetFirstRunId() != h.FirstRun:
			out.Ended = append(out.Ended, h)
		}
	}
	return out, nil
}
