package conversation

import (
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// sendPrefix begins the wire ids of Sends: send/<ID>/<try>. The ids name the Send and not
// the pump, so any later pump of the session recognises the answer.
const sendPrefix = "send/"

// A send is a Send and its delivery in this pump.
type send struct {
	Send
	state     protocol.DeliveryState
	text      string // why it was rejected or is void
	uncertain bool   // an earlier pump or attempt may have written it
	own       bool   // the pump made the send itself and does not report it
	announced bool   // Options.Settled was called for it
	unfit     string // why the pump declined the request instead of giving the decision
	early     bool   // an interrupt of a turn that codex had accepted but not yet begun

	tried bool
	wrote bool // written in this pump and not refused for overload since
	try   int
	asked time.Duration // when it was first written
	first time.Duration // when it was last written
	next  time.Duration // do not write before this time
}

func (s *send) settled() bool {
	return s.state == protocol.Acknowledged || s.state == protocol.Rejected || s.state == protocol.Void
}

// told returns the state that the workflow gets. On Decided the workflow would send the
// message again, even to another process. So told returns Decided only if no pump can have
// written the message.
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

// looked reports whether codex acts on the message each time it is sent. If so, the pump
// must find out whether codex has the message before it sends it.
func (s *send) looked() bool {
	return s.Kind == SendTurn || s.Kind == SendSteer || s.Kind == sendTell
}

// sendOf returns the ID of the Send that a request id belongs to, and the try.
func sendOf(id string) (send string, try int, ok bool) {
	rest, ok := strings.CutPrefix(id, sendPrefix)
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", 0, false
	}
	try, err := strconv.Atoi(rest[i+1:])
	return rest[:i], try, err == nil
}
