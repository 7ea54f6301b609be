package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// The answers are in codex's shapes. Their effects were measured on the versions of Tested.

type decisionAnswer struct {
	Decision any `json:"decision"`
}

type permissionsAnswer struct {
	Permissions json.RawMessage `json:"permissions"`
	Scope       string          `json:"scope"` // turn, session
}

type inputAnswer struct {
	Answers map[string]inputAnswers `json:"answers"`
}

type inputAnswers struct {
	Answers []string `json:"answers"`
}

type elicitationAnswer struct {
	Action  string          `json:"action"` // accept, decline, cancel
	Content any             `json:"content"`
	Meta    json.RawMessage `json:"_meta,omitempty"`
}

// answerFor returns the decision in codex's shape. Without a, the request in full, some
// requests can only be declined.
func answerFor(s Send, a *asked, version string) (any, error) {
	if s.RequestKind == protocol.KindDeliverable {
		return s.verdictReply()
	}
	if s.RequestKind == protocol.KindChild {
		return toolAnswer(ToolReply{Text: s.Reason, OK: s.Outcome == protocol.Answer}), nil
	}
	method := s.method()
	no := s.Outcome == protocol.Decline || s.Outcome == protocol.Cancel
	if a == nil && !no && method != methodFileApproval && method != methodPatchApproval {
		if plain := s.Outcome == protocol.Accept && (method == methodCommandApproval || method == methodExecApproval); !plain {
			return nil, errors.New("the text of the request was not read from the journal, and this decision needs it")
		}
	}
	switch method {
	case methodCommandApproval, methodFileApproval:
		return s.approval(a)
	case methodExecApproval, methodPatchApproval:
		return s.legacy(version)
	case methodPermissions:
		return s.permissions(a)
	case methodUserInput:
		return s.input(a)
	case methodToolCall:
		return s.humanReply(a)
	case methodElicitation:
		return s.elicitation(a)
	}
	return nil, fmt.Errorf("a request of kind %q cannot be answered", s.RequestKind)
}

func (s Send) method() string {
	if s.Method == "" {
		return map[protocol.RequestKind]string{protocol.KindCommand: methodCommandApproval, protocol.KindFileChange: methodFileApproval}[s.RequestKind]
	}
	return s.Method
}

// remembers reports whether codex, told to accept for its session, would remember exactly
// this request. Of a file change it remembers only the paths, and of the network only the
// host (measured). Then codex is told to accept once, and the caller, which stored the
// accept for the session, answers the same request again.
func (a *asked) remembers() bool {
	switch a.Method {
	case methodCommandApproval:
		return a.Action == "" && len(a.Network) == 0
	case methodExecApproval, methodPermissions:
		return true
	}
	return false
}

func (s Send) unknown() error {
	return fmt.Errorf("%q is no answer to a request of kind %s", s.Outcome, s.RequestKind)
}

func (s Send) approval(a *asked) (any, error) {
	switch {
	case s.Outcome == protocol.Accept && s.ForSession && s.method() == methodCommandApproval:
		return decisionAnswer{"acceptForSession"}, nil
	case s.Outcome == protocol.Accept, s.Outcome == protocol.Decline, s.Outcome == protocol.Cancel:
		return decisionAnswer{string(s.Outcome)}, nil
	case s.Outcome == protocol.Amend && a != nil && len(a.Amendment) > 0:
		return decisionAnswer{a.Amendment}, nil
	case s.Outcome == protocol.Amend:
		return nil, errors.New("codex offered no amendment, or none is allowed")
	}
	return nil, s.unknown()
}

// legacy uses the words of the first protocol.
func (s Send) legacy(version string) (any, error) {
	switch {
	case s.Outcome == protocol.Accept && s.ForSession && s.Method == methodExecApproval:
		return decisionAnswer{"approved_for_session"}, nil
	case s.Outcome == protocol.Accept:
		return decisionAnswer{"approved"}, nil
	case s.Outcome == protocol.Decline && wire.Has(version, wire.DenialReasons):
		return decisionAnswer{map[string]any{"denied": map[string]string{"rejection": orWord(s.Reason, "declined")}}}, nil
	case s.Outcome == protocol.Decline:
		return decisionAnswer{"denied"}, nil
	case s.Outcome == protocol.Cancel:
		return decisionAnswer{"abort"}, nil
	}
	return nil, s.unknown()
}

