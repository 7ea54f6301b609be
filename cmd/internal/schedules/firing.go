package schedules

import (
	"context"
	"fmt"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
)

// firedAt returns a firing's due time, which is in its workflow id.
func firedAt(name, workflowID string) time.Time {
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(workflowID, protocol.ScheduleID(name)+"-"))
	if err != nil {
		return time.Time{}
	}
	return at
}

// A firing is one run of a schedule.
type firing struct {
	protocol.ScheduleFiring
	known bool // the workflow reported ID
}

// firingOf finds what a run started. If Temporal dropped the run, only the time is known.
func firingOf(ctx context.Context, t *flows.Conn, name string, run *client.ScheduleWorkflowExecution) firing {
	f := firing{ScheduleFiring: protocol.ScheduleFiring{At: firedAt(name, run.WorkflowID), State: "unknown"}}
	f.ID = protocol.FiredID(name, f.At)
	d, err := t.DescribeWorkflowExecution(ctx, run.WorkflowID, run.FirstExecutionRunID)
	if err != nil {
		return f
	}
	if d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		f.State = "running"
		for _, child := range d.GetPendingChildren() {
			if child.GetRunId() != "" { // otherwise the id may be in use, and the workflow tries the next
				_, f.ID, f.known = strings.Cut(child.GetWorkflowId(), "/")
			}
		}
		return f
	}
	var out protocol.FireResult
	err = t.GetWorkflow(ctx, run.WorkflowID, run.FirstExecutionRunID).Get(ctx, &out)
	schedule.ReadFireResult(&out, err)
	return f.ended(out, d.GetWorkflowExecutionInfo().GetStatus(), err)
}

func (f firing) ended(out protocol.FireResult, status enums.WorkflowExecutionStatus, err error) firing {
	f.known = true // it will report nothing more
	if out.ID != "" {
		f.ID = out.ID
	}
	f.Status = out.Status
	switch status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		f.State = "completed"
	case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		f.State = "cancelled"
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		f.State = "terminated"
	default:
		f.State = "failed"
		f.Error = fmt.Sprint(flows.FirstSentence(err))
	}
	return f
}
