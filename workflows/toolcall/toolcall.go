package toolcall

import (
	"errors"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

const (
	firstPause = time.Second
	lastPause  = 10 * time.Second
	// leastWait is for a call whose workflow waited for a worker of ours almost as long as
	// the call may take.
	leastWait = time.Second
	maxWhy    = 4 << 10
)

// Call has a team's worker carry out a call. It fails only if it is cancelled: how the activity
// ended is a result.
func Call(ctx workflow.Context, in protocol.CallToolInput) (protocol.CallToolResult, error) {
	left := in.Wait - workflow.Now(ctx).Sub(workflow.GetInfo(ctx).WorkflowStartTime)
	if left < leastWait {
		return protocol.CallToolResult{Outcome: protocol.ToolNotBegun}, nil
	}
	a := in.Activity
	attempt := left
	if a.Attempt > 0 {
		attempt = min(attempt, a.Attempt)
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: in.ID, TaskQueue: a.Queue, Summary: kit.Cut(in.Activity.Type+" of session "+in.Session, 100),
		ScheduleToCloseTimeout: left, ScheduleToStartTimeout: left, StartToCloseTimeout: attempt,
		HeartbeatTimeout:      a.Heartbeat,
		DisableEagerExecution: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: firstPause, BackoffCoefficient: 2, MaximumInterval: lastPause, MaximumAttempts: int32(a.Attempts),
		},
	})
	// It passes payloads through, and adds nothing to them.
	ctx = workflow.WithDataConverter(ctx, converter.GetDefaultDataConverter())
	argument := converter.NewRawValue(&commonpb.Payload{Metadata: in.Argument.Metadata, Data: in.Argument.Data})
	var got converter.RawValue
	err := workflow.ExecuteActivity(ctx, a.Type, argument).Get(ctx, &got)
	if err != nil {
		return ended(err)
	}
	r := protocol.CallToolResult{Outcome: protocol.ToolAnswered}
	if p := got.Payload(); p != nil {
		r.Answer = &protocol.RawPayload{Metadata: p.GetMetadata(), Data: p.GetData()}
	}
	if n := r.Answer.Size(); n > protocol.MaxToolAnswer {
		return protocol.CallToolResult{Outcome: protocol.ToolTooLong, Bytes: n}, nil
	}
	return r, nil
}

// ended says how an activity ended that gave no answer.
func ended(err error) (protocol.CallToolResult, error) {
	var cancelled *temporal.CanceledError
	var timeout *temporal.TimeoutError
	var app *temporal.ApplicationError
	var act *temporal.ActivityError
	r := protocol.CallToolResult{Outcome: protocol.ToolStopped}
	if errors.As(err, &app) {
		r.Why = kit.Cut(app.Message(), maxWhy)
	}
	switch errors.As(err, &act); {
	case errors.As(err, &cancelled):
		return protocol.CallToolResult{}, err
	case errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return protocol.CallToolResult{Outcome: protocol.ToolNotBegun}, nil
	case act == nil:
		return protocol.CallToolResult{}, err
	case act.RetryState() == enums.RETRY_STATE_NON_RETRYABLE_FAILURE:
		r.Outcome = protocol.ToolRefused
	case act.RetryState() == enums.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED:
		r.Outcome = protocol.ToolFailed
	case act.RetryState() == enums.RETRY_STATE_TIMEOUT, timeout != nil:
		r.Outcome = protocol.ToolTimedOut
	}
	return r, nil
}
