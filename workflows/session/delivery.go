package session

import (
	"slices"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// Kinds of messages, and their delivery states. A pump reports them only when it returns.
// Live views show them sooner.
const (
	kindMessage = "message"
	kindBudget  = "budget"

	queuedHere   = "queued"                      // its turn has not begun
	decidedHere  = string(protocol.Decided)      // not known to have been written to codex
	SentThere    = string(protocol.Sent)         // written to codex, or may have been
	Acknowledged = string(protocol.Acknowledged) // codex has it
	rejected     = string(protocol.Rejected)     // codex refused it
	voided       = string(protocol.Void)         // its purpose is gone
)

type deliveryState struct {
	Sends    []pendingSend          `json:"sends,omitempty"`
	Messages []protocol.MessageView `json:"messages,omitempty"` // oldest first
	Tell     *conversation.Tell     `json:"tell,omitempty"`
	TellN    int                    `json:"tell_n,omitempty"`
}

func kindOf(k conversation.SendKind) string {
	if k == conversation.SendTurn {
		return kindMessage
	}
	return string(k)
}

// trimMessages drops settled messages first, then queued ones, the oldest first.
func (st *State) trimMessages() {
	for _, goes := range []func(protocol.MessageView) bool{
		func(m protocol.MessageView) bool {
			return m.State == Acknowledged || m.State == rejected || m.State == voided
		},
		func(m protocol.MessageView) bool { return m.State == queuedHere },
		func(protocol.MessageView) bool { return true },
	} {
		for len(st.Messages) > KeepMessageViews {
			i := slices.IndexFunc(st.Messages, goes)
			if i < 0 {
				break
			}
			st.Messages = slices.Delete(st.Messages, i, i+1)
		}
	}
}

func (s *messagesPart) messageViews() []protocol.MessageView {
	out := append([]protocol.MessageView{}, s.st.Messages...)
	for i := range out {
		if s.st.Ended && out[i].State == queuedHere {
			out[i].State, out[i].At = voided, s.st.UpdatedAt
		}
	}
	return out
}
