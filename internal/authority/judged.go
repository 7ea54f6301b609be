package authority

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/payload"
)

// Judged has the proof of an update name the access file that judged it. It is for validators that
// take the update.
func Judged(ctx workflow.Context, v Verdict) { payload.Note(ctx, v.Access) }

// JudgedBy returns the digest of the access file that judged the update of a handler, for its
// audit record; "" if none did.
func JudgedBy(ctx workflow.Context) string { return payload.Noted(ctx) }
