package session

import (
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// maxGoOns bounds the turns in a row that are cut off and continued.
const maxGoOns = 3

// GoOnText tells codex to go on with a turn that was cut off.
const GoOnText = "Your process was interrupted and has been started again, so the last turn was cut off. " +
	"What it had begun may be half done or done: look at the present state first, do not blindly repeat what has effects, then go on with the task."

// cutOff ends a turn that lost its process, and does what on_interrupt says.
func (s *turnsPart) cutOff(status string, f *protocol.Failure) {
	s.st.Reap, s.st.Cut = true, nil
	s.approvals.keepDecisions()
	f = s.whatIsKnown(status, f)
	end, goOn := s.toEnd(), s.mayGoOn(f)
	if goOn && status == "unknown" && !s.leaving {
		s.st.GoOns++
		s.askHistory(f)
		return
	}
	s.approvals.voidOpen(processGone)
	s.dropSends(processGone)
	switch {
	case s.opt.OnInterrupt == protocol.InterruptFail && !end:
		s.giveUpTurn(status, f)
		s.fail(&protocol.Failure{Kind: f.Kind, Message: f.Message, Hint: "the session was to fail when a turn is cut off (--on-interrupt fail); its work is kept"})
	case goOn:
		s.st.GoOns++
		s.goOn(status, f)
	default:
		s.interrupted(status, f)
	}
}

func (s *turnsPart) toEnd() bool {
	cancel := func(p pendingSend) bool {
		return p.Send.Kind == conversation.SendDecision && p.Send.Outcome == protocol.Cancel
	}
	return s.st.Interrupt != nil || s.st.Close != nil || slices.ContainsFunc(s.st.Sends, cancel)
}

// mayGoOn reports whether the session begins a follow-up turn by itself. It does not after
// a turn that reached its time limit.
func (s *turnsPart) mayGoOn(f *protocol.Failure) bool {
	switch {
	case s.opt.OnInterrupt != protocol.InterruptContinue, s.toEnd(), f.Kind == "turn_timeout", s.bounds.overBudget(), s.messages.acting() != "":
		return false
	case s.st.GoOns >= maxGoOns:
		s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("%d turns in a row were cut off: the session waits for a message", s.st.GoOns)})
		return false
	}
	return true
}

// interrupted ends the turn and waits for a person's message. The queue waits too, because
// its messages assumed that the turn would end well.
func (s *turnsPart) interrupted(status string, f *protocol.Failure) {
	s.giveUpTurn(status, f)
	s.st.Error = f
	s.holdQueue()
	s.become(protocol.Interrupted)
}

// goOn queues a message of the session's own before all others, whose turn numbers rise by
// one.
func (s *turnsPart) goOn(status string, f *protocol.Failure) {
	s.st.GoOnN++
	m := queuedMessage{N: s.st.TurnN + 1, Message: s.st.Shape.of(protocol.Message{Text: GoOnText})}
	if s.leaving {
		m.Message = s.moving.saidAgain()
	}
	m.ID = fmt.Sprintf("%s.c%d", s.id, s.st.GoOnN)
	s.messages.makeRoom()
	s.st.Queue = slices.Insert(s.st.Queue, 0, m)
	s.track(m.ID, kindMessage, m.N, queuedHere)
	if v := s.st.turn(s.st.TurnN); v != nil {
		v.FollowedBy = m.N
	}
	s.giveUpTurn(status, f)
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("turn %d tells codex to go on (%d of at most %d in a row)", m.N, s.st.GoOns, maxGoOns),
		Data: map[string]string{"by": "on_interrupt=continue", "set_by": s.opt.By, "message": m.ID}})
}

// askHistory keeps a message that codex may have for the next process, whose pump looks for
// it in the thread's history.
func (s *turnsPart) askHistory(f *protocol.Failure) {
	s.st.Cut = f
	s.approvals.voidOpen(processGone)
	s.keepMessages()
	p := s.st.Sending(conversation.SendTurn)
	p.Send.Uncertain, p.Send.Incarnation = true, s.st.Incarnation
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("whether message %s reached codex is looked up in the thread's history", p.Send.ID),
		Data: failureData(f)})
}

// inDoubt reports whether codex may or may not have the running turn's message.
func (s *turnsPart) inDoubt() bool {
	turn := s.st.Sending(conversation.SendTurn)
	return s.st.Cut != nil || s.st.Pump.TurnID == "" && turn != nil && turn.maybe()
}

// historySaid handles the end of a turn that was looked up in the history, and reports
// whether the turn is continued.
func (s *turnsPart) historySaid(t *conversation.TurnEnd) bool {
	f := s.st.Cut
	s.st.Cut = nil
	if f == nil || t.Status == "completed" || t.Status == "failed" || s.toEnd() {
		return false
	}
	s.st.HasTurn, s.st.Pump.TurnID = true, t.ID
	s.goOn("interrupted", f)
	return true
}

// keepMessages drops all sends except the running turn's message, and steers that codex
// never had.
func (s *turnsPart) keepMessages() {
	var keep, drop []pendingSend
	for _, p := range s.st.Sends {
		if p.Send.Kind == conversation.SendTurn || p.Send.Kind == conversation.SendSteer && !p.maybe() {
			keep = append(keep, p)
		} else {
			drop = append(drop, p)
		}
	}
	s.st.Sends = drop
	s.dropSends(processGone)
	s.st.Sends = keep
}

func (s *turnsPart) whatIsKnown(status string, f *protocol.Failure) *protocol.Failure {
	var sure, unsure []string
	id := ""
	if v := s.st.turn(s.st.TurnN); v != nil {
		id = v.MessageID
	}
	if status == "unknown" {
		unsure = append(unsure, "whether message "+id+" reached codex")
	} else if id != "" && s.st.Sending(conversation.SendTurn) == nil {
		sure = append(sure, "message "+id+" reached codex")
	}
	for _, a := range s.st.Approvals {
		if a.Turn != s.st.TurnN {
			continue
		}
		switch name := s.approvalID(a.N); {
		case a.State == protocol.ApprovalOpen:
			sure = append(sure, name+" was not answered")
		case a.Decision == nil || a.State == protocol.ApprovalVoid:
		case s.approvals.reached(a) == decidedHere:
			sure = append(sure, "the decision on "+name+" never reached codex")
		case a.Decision.Outcome == string(protocol.Accept):
			unsure = append(unsure, "what became of "+name+", which was accepted")
		}
	}
	for _, p := range s.st.Sends {
		if p.Send.Kind == conversation.SendSteer && p.maybe() {
			unsure = append(unsure, "whether message "+p.Send.ID+" reached the turn")
		}
	}
	out := *f
	if len(sure) > 0 {
		out.Message += ". Certain: " + strings.Join(sure, "; ")
	}
	if len(unsure) > 0 {
		out.Message += ". Not known: " + strings.Join(unsure, "; ")
	}
	out.Message = kit.Cut(out.Message, kit.MaxFailure)
	return &out
}
