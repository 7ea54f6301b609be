package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// codex's names of its requests.
const (
	methodCommandApproval = "item/commandExecution/requestApproval"
	methodFileApproval    = "item/fileChange/requestApproval"
	methodPermissions     = "item/permissions/requestApproval"
	methodUserInput       = "item/tool/requestUserInput"
	methodToolCall        = "item/tool/call"
	methodElicitation     = "mcpServer/elicitation/request"
	// Of the first protocol: in every schema, but in no thread of ours.
	methodPatchApproval = "applyPatchApproval"
	methodExecApproval  = "execCommandApproval"
)

// A reader reads the params of one family. An error says why nobody can decide the request.
type reader func(json.RawMessage) (*asked, error)

// families are the requests that a person or a policy decides, except calls of ask_human
// (see toolCalled).
var families = map[string]reader{
	methodCommandApproval: readCommandApproval,
	methodFileApproval:    readFileApproval,
	methodPermissions:     readPermissionsRequest,
	methodUserInput:       readUserInput,
	methodElicitation:     readElicitation,
	methodExecApproval:    readExecApproval,
	methodPatchApproval:   readPatchApproval,
}

type commandParams struct {
	wire.Notice
	Kind        string            `json:"kind"` // command, writeStdin, humanCommand
	Command     string            `json:"command"`
	CWD         string            `json:"cwd"`
	Reason      string            `json:"reason"`
	Network     json.RawMessage   `json:"networkApprovalContext"`
	Permissions json.RawMessage   `json:"additionalPermissions"`
	Decisions   []json.RawMessage `json:"availableDecisions"`
	StartedAtMS int64             `json:"startedAtMs"`
}

func readCommandApproval(raw json.RawMessage) (*asked, error) {
	var p commandParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	a := askedOf(p.Notice, protocol.KindCommand, methodCommandApproval)
	a.Command, a.CWD, a.reason, a.startedMS = p.Command, p.CWD, p.Reason, p.StartedAtMS
	a.Network, a.Permissions = present(p.Network), present(p.Permissions)
	if p.Kind != "command" {
		a.Action = p.Kind
	}
	if p.Kind != "humanCommand" { // a humanCommand takes no such answer
		a.Amendment = amendmentOf(p.Decisions)
	}
	return a, nil
}

// amendmentOf returns the offered decision that would change rules of the codex home, but
// none that forbids something for ever: a decline applies once.
func amendmentOf(decisions []json.RawMessage) json.RawMessage {
	for _, d := range decisions {
		var words amendment
		if json.Unmarshal(d, &words) == nil && len(words.words()) > 0 {
			return d
		}
	}
	return nil
}

type amendment struct {
	Exec *struct {
		Tokens []string `json:"execpolicy_amendment"`
	} `json:"acceptWithExecpolicyAmendment"`
	Network *struct {
		Rule struct {
			Host   string `json:"host"`
			Action string `json:"action"`
		} `json:"network_policy_amendment"`
	} `json:"applyNetworkPolicyAmendment"`
}

func (a amendment) words() []string {
	switch {
	case a.Exec != nil && len(a.Exec.Tokens) > 0:
		return []string{"run whatever begins with: " + shellWords(a.Exec.Tokens)}
	case a.Network != nil && a.Network.Rule.Action == "allow" && a.Network.Rule.Host != "":
		return []string{"reach " + a.Network.Rule.Host}
	}
	return nil
}

type fileParams struct {
	wire.Notice
	Reason      string `json:"reason"`
	GrantRoot   string `json:"grantRoot"`
	StartedAtMS int64  `json:"startedAtMs"`
}

func readFileApproval(raw json.RawMessage) (*asked, error) {
	var p fileParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	a := askedOf(p.Notice, protocol.KindFileChange, methodFileApproval)
	a.GrantRoot, a.reason, a.startedMS = p.GrantRoot, p.Reason, p.StartedAtMS
	return a, nil
}

