package conversation

import (
	"strconv"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// deliver writes what is due, in order. All other sends wait for the answer to a message
// that begins a turn, because a steer or an interrupt needs the turn's id. They also wait
// for the answer to a Tell, because the next turn must have the Tell.
func (d *delivery) deliver() {
	behind := false // a message waits for the end of a turn that codex began
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
			if !behind { // otherwise the steer is for the turn of the message that waits
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
		return // the message waits for the turn's end
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
		s.settle(protocol.Void, "no turn is running, or not that one")
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

// interruptNow sends interrupts before a long backlog is read, to stop a codex that writes
// faster than we read. If the turn of an interrupt has ended, codex refuses the interrupt
// and says why.
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

// sendDecision answers a request that is still open. A second answer is harmless, because
// codex acts on the first answer and ignores the rest. So a later attempt need not find out
// whether an earlier one answered.
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
	return "codex was told no, since the decision does not fit what it asked: " + why.Error()
}

// declineInstead declines a request whose decision does not fit, so that codex does
// not wait for ever. The decision's sender learns why.
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
