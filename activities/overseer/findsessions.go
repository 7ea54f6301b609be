package overseer

import (
	"context"
	"fmt"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
)

// FindSessionsInput asks for the sessions on the caller's task queue.
type FindSessionsInput struct{}

// FindSessionsResult names at most maxSessionsFound workflows.
type FindSessionsResult struct {
	Sessions []string `json:"sessions,omitempty"`
}

// maxSessionsFound is the most holders of a pool. Asking a session costs the caller about
// four events of history.
const maxSessionsFound = 5000

// FindSessions lists a zone's running sessions. New ones may be missing: Temporal's lists
// lag behind.
func (e *Engine) FindSessions(ctx context.Context, _ FindSessionsInput) (FindSessionsResult, error) {
	var out FindSessionsResult
	query := fmt.Sprintf("WorkflowType = 'Session' AND ExecutionStatus = 'Running' AND TaskQueue = '%s'", activity.GetInfo(ctx).TaskQueue)
	var page []byte
	for {
		r, err := e.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1000, NextPageToken: page})
		if err != nil {
			return FindSessionsResult{}, fmt.Errorf("list the sessions that run: %w", err)
		}
		for _, x := range r.GetExecutions() {
			if len(out.Sessions) == maxSessionsFound {
				return out, nil
			}
			out.Sessions = append(out.Sessions, x.GetExecution().GetWorkflowId())
		}
		if page = r.GetNextPageToken(); len(page) == 0 {
			return out, nil
		}
	}
}
