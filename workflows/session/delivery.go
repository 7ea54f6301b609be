package session

import (
	"slices"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// Kinds of messages, and their delivery states. An attached pump reports progress only when
// it returns. Live views show it sooner.
const (
	kindMessage = "message"
	kindBudget  = "budget"

	queuedHere   = "queued"                      // its turn has not begun
	decidedHere  = string(protocol.Decided)      // not known to have been written to codex
	SentThere    = string(protocol.Sent)         // written to codex, or possibly written
	Acknowledged = string(protocol.Acknowledged) // codex has it
	rejected     = string(protocol.Rejected)     // codex refused it
	voided       = string(protocol.Void)         // its purpose is gone
)

// deliveryState holds what is to be delivered to codex, and the delivery states of
// messages.
type deliveryState struct {
	Sends    []pendingSend          `json:"sends,omitempty"`
	Messages []protocol.MessageView `json:"messages,omitempty"` // with their delivery states; oldest first
	Tell     *conversation.Tell     `json:"tell,omitempty"`
	TellN    int                    `json:"tell_n,omitempty"`
}

func kindOf(k conversation.SendKind) string {
	if k == conversation.SendTurn {
		return kindMessage
	}
	return string(k)
}

// trimMessages drops the oldest settled messages first, then the oldest queued ones.
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