func readPermissionsRequest(raw json.RawMessage) (*asked, error) {
	var p struct {
		wire.Notice
		CWD         string          `json:"cwd"`
		Reason      string          `json:"reason"`
		Permissions json.RawMessage `json:"permissions"`
		StartedAtMS int64           `json:"startedAtMs"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	a := askedOf(p.Notice, protocol.KindPermissions, methodPermissions)
	a.CWD, a.reason, a.startedMS, a.Permissions = p.CWD, p.Reason, p.StartedAtMS, present(p.Permissions)
	if len(a.Permissions) == 0 {
		return nil, errors.New("it does not say which permissions")
	}
	return a, nil
}

func readUserInput(raw json.RawMessage) (*asked, error) {
	var p struct {
		wire.Notice
		Questions []struct {
			ID       string `json:"id"`
			Header   string `json:"header"`
			Question string `json:"question"`
			Other    bool   `json:"isOther"`
			Secret   bool   `json:"isSecret"`
			Options  []struct {
				Label       string `json:"label"`
				Description string `json:"description"`
			} `json:"options"`
		} `json:"questions"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	a := askedOf(p.Notice, protocol.KindUserInput, methodUserInput)
	for _, w := range p.Questions {
		q := protocol.Question{ID: w.ID, Header: w.Header, Text: w.Question, Other: w.Other, Secret: w.Secret}
		for _, o := range w.Options {
			q.Options = append(q.Options, protocol.Choice{Label: o.Label, Description: o.Description})
		}
		a.Questions = append(a.Questions, q)
	}
	return a, checkQuestions(a.Questions)
}

// checkQuestions requires 1 to maxQuestions questions with unique ids.
func checkQuestions(all []protocol.Question) error {
	if len(all) == 0 {
		return errors.New("it asks nothing")
	}
	if len(all) > maxQuestions {
		return fmt.Errorf("it asks %d things at once, and %d is the most", len(all), maxQuestions)
	}
	for i, q := range all {
		if q.ID == "" || slices.ContainsFunc(all[:i], func(o protocol.Question) bool { return o.ID == q.ID }) {
			return fmt.Errorf("question %d has no id of its own", i+1)
		}
	}
	return nil
}

func readHumanQuestion(raw json.RawMessage) (*asked, error) {
	var p toolParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	p.ItemID = p.CallID
	a := askedOf(p.Notice, protocol.KindUserInput, methodToolCall)
	a.Tool = protocol.ToolAskHuman
	var err error
	a.Questions, err = humanQuestion(p.Args)
	return a, err
}

// readChildCall reads a call of one of protocol.ChildTools. The session checks what it asks.
func readChildCall(raw json.RawMessage) (*asked, error) {
	var p toolParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	if n := wire.JSONLen(p.Args); n > maxChildArgs {
		return nil, fmt.Errorf("the arguments have %d bytes with all their escapes, at most %d are taken", n, maxChildArgs)
	}
	p.ItemID = p.CallID
	a := askedOf(p.Notice, protocol.KindChild, methodToolCall)
	a.Tool, a.Args = p.Tool, present(p.Args)
	return a, nil
}

// maxChildArgs bounds the arguments of a call that the session answers, in bytes of JSON.
const maxChildArgs = 28 << 10

// approvalOfTool is the kind in _meta of an elicitation that asks whether an MCP tool may
// be called.
const approvalOfTool = "mcp_tool_call"

// toolInMessage finds the tool's name, which some versions give only in the message.
var toolInMessage = regexp.MustCompile(` run tool "([^"]+)"\?$`)

func readElicitation(raw json.RawMessage) (*asked, error) {
	var p struct {
		wire.Notice
		Server  string          `json:"serverName"`
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		URL     string          `json:"url"`
		Schema  json.RawMessage `json:"requestedSchema"`
		Meta    struct {
			Kind    string          `json:"codex_approval_kind"`
			Persist []string        `json:"persist"`
			Tool    string          `json:"tool_name"`
			Args    json.RawMessage `json:"tool_params"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	a := askedOf(p.Notice, protocol.KindElicitation, methodElicitation)
	a.Server, a.Message, a.reason = p.Server, p.Message, p.Message
	a.Schema = present(p.Schema)
	switch {
	case p.Mode == "url":
		if a.URL = p.URL; a.URL == "" || len(a.URL) > maxURL {
			return nil, fmt.Errorf("its address has %d bytes; it must have 1 to %d", len(a.URL), maxURL)
		}
	case p.Mode != "form":
		return nil, fmt.Errorf("nobody here can answer an elicitation of mode %q", short(p.Mode))
	case p.Meta.Kind == approvalOfTool:
		a.ofTool, a.Tool, a.Args = true, p.Meta.Tool, present(p.Meta.Args)
		if in := toolInMessage.FindStringSubmatch(p.Message); a.Tool == "" && in != nil {
			a.Tool = in[1]
		}
		if slices.Contains(p.Meta.Persist, "always") {
			a.Amendment = json.RawMessage(`{"persist":"always"}`)
		}
	case p.Meta.Kind != "":
		return nil, fmt.Errorf("nobody here can answer an elicitation of kind %q", short(p.Meta.Kind))
	default:
		questions, err := formQuestions(p.Schema)
		if err != nil {
			return nil, err
		}
		a.Questions = questions
	}
	return a, nil
}

func readExecApproval(raw json.RawMessage) (*asked, error) {
	var p struct {
		Thread  string   `json:"conversationId"`
		CallID  string   `json:"callId"`
		Command []string `json:"command"`
		CWD     string   `json:"cwd"`
		Reason  string   `json:"reason"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	if len(p.Command) == 0 {
		return nil, errors.New("it names no command")
	}
	a := askedOf(wire.Notice{ThreadID: p.Thread, ItemID: p.CallID}, protocol.KindCommand, methodExecApproval)
	a.Command, a.CWD, a.reason = shellWords(p.Command), p.CWD, p.Reason
	return a, nil
}

func readPatchApproval(raw json.RawMessage) (*asked, error) {
	var p struct {
		Thread    string `json:"conversationId"`
		CallID    string `json:"callId"`
		Reason    string `json:"reason"`
		GrantRoot string `json:"grantRoot"`
		Changes   map[string]struct {
			Type    string `json:"type"`
			Content string `json:"content"`
			Diff    string `json:"unified_diff"`
			MovedTo string `json:"move_path"`
		} `json:"fileChanges"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, unreadable(err)
	}
	if len(p.Changes) == 0 {
		return nil, errors.New("it names no files")
	}
	a := askedOf(wire.Notice{ThreadID: p.Thread, ItemID: p.CallID}, protocol.KindFileChange, methodPatchApproval)
	a.GrantRoot, a.reason = p.GrantRoot, p.Reason
	for _, name := range sorted(p.Changes) {
		one := p.Changes[name]
		c := wire.Change{Path: name, Diff: one.Diff + one.Content} // only one of them is set
		c.Kind.Type, c.Kind.MovePath = one.Type, one.MovedTo
		a.Changes = append(a.Changes, c)
	}
	return a, nil
}

func askedOf(n wire.Notice, kind protocol.RequestKind, method string) *asked {
	return &asked{Kind: kind, Method: method, thread: n.ThreadID, turn: n.TurnID, item: n.ItemID}
}

func unreadable(err error) error { return fmt.Errorf("it cannot be read: %w", err) }

func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func shellWords(words []string) string {
	var all []string
	for _, w := range words {
		if !plainWord.MatchString(w) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		all = append(all, w)
	}
	return strings.Join(all, " ")
}
