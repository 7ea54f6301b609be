package workflows

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// The activity structs, as nil pointers: workflows use only the names of the methods. The
// worker registers the real values.
var (
	hosts     *activities.Hosts
	sessions  *activities.Sessions
	seeds     *activities.Seeds
	snapshots *activities.Snapshots
	engine    *activities.Engine
	batches   *activities.Batches
)

// do runs one activity; the compiler checks its input and its result.
func do[In, Out any](ctx workflow.Context, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	var out Out
	err := workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &out)
	return out, err
}

// beat is the heartbeat timeout. If a worker is silent for longer, another one
// takes over.
const beat = 10 * time.Second

// setUp is for work on a host. The work may be repeated, and may move a few hundred
// megabytes. A host that cannot be reached is tried for 15 seconds, because a restart of
// sshd takes about that long.
func setUp(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Minute,
		HeartbeatTimeout:    beat,
		WaitForCancellation: true,
		Summary:             excerpt(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 5,
		},
	})
}

// carryFor bounds one attempt to move a session's work. An attempt that times out starts
// over, so with a short limit a large session could never be moved. The death of a worker
// is noticed earlier, because its heartbeats stop.
const carryFor = 6 * time.Hour

// carrying sets the timeout of activities that may move a session's work.
func carrying(ctx workflow.Context) workflow.Context {
	return workflow.WithStartToCloseTimeout(ctx, carryFor)
}

// attached is for the pump. A pump runs as long as a turn. If its worker dies, another
// worker takes over within seconds. An error that a pump returns says when to retry. An
// attempt without such an error ended because its worker died, which was noticed only after
// a whole heartbeat timeout. So the pause before a retry does not grow, however many
// workers die during one turn.
func attached(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 48 * time.Hour,
		HeartbeatTimeout:    beat,
		WaitForCancellation: true,
		Summary:             excerpt(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 1,
		},
	})
}

// untilDone is for activities that must succeed, however long it takes.
func untilDone(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 2 * time.Hour,
		HeartbeatTimeout:    beat,
		WaitForCancellation: true,
		Summary:             excerpt(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
		},
	})
}

// once is for a command of a person. If a worker dies, the next attempt finds the command
// that already runs, so attempts are not limited. A failure of the command is final.
func once(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 7 * 24 * time.Hour,
		HeartbeatTimeout:    beat,
		WaitForCancellation: true,
		Summary:             excerpt(summary, 100), // Temporal takes 400 bytes of JSON
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	})
}

// maintenance is the By of a verification that nobody asked for. Such a verification
// refreshes no login before its time.
const maintenance = "maintenance"
