package care

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// RotateKeys encrypts everything in the store for the recipients that the worker's
// config names now, or only checks. If a worker dies, another one goes on.
func RotateKeys(ctx workflow.Context, in protocol.RotateKeysInput) (protocol.RotateKeysResult, error) {
	summary := "encrypt the store for its recipients"
	if in.Check {
		summary = "check the store's recipients"
	}
	return kit.Do(kit.UntilDone(ctx, summary), loginJobs.RotateKeys, in)
}
