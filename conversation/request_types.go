package conversation

import (
	"encoding/json"
)

// RequestKind says what codex asks for, in the words of the command line.
type RequestKind string

const (
	KindCommand     RequestKind = "command"
	KindFileChange  RequestKind = "file_change"
	KindPermissions RequestKind = "permissions"
	KindUserInput   RequestKind = "user_input"
	KindElicitation RequestKind = "elicitation"
)

// Asked is what a policy judges: the whole of a request, nothing redacted and
// nothing cut. It is never stored.
type Asked struct {
	Kind        RequestKind
	Action      string // what is done with a command, where it is not run
	Command     string
	CWD         string
	Changes     []AskedChange
	GrantRoot   string
	NetworkHost string
	Permissions json.RawMessage
	Server      string
	Tool        string
	Arguments   string // of an MCP tool: JSON with sorted keys and no spaces
	Reason      string
	Digest      string
	Turn        int
	Model       string
	Counts      Counts
}

// AskedChange is one file of a file change that a policy judges.
type AskedChange struct {
	Path, Kind, MovedTo string
}

// Counts are the approvals of a session before one.
type Counts struct {
	InTurn    int `json:"in_turn,omitempty"`
	InMinute  int `json:"in_minute,omitempty"` // in the 60 seconds before it, by codex's clock
	InSession int `json:"in_session,omitempty"`
	Accepted  int `json:"accepted,omitempty"`
	Declined  int `json:"declined,omitempty"`
}

// A Verdict is what a policy says of a request. Outcome is Accept or Decline;
// empty means that a person is asked.
type Verdict struct {
	Outcome    Outcome
	ForSession bool
	Rule       string
	Reason     string
	Policy     string // digest of its file
}

// A Request is what codex asks for and waits for. Texts are cut to
// Limits.Excerpt, and Truncated says so; Digest is over the whole.
type Request struct {
	RPC         json.RawMessage `json:"rpc"`
	Incarnation int             `json:"incarnation"`
	Kind        RequestKind     `json:"kind"`
	// Method is codex's name of the request.
	Method  string   `json:"method,omitempty"`
	TurnID  string   `json:"turn_id,omitempty"`
	ItemID  string   `json:"item_id,omitempty"`
	Summary string   `json:"summary"`
	Command string   `json:"command,omitempty"`
	CWD     string   `json:"cwd,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// GrantRoot is the folder below which a yes to a file change allows all.
	GrantRoot string `json:"grant_root,omitempty"`
	// Network is the host that is to be reached, if that is what is asked.
	Network string `json:"network,omitempty"`
	// Permissions are those asked for, in codex's shape (KindPermissions, or
	// beside a command).
	Permissions json.RawMessage `json:"permissions,omitempty"`
	// Questions wait for answers: codex's own, our tool's ask_human, or the
	// fields of an MCP server's form.
	Questions []Question `json:"questions,omitempty"`
	// URL is where an MCP server sends the person (an elicitation by URL).
	URL string `json:"url,omitempty"`
	// Server and Tool say who asks, where it is not codex itself; Args are
	// what an MCP tool would be called with, in JSON.
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Args   string `json:"args,omitempty"`
	// Amendment is the rule that Amend would write, in words.
	Amendment []string `json:"amendment,omitempty"`
	Offered   []string `json:"offered"`
	Truncated bool     `json:"truncated,omitempty"`
	// Ruling says which rule of a policy has people asked; nil without one.
	Ruling *Ruling `json:"ruling,omitempty"`
	// Digest is the SHA-256 (hex) over the canonical JSON of what was asked;
	// the same ask has the same digest on another day.
	Digest string `json:"digest"`
	// Whole is the request with nothing cut. The pump hands it to its Sink;
	// it never travels through a workflow.
	Whole *Request `json:"-"`
}

// A Question is one thing that a person is asked.
type Question struct {
	ID     string `json:"id"`
	Header string `json:"header,omitempty"` // a word or two
	Text   string `json:"text"`
	// Options are what can be chosen. Without any, or with Other, a person
	// answers in their own words.
	Options []Choice `json:"options,omitempty"`
	Other   bool     `json:"other,omitempty"`
	// Many says that several options can be chosen.
	Many bool `json:"many,omitempty"`
	// Secret says that the answer must not be shown or kept.
	Secret bool `json:"secret,omitempty"`
	// Type of a form's field: string, number, integer, boolean; empty means
	// string. Optional ones need no answer.
	Type     string `json:"type,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Default  string `json:"default,omitempty"`
	// Format of a text: email, uri, date, date-time. Least and Most bound a
	// number, the characters of a text, or of Many the options chosen.
	Format string   `json:"format,omitempty"`
	Least  *float64 `json:"least,omitempty"`
	Most   *float64 `json:"most,omitempty"`
}

// A Choice is one option of a question; Label is what is answered.
type Choice struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// A Change is one file of a file change.
type Change struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // add, update, delete
	Diff string `json:"diff,omitempty"`
}
