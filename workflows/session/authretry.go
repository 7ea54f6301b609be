package session

import (
	"fmt"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// maxAuthRetries bounds the turns in a row that are repeated because they got no access
// token.
const maxAuthRetries = 1

func (s *turnsPart) keepSaid(m protocol.Message) {
	s.st.Shape = shapeOf(m)
	if m.Do != "" {
		return
	}
	if s.opt.OnAuth == protocol.AuthRetry || s.bounds.mayWaitOut() || s.credentials() == protocol.CredentialsGateway || s.opt.OnHostLost == protocol.HostLostMove && s.opt.OnInterrupt == protocol.InterruptContinue {
		s.st.Said = &m
	}
}

// authFailed is called before a turn is ended. If the turn got no access token and had no
// effects, authFailed queues its message again, before all others and as a new turn. asks
// reports that a person must send the next message.
func (s *turnsPart) authFailed(t *conversation.TurnEnd) (asks bool) {
	if t.Status != "failed" || t.Problem == nil || !t.Problem.Passing {
		s.st.AuthRetries = 0
		return false
	}
	p := t.Problem
	switch {
	case s.opt.OnAuth != protocol.AuthRetry || s.st.Said == nil || s.toEnd() || s.bounds.overBudget():
		return false
	case t.Effects:
		p.Hint = "the turn had begun commands or changes, so it was not begun again: see what they did (`ctl transcript`), then send a message to go on"
		return true
	case s.st.AuthRetries >= maxAuthRetries:
		s.st.AuthRetries = 0
		p.Message += fmt.Sprintf(" (for the %d. time in a row)", maxAuthRetries+1)
		return true
	}
	s.st.AuthRetries++
	s.sayAgain(*s.st.Said)
	return false
}

// sayAgain queues m before all other messages, whose turn numbers rise by one.
func (s *turnsPart) sayAgain(m protocol.Message) {
	id := s.bounds.sayLater(m)
	s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("turn %d says the same again: turn %d got no access token in time, and had begun nothing", s.st.TurnN+1, s.st.TurnN),
		Data: map[string]string{"by": "on_auth=retry", "set_by": s.opt.By, "message": id}})
}

func (s *turnsPart) holdForAuth(p *protocol.Problem) {
	s.st.Error = kit.FailureOfProblem(p)
	s.st.Held = len(s.st.Queue) > 0
	s.become(protocol.Interrupted)
}
