package conn

import (
	"context"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

const (
	// stuckAttempt is the attempt from which a workflow task counts as failing again and
	// again. A single failure happens when a worker dies.
	stuckAttempt = 3
	stuckShown   = 20
	// stuckLooked bounds the workflows that are looked at where Temporal cannot list those
	// with problems.
	stuckLooked = 200
	// lastEvents is how many of the newest events are searched for a cause.
	lastEvents = 20
)

// A StuckWorkflow is one whose workflow tasks fail again and again.
type StuckWorkflow struct {
	ID      string
	Attempt int
	Cause   string
}

func (s StuckWorkflow) String() string {
	return fmt.Sprintf("%s, attempt %d: %s", s.ID, s.Attempt, s.Cause)
}

// Stuck returns workflows whose tasks fail again and again, such as those that a worker
// refuses to go on with.
func (t *Conn) Stuck(ctx context.Context) (stuck []StuckWorkflow, err error) {
	const doing = "look for workflows whose tasks fail"
	const running = "ExecutionStatus = 'Running'"
	infos, err := t.List(ctx, doing, running+" AND TemporalReportedProblems IN ('category=WorkflowTaskFailed', 'category=WorkflowTaskTimedOut')", stuckShown)
	if invalid := (*serviceerror.InvalidArgument)(nil); errors.As(err, &invalid) { // a server before 1.30
		infos, err = t.List(ctx, doing, running, stuckLooked)
	}
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		s, err := t.stuck(ctx, info.GetExecution())
		if err != nil {
			return nil, t.Explain(ctx, doing, err)
		}
		if s.Attempt >= stuckAttempt && len(stuck) < stuckShown {
			stuck = append(stuck, s)
		}
	}
	return stuck, nil
}

func (t *Conn) stuck(ctx context.Context, run *commonpb.WorkflowExecution) (s StuckWorkflow, err error) {
	ctx, cancel := t.App.Bounded(ctx, AnswerWait)
	defer cancel()
	d, err := t.DescribeWorkflowExecution(ctx, run.GetWorkflowId(), run.GetRunId())
	if gone := (*serviceerror.NotFound)(nil); errors.As(err, &gone) {
		return s, nil
	}
	s = StuckWorkflow{ID: run.GetWorkflowId(), Attempt: int(d.GetPendingWorkflowTask().GetAttempt())}
	if err != nil || s.Attempt < stuckAttempt {
		return s, err
	}
	s.Cause, err = t.taskCause(ctx, run)
	return s, err
}

// taskCause says why the last failed workflow task in the history failed. Of several attempts,
// Temporal records only the first.
func (t *Conn) taskCause(ctx context.Context, run *commonpb.WorkflowExecution) (string, error) {
	h, err := t.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: t.Namespace, Execution: run, MaximumPageSize: lastEvents,
	})
	if err != nil {
		return "", err
	}
	for _, ev := range h.GetHistory().GetEvents() {
		switch ev.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_TASK_FAILED:
			f := ev.GetWorkflowTaskFailedEventAttributes()
			if text := t.Codec.Message(f.GetFailure()); text != "" {
				return core.OneLine(text, 600), nil
			}
			return f.GetCause().String(), nil
		case enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
			return "no worker completed it in time", nil
		}
	}
	return "Temporal does not say why; the worker's log does", nil
}
