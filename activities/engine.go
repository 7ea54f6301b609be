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

// FindEndedInput names workflows.
type FindEndedInput struct {
	WorkflowIDs []string `json:"workflow_ids"`
}

// FindEndedResult names those of them that run no more.
type FindEndedResult struct {
	Ended []string `json:"ended,omitempty"`
}

// FindEnded says which workflows have ended, however they did: a lease ends
// with its holder, also when the holder could not give it back.
func (e *Engine) FindEnded(ctx context.Context, in FindEndedInput) (FindEndedResult, error) {
	var out FindEndedResult
	for _, id := range in.WorkflowIDs {
		d, err := e.Client.DescribeWorkflowExecution(ctx, id, "")
		var gone *serviceerror.NotFound
		switch {
		case errors.As(err, &gone):
			out.Ended = append(out.Ended, id)
		case err != nil:
			return out, fmt.Errorf("ask whether %s still runs: %w", id, err)
		case d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
			out.Ended = append(out.Ended, id)
		}
	}
	return out, nil
}
