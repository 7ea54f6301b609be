package activities

import (
	"context"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// ScanHostKeys asks a host for its keys. It trusts no key, and sends no credential.
func (h *HostActs) ScanHostKeys(ctx context.Context, in protocol.ScanHostKeysInput) (protocol.ScanHostKeysResult, error) {
	keys, err := hostexec.ScanHostKeys(ctx, in.Host)
	return protocol.ScanHostKeysResult{Keys: keys}, failing{}.failure(ctx, "ask "+in.Host.Name+" for its keys", err)
}
