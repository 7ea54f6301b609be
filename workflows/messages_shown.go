package workflows

import (
	"encoding/json"
	"time"

	"fairlead.dev/fairlead/activities"
)

// SessionStatus is the state of a session in one word.
type SessionStatus string

// The states of a session.
const (
	Queued      SessionStatus = "queued"
	Preparing   SessionStatus = "preparing"
	Starting    SessionStatus = "starting"
	Idle        SessionStatus = "idle"
	Running     SessionStatus = "running"
	Waiting     SessionStatus = "waiting"
	Parked      SessionStatus = "parked"
	Resuming    SessionStatus = "resuming"
	Interrupted SessionStatus = "interrupted"
	Closing     SessionStatus = "closing"
	Closed      SessionStatus = "closed"
	Failed      SessionStatus = "failed"
)

// SessionView is the Session JSON of the command line.
type SessionView struct {
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"` // what people call it
	Archived  bool              `json:"archived,omitempty"`
	State     SessionStatus     `json:"state"`
	Host      string            `json:"host"`
	Seed      string            `json:"seed"`
	ThreadID  string            `json:"thread_id"`
	Turn      *TurnBrief        `json:"turn"`
	Requests  []RequestBrief    `json:"requests"`
	Attempt   int               `json:"attempt"`
	Process   *ProcessView      `json:"process"`
	Usage     UsageView         `json:"usage"`
	Error     *Failure          `json:"error"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	Waits     string            `json:"waits,omitempty"` // what it waits for, in words
	Queue     int               `json:"queue,omitempty"` // messages not begun
	Queued    []QueuedView      `json:"queued,omitempty"`
	Refusals  []Refusal         `json:"refusals,omitempty"`
	Close     *CloseView        `json:"close,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	// Unprotected says why the agent can read its credential, where it can
	// although the sandbox should keep it from that.
	Unprotected string      `json:"unprotected,omitempty"`
	Budget      *BudgetView `json:"budget,omitempty"`
	// Files came with messages, but for images, which the conversation holds.
	Files []activities.Input `json:"files,omitempty"`
	// RateLimits are those of the account, as codex told them last.
	RateLimits *RateLimitsView `json:"rate_limits,omitempty"`
	Messages   []MessageView   `json:"messages"` // the newest ones, oldest first

	Snapshot *SnapshotView `json:"snapshot,omitempty"`
	Warm     *WarmView     `json:"warm,omitempty"` // while it is parked
	Lost     *LostView     `json:"lost,omitempty"`

	Policy     *PolicyView `json:"policy,omitempty"` // the session's own
	SeedPolicy *PolicyView `json:"seed_policy,omitempty"`
	// Judged is how many requests policies answered.
	Judged int `json:"judged,omitempty"`
	// Progress is what the model reported last with report_progress.
	Progress *ProgressView `json:"progress,omitempty"`
	Limit    *LimitView    `json:"limit,omitempty"` // whose end it waits for
	// Origin is what started it: "batch/ID" or "schedule/NAME"; empty for a person.
	Origin string `json:"origin,omitempty"`
}

// BudgetView is what a session may use, and has used as of the newest pump.
type BudgetView struct {
	Tokens      BudgetCount `json:"tokens"`
	Turns       BudgetCount `json:"turns"`
	Time        BudgetTime  `json:"time"` // of its turns together
	Approvals   BudgetCount `json:"approvals"`
	Commands    BudgetCount `json:"commands"`
	TurnTimeout string      `json:"turn_timeout"`
	// Warnings say of which bounds four fifths are used.
	Warnings []string `json:"warnings,omitempty"`
}

// BudgetCount is one bound; a limit of 0 is none.
type BudgetCount struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// BudgetTime is a bound of time.
type BudgetTime struct {
	Used  string `json:"used"`
	Limit string `json:"limit,omitempty"` // empty is none
}

