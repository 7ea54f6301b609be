package conversation

import (
	"encoding/json"
)

// RequestKind is what codex asks for, as on the command line.
type RequestKind string

const (
	KindCommand     RequestKind = "command"
	KindFileChange  RequestKind = "file_change"
	KindPermissions RequestKind = "permissions"
	KindUserInput   RequestKind = "user_input"
	KindElicitation RequestKind = "elicitation"
)

// Asked is what a policy judges: a full request, not redacted and not cut. It is
// never stored.
type Asked struct {
	Kind        RequestKind
	Action      string // what is done with the command, if it is not to be run
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

// Counts are a session's approvals before a request.
type Counts struct {
	InTurn    int `json:"in_turn,omitempty"`
	InMinute  int `json:"in_minute,omitempty"` // in the 60 seconds before it, by codex's clock
	InSession int `json:"in_session,omitempty"`
	Accepted  int `json:"accepted,omitempty"`
	Declined  int `json:"declined,omitempty"`
}

// A Verdict is a policy's answer to a request. Outcome is Accept or Decline; empty
// means that a person is asked.
type Verdict struct {
	Outcome    Outcome
	ForSession bool
	Rule       string
	Reason     string
	Policy     string // digest of the policy file
}

// A Request is a request of codex that waits for an answer. Texts are cut to
// Limits.Excerpt, and Truncated says so; Digest covers the uncut request.
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
	// GrantRoot is the folder in which a yes to a file change allows all changes.
	GrantRoot string `json:"grant_root,omitempty"`
	// Network is the host to reach, if that is what is asked.
	Network string `json:"network,omitempty"`
	// Permissions are the requested permissions in codex's shape (KindPermissions, or
	// beside a command).
	Permissions json.RawMessage `json:"permissions,omitempty"`
	// Questions are codex's own, those of our tool ask_human, or the fields of an MCP
	// server's form.
	Questions []Question `json:"questions,omitempty"`
	// URL is where an MCP server sends the person (an elicitation by URL).
	URL string `json:"url,omitempty"`
	// Server and Tool say who asks, if it is not codex itself; Args are the arguments
	// of the MCP tool's call, in JSON.
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Args   string `json:"args,omitempty"`
	// Amendment is the rule that Amend would write, in words.
	Amendment []string `json:"amendment,omitempty"`
	Offered   []string `json:"offered"`
	Truncated bool     `json:"truncated,omitempty"`
	// Ruling is the policy's rule that makes people decide; nil without a policy.
	Ruling *Ruling `json:"ruling,omitempty"`
	// Digest is the SHA-256 (hex) of the canonical JSON of what was asked; the same
	// request has the same digest on another day.
	Digest string `json:"digest"`
	// Whole is the uncut request. The pump gives it to its Sink; it never goes through
	// a workflow.
	Whole *Request `json:"-"`
}

// A Question is one question to a person.
type Question struct {
	ID     string `json:"id"`
	Header string `json:"header,omitempty"` // a word or two
	Text   string `json:"text"`
	// Options are the choices. If there are none, or Other is set, a person may answer
	// in their own words.
	Options []Choice `json:"options,omitempty"`
	Other   bool     `json:"other,omitempty"`
	// Many says that several options can be chosen.
	Many bool `json:"many,omitempty"`
	// Secret says that the answer must not be shown or kept.
	Secret bool `json:"secret,omitempty"`
	// Type is the type of a form's field: string, number, integer, boolean; empty means
	// string. Optional says that no answer is needed.
	Type     string `json:"type,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Default  string `json:"default,omitempty"`
	// Format is the format of a text: email, uri, date, date-time. Least and Most bound
	// a number, the characters of a text, or with Many the number of options chosen.
	Format string   `json:"format,omitempty"`
	Least  *float64 `json:"least,omitempty"`
	Most   *float64 `json:"most,omitempty"`
}

// A Choice is one option of a question; Label is the answer.
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
