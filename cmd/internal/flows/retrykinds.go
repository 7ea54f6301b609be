package flows

import (
	"slices"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
)

// RetryKinds are the kinds of failures that a batch can try again.
func RetryKinds() []string {
	out := append(slices.Clone(batch.RetriedKinds), protocol.EndingKinds()...)
	out = append(out, protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeHostFlood, protocol.ErrTypeCodexMissing, protocol.ErrTypeCodexVersion, protocol.ErrTypeCodexChanged, protocol.ErrTypeSeed,
		protocol.ErrTypeInternal, protocol.ErrTypeOutcomeUnknown, protocol.ErrTypeStoreFull, protocol.ErrTypeSnapshot, protocol.ErrTypeBadInput,
		"host_not_found", "seed_not_found", "no_pool", "unknown", "failed")
	slices.Sort(out)
	return slices.Compact(out)
}

// RetryKind reports whether kind is one of RetryKinds.
func RetryKind(kind string) bool { return slices.Contains(RetryKinds(), kind) }
