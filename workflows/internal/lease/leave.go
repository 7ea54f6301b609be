package lease

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// SignalLeave tells a session that its host is drained, or no longer.
const SignalLeave = "leave"

// LeaveHost is the content of SignalLeave. By the lease's Epoch, a late order does not
// apply to a later host.
type LeaveHost struct {
	protocol.Draining
	Host  string    `json:"host"`
	Epoch int64     `json:"epoch"`
	Off   bool      `json:"off,omitempty"`
	Again time.Time `json:"again,omitzero"` // next attempt, after the session could not park
}

// Who says what drains the host.
func (l LeaveHost) Who() string {
	if l.By == "" {
		return "drain of " + l.Host
	}
	return fmt.Sprintf("drain of %s by %s", l.Host, l.By)
}
