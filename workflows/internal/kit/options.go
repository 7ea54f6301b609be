package kit

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Do runs one activity; the compiler checks its types.
func Do[In, Out any](ctx workflow.Context, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	var out Out
	err := workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &out)
	return out, err
}

// Beat is the heartbeat timeout, after which another worker takes over.
const Beat = 10 * time.Second

// SetUp is for work on a host that may be repeated, and may move a few hundred megabytes. A
// host that cannot be reached is tried for 15 seconds, about as long as a restart of sshd
// takes.
func SetUp(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Minute,
		HeartbeatTimeout:    Beat,
		WaitForCancellation: true,
		Summary:             Cut(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 5,
		},
	})
}

// CarryFor bounds one attempt to move a session's work, which starts over when it times
// out.
const CarryFor = 6 * time.Hour

// Carrying is for activities that may move a session's work.
func Carrying(ctx workflow.Context) workflow.Context {
	return workflow.WithStartToCloseTimeout(ctx, CarryFor)
}

// Attached is for the pump. Its errors say when to retry. An attempt without an error ended
// because its worker died, which took a heartbeat timeout to notice. So the pause does not
// grow, however many workers die during one turn.
func Attached(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 48 * time.Hour,
		HeartbeatTimeout:    Beat,
		WaitForCancellation: true,
		Summary:             Cut(summary, 100),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 1,
		},
	})
}

// UntilDone is for activities that must succeed, however long it takes.
func UntilDone(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 2 * time.Hour,
		HeartbeatTimeout:    Beat,
		WaitForCancellation: true,
		Summary:             Cut(summary, 100),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
		},
	})
}

// Once is for a person's command, whose failure is final. After a worker's death the next
// attempt finds the running command, so attempts are not limited.
func Once(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 7 * 24 * time.Hour,
		HeartbeatTimeout:    Beat,
		WaitForCancellation: true,
		Summary:             Cut(summary, 100),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	})
}

// Maintenance is the By of a verification that nobody asked for. It refreshes no login
// before its time.
const Maintenance = "maintenance"
