package conversation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// asked is what a digest is over: everything that would happen if the answer
// is yes, and nothing that differs when the same is asked again.
type asked struct {
	Kind        RequestKind
	Action      string // what is done with the command, where it is not run
	Command     string
	CWD         string
	Changes     []wireChange
	GrantRoot   string
	Network     json.RawMessage
	Permissions json.RawMessage
}

// digest is the SHA-256 of the canonical JSON: sorted keys, no spaces, no
// escapes but JSON's own, members that are empty left out. It is over what
// codex really asked, before secrets are redacted: so the same ask has the same
// digest whatever secrets are known that day.
func (a asked) digest() string {
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
		var v any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if len(raw) > 0 && d.Decode(&v) == nil && v != nil {
			m[name] = v
		}
	}
	setRaw("network", a.Network)
	setRaw("permissions", a.Permissions)
	if a.Kind == KindFileChange {
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

// canonical writes maps with sorted keys, as encoding/json does.
func canonical(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("conversation: canonical JSON of plain values: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
