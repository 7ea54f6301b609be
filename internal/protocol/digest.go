package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
)

// Digested is the part of a request that its digest covers and that no other field has in
// full. Requests of earlier versions have none.
type Digested struct {
	// Action is what to do with the command, if not run it.
	Action string `json:"action,omitempty"`
	// Network, Form and Amendment are in codex's shape. Network and Amendment of a Request
	// are made from them, and a form's Questions are.
	Network   json.RawMessage `json:"network,omitempty"`
	Form      json.RawMessage `json:"form,omitempty"`
	Amendment json.RawMessage `json:"amendment,omitempty"`
	// Moved is where changes move their files, by their index.
	Moved map[int]string `json:"moved,omitempty"`
	// Hidden says that known secrets are hidden in what is shown, so that it does not give
	// the digest.
	Hidden bool `json:"hidden,omitempty"`
}

// A Content is all that the digest of a request covers: all that a yes would do, and nothing
// that differs when codex asks again.
type Content struct {
	Kind      RequestKind
	Action    string // what to do with the command, if not run it
	Command   string
	CWD       string
	Changes   []ContentChange
	GrantRoot string
	Questions []Question
	Server    string
	Tool      string
	Message   string
	URL       string
	// The rest is JSON of codex.
	Network, Permissions, Args, Form, Amendment json.RawMessage
}

// A ContentChange is one file of a file change.
type ContentChange struct{ Path, Kind, Diff, MovedTo string }

// Digest returns the SHA-256 of the canonical JSON: sorted keys, no spaces, no HTML
// escapes, no empty members. It is what people sign, so it never changes.
func (c Content) Digest() string {
	m := map[string]any{"kind": string(c.Kind)}
	set := func(name, value string) {
		if value != "" {
			m[name] = value
		}
	}
	set("action", c.Action)
	set("command", c.Command)
	set("cwd", c.CWD)
	set("grant_root", c.GrantRoot)
	setRaw := func(name string, raw json.RawMessage) {
		if v, err := plainJSON(raw); err == nil && v != nil {
			m[name] = v
		}
	}
	setRaw("network", c.Network)
	setRaw("permissions", c.Permissions)
	set("server", c.Server)
	set("tool", c.Tool)
	setRaw("args", c.Args)
	set("message", c.Message)
	setRaw("form", c.Form)
	set("url", c.URL)
	setRaw("amendment", c.Amendment)
	if len(c.Questions) > 0 {
		setRaw("questions", canonical(c.Questions))
	}
	if c.Kind == KindFileChange {
		changes := make([]any, 0, len(c.Changes))
		for _, c := range c.Changes {
			one := map[string]any{"path": c.Path, "kind": c.Kind, "diff": c.Diff}
			if c.MovedTo != "" {
				one["move_path"] = c.MovedTo
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
		panic("protocol: canonical JSON of plain values: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Moving stands between the old and the new path of a file that a change moves.
const Moving = " -> "

// MovedPath returns the Path of a change that moves a file, or path if moved is empty.
func MovedPath(path, moved string) string {
	if moved == "" {
		return path
	}
	return path + Moving + moved
}

// Content returns what is shown of a request as the digest covers it. ok is false if parts
// of what is shown contradict each other.
//
//workflowcheck:ignore // a pure function
func (r *Request) Content() (c Content, ok bool) {
	c = Content{Kind: r.Kind, Command: r.Command, CWD: r.CWD, GrantRoot: r.GrantRoot, Questions: r.Questions,
		Server: r.Server, Tool: r.Tool, URL: r.URL, Permissions: r.Permissions, Args: json.RawMessage(r.Args)}
	if r.Kind == KindElicitation {
		c.Message = r.Reason
	}
	var d Digested
	if r.Digested != nil {
		d = *r.Digested
	}
	c.Action, c.Network, c.Form, c.Amendment = d.Action, d.Network, d.Form, d.Amendment
	ok = r.Network == NetworkHost(d.Network) && (len(r.Amendment) > 0) == (len(d.Amendment) > 0)
	for i, change := range r.Changes {
		path := change.Path
		if moved := d.Moved[i]; moved != "" {
			before, found := strings.CutSuffix(path, Moving+moved)
			path, ok = before, ok && found
		}
		c.Changes = append(c.Changes, ContentChange{path, change.Kind, change.Diff, d.Moved[i]})
	}
	return c, ok
}

// NetworkHost returns the host of codex's networkApprovalContext.
func NetworkHost(raw json.RawMessage) string {
	var n struct {
		Host string `json:"host"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil {
		return ""
	}
	return n.Host
}

// Errors of CheckDigest.
var (
	// ErrOtherContent means that what is shown is not what would be approved.
	ErrOtherContent = errors.New("what is shown does not give the digest that would be approved")
	// ErrCut means that only a part is shown.
	ErrCut = errors.New("only a part of the request is shown")
	// ErrHidden means that known secrets are hidden in what is shown.
	ErrHidden = errors.New("known secrets are hidden in what is shown")
	// ErrEarlier means that the request is of a version that did not show all that the
	// digest covers.
	ErrEarlier = errors.New("the request comes from an earlier version, which does not show all that the digest covers")
)

// CheckDigest reports whether what is shown of a request gives its digest. Whoever answers
// for a session could show a harmless request with the digest of another one. So every
// program that lets people approve what they saw must check that; programs with ctl's
// dependencies call Verify of conversation, which also makes the summary anew.
//
// ErrOtherContent is final. After the other errors nobody can tell, and a person must name
// the digest.
func (r *Request) CheckDigest() error {
	c, ok := r.Content()
	switch {
	case ok && r.Digest != "" && c.Digest() == r.Digest:
		return nil
	case r.Truncated:
		return ErrCut
	case r.Digested == nil:
		return ErrEarlier
	case r.Digested.Hidden:
		return ErrHidden
	}
	return ErrOtherContent
}

// DigestCheck is a result of CheckDigest in a word.
type DigestCheck string

// Results of CheckDigest.
const (
	DigestGiven   DigestCheck = "given"   // what is shown gives the digest
	DigestOther   DigestCheck = "other"   // what is shown gives another digest
	DigestCut     DigestCheck = "cut"     // only a part is shown
	DigestHidden  DigestCheck = "hidden"  // secrets are hidden in what is shown
	DigestEarlier DigestCheck = "earlier" // an earlier version did not show all of it
)

// WordFor returns the word for an error of CheckDigest.
func WordFor(err error) DigestCheck {
	switch {
	case err == nil:
		return DigestGiven
	case errors.Is(err, ErrCut):
		return DigestCut
	case errors.Is(err, ErrHidden):
		return DigestHidden
	case errors.Is(err, ErrEarlier):
		return DigestEarlier
	}
	return DigestOther
}

// Request returns the request of an approval, as far as it is shown.
func (a *Approval) Request() *Request {
	return &Request{Kind: RequestKind(a.Kind), Summary: a.Summary, Command: a.Command, CWD: a.CWD, Reason: a.Reason, Changes: a.Changes,
		GrantRoot: a.GrantRoot, Network: a.Network, Permissions: a.Permissions, Questions: a.Questions, URL: a.URL, Server: a.Server, Tool: a.Tool,
		Args: a.Args, Amendment: a.Amendment, Offered: a.Offered, Truncated: a.Truncated, Ruling: a.Ruling, Digest: a.Digest, Digested: a.Digested}
}
