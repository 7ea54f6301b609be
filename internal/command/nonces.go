package command

import (
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds on what is remembered.
const (
	// MaxNonces is how many nonces of one principal are remembered, and manyNonces of all.
	MaxNonces  = 200
	manyNonces = 2 * MaxNonces
	maxFloors  = 200
	// Remembered is for how long a command is remembered. Older ones are refused by their
	// time: see Received.Waited, which is a day at most.
	Remembered = KeptFor + 2*MaxSkew
)

// Nonces remembers commands, so that each counts once. Its JSON is part of carried states.
// The zero value is ready to use. What one principal signs has no effect on others.
type Nonces struct {
	Used []UsedNonce `json:"used,omitempty"`
	// Floors has a principal of whom commands were forgotten before their time.
	Floors []Floor `json:"floors,omitempty"`
	// Before is a time: all commands that were signed then or earlier are refused.
	Before time.Time `json:"before,omitzero"`
}

// A UsedNonce is the nonce of a command, who signed it and when.
type UsedNonce struct {
	Nonce string    `json:"nonce"`
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
}

// A Floor is when a principal signed the newest command that was forgotten: it and earlier
// ones are refused.
type Floor struct {
	By     string    `json:"by"`
	Before time.Time `json:"before"`
}

// IsZero reports whether nothing is remembered.
func (n Nonces) IsZero() bool { return len(n.Used) == 0 && len(n.Floors) == 0 && n.Before.IsZero() }

// Fresh reports whether a command was not seen before. A command without a readable time is
// never fresh.
func (n *Nonces) Fresh(a *protocol.Auth) bool {
	at, err := time.Parse(time.RFC3339Nano, a.At)
	return err == nil && at.After(n.Before) && at.After(n.floor(a.Principal)) && !n.used(a)
}

func (n *Nonces) used(a *protocol.Auth) bool {
	return slices.ContainsFunc(n.Used, func(u UsedNonce) bool { return u.Nonce == a.Nonce && u.By == a.Principal })
}

func (n *Nonces) floor(by string) time.Time {
	for _, f := range n.Floors {
		if f.By == by {
			return f.Before
		}
	}
	return time.Time{}
}

// First refuses all that was signed before the first command to a workflow. That may have
// been for an earlier workflow of the same id.
func (n *Nonces) First(a *protocol.Auth, now time.Time) {
	if at, err := time.Parse(time.RFC3339Nano, a.At); err == nil && n.IsZero() {
		n.raise(at, now)
	}
}

// Use remembers a command whose signature counts.
func (n *Nonces) Use(a *protocol.Auth, now time.Time) {
	at, err := time.Parse(time.RFC3339Nano, a.At)
	if err != nil || n.used(a) {
		return
	}
	old := now.Add(-Remembered)
	n.Used = slices.DeleteFunc(n.Used, func(u UsedNonce) bool { return u.At.Before(old) })
	n.Floors = slices.DeleteFunc(n.Floors, func(f Floor) bool { return f.Before.Before(old) })
	n.Used = append(n.Used, UsedNonce{a.Nonce, a.Principal, at})
	slices.SortStableFunc(n.Used, func(a, b UsedNonce) int { return a.At.Compare(b.At) })
	if n.count(a.Principal) > MaxNonces {
		n.forget(a.Principal)
	}
	if len(n.Used) > manyNonces {
		n.forget(n.busiest())
	}
	if len(n.Floors) > maxFloors {
		slices.SortStableFunc(n.Floors, func(a, b Floor) int { return a.Before.Compare(b.Before) })
		// So many principals may have one command each forgotten. A command that was signed
		// ahead of time keeps nobody out.
		n.raise(n.Floors[0].Before, now.Add(-MaxSkew))
		n.Floors = slices.Delete(n.Floors, 0, 1)
	}
}

func (n *Nonces) count(by string) (c int) {
	for _, u := range n.Used {
		if u.By == by {
			c++
		}
	}
	return c
}

// busiest returns the principal with the most commands.
func (n *Nonces) busiest() (by string) {
	counts, most := map[string]int{}, 0
	for _, u := range n.Used {
		counts[u.By]++
		if counts[u.By] > most {
			by, most = u.By, counts[u.By]
		}
	}
	return by
}

// forget drops the oldest command of a principal.
func (n *Nonces) forget(by string) {
	i := slices.IndexFunc(n.Used, func(u UsedNonce) bool { return u.By == by })
	at := n.Used[i].At
	n.Used = slices.Delete(n.Used, i, i+1)
	for j := range n.Floors {
		if n.Floors[j].By == by {
			if at.After(n.Floors[j].Before) {
				n.Floors[j].Before = at
			}
			return
		}
	}
	n.Floors = append(n.Floors, Floor{by, at})
}

// raise refuses all commands up to a time, but to limit at most.
func (n *Nonces) raise(at, limit time.Time) {
	if at.After(limit) {
		at = limit
	}
	if at.After(n.Before) {
		n.Before = at
	}
}
