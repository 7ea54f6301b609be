package workflows

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// The activity structs, for their method names only: the worker has the real ones.
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

// beat is how long a worker may be silent before another one takes over.
const beat = 10 * time.Second

// setUp is for work on a host that may be repeated and may move a few hundred
// megabytes. A host that cannot be reached is tried for a quarter of a minute:
// as long as an sshd takes to be restarted.
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

// carryFor is how long a session's work may be on its way: what is cut off
// begins anew, so too short a time is never enough. A worker that is gone shows
// by its heartbeat.
const carryFor = 6 * time.Hour

// carrying gives that time to what may move a session's work.
func carrying(ctx workflow.Context) workflow.Context {
	return workflow.WithStartToCloseTimeout(ctx, carryFor)
}

// attached is for the pump: as long as a turn takes, taken over within seconds.
// Its failures say themselves when to try again; what is left is a worker that
// died, and that was missed for a whole heartbeat timeout: whatever number of
// workers that befell in one turn, there is no reason to wait any longer.
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

// untilDone is for what must happen, however long it takes.
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

// once is for a person's command: it is found again after a lost worker, so
// attempts are not counted, but its failure is final.
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
