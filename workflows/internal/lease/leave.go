package lease

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// SignalLeave tells a session that its host is being drained, or that the drain was called
// off.
const SignalLeave = "leave"

// LeaveHost is the content of SignalLeave. Epoch is that of the session's lease on Host, so that
// an order that comes late does not apply to a later host.
type LeaveHost struct {
	protocol.Draining
	Host  string    `json:"host"`
	Epoch int64     `json:"epoch"`
	Off   bool      `json:"off,omitempty"`
	Again time.Time `json:"again,omitzero"` // time of the next attempt, after the session could not park
}

// Who says what drains the host, and who asked for it.
func (l LeaveHost) Who() string {
	if l.By == "" {
		return "drain of " + l.Host
	}
	return fmt.Sprintf("drain of %s by %s", l.Host, l.By)
}
