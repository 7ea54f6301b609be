package conversation

import "fairlead.dev/fairlead/conversation/wire"

// The demands part holds the full text of open requests, for which the state has no room; a
// pump that answers reads the request's line again. It calls no other.
type demands struct {
	*core
	byID map[string]*asked
}

// decision returns codex's answer and tells the Redactor secret answers.
func (e *demands) decision(s Send) (any, error) {
	a := e.byID[wire.IDKey(s.RPC)]
	i := e.st.openAt(s.RPC)
	s.ForSession = s.ForSession && i >= 0 && e.st.Open[i].Remembers
	s.Answers = a.real(s.Answers, e.redact)
	if a != nil && e.opt.Redactor != nil {
		for _, one := range a.Questions {
			if one.Secret {
				e.opt.Redactor.Add(s.Answers[one.ID]...)
			}
		}
	}
	return answerFor(s, a, e.st.CodexVersion)
}