// MessageView is how far something that somebody said to a session has come.
type MessageView struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // message, steer, decision, interrupt, budget
	Turn int    `json:"turn"`
	// State is queued, decided (not known to have been written to codex), sent
	// (it was, or may have been), acknowledged, rejected or void. While a pump
	// is attached it is as of that pump's beginning.
	State string    `json:"state"`
	At    time.Time `json:"at"`
}

// TurnBrief is the newest turn.
type TurnBrief struct {
	N         int       `json:"n"`
	ID        string    `json:"id"`
	Status    string    `json:"status"`
	StartedAt time.Time `json:"started_at,omitzero"`
}

// RequestBrief is an open request.
type RequestBrief struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Summary   string    `json:"summary"`
	AskedAt   time.Time `json:"asked_at"`
	ExpiresAt time.Time `json:"expires_at"`

	Earlier *EarlierDecision `json:"earlier,omitempty"`
}

// ProcessView is the session's codex process.
type ProcessView struct {
	Name        string `json:"name"`
	Incarnation int    `json:"incarnation"`
	Alive       bool   `json:"alive"`
	// End says how it ended, once that is known.
	End    string `json:"end,omitempty"`
	Offset int64  `json:"offset"`
}

// UsageView adds up over the session.
type UsageView struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Cached int64 `json:"cached_tokens"`
	Turns  int   `json:"turns"`
	// Context is how full the model's context window is, of a session.
	Context *ContextView `json:"context,omitempty"`
}

// Failure is an error as people see it.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// ResetAt is when a limit ends, where that is known.
	ResetAt time.Time `json:"reset_at,omitzero"`
}

// Refusal records a signal that was not accepted.
type Refusal struct {
	At     time.Time `json:"at"`
	Name   string    `json:"name"`
	Reason string    `json:"reason"`
}

// CloseView says what closing left.
type CloseView struct {
	Wiped   bool   `json:"wiped"`
	Removed bool   `json:"removed"`
	Archive string `json:"archive,omitempty"`
	Unsaved bool   `json:"unsaved,omitempty"` // a login that codex rotated was given up
	Kept    string `json:"kept,omitempty"`    // where on its host the work folder stays
}

// TurnQuery asks for a turn by number or by the message that began it.
type TurnQuery struct {
	N         int    `json:"n,omitempty"`
	MessageID string `json:"message_id,omitempty"`
}

