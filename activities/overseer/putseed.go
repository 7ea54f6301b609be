package overseer

import (
	"context"
	"errors"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
)

// PutSeedInput names a stored bundle that is to be a seed's next generation.
type PutSeedInput struct {
	Name  string              `json:"name"`
	Ref   protocol.SeedRef    `json:"ref"`
	Files []protocol.SeedFile `json:"files"`
	By    string              `json:"by,omitempty"`
	// Elsewhere names a place where the same login may be in use; then no session gets a
	// login that rotates. Moved puts the same bundle and says that it is not in use
	// elsewhere any more.
	Elsewhere string `json:"elsewhere,omitempty"`
	Moved     bool   `json:"moved,omitempty"`
	// Ask only asks whether the seed would take the bundle now.
	Ask bool `json:"ask,omitempty"`
	// Account is who a ChatGPT login belongs to, by its own claims.
	Account *protocol.SeedAccount `json:"account,omitempty"`
	// Judged says that the command of By was judged. The seed does not get it.
	Judged bool `json:"judged,omitempty"`
}

// PutSeed makes the bundle the seed's next generation, and the seed if needed. A repeated
// call makes no further generation.
func (e *Engine) PutSeed(ctx context.Context, in PutSeedInput) error {
	if in.Judged {
		ctx = command.WithPrincipal(ctx, in.By)
	}
	in.Judged = false
	if in.Ask {
		return e.wouldPut(ctx, in)
	}
	id := protocol.SeedID(in.Name)
	start := e.Client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: id, TaskQueue: seedTaskQueue, StaticSummary: "seed " + in.Name,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, "Seed", map[string]string{"name": in.Name})
	info := activity.GetInfo(ctx)
	h, err := e.Client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: id, UpdateID: info.WorkflowExecution.RunID + "-" + info.ActivityID, UpdateName: "put_seed",
			Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	return putRefused(in, err)
}

// wouldPut asks the seed; an unknown one takes any bundle.
func (e *Engine) wouldPut(ctx context.Context, in PutSeedInput) error {
	h, err := e.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: protocol.SeedID(in.Name), UpdateName: "put_seed", Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	var none *serviceerror.NotFound
	if errors.As(err, &none) {
		return nil
	}
	return putRefused(in, err)
}

func putRefused(in PutSeedInput, err error) error {
	var refused *temporal.ApplicationError
	if errors.As(err, &refused) {
		return temporal.NewNonRetryableApplicationError("put seed "+in.Name+": "+refused.Message(), refused.Type(), nil)
	}
	if errors.Is(err, command.ErrNotJudged) {
		return temporal.NewNonRetryableApplicationError("put seed "+in.Name+": "+err.Error(), protocol.RefusedForbidden, nil)
	}
	return err
}

// seedTaskQueue is the same for all zones.
const seedTaskQueue = "fairlead"
