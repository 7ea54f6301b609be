package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A turn that codex begins by itself (see conversation/foreign.go) is called foreign. It is
// the running turn like any other. Queued messages run after it, so their turn numbers rise
// by one.

// begunByCodex is the TurnView.BegunBy of a foreign turn.
const begunByCodex = "codex"

// foreignRuns makes a foreign turn the running turn.
func (s *turnsPart) foreignRuns(r conversation.PumpResult) {
	st := r.State
	if !st.Foreign || st.TurnID == "" || st.TurnID == s.st.Foreign {
		return
	}
	if s.st.Running && s.st.Foreign == "" {
		p := s.st.Sending(conversation.SendTurn)
		switch {
		case p != nil && p.maybe():
			return // the message may be part of the foreign turn; the next pump finds out
		case p == nil:
			f := &protocol.Failure{Kind: "protocol", Message: "codex took the message, and began another turn"}
			s.giveUpTurn("unknown", f)
			s.st.Pump.TurnID = st.TurnID
		default:
			s.standBack()
		}
	}
	s.beginForeign(st.TurnID, st.TurnStartedMS)
}

// foreignEnded records the end of a foreign turn. It returns true if another turn still
// runs.
func (s *turnsPart) foreignEnded(t *conversation.TurnEnd) (over bool) {
	if t == nil || !t.Foreign || t.ID == s.st.Foreign {
		return false
	}
	p := s.st.Sending(conversation.SendTurn)
	switch {
	case !s.st.Running:
	case s.st.Foreign == "" && p != nil && p.maybe():
		s.insertEnded(t)
		return true
	case s.st.Foreign == "" && p != nil:
		s.standBack()
	default:
		return false // nothing else is known of the running turn's end
	}
	s.beginForeign(t.ID, t.StartedAtMS)
	return false
}

func (s *turnsPart) beginForeign(id string, startedMS int64) {
	s.messages.makeRoom()
	for _, q := range s.st.Queue {
		s.renumber(q.ID, q.N)
	}
	n := s.st.TurnN + 1
	s.st.skipTo(n)
	began := workflow.Now(s.ctx)
	if startedMS > 0 {
		began = time.UnixMilli(startedMS).UTC()
	}
	s.st.putTurn(protocol.TurnView{Session: s.id, N: n, TurnID: id, BegunBy: begunByCodex, Status: "inProgress", StartedAt: began})
	s.st.Running, s.st.Foreign, s.st.QuietAt = true, id, time.Time{}
	s.st.TurnSpent, s.st.Fruitless = 0, 0
	s.st.Error, s.st.Said, s.st.Shape = nil, nil, nil
	if s.st.Sending(conversation.SendInterrupt) == nil {
		s.st.Interrupt = nil
	}
	if s.st.Close == nil {
		s.become(protocol.Running)
	}
}

// standBack queues the running turn's message, which codex never had, again behind a
// foreign turn. If an interrupt or a close was to end its turn, the message is not sent,
// and the foreign turn is ended.
func (s *turnsPart) standBack() {
	p := *s.st.Sending(conversation.SendTurn)
	end := s.toEnd()
	s.st.Cut = nil
	if asked := s.st.FormerRequesters; len(asked) > 0 {
		s.st.Requesters = asked
	}
	view := *s.st.turn(p.Send.Turn)
	s.unbegin(s.requeueSteers)
	if !end {
		s.note(conversation.Note{Type: protocol.EntryState, Turn: p.Send.Turn, Text: fmt.Sprintf("message %s waits for the end of turn %d, which codex began by itself", p.Send.ID, p.Send.Turn),
			Data: map[string]string{"message": p.Send.ID}})
		return
	}
	by := "the session was closed before it reached codex"
	if i := s.st.Interrupt; i != nil {
		by = interruptedBy(i) + " before it reached codex"
	}
	s.st.Queue = s.st.Queue[1:]
	view.Status, view.EndedAt, view.Error = "interrupted", workflow.Now(s.ctx), &protocol.Failure{Kind: kit.Unsent, Message: by}
	s.st.putTurn(view)
	s.track(p.Send.ID, kindMessage, p.Send.Turn, voided)
	s.note(conversation.Note{Type: protocol.EntryState, Turn: p.Send.Turn, Text: fmt.Sprintf("message %s is not sent: %s", p.Send.ID, by),
		Data: map[string]string{"message": p.Send.ID}})
}

// requeueSteers makes a turn of each steer of a turn that has not begun.
func (s *turnsPart) requeueSteers() {
	sends := s.st.Sends
	s.st.Sends = nil
	for _, p := range sends {
		if p.Send.Kind == conversation.SendSteer {
			s.requeue(p)
			continue
		}
		s.st.Sends = append(s.st.Sends, p)
	}
}

// insertEnded numbers an ended foreign turn before the running turn. It is called while
// nobody knows whether codex has the running turn's message.
func (s *turnsPart) insertEnded(t *conversation.TurnEnd) {
	n := s.st.TurnN
	s.st.TurnN--
	s.messages.makeRoom()
	s.st.TurnN = n + 1
	for i := range s.st.Sends {
		if p := &s.st.Sends[i]; p.Send.Turn == n && (p.Send.Kind == conversation.SendTurn || p.Send.Kind == conversation.SendSteer) {
			p.Send.Turn++
			s.renumber(p.Send.ID, p.Send.Turn)
		}
	}
	v := protocol.TurnView{Session: s.id, N: n, BegunBy: begunByCodex}
	endTurn(&v, t, workflow.Now(s.ctx))
	v.Status, v.Error = t.Status, kit.FailureOfProblem(t.Problem)
	s.st.putTurn(v)
	s.mayHaveDone(t.Effects, t.Status != "unknown")
	s.st.HasTurn = true
}

func (s *turnsPart) renumber(id string, n int) {
	for i := range s.st.Messages {
		if m := &s.st.Messages[i]; m.ID == id {
			m.Turn = n
		}
	}
}

// nextTurn returns the number of the next foreign turn.
func (s *turnsPart) nextTurn() int {
	if s.st.Running && s.st.Foreign == "" && s.st.Sending(conversation.SendTurn) != nil {
		return s.st.TurnN // the message's turn comes after it
	}
	return s.st.TurnN + 1
}

// mayRunStill reports whether a foreign turn may run. A closing session then has a pump
// look, to record the turn's approvals and end.
func (s *turnsPart) mayRunStill() bool {
	return s.st.Stirred && s.st.Alive && !s.discarding()
}
