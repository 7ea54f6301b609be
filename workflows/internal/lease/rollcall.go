package lease

import "time"

const (
	SignalCall  = "call"  // to a session: a pool asks what it holds
	SignalHolds = "holds" // to a pool: the answer
)

// A RollCall asks a session which slot of a pool it holds.
type RollCall struct {
	From string `json:"from"` // the pool's workflow
}

// Holds is a session's answer. Host is empty if it holds no slot.
type Holds struct {
	Holder string    `json:"holder"`
	Run    string    `json:"run,omitempty"` // first run
	Host   string    `json:"host,omitempty"`
	Epoch  int64     `json:"epoch,omitempty"`
	Seed   string    `json:"seed,omitempty"`
	Tenant string    `json:"tenant,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Warm is set if the session is parked. Its folder is on Host, but it holds no slot.
	Warm *LeftBehind `json:"warm,omitempty"`
}
