package care

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// RecoverSeeds reconciles seeds with the store after Temporal's database was restored to an
// earlier point, or only looks.
func RecoverSeeds(ctx workflow.Context, in protocol.RecoverInput) (protocol.RecoverResult, error) {
	summary := "reconcile seeds with the store"
	if in.DryRun {
		summary = "compare seeds with the store"
	}
	return kit.Do(kit.UntilDone(ctx, summary), loginJobs.RecoverSeeds, in)
}