// TurnView is the Turn JSON of the command line. Status is inProgress or
// queued before it is one of the final words.
type TurnView struct {
	Session        string    `json:"session"`
	TurnID         string    `json:"turn_id"`
	N              int       `json:"n"`
	MessageID      string    `json:"message_id"`
	Act            string    `json:"act,omitempty"` // compact or review, where no text began it
	Status         string    `json:"status"`        // queued, inProgress, completed, interrupted, failed, unknown
	FinalText      string    `json:"final_text"`
	FinalTruncated bool      `json:"final_truncated,omitempty"` // the whole is in the transcript
	Items          int       `json:"items"`
	Usage          UsageView `json:"usage"`
	DiffStat       string    `json:"diff_stat"`
	turnOutput
	StartedAt  time.Time `json:"started_at,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	Error      *Failure  `json:"error"`
	FollowedBy int       `json:"followed_by,omitempty"` // the turn that goes on with what this one was cut off from
	// EndedBy is who or what ended a turn before its end: person, budget, close,
	// watchdog, process, host, or codex itself.
	EndedBy string `json:"ended_by,omitempty"`
}

// Done says whether the turn has ended.
func (t TurnView) Done() bool { return t.Status != "queued" && t.Status != "inProgress" }

// ApprovalState is the state of an approval.
type ApprovalState string

// The states of an approval.
const (
	ApprovalOpen         ApprovalState = "open"
	ApprovalDecided      ApprovalState = "decided"
	ApprovalSent         ApprovalState = "sent"
	ApprovalAcknowledged ApprovalState = "acknowledged"
	ApprovalExpired      ApprovalState = "expired"
	ApprovalVoid         ApprovalState = "void"
)

// Approval is the Approval JSON of the command line.
type Approval struct {
	ID      string              `json:"id"`
	Session string              `json:"session"`
	Turn    int                 `json:"turn"`
	Kind    string              `json:"kind"`
	Summary string              `json:"summary"`
	Command string              `json:"command"`
	CWD     string              `json:"cwd"`
	Reason  string              `json:"reason"`
	Changes []activities.Change `json:"changes"`
	Network string              `json:"network,omitempty"` // host to be reached
	// GrantRoot is the folder below which a yes to a file change allows all.
	GrantRoot string `json:"grant_root,omitempty"`

	Permissions json.RawMessage       `json:"permissions,omitempty"`
	Questions   []activities.Question `json:"questions"`
	URL         string                `json:"url,omitempty"`
	Server      string                `json:"server,omitempty"`
	Tool        string                `json:"tool,omitempty"`
	Args        string                `json:"args,omitempty"` // of an MCP tool that is to be called
	Amendment   []string              `json:"amendment,omitempty"`

	Digest    string        `json:"digest"`
	Offered   []string      `json:"offered"`
	Truncated bool          `json:"truncated,omitempty"` // texts are excerpts; `approval show` has the whole
	AskedAt   time.Time     `json:"asked_at"`
	ExpiresAt time.Time     `json:"expires_at"`
	State     ApprovalState `json:"state"`
	Decision  *Decision     `json:"decision"`

	Delivery   string           `json:"delivery,omitempty"`    // how far the decision came: decided, sent, acknowledged, rejected, void
	VoidReason string           `json:"void_reason,omitempty"` // why nobody can decide it any more
	Earlier    *EarlierDecision `json:"earlier,omitempty"`

	// Ruling says which rule of a policy has people asked, or decided.
	Ruling *activities.Ruling `json:"ruling,omitempty"`
	// Signed says that only signed decisions of the Approvers count. Agreed are
	// theirs so far, and Missing how many more must say the same.
	Signed    bool        `json:"signed,omitempty"`
	Approvers []string    `json:"approvers,omitempty"`
	Agreed    []Agreement `json:"agreed,omitempty"`
	Missing   int         `json:"missing,omitempty"`
}

// EarlierDecision is a decision on the same ask (by its digest) that a process
// of codex took with it when it died.
type EarlierDecision struct {
	Approval string    `json:"approval"`
	Outcome  string    `json:"outcome"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	// State is how far it came: decided (it certainly never reached codex),
	// sent or acknowledged (it may have had its effect).
	State ApprovalState `json:"state"`
	// Answers and Grant are what was said then, where that is short; nothing
	// that was secret.
	Answers map[string][]string `json:"answers,omitempty"`
	Grant   json.RawMessage     `json:"grant,omitempty"`
}

// Decision is what was decided, by whom, when and why.
type Decision struct {
	Outcome string    `json:"outcome"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Scope   string    `json:"scope"`
	// Answers are by the ids of the questions. Those of Secret were given as
	// well, and are shown to nobody; AnswersBlob is where they were until codex
	// had them.
	Answers     map[string][]string `json:"answers,omitempty"`
	Secret      []string            `json:"secret,omitempty"`
	AnswersBlob string              `json:"answers_blob,omitempty"`
	// Grant is the part of the permissions that was given.
	Grant  json.RawMessage `json:"grant,omitempty"`
	Signed bool            `json:"signed,omitempty"` // By is who signed, and no claim
}

// SessionDetail is for programs of ours: where the session's bytes are.
type SessionDetail struct {
	View      SessionView          `json:"view"`
	Layout    activities.Layout    `json:"layout"`
	Host      *activities.HostSpec `json:"host"`
	Approvals []Approval           `json:"approvals"`
	Turns     []TurnView           `json:"turns"`
	Seq       int64                `json:"seq"`
}
