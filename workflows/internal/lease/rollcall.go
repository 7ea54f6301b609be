package lease

import "time"

const (
	SignalCall  = "call"  // to a session: a pool asks what it holds
	SignalHolds = "holds" // to a pool: the answer
)

// A RollCall asks a session which slot of a pool it holds.
type RollCall struct {
	From string `json:"from"` // ID of the pool's workflow
}

// Holds is a session's answer. Host is empty if it holds no slot.
type Holds struct {
	Holder string    `json:"holder"`
	Run    string    `json:"run,omitempty"` // first run of its workflow
	Host   string    `json:"host,omitempty"`
	Epoch  int64     `json:"epoch,omitempty"`
	Seed   string    `json:"seed,omitempty"`
	Tenant string    `json:"tenant,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Warm is set if the session is parked. It holds no slot of Host then, but its
	// folder is still there.
	Warm *LeftBehind `json:"warm,omitempty"`
}
