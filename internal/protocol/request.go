package protocol

import (
	"encoding/json"
)

// RequestKind is the kind of a request.
type RequestKind string

const (
	KindCommand     RequestKind = "command"
	KindFileChange  RequestKind = "file_change"
	KindPermissions RequestKind = "permissions"
	KindUserInput   RequestKind = "user_input"
	KindElicitation RequestKind = "elicitation"
	// KindDeliverable asks for a verdict on a file that was delivered. Args is a
	// DeliveredFile.
	KindDeliverable RequestKind = "deliverable"
	// KindChild is a call of one of ChildTools, with its Args. The session answers it itself.
	KindChild RequestKind = "child"
	// KindBudget asks whether a turn that a budget has ended may go on. Args is a BudgetAsked. The
	// session asks it itself; codex does not know of it.
	KindBudget RequestKind = "budget"
)

// A Request is a request of codex that waits for an answer. Texts are cut to
// Limits.Excerpt; Truncated says that one was. Digest covers the uncut request.
type Request struct {
	RPC         json.RawMessage `json:"rpc"`
	Incarnation int             `json:"incarnation"`
	Kind        RequestKind     `json:"kind"`
	// Method is codex's name of the request.
	Method  string   `json:"method,omitempty"`
	TurnID  string   `json:"turn_id,omitempty"`
	ItemID  string   `json:"item_id,omitempty"`
	Agent   string   `json:"agent,omitempty"` // the sub-agent's name, if one asks
	Summary string   `json:"summary"`
	Command string   `json:"command,omitempty"`
	CWD     string   `json:"cwd,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// GrantRoot is a folder: accepting allows all changes in it.
	GrantRoot string `json:"grant_root,omitempty"`
	// Network is the host to reach.
	Network string `json:"network,omitempty"`
	// Permissions are in codex's shape. Requests of KindPermissions have them, and those of
	// KindCommand may.
	Permissions json.RawMessage `json:"permissions,omitempty"`
	// Questions are those of codex or ask_human, or the fields of an MCP server's form.
	Questions []Question `json:"questions,omitempty"`
	// URL is the page to which an MCP server sends the person.
	URL string `json:"url,omitempty"`
	// Server and Tool are set if an MCP server asks. Args are the call's arguments, in
	// JSON.
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Args   string `json:"args,omitempty"`
	// Call is the Call of a request's Deliverable.
	Call string `json:"call,omitempty"`
	// Amendment is the rule that Amend would write, in words.
	Amendment []string `json:"amendment,omitempty"`
	Offered   []string `json:"offered"`
	Truncated bool     `json:"truncated,omitempty"`
	// Ruling is the policy's rule that makes people decide; nil without a policy.
	Ruling *Ruling `json:"ruling,omitempty"`
	// Digest is the SHA-256 (hex) of the request's canonical JSON, the same whenever codex
	// asks the same.
	Digest string `json:"digest"`
	// Digested is the rest of what Digest covers; nil in requests of earlier versions.
	Digested *Digested `json:"digested,omitempty"`
	// Whole is the uncut request, for the pump's Sink. It never goes through a workflow.
	Whole *Request `json:"-"`
}

// A Question is one question to a person.
type Question struct {
	ID     string `json:"id"`
	Header string `json:"header,omitempty"`
	Text   string `json:"text"`
	// Without Options, or with Other, a person may answer in their own words.
	Options []Choice `json:"options,omitempty"`
	Other   bool     `json:"other,omitempty"`
	Many    bool     `json:"many,omitempty"`
	// Secret says that the answer must not be shown or kept.
	Secret bool `json:"secret,omitempty"`
	// Type is that of a form's field: string (default), number, integer, boolean. Optional
	// needs no answer.
	Type     string `json:"type,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Default  string `json:"default,omitempty"`
	// Format is email, uri, date or date-time. Least and Most bound a number, a text's
	// characters, or with Many the chosen options.
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

// A Ruling is a policy's verdict, also one that left the request to people.
type Ruling struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason,omitempty"`
	Policy string `json:"policy"` // digest of the policy file
	// Risk is empty or RiskHigh: then only a person who proves at that moment who they are
	// accepts the request.
	Risk string `json:"risk,omitempty"`
}

// RiskHigh is the mark of a policy on a request.
const RiskHigh = "high"

// Outcome is that of a decision.
type Outcome string

const (
	Accept  Outcome = "accept"
	Decline Outcome = "decline"
	Cancel  Outcome = "cancel"
	Answer  Outcome = "answer"
	Grant   Outcome = "grant"
	Revise  Outcome = "revise" // not accepted; Answers has what is to be changed
	Amend   Outcome = "amend"  // accept, and allow everything with the same beginning in this codex home forever
)

// DeliveryState is the state of a Send.
type DeliveryState string

const (
	Decided      DeliveryState = "decided"      // certainly not written to codex
	Sent         DeliveryState = "sent"         // written, or possibly written; it is not known whether codex has it
	Acknowledged DeliveryState = "acknowledged" // codex answered, resolved or echoed it
	Rejected     DeliveryState = "rejected"     // by codex; Error says why
	Void         DeliveryState = "void"         // its turn or request is gone
)

// A Delivery is the state of a Send when a pump returned.
type Delivery struct {
	ID    string        `json:"id"`
	State DeliveryState `json:"state"`
	Error string        `json:"error,omitempty"`
}

// A Judged is a short form of a request that a policy answered. The transcript has all of
// it.
type Judged struct {
	N          int         `json:"n"` // from 1
	Turn       int         `json:"turn"`
	Kind       RequestKind `json:"kind"`
	Summary    string      `json:"summary"`
	Digest     string      `json:"digest"`
	Outcome    Outcome     `json:"outcome"`
	ForSession bool        `json:"for_session,omitempty"`
	AtMS       int64       `json:"at_ms"`
	Ruling
}
