package workflows

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// signalLeave tells a session that its host is being drained, or that the drain was called
// off.
const signalLeave = "leave"

// leaveHost is the content of signalLeave. Epoch is that of the session's lease on Host, so that
// an order that comes late does not apply to a later host.
type leaveHost struct {
	protocol.Draining
	Host  string    `json:"host"`
	Epoch int64     `json:"epoch"`
	Off   bool      `json:"off,omitempty"`
	Again time.Time `json:"again,omitzero"` // time of the next attempt, after the session could not park
}

func (l leaveHost) by() string {
	if l.By == "" {
		return "drain of " + l.Host
	}
	return fmt.Sprintf("drain of %s by %s", l.Host, l.By)
}
