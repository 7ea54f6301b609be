package hosts

import (
	"context"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// ScanHostKeys asks a host for its keys. It trusts none, and sends no credential.
func (h *Activities) ScanHostKeys(ctx context.Context, in protocol.ScanHostKeysInput) (protocol.ScanHostKeysResult, error) {
	keys, err := hostexec.ScanHostKeys(ctx, in.Host)
	return protocol.ScanHostKeysResult{Keys: keys}, kit.Failing{}.Failure(ctx, "ask "+in.Host.Name+" for its keys", err)
}