func (s Send) permissions(a *asked) (any, error) {
	answer := permissionsAnswer{Permissions: json.RawMessage(`{}`), Scope: "turn"}
	if s.ForSession {
		answer.Scope = "session"
	}
	switch s.Outcome {
	case protocol.Decline, protocol.Cancel:
		answer.Scope = "turn"
	case protocol.Accept:
		answer.Permissions = a.Permissions
	case protocol.Grant:
		if err := Within(s.Grant, a.Permissions); err != nil {
			return nil, err
		}
		// codex must read exactly what Within compared.
		g, err := readPermissions(s.Grant)
		if err != nil {
			return nil, err
		}
		answer.Permissions = canonical(g)
	default:
		return nil, s.unknown()
	}
	return answer, nil
}

func (s Send) input(a *asked) (any, error) {
	answer := inputAnswer{Answers: map[string]inputAnswers{}}
	switch s.Outcome {
	case protocol.Decline, protocol.Cancel:
		return answer, nil // codex's only decline
	case protocol.Answer:
		good, err := CheckAnswers(a.Questions, s.Answers)
		if err != nil {
			return nil, err
		}
		for id, given := range good {
			answer.Answers[id] = inputAnswers{given}
		}
		return answer, nil
	}
	return nil, s.unknown()
}

func (s Send) humanReply(a *asked) (any, error) {
	switch s.Outcome {
	case protocol.Decline, protocol.Cancel:
		return toolAnswer(humanSilence(s.Reason)), nil
	case protocol.Answer:
		good, err := CheckAnswers(a.Questions, s.Answers)
		if err != nil {
			return nil, err
		}
		return toolAnswer(humanAnswer(good)), nil
	}
	return nil, s.unknown()
}

// elicitation never accepts for the session: codex would then accept every call of the
// tool, whatever its arguments (measured). The caller, which stored the accept for the
// session, answers the same call again.
func (s Send) elicitation(a *asked) (any, error) {
	answer := elicitationAnswer{Action: "accept"}
	switch {
	case s.Outcome == protocol.Decline, s.Outcome == protocol.Cancel:
		answer.Action = string(s.Outcome)
	case s.Outcome == protocol.Accept && len(a.Questions) == 0:
		if !a.ofTool && a.URL == "" {
			answer.Content = struct{}{} // accepts an empty form
		}
	case s.Outcome == protocol.Amend && len(a.Amendment) > 0:
		answer.Meta = a.Amendment
	case s.Outcome == protocol.Answer && len(a.Questions) > 0:
		good, err := CheckAnswers(a.Questions, s.Answers)
		if err != nil {
			return nil, err
		}
		if answer.Content, err = formContent(a.Questions, good); err != nil {
			return nil, err
		}
	default:
		return nil, s.unknown()
	}
	return answer, nil
}

// offered returns our words that can answer the request.
func (a *asked) offered() []string {
	var words []string
	switch {
	case a.Kind == protocol.KindDeliverable:
		words = []string{"accept", "revise", "decline"}
	case a.Method == methodPermissions:
		words = []string{"accept", "accept_for_session", "grant", "decline"}
	case a.Method == methodUserInput, a.Method == methodToolCall:
		words = []string{"answer", "decline"}
	case a.Action == "humanCommand":
		words = []string{"accept", "decline", "cancel"} // all that codex takes
	case a.Kind != protocol.KindElicitation, a.ofTool:
		words = []string{"accept", "accept_for_session", "decline", "cancel"}
	case len(a.Questions) > 0:
		words = []string{"answer", "decline", "cancel"}
	default:
		words = []string{"accept", "decline", "cancel"}
	}
	if len(a.Amendment) > 0 {
		words = append(words, "amend")
	}
	return words
}

// real replaces redacted ids and options, as people saw them, by the originals.
func (a *asked) real(answers map[string][]string, redact func(string) string) map[string][]string {
	if a == nil || len(answers) == 0 {
		return answers
	}
	out := map[string][]string{}
	for id, given := range answers {
		i := slices.IndexFunc(a.Questions, func(q protocol.Question) bool { return q.ID == id || redact(q.ID) == id })
		if i < 0 {
			out[id] = given
			continue
		}
		q := a.Questions[i]
		given = slices.Clone(given)
		for n, one := range given {
			if o := slices.IndexFunc(q.Options, func(c protocol.Choice) bool { return c.Label == one || redact(c.Label) == one }); o >= 0 {
				given[n] = q.Options[o].Label
			}
		}
		out[q.ID] = given
	}
	return out
}
