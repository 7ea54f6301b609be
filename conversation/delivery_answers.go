package conversation

import (
	"encoding/json"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// answered handles the answer to a Send, which an earlier attempt or pump may have written.
func (d *delivery) answered(id string, try int, r *wire.Message) {
	s := d.find(id)
	if r.Error != nil {
		d.refused(s, id, try, r.Error)
		return
	}
	if s == nil {
		return
	}
	var a wire.TurnAnswer
	if r.Result != nil {
		if err := json.Unmarshal(r.Result, &a); err != nil {
			d.log.Warn("unreadable answer", "send", id, "error", err)
		}
	}
	if d.awaitsName(s, a.Turn.ID) {
		return
	}
	first := !s.settled()
	s.settle(protocol.Acknowledged, "")
	switch {
	case s.Kind == sendTell && first:
		d.told(s)
	case s.Kind == SendTurn && first:
		d.turns.turnOf(s, a.Turn.ID)
	case s.Kind == SendInterrupt && d.interruptAt == 0:
		d.interruptAt = max(d.now, 1)
		d.st.Interrupted = d.st.Interrupted || first && d.st.TurnID != ""
	}
}

func (d *delivery) refused(s *send, id string, try int, e *wire.RPCError) {
	if e.Code == wire.CodeOverloaded {
		if s != nil && !s.settled() && try >= s.try {
			s.try, s.wrote, s.state, s.next = try+1, false, protocol.Decided, d.now+backoff(try)
		}
		return
	}
	if strings.HasPrefix(id, budgetID("")) && (s == nil || s.own) {
		d.refusedToStop(s, try, e.Message)
		return
	}
	if strings.Contains(e.Message, "no active turn") {
		if s != nil && !d.tooEarly(s, try) {
			s.settle(protocol.Void, "no turn is running")
		}
		return
	}
	if s != nil && s.Kind == SendSteer && notSteerable(e) {
		s.settle(protocol.Void, "the running turn takes no messages")
		return
	}
	if s != nil && d.otherTurn(s, try, e) {
		return
	}
	d.entry(protocol.Entry{Type: protocol.EntryError, Turn: d.st.Turn, Text: "codex refused a message: " + e.Message, Data: map[string]string{"message": id}})
	if s == nil || s.settled() {
		return
	}
	s.settle(protocol.Rejected, e.Message)
	if d.problem == nil && s.Kind != sendTell { // a turn can do without a Tell
		d.problem = d.opt.Redactor.problem(classifyAnswer(string(s.Kind), e))
	}
}

func (d *delivery) echoed(turnID, id string) {
	s := d.find(id)
	if s == nil || s.settled() || s.Kind != SendTurn && s.Kind != SendSteer {
		return
	}
	s.settle(protocol.Acknowledged, "")
	if s.Kind == SendTurn && (d.st.TurnID == "" || d.st.TurnID == turnID) {
		d.turns.turnOf(s, turnID)
	}
}

// tooEarly reschedules an interrupt that codex refused although a turn runs: codex answers
// turn/start before the turn is active (measured on 0.169). If the turn has ended, its end
// in the journal voids the interrupt.
func (d *delivery) tooEarly(s *send, try int) bool {
	if s.Kind != SendInterrupt || s.settled() || d.st.TurnID == "" {
		return false
	}
	if try >= s.try {
		s.early = true
		s.try, s.wrote, s.state, s.next = try+1, false, protocol.Decided, d.now+backoff(try)
	}
	return true
}

// nowActive makes interrupts that came too early due.
func (d *delivery) nowActive() {
	for _, s := range d.sends {
		if s.early && !s.wrote {
			s.next = d.now
		}
	}
}

// refusedToStop reschedules the pump's own interrupt. It records nothing: if one attempt's
// clock caused the interrupt, another attempt does not know of it.
func (d *delivery) refusedToStop(s *send, try int, why string) {
	if s == nil || s.settled() || d.st.TurnID == "" || try < s.try {
		return
	}
	d.log.Warn("codex did not interrupt the turn that is over its budget", "error", d.redact(why))
	s.try, s.wrote, s.state, s.next = try+1, false, protocol.Decided, d.now+backoff(try)
}

func (d *delivery) decisionAnswered(key string) {
	for _, s := range d.sends {
		if s.Kind != SendDecision || s.Incarnation != d.st.Cursor.Incarnation || wire.IDKey(s.RPC) != key || s.settled() {
			continue
		}
		if s.unfit == "" && s.uncertain && !s.wrote && d.st.openAt(s.RPC) >= 0 {
			// An earlier attempt wrote the answer. The same check shows whether it was the
			// decision or a decline.
			if _, err := d.demands.decision(s.Send); err != nil {
				s.unfit = unfitText(err)
			}
		}
		if s.unfit != "" {
			s.settle(protocol.Rejected, s.unfit)
		} else if s.wrote || s.uncertain {
			s.settle(protocol.Acknowledged, "")
		} else {
			s.settle(protocol.Void, "codex took the request back before the decision was written")
		}
	}
}

func (d *delivery) decided(rpc json.RawMessage) bool {
	key := wire.IDKey(rpc)
	for _, s := range d.sends {
		if s.Kind == SendDecision && s.Incarnation == d.st.Cursor.Incarnation && wire.IDKey(s.RPC) == key && (s.state == protocol.Acknowledged || s.state == protocol.Rejected) {
			return true
		}
	}
	return false
}
