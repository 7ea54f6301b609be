package care

import (
	"errors"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

const snapshotsTimeout = 24 * time.Hour

const (
	storeTaskAttempts = 20
)

// PruneSnapshots drops snapshots that the retention does not keep, and what no snapshot
// needs.
func PruneSnapshots(ctx workflow.Context, in protocol.PruneSnapshotsInput) (protocol.PruneSnapshotsResult, error) {
	summary := "prune snapshots"
	if in.DryRun {
		summary = "see what pruning snapshots would drop"
	}
	return kit.Do(ofStore(ctx, summary), snapJobs.PruneSnapshots, in)
}

// CheckSnapshots finds out whether every snapshot can be restored. It changes nothing.
func CheckSnapshots(ctx workflow.Context, in protocol.CheckSnapshotsInput) (protocol.CheckSnapshotsResult, error) {
	return kit.Do(ofStore(ctx, "check snapshots"), snapJobs.CheckSnapshots, in)
}

// ofStore is UntilDone with a bound: somebody waits, or the next day's run does the same.
func ofStore(ctx workflow.Context, summary string) workflow.Context {
	ctx = kit.UntilDone(ctx, summary)
	opts := workflow.GetActivityOptions(ctx)
	opts.StartToCloseTimeout = snapshotsTimeout
	retry := *opts.RetryPolicy
	retry.MaximumAttempts = storeTaskAttempts
	opts.RetryPolicy = &retry
	return workflow.WithActivityOptions(ctx, opts)
}

// pruneSnapshots uses the workflow id of a person's prune, so that only one runs at a time.
func pruneSnapshots(ctx workflow.Context, what string, out *MaintenanceResult) error {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: protocol.PruneSnapshotsID, StaticSummary: what,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	})
	var pruned protocol.PruneSnapshotsResult
	err := workflow.ExecuteChildWorkflow(ctx, protocol.TypePrune, protocol.PruneSnapshotsInput{}).Get(ctx, &pruned)
	var busy *temporal.ChildWorkflowExecutionAlreadyStartedError
	if errors.As(err, &busy) {
		return nil
	}
	out.Snapshots = &pruned
	return err
}
