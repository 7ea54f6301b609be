package workflows

import "time"

const (
	signalCall  = "call"  // to a session: a pool asks what it holds
	signalHolds = "holds" // to a pool: the answer
)

// A rollCall asks a session which slot of a pool it holds.
type rollCall struct {
	From string `json:"from"` // ID of the pool's workflow
}

// holds is a session's answer. Host is empty if it holds no slot.
type holds struct {
	Holder string    `json:"holder"`
	Run    string    `json:"run,omitempty"` // first run of its workflow
	Host   string    `json:"host,omitempty"`
	Epoch  int64     `json:"epoch,omitempty"`
	Seed   string    `json:"seed,omitempty"`
	Tenant string    `json:"tenant,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Warm is set if the session is parked. It holds no slot of Host then, but its
	// folder is still there.
	Warm *leftBehind `json:"warm,omitempty"`
}
