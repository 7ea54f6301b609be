package conversation

import (
	"bytes"
	"encoding/json"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// asked is a request of codex, in full. The digest covers its exported fields except
// Method: all that a yes would do, and nothing that differs when codex asks again. An asked
// is not redacted and never stored.
type asked struct {
	Kind        protocol.RequestKind
	Action      string // what to do with the command, if not run it
	Command     string
	CWD         string
	Changes     []wire.Change
	GrantRoot   string
	Network     json.RawMessage
	Permissions json.RawMessage
	Questions   []protocol.Question
	Server      string
	Tool        string
	Args        json.RawMessage
	Message     string
	Schema      json.RawMessage
	URL         string
	// Amendment is the decision, in codex's shape, that would change rules for the whole
	// codex home, if it may be offered.
	Amendment json.RawMessage

	Method             string
	thread, turn, item string
	reason             string
	ofTool             bool // asks whether an MCP tool may be called
	startedMS          int64
}

// keeps reports whether an answer needs the request's line.
func (a *asked) keeps() bool {
	if a.Kind == protocol.KindDeliverable || a.Kind == protocol.KindChild {
		return false
	}
	switch a.Method {
	case methodCommandApproval, methodFileApproval, methodExecApproval, methodPatchApproval:
		return len(a.Amendment) > 0
	}
	return true
}

// digest is computed before redaction, so it does not depend on the known secrets.
func (a *asked) digest() string {
	c := protocol.Content{Kind: a.Kind, Action: a.Action, Command: a.Command, CWD: a.CWD, GrantRoot: a.GrantRoot, Questions: a.Questions,
		Server: a.Server, Tool: a.Tool, Message: a.Message, URL: a.URL,
		Network: a.Network, Permissions: a.Permissions, Args: a.Args, Form: a.Schema, Amendment: a.Amendment}
	for _, one := range a.Changes {
		c.Changes = append(c.Changes, protocol.ContentChange{Path: one.Path, Kind: one.Kind.Type, Diff: one.Diff, MovedTo: one.Kind.MovePath})
	}
	return c.Digest()
}

// plainJSON keeps numbers as they are written.
func plainJSON(raw json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// canonical encodes v with sorted keys, as encoding/json does.
func canonical(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("conversation: canonical JSON of plain values: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
