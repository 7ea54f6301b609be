package care

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// ClaimKey gives a key to the first request that uses it: Temporal starts only one workflow
// of an id, and remembers it for the retention period.
func ClaimKey(_ workflow.Context, in protocol.KeyClaim) (protocol.KeyClaim, error) { return in, nil }
