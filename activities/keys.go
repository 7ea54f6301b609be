package activities

import (
	"context"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// ScanHostKeys asks a host for its keys. Nothing is trusted and nothing sent.
func (h *Hosts) ScanHostKeys(ctx context.Context, in protocol.ScanHostKeysInput) (protocol.ScanHostKeysResult, error) {
	keys, err := hostexec.ScanHostKeys(ctx, in.Host)
	return protocol.ScanHostKeysResult{Keys: keys}, failing{}.failure(ctx, "ask "+in.Host.Name+" for its keys", err)
}
