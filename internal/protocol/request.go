package protocol

import (
	"encoding/json"
)

// RequestKind is the kind of a request, in the word that the command line shows.
type RequestKind string

const (
	KindCommand     RequestKind = "command"
	KindFileChange  RequestKind = "file_change"
	KindPermissions RequestKind = "permissions"
	KindUserInput   RequestKind = "user_input"
	KindElicitation RequestKind = "elicitation"
)

// A Request is a request of codex that waits for an answer. Texts are cut to
// Limits.Excerpt. If one was cut, Truncated is set. Digest covers the uncut request.
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
	// GrantRoot is a folder: accepting the file change allows all changes in it.
	GrantRoot string `json:"grant_root,omitempty"`
	// Network is the host to reach, if the request asks for network access.
	Network string `json:"network,omitempty"`
	// Permissions are the requested permissions in codex's shape. A request of
	// KindPermissions has them, and a request to run a command may have them too.
	Permissions json.RawMessage `json:"permissions,omitempty"`
	// Questions are the questions of codex, the question of our tool ask_human, or the
	// fields of an MCP server's form.
	Questions []Question `json:"questions,omitempty"`
	// URL is the page to which an MCP server sends the person (an elicitation by URL).
	URL string `json:"url,omitempty"`
	// Server and Tool name the MCP server and the tool that ask, if codex itself does not.
	// Args are the arguments of the MCP tool's call, in JSON.
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Args   string `json:"args,omitempty"`
	// Amendment is the rule that Amend would write, in words.
	Amendment []string `json:"amendment,omitempty"`
	Offered   []string `json:"offered"`
	Truncated bool     `json:"truncated,omitempty"`
	// Ruling is the policy's rule that makes people decide; nil without a policy.
	Ruling *Ruling `json:"ruling,omitempty"`
	// Digest is the SHA-256 (hex) of the canonical JSON of the request. If codex asks the
	// same on another day, the digest is the same.
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

// A Ruling is the verdict of a policy on a request. Requests that people are asked have
// one, and also requests that the policy answered.
type Ruling struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason,omitempty"`
	Policy string `json:"policy"` // digest of the policy file
}

// Outcome of a decision, in Fairlead's terms.
type Outcome string

const (
	Accept  Outcome = "accept"
	Decline Outcome = "decline"
	Cancel  Outcome = "cancel"
	Answer  Outcome = "answer" // with Answers
	Grant   Outcome = "grant"  // with Grant
	Amend   Outcome = "amend"  // accept, and allow everything with the same beginning in this codex home for ever
)

// DeliveryState is the state of a Send.
type DeliveryState string

const (
	Decided      DeliveryState = "decided"      // not written to codex, for certain
	Sent         DeliveryState = "sent"         // written; it is not known whether codex has it
	Acknowledged DeliveryState = "acknowledged" // codex answered, resolved or echoed it
	Rejected     DeliveryState = "rejected"     // codex refused it; Error says why
	Void         DeliveryState = "void"         // the turn or request that it refers to is gone
)

// A Delivery is the state of a Send when a pump returned.
type Delivery struct {
	ID    string        `json:"id"`
	State DeliveryState `json:"state"`
	Error string        `json:"error,omitempty"`
}

// A Judged is a request that a policy answered, shortened for lists. The transcript
// has the full request.
type Judged struct {
	N          int         `json:"n"` // from 1 within the session
	Turn       int         `json:"turn"`
	Kind       RequestKind `json:"kind"`
	Summary    string      `json:"summary"`
	Digest     string      `json:"digest"`
	Outcome    Outcome     `json:"outcome"`
	ForSession bool        `json:"for_session,omitempty"`
	AtMS       int64       `json:"at_ms"`
	Ruling
}
