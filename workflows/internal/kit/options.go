package kit

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Do runs one activity; the compiler checks its input and its result.
func Do[In, Out any](ctx workflow.Context, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	var out Out
	err := workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &out)
	return out, err
}

// Beat is the heartbeat timeout. If a worker is silent for longer, another one
// takes over.
const Beat = 10 * time.Second

// SetUp is for work on a host. The work may be repeated, and may move a few hundred
// megabytes. A host that cannot be reached is tried for 15 seconds, because a restart of
// sshd takes about that long.
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

// CarryFor bounds one attempt to move a session's work. An attempt that times out starts
// over, so with a short limit a large session could never be moved. The death of a worker
// is noticed earlier, because its heartbeats stop.
const CarryFor = 6 * time.Hour

// Carrying sets the timeout of activities that may move a session's work.
func Carrying(ctx workflow.Context) workflow.Context {
	return workflow.WithStartToCloseTimeout(ctx, CarryFor)
}

// Attached is for the pump. A pump runs as long as a turn. If its worker dies, another
// worker takes over within seconds. An error that a pump returns says when to retry. An
// attempt without such an error ended because its worker died, which was noticed only after
// a whole heartbeat timeout. So the pause before a retry does not grow, however many
// workers die during one turn.
func Attached(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 48 * time.Hour,
		HeartbeatTimeout:    Beat,
		WaitForCancellation: true,
		Summary:             Cut(summary, 100), // Temporal takes 400 bytes of JSON
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
		Summary:             Cut(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
		},
	})
}

// Once is for a command of a person. If a worker dies, the next attempt finds the command
// that already runs, so attempts are not limited. A failure of the command is final.
func Once(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 7 * 24 * time.Hour,
		HeartbeatTimeout:    Beat,
		WaitForCancellation: true,
		Summary:             Cut(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	})
}

// Maintenance is the By of a verification that nobody asked for. Such a verification
// refreshes no login before its time.
const Maintenance = "maintenance"
