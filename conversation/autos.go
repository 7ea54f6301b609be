package conversation

import (
	"encoding/json"
	"slices"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// An auto is an answer that needs no decision, to be written if the backlog shows no
// resolution.
type auto struct {
	key  string
	line wire.Outgoing
}

// The autos part holds the answers that are not written yet. It calls no other.
type autos struct {
	*core
	list []auto
}

func (s *autos) add(id json.RawMessage, o wire.Outgoing) {
	s.list = append(s.list, auto{key: wire.IDKey(id), line: o})
}

func (s *autos) flush() {
	for _, a := range s.list {
		s.write(a.line)
	}
	s.list = nil
}

func (s *autos) drop(key string) {
	s.list = slices.DeleteFunc(s.list, func(a auto) bool { return a.key == key })
}

// refuse answers in the shape that the request requires, so that codex goes on. why says
// what is wrong with a request that could be decided otherwise.
func (s *autos) refuse(msg *wire.Message, why string) {
	what, o := refusal(msg.Method, why, s.st.CodexVersion)
	o.ID = msg.ID
	s.add(msg.ID, o)
	e := protocol.Entry{Type: protocol.EntryRequest, Turn: s.st.Turn, Status: "refused",
		Text: "codex asked for " + what + "; it was refused", Data: map[string]string{"method": wire.Excerpt(msg.Method, 100)}}
	if why != "" {
		e.Text += ": " + why
	}
	s.entry(e)
}

func refusal(method, why, version string) (what string, o wire.Outgoing) {
	failure := func(text string) { o.Error = &wire.RPCError{Code: wire.CodeInvalidRequest, Message: orWord(why, text)} }
	declined := func() {
		no, err := answerFor(Send{Method: method, Outcome: protocol.Decline, Reason: why}, nil, version)
		if err != nil {
			panic("conversation: declining " + method + ": " + err.Error()) // every family can be declined
		}
		o.Result = no
	}
	switch method {
	case methodPermissions:
		what = "more permissions"
		declined()
	case methodUserInput:
		what = "an answer to its questions"
		declined()
	case methodElicitation:
		what = "an answer for an MCP server"
		declined()
	case methodToolCall:
		what = "a tool of ours"
		o.Result = toolAnswer(ToolReply{Text: orWord(why, "this session offers no such tool")})
	case methodTokenRefresh:
		what = "new login tokens"
		failure("this session has no tokens to give")
	case "attestation/generate":
		what = "an attestation"
		failure("this client does not attest")
	case methodCommandApproval, methodFileApproval, methodExecApproval, methodPatchApproval:
		what = "an approval"
		declined()
	default:
		what = "what this client does not know (" + wire.Excerpt(method, 100) + ")"
		o.Error = &wire.RPCError{Code: wire.CodeNoMethod, Message: "method not found: this client does not know " + wire.Excerpt(method, 100)}
	}
	return what, o
}
