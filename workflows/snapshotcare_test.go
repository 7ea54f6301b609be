package workflows

import (
	"context"
	"errors"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/care"
)

// storeCare stands in for the activities that look after the store.
type storeCare struct {
	pruned  []protocol.PruneSnapshotsInput
	checked []protocol.CheckSnapshotsInput
	err     error
}

func (c *storeCare) env(t *testing.T) *environment {
	env := newEnvironment()
	env.RegisterWorkflowWithOptions(care.Maintenance, workflow.RegisterOptions{Name: protocol.TypeMaintenance})
	env.RegisterWorkflowWithOptions(care.PruneSnapshots, workflow.RegisterOptions{Name: protocol.TypePrune})
	env.RegisterWorkflowWithOptions(care.CheckSnapshots, workflow.RegisterOptions{Name: protocol.TypeCheckSnapshots})
	env.RegisterActivityWithOptions(func(_ context.Context, in protocol.PruneSnapshotsInput) (protocol.PruneSnapshotsResult, error) {
		c.pruned = append(c.pruned, in)
		return protocol.PruneSnapshotsResult{Snapshots: []string{"s1.snap-x"}, Packs: 2}, c.err
	}, activity.RegisterOptions{Name: "PruneSnapshots"})
	env.RegisterActivityWithOptions(func(_ context.Context, in protocol.CheckSnapshotsInput) (protocol.CheckSnapshotsResult, error) {
		c.checked = append(c.checked, in)
		return protocol.CheckSnapshotsResult{Snapshots: 3, Problems: []string{"s1.snap-x: a pack is missing"}}, c.err
	}, activity.RegisterOptions{Name: "CheckSnapshots"})
	env.RegisterActivityWithOptions(func(context.Context, overseer.VerifySeedsInput) (overseer.VerifySeedsResult, error) {
		t.Error("seeds are verified by a run that looks after snapshots")
		return overseer.VerifySeedsResult{}, nil
	}, activity.RegisterOptions{Name: "VerifySeeds"})
	return env
}

// The run that a Schedule starts prunes as the workers' config says. It uses the same
// workflow as a person.
func TestMaintenancePrunesSnapshots(t *testing.T) {
	var c storeCare
	env := c.env(t)
	var child string
	env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		child = info.WorkflowExecution.ID
	})
	env.ExecuteWorkflow(protocol.TypeMaintenance, care.MaintenanceInput{Snapshots: true})
	var out care.MaintenanceResult
	if err := env.GetWorkflowResult(&out); err != nil || len(out.Problems) > 0 || out.Snapshots == nil || out.Snapshots.Packs != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	if len(c.pruned) != 1 || c.pruned[0] != (protocol.PruneSnapshotsInput{}) || child != protocol.PruneSnapshotsID {
		t.Errorf("pruned %+v by %q", c.pruned, child)
	}
}

func TestMaintenanceSaysThatItCouldNotPrune(t *testing.T) {
	c := storeCare{err: temporal.NewNonRetryableApplicationError("the store is read-only", protocol.ErrTypeStore, errors.New("x"))}
	env := c.env(t)
	env.ExecuteWorkflow(protocol.TypeMaintenance, care.MaintenanceInput{Snapshots: true})
	var out care.MaintenanceResult
	if err := env.GetWorkflowResult(&out); err != nil || len(out.Problems) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Damage is a result, not an error, because it answers the question.
func TestACheckOfSnapshotsTellsWhatIsWrong(t *testing.T) {
	var c storeCare
	env := c.env(t)
	env.ExecuteWorkflow(protocol.TypeCheckSnapshots, protocol.CheckSnapshotsInput{ReadData: true})
	var out protocol.CheckSnapshotsResult
	if err := env.GetWorkflowResult(&out); err != nil || out.Snapshots != 3 || len(out.Problems) != 1 || len(c.checked) != 1 || !c.checked[0].ReadData {
		t.Errorf("%+v of %+v, %v", out, c.checked, err)
	}
}
