package conversation

import (
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// sendPrefix begins wire ids: send/<ID>/<try>. They do not name the pump, so any later pump
// recognises the answer.
const sendPrefix = "send/"

// A send is a Send and its delivery in this pump.
type send struct {
	Send
	state     protocol.DeliveryState
	text      string
	uncertain bool // an earlier pump or attempt may have written it
	own       bool // made by the pump and not reported
	announced bool
	unfit     string // why the pump declined instead of giving the decision
	early     bool   // an interrupt of an accepted turn that had not begun

	tried bool
	wrote bool // written in this pump, and not refused for overload since
	try   int
	asked time.Duration // first written
	first time.Duration // last written
	next  time.Duration // not to be written before this time
}

func (s *send) settled() bool {
	return s.state == protocol.Acknowledged || s.state == protocol.Rejected || s.state == protocol.Void
}

// told returns the state for the workflow. On Decided the workflow would send again, even
// to another process, so told returns it only if no pump can have written the message.
func (s *send) told() protocol.DeliveryState {
	if s.state == protocol.Decided && s.uncertain {
		return protocol.Sent
	}
	return s.state
}

func (s *send) settle(state protocol.DeliveryState, why string) {
	if !s.settled() {
		s.state, s.text = state, why
	}
}

func (s *send) written(now time.Duration) {
	if !s.tried {
		s.tried, s.asked = true, now
	}
	s.wrote, s.state, s.first = true, protocol.Sent, now
}

// doubtful reports whether the pump must find out if codex has the message.
func (s *send) doubtful() bool {
	return !s.settled() && s.uncertain && !s.wrote && s.looked()
}

// looked reports whether codex would act on a second copy of the message, so that the pump
// must find out whether codex has it before sending.
func (s *send) looked() bool {
	return s.Kind == SendTurn || s.Kind == SendSteer || s.Kind == sendTell
}

func sendOf(id string) (send string, try int, ok bool) {
	rest, ok := strings.CutPrefix(id, sendPrefix)
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", 0, false
	}
	try, err := strconv.Atoi(rest[i+1:])
	return rest[:i], try, err == nil
}
