package conversation

import (
	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// clean ends the commands that an interrupted turn left running.
func (d *delivery) clean() {
	if d.wantsClean() && !d.canceled {
		d.asks.all[askClean].params = wire.ThreadIDParams{ThreadID: d.st.ThreadID}
		d.asks.send(askClean)
	}
}

func (d *delivery) wantsClean() bool {
	for _, s := range d.sends {
		if s.Kind == SendInterrupt && s.state == protocol.Acknowledged {
			return true
		}
	}
	return false
}

// cleaned reports whether the commands have ended. codex answers before it kills them, so
// only finished items show it.
func (d *delivery) cleaned() bool {
	if !d.wantsClean() {
		return true
	}
	for _, it := range d.st.Items {
		if it.Type == "commandExecution" {
			return false
		}
	}
	return d.asks.all[askClean].done
}
