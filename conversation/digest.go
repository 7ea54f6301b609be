package conversation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	shown              string // the command as the model wrote it
	ofTool             bool   // asks whether an MCP tool may be called
	startedMS          int64
}

// keeps reports whether an answer needs the request's line.
func (a *asked) keeps() bool {
	switch a.Method {
	case methodCommandApproval, methodFileApproval, methodExecApproval, methodPatchApproval:
		return len(a.Amendment) > 0
	}
	return true
}

// digest returns the SHA-256 of the canonical JSON: sorted keys, no spaces, no HTML
// escapes, no empty members. It is computed before redaction, so it does not depend on the
// known secrets.
func (a *asked) digest() string {
	m := map[string]any{"kind": string(a.Kind)}
	set := func(name, value string) {
		if value != "" {
			m[name] = value
		}
	}
	set("action", a.Action)
	set("command", a.Command)
	set("cwd", a.CWD)
	set("grant_root", a.GrantRoot)
	setRaw := func(name string, raw json.RawMessage) {
		if v, err := plainJSON(raw); err == nil && v != nil {
			m[name] = v
		}
	}
	setRaw("network", a.Network)
	setRaw("permissions", a.Permissions)
	set("server", a.Server)
	set("tool", a.Tool)
	setRaw("args", a.Args)
	set("message", a.Message)
	setRaw("form", a.Schema)
	set("url", a.URL)
	setRaw("amendment", a.Amendment)
	if len(a.Questions) > 0 {
		setRaw("questions", canonical(a.Questions))
	}
	if a.Kind == protocol.KindFileChange {
		changes := make([]any, 0, len(a.Changes))
		for _, c := range a.Changes {
			one := map[string]any{"path": c.Path, "kind": c.Kind.Type, "diff": c.Diff}
			if c.Kind.MovePath != "" {
				one["move_path"] = c.Kind.MovePath
			}
			changes = append(changes, one)
		}
		m["changes"] = changes
	}
	sum := sha256.Sum256(canonical(m))
	return hex.EncodeToString(sum[:])
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
