package hosts

import "fairlead.dev/fairlead/internal/protocol"

// CheckHostInput is the input of CheckHost.
type CheckHostInput struct {
	Host protocol.HostSpec `json:"host"`
}

// ProvisionCodexInput is the input of ProvisionCodex.
type ProvisionCodexInput struct {
	Host protocol.HostSpec `json:"host"`
}
