package command

import (
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// MaxNonces is how many nonces are remembered.
const MaxNonces = 200

// Nonces remembers the newest commands. Its JSON is part of carried states. The zero value
// is ready to use.
type Nonces struct {
	Used []UsedNonce `json:"used,omitempty"`
	// Before is the time of the newest command whose nonce was forgotten. That command and
	// earlier ones are refused.
	Before time.Time `json:"before,omitzero"`
}

// A UsedNonce is the nonce of a command and the time at which it was signed.
type UsedNonce struct {
	Nonce string    `json:"nonce"`
	At    time.Time `json:"at"`
}

// IsZero reports whether nothing is remembered.
func (n Nonces) IsZero() bool { return len(n.Used) == 0 && n.Before.IsZero() }

// Fresh reports whether a command was not seen before. A command without a readable time is
// never fresh.
func (n *Nonces) Fresh(a *protocol.Auth) bool {
	at, err := time.Parse(time.RFC3339Nano, a.At)
	return err == nil && at.After(n.Before) && !slices.ContainsFunc(n.Used, func(u UsedNonce) bool { return u.Nonce == a.Nonce })
}

// Use remembers a command.
func (n *Nonces) Use(a *protocol.Auth) {
	at, err := time.Parse(time.RFC3339Nano, a.At)
	if err != nil || slices.ContainsFunc(n.Used, func(u UsedNonce) bool { return u.Nonce == a.Nonce }) {
		return
	}
	n.Used = append(n.Used, UsedNonce{a.Nonce, at})
	if len(n.Used) <= MaxNonces {
		return
	}
	slices.SortStableFunc(n.Used, func(a, b UsedNonce) int { return a.At.Compare(b.At) })
	drop := len(n.Used) - MaxNonces
	n.Before = n.Used[drop-1].At
	n.Used = slices.Delete(n.Used, 0, drop)
}
