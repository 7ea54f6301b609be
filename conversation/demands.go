package conversation

import "fairlead.dev/fairlead/conversation/wire"

// The demands hold the full text of the open requests. The state has no room for it, so a
// pump that answers a request reads the request's line again. The requests part adds to
// them, and the delivery makes answers from them. This part calls no other.
type demands struct {
	*core
	byID map[string]*asked // by request id
}

// decision returns the answer for codex. It adds secret answers to the Redactor.
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
