package workflows

import (
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Deployments may stop many workers in a row that serve the same turn.
func TestAPumpWaitsForTheTenthWorkerNoLongerThanForTheFirst(t *testing.T) {
	env := newEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		p := workflow.GetActivityOptions(kit.Attached(ctx, "")).RetryPolicy
		if p.BackoffCoefficient != 1 || p.InitialInterval > time.Second {
			t.Errorf("after a worker's death the pump waits %v, then %g times as long", p.InitialInterval, p.BackoffCoefficient)
		}
		if p.MaximumAttempts != 0 {
			t.Errorf("after %d deaths the turn is lost", p.MaximumAttempts)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Error(err)
	}
}
