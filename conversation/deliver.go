package conversation

import (
	"strconv"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// deliver writes what is due, in order. Sends wait for the answer to a message that begins
// a turn, because a steer or interrupt needs the turn's id, and for the answer to a Tell,
// because the next turn must have it.
func (d *delivery) deliver() {
	behind := false // a message waits for a foreign turn's end
	for _, s := range d.sends {
		switch {
		case s.settled(), d.tellWaits(s):
			continue
		case s.wrote && (s.Kind == SendTurn || s.Kind == sendTell):
			return
		case s.wrote:
			continue
		case s.next > d.now:
			return
		}
		switch s.Kind {
		case sendTell:
			d.sendTell(s)
			return
		case SendTurn:
			if d.sendTurn(s); s.wrote {
				return
			}
			behind = !s.settled()
		case SendSteer:
			if !behind { // otherwise the steer is for the waiting message's turn
				d.sendSteer(s)
			}
		case SendDecision:
			d.sendDecision(s)
		case SendInterrupt:
			d.sendInterrupt(s)
		}
	}
}

func (d *delivery) sendTurn(s *send) {
	if d.st.Foreign {
		return
	}
	if d.st.TurnID != "" {
		// codex would silently take the message into the running turn.
		s.settle(protocol.Rejected, "a turn is running, and a new message would steer it")
		return
	}
	if s.Do != "" {
		d.sendAct(s)
		return
	}
	if s.Unsayable != "" {
		s.settle(protocol.Rejected, s.Unsayable)
		return
	}
	d.ourRequest(s, wire.MethodTurnStart, wire.TurnStartParams{
		ThreadID: d.st.ThreadID, Input: s.turnInput(),
		MessageID: s.ID, Model: s.Model, Effort: s.Effort, Personality: d.in.Thread.Personality, Schema: s.Schema,
	})
}

func (d *delivery) sendSteer(s *send) {
	if d.st.TurnID == "" || s.Turn > 0 && s.Turn != d.st.Turn {
		s.settle(protocol.Void, "the turn that this message was to steer is not running")
		return
	}
	if s.Unsayable != "" {
		s.settle(protocol.Rejected, s.Unsayable)
		return
	}
	d.ourRequest(s, wire.MethodTurnSteer, wire.TurnSteerParams{
		ThreadID: d.st.ThreadID, TurnID: d.st.TurnID, MessageID: s.ID,
		Input: s.turnInput(),
	})
}

func (d *delivery) sendInterrupt(s *send) {
	if d.st.TurnID == "" {
		s.settle(protocol.Void, "no turn is running")
		return
	}
	d.ourRequest(s, wire.MethodInterrupt, wire.TurnInterruptParams{ThreadID: d.st.ThreadID, TurnID: d.st.active()})
}

// interruptNow interrupts before a long backlog is read, to stop a codex that writes faster
// than the pump reads. codex refuses an interrupt of an ended turn.
func (d *delivery) interruptNow() {
	for _, s := range d.sends {
		if s.Kind == SendInterrupt && !s.settled() {
			d.sendInterrupt(s)
		}
	}
}

func (d *delivery) ourRequest(s *send, method string, params any) {
	s.written(d.now)
	d.write(wire.Outgoing{ID: sendPrefix + s.ID + "/" + strconv.Itoa(s.try), Method: method, Params: params})
}

// sendDecision answers an open request. codex ignores a second answer, so a later attempt
// may answer again.
func (d *delivery) sendDecision(s *send) {
	switch {
	case s.Incarnation != d.st.Cursor.Incarnation:
		s.settle(protocol.Void, "the process that asked is gone")
		return
	case d.st.openAt(s.RPC) < 0:
		s.settle(protocol.Void, "the request is not open any more")
		return
	}
	result, err := d.demands.decision(s.Send)
	if err != nil {
		d.declineInstead(s, err)
		return
	}
	s.written(d.now)
	d.write(wire.Outgoing{ID: s.RPC, Result: result})
}

func unfitText(why error) string {
	return "the request was declined, because the decision does not fit it: " + why.Error()
}

// declineInstead declines a request whose decision does not fit, so that codex does not
// wait for ever.
func (d *delivery) declineInstead(s *send, why error) {
	no := s.Send
	no.Outcome, no.Reason = protocol.Decline, why.Error()
	result, err := answerFor(no, nil, d.st.CodexVersion)
	if err != nil {
		s.settle(protocol.Rejected, why.Error())
		return
	}
	d.log.Warn("declined, since the decision does not fit", "send", s.ID, "error", d.redact(why.Error()))
	s.unfit = unfitText(why)
	s.written(d.now)
	d.write(wire.Outgoing{ID: s.RPC, Result: result})
}
