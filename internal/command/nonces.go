package command

import (
	"slices"
	"time"
)

// MaxNonces is how many nonces are remembered.
const MaxNonces = 200

// Nonces remembers the newest nonces. Its JSON is part of carried states. The zero value is
// ready to use.
type Nonces struct {
	Used []UsedNonce `json:"used,omitempty"`
	// Before is when the oldest command that was not forgotten was signed: earlier ones are
	// refused.
	Before time.Time `json:"before,omitzero"`
}

// A UsedNonce is the nonce of a command and the time at which it was signed.
type UsedNonce struct {
	Nonce string    `json:"nonce"`
	At    time.Time `json:"at"`
}

// Fresh reports whether a command was not seen before.
func (n *Nonces) Fresh(s Signed) bool {
	return s.At.After(n.Before) && !slices.ContainsFunc(n.Used, func(u UsedNonce) bool { return u.Nonce == s.Nonce })
}

// Use remembers a command.
func (n *Nonces) Use(s Signed) {
	n.Used = append(n.Used, UsedNonce{s.Nonce, s.At})
	if len(n.Used) <= MaxNonces {
		return
	}
	slices.SortStableFunc(n.Used, func(a, b UsedNonce) int { return a.At.Compare(b.At) })
	drop := len(n.Used) - MaxNonces
	n.Before = n.Used[drop-1].At
	n.Used = slices.Delete(n.Used, 0, drop)
}
