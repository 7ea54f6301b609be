package care

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// RotateKeys encrypts the store for the recipients of the worker's config, or only checks
// that.
func RotateKeys(ctx workflow.Context, in protocol.RotateKeysInput) (protocol.RotateKeysResult, error) {
	summary := "encrypt the store for its recipients"
	if in.Check {
		summary = "check the store's recipients"
	}
	return kit.Do(kit.UntilDone(ctx, summary), loginJobs.RotateKeys, in)
}
