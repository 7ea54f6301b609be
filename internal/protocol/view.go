package protocol

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
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
	Name      string            `json:"name,omitempty"` // the name that people gave it
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
	Waits     string            `json:"waits,omitempty"` // what it waits for
	Queue     int               `json:"queue,omitempty"` // number of messages not begun
	Queued    []QueuedView      `json:"queued,omitempty"`
	Refusals  []Refusal         `json:"refusals,omitempty"`
	Close     *CloseView        `json:"close,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	// If the sandbox fails to keep the agent from reading its credential, Unprotected says
	// why.
	Unprotected string      `json:"unprotected,omitempty"`
	Budget      *BudgetView `json:"budget,omitempty"`
	// Files are the files that came with messages. Images are not among them, because the
	// conversation has them.
	Files []Input `json:"files,omitempty"`
	// RateLimits are the limits of the account, as codex last reported them.
	RateLimits *RateLimitsView `json:"rate_limits,omitempty"`
	Messages   []MessageView   `json:"messages"` // the newest, oldest first

	Snapshot *SnapshotView `json:"snapshot,omitempty"`
	Warm     *WarmView     `json:"warm,omitempty"` // while it is parked
	Lost     *LostView     `json:"lost,omitempty"`

	Policy     *PolicyView `json:"policy,omitempty"` // the session's own
	SeedPolicy *PolicyView `json:"seed_policy,omitempty"`
	// Judged is the number of requests that policies answered.
	Judged int `json:"judged,omitempty"`
	// Progress is the model's last report_progress.
	Progress *ProgressView `json:"progress,omitempty"`
	Limit    *LimitView    `json:"limit,omitempty"` // the limit whose end the session waits for
	// WaitingFor is a failure that the session waits out before it tries again.
	WaitingFor *WaitingView `json:"waiting_for,omitempty"`
	// Origin names what started the session: "batch/ID" or "schedule/NAME". It is empty if
	// a person did.
	Origin string `json:"origin,omitempty"`
}

// Words returns the bounds in the form of a budget on the command line.
func (b BudgetView) Words() string {
	var out []string
	for _, c := range []struct {
		name  string
		limit int64
	}{{"tokens", b.Tokens.Limit}, {"turns", b.Turns.Limit}, {"approvals", b.Approvals.Limit}, {"commands", b.Commands.Limit}} {
		if c.limit > 0 {
			out = append(out, fmt.Sprintf("%s=%d", c.name, c.limit))
		}
	}
	if b.Time.Limit != "" {
		out = append(out, "time="+b.Time.Limit)
	}
	if b.TurnTimeout != "" {
		out = append(out, "turn="+b.TurnTimeout)
	}
	return strings.Join(out, ",")
}

// BudgetView shows a session's bounds, and what it has used as of the newest pump.
type BudgetView struct {
	Tokens      BudgetCount    `json:"tokens"`
	Turns       BudgetCount    `json:"turns"`
	Time        BudgetTimeView `json:"time"` // of all turns together
	Approvals   BudgetCount    `json:"approvals"`
	Commands    BudgetCount    `json:"commands"`
	TurnTimeout string         `json:"turn_timeout"`
	// Warnings name the bounds of which four fifths are used.
	Warnings []string `json:"warnings,omitempty"`
}

// BudgetCount is one bound. A limit of 0 means none.
type BudgetCount struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// BudgetTimeView is a bound on time.
type BudgetTimeView struct {
	Used  string `json:"used"`
	Limit string `json:"limit,omitempty"` // empty means none
}

// MessageView shows how far a message to a session has come.
type MessageView struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // message, steer, decision, interrupt, budget
	Turn int    `json:"turn"`
	// State is queued, decided (not known to have been written to codex), sent (written, or
	// possibly written), acknowledged, rejected or void. While a pump is attached, it is the
	// state at that pump's beginning.
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
	// End says how it ended, if known.
	End    string `json:"end,omitempty"`
	Offset int64  `json:"offset"`
}

// UsageView shows counts of tokens. In a SessionView it is the sum over the session.
type UsageView struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Cached int64 `json:"cached_tokens"`
	Turns  int   `json:"turns"`
	// Context says how full a session's context window is.
	Context *ContextView `json:"context,omitempty"`
}

// Refusal records a signal that was not accepted.
type Refusal struct {
	At     time.Time `json:"at"`
	Name   string    `json:"name"`
	Reason string    `json:"reason"`
}

// CloseView shows the result of closing.
type CloseView struct {
	Wiped   bool   `json:"wiped"`
	Removed bool   `json:"removed"`
	Archive string `json:"archive,omitempty"`
	Unsaved bool   `json:"unsaved,omitempty"` // a rotated login was given up
	Kept    string `json:"kept,omitempty"`    // the work folder that stays on the host
}

// TurnQuery asks for a turn by number or by the message that began it.
type TurnQuery struct {
	N         int    `json:"n,omitempty"`
	MessageID string `json:"message_id,omitempty"`
}

// TurnView is the Turn JSON of the command line.
type TurnView struct {
	Session   string `json:"session"`
	TurnID    string `json:"turn_id"`
	N         int    `json:"n"`
	MessageID string `json:"message_id"`
	Act       string `json:"act,omitempty"` // compact or review, if the turn is one of these
	// BegunBy is "codex" if codex began the turn by itself; else empty.
	BegunBy        string    `json:"begun_by,omitempty"`
	Status         string    `json:"status"` // queued, inProgress, completed, interrupted, failed, unknown
	FinalText      string    `json:"final_text"`
	FinalTruncated bool      `json:"final_truncated,omitempty"` // the full text is in the transcript
	Items          int       `json:"items"`
	Usage          UsageView `json:"usage"`
	DiffStat       string    `json:"diff_stat"`
	TurnOutput
	StartedAt  time.Time `json:"started_at,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	Error      *Failure  `json:"error"`
	FollowedBy int       `json:"followed_by,omitempty"` // the turn that continues this one
	// EndedBy names what ended a turn early: person, budget, close, watchdog, process, host
	// or codex.
	EndedBy string `json:"ended_by,omitempty"`
}

// Done reports whether the turn has ended.
func (t TurnView) Done() bool { return t.Status != "queued" && t.Status != "inProgress" }

// TurnOutput is the part of a turn's JSON that is about its output.
type TurnOutput struct {
	// Output is the JSON with which the turn ended. OutputError says why there is none.
	Output      json.RawMessage `json:"output,omitempty"`
	OutputError string          `json:"output_error,omitempty"`
	// Structured says that the turn has an output schema. FinalAt is the offset in
	// FinalText at which the turn's last message begins.
	Structured bool `json:"structured,omitempty"`
	FinalAt    int  `json:"final_at,omitempty"`
}

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
	ID      string   `json:"id"`
	Session string   `json:"session"`
	Turn    int      `json:"turn"`
	Kind    string   `json:"kind"`
	Summary string   `json:"summary"`
	Command string   `json:"command"`
	CWD     string   `json:"cwd"`
	Reason  string   `json:"reason"`
	Changes []Change `json:"changes"`
	Network string   `json:"network,omitempty"` // the host to reach
	// GrantRoot is a folder: accepting the file change allows all changes below it.
	GrantRoot string `json:"grant_root,omitempty"`

	Permissions json.RawMessage `json:"permissions,omitempty"`
	Questions   []Question      `json:"questions"`
	URL         string          `json:"url,omitempty"`
	Server      string          `json:"server,omitempty"`
	Tool        string          `json:"tool,omitempty"`
	Args        string          `json:"args,omitempty"` // of an MCP tool call
	Amendment   []string        `json:"amendment,omitempty"`

	Digest    string        `json:"digest"`
	Offered   []string      `json:"offered"`
	Truncated bool          `json:"truncated,omitempty"` // texts are excerpts; `approval show` has them in full
	AskedAt   time.Time     `json:"asked_at"`
	ExpiresAt time.Time     `json:"expires_at"`
	State     ApprovalState `json:"state"`
	Decision  *Decision     `json:"decision"`

	Delivery   string           `json:"delivery,omitempty"`    // state of the decision's delivery: decided, sent, acknowledged, rejected, void
	VoidReason string           `json:"void_reason,omitempty"` // why the approval can no longer be decided
	Earlier    *EarlierDecision `json:"earlier,omitempty"`

	// Ruling is the policy rule that decided the request or left it to people.
	Ruling *Ruling `json:"ruling,omitempty"`
	// Signed says that only signed decisions of the Approvers count. Agreed lists the signed
	// decisions so far, and Missing is the number of people who have yet to agree.
	Signed    bool        `json:"signed,omitempty"`
	Approvers []string    `json:"approvers,omitempty"`
	Agreed    []Agreement `json:"agreed,omitempty"`
	Missing   int         `json:"missing,omitempty"`
}

// EarlierDecision is a decision on the same request (by digest) that was lost with a codex
// process.
type EarlierDecision struct {
	Approval string    `json:"approval"`
	Outcome  string    `json:"outcome"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	// State is decided (it certainly never reached codex), or sent or acknowledged (it may have
	// had its effect).
	State ApprovalState `json:"state"`
	// Answers and Grant are the answers and the grant of that decision, if they are short
	// and not secret.
	Answers map[string][]string `json:"answers,omitempty"`
	Grant   json.RawMessage     `json:"grant,omitempty"`
}

// Decision is the decision on an approval, with its author, its time and the reason.
type Decision struct {
	Outcome string    `json:"outcome"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Scope   string    `json:"scope"`
	// Answers are by question id. Secret lists the questions whose answers were given but
	// are never shown. AnswersBlob is the key under which the store had those answers until
	// codex got them.
	Answers     map[string][]string `json:"answers,omitempty"`
	Secret      []string            `json:"secret,omitempty"`
	AnswersBlob string              `json:"answers_blob,omitempty"`
	// Grant is the part of the permissions that was granted.
	Grant  json.RawMessage `json:"grant,omitempty"`
	Signed bool            `json:"signed,omitempty"` // By is the signer, not a mere claim
}

// An Agreement is one person's signed decision on an approval that needs several people.
type Agreement struct {
	By      string    `json:"by"`
	Outcome string    `json:"outcome"`
	Scope   string    `json:"scope"`
	Payload string    `json:"payload,omitempty"` // digest of the answers or the grant
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
	// As is the signer's name in each policy that knows them, by owner: session,
	// seed.
	As map[string]string `json:"as,omitempty"`
}

// SessionDetail is for our own programs: it says where the session's data is.
type SessionDetail struct {
	View      SessionView `json:"view"`
	Layout    Layout      `json:"layout"`
	Host      *HostSpec   `json:"host"`
	Approvals []Approval  `json:"approvals"`
	Turns     []TurnView  `json:"turns"`
	Seq       int64       `json:"seq"`
}

// ContextView shows how full the model's context window is, in tokens.
type ContextView struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window"`
}

// RateLimitsView shows an account's rate limits. Values that codex did not report are left out.
type RateLimitsView struct {
	Primary   *RateWindowView `json:"primary,omitempty"`
	Secondary *RateWindowView `json:"secondary,omitempty"`
	Plan      string          `json:"plan,omitempty"`
	Reached   string          `json:"reached,omitempty"`
	At        time.Time       `json:"at"`
}

// RateWindowView shows how much of a rate-limit window is used.
type RateWindowView struct {
	UsedPercent   int       `json:"used_percent"`
	WindowMinutes int64     `json:"window_minutes,omitempty"`
	ResetsAt      time.Time `json:"resets_at,omitzero"`
}

// ViewContext returns nil if c is nil.
func ViewContext(c *ContextUse) *ContextView {
	if c == nil {
		return nil
	}
	return &ContextView{Used: c.Used, Window: c.Window}
}

// ViewRateLimits returns nil if l is nil.
func ViewRateLimits(l *RateLimits) *RateLimitsView {
	if l == nil {
		return nil
	}
	return &RateLimitsView{
		Primary: viewWindow(l.Primary), Secondary: viewWindow(l.Secondary),
		Plan: l.Plan, Reached: l.Reached, At: time.UnixMilli(l.AtMS).UTC(),
	}
}

func viewWindow(w *RateWindow) *RateWindowView {
	if w == nil {
		return nil
	}
	v := &RateWindowView{UsedPercent: w.UsedPercent, WindowMinutes: w.WindowMinutes}
	if w.ResetsAt > 0 {
		v.ResetsAt = time.Unix(w.ResetsAt, 0).UTC()
	}
	return v
}

// QueuedView is a message whose turn has not begun.
type QueuedView struct {
	ID   string `json:"id"`
	N    int    `json:"n"`             // number of the turn that the message will begin
	Act  string `json:"act,omitempty"` // compact or review, if the turn is one of these
	Text string `json:"text"`          // its beginning
	By   string `json:"by,omitempty"`
}

// LimitView is a limit whose end a session waits for.
type LimitView struct {
	Kind    string    `json:"kind"`              // quota, rate_limit
	Since   time.Time `json:"since"`             // when it was first met
	Until   time.Time `json:"until"`             // when the next try is due
	ResetAt time.Time `json:"reset_at,omitzero"` // when the limit ends, if known
	Tries   int       `json:"tries"`
}

// LostView says that a session's host cannot be reached.
type LostView struct {
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"`
	// Stays says why the session waits for that host, if it does.
	Stays string `json:"stays,omitempty"`
}

// WarmView describes the folder that a parked session left on its host. If the session
// resumes there, nothing has to be copied.
type WarmView struct {
	Host       string    `json:"host"`
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"`
}

// SnapshotView shows a session's newest good snapshot, and how the newest attempt ended. A failed
// attempt does not hide a good snapshot.
type SnapshotView struct {
	ID    string    `json:"id"` // empty: there is none yet
	N     int       `json:"n"`
	Turn  int       `json:"turn"`
	At    time.Time `json:"at,omitzero"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	Added int64     `json:"added_bytes"`
	Lacks string    `json:"lacks,omitempty"` // what could not be read

	Taking int      `json:"taking,omitempty"` // number of the snapshot that is being taken
	Tried  int      `json:"tried,omitempty"`  // number of the newest attempt that has ended, well or not
	Error  *Failure `json:"error,omitempty"`  // the error of Tried, if that attempt failed
}

// PolicyTexts are the texts of a session's policies, as they were in their files.
type PolicyTexts struct {
	Session string `json:"session,omitempty"`
	Seed    string `json:"seed,omitempty"`
}

// PolicyView is a policy of a session as the command line shows it.
type PolicyView struct {
	Digest string `json:"digest"`
	// State is active or broken. If it is broken, everything is declined, and Error says
	// why.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
	// Approvers are the people whose signatures count, and Required is the number of people
	// who must agree. If there are no approvers, anybody may decide.
	Approvers          []string `json:"approvers,omitempty"`
	Required           int      `json:"required,omitempty"`
	RequesterMayDecide bool     `json:"requester_may_decide,omitempty"`
	Expiry             string   `json:"expiry,omitempty"`
}

// The states of a policy.
const (
	PolicyActive = "active"
	PolicyBroken = "broken"
)

// ProgressView is the model's newest report of progress.
type ProgressView struct {
	Turn    int       `json:"turn"`
	Text    string    `json:"text"`
	Percent *int      `json:"percent,omitempty"`
	Step    string    `json:"step,omitempty"`
	At      time.Time `json:"at"`
}

// String returns a report in one line.
func (p *ProgressView) String() string {
	if p == nil {
		return ""
	}
	s := p.Text
	if p.Step != "" {
		s = p.Step + ": " + s
	}
	if p.Percent != nil {
		s = fmt.Sprintf("%d %%, %s", *p.Percent, s)
	}
	return s
}

// ViewOfProgress returns the view of a report, or nil if p is nil.
func ViewOfProgress(p *Progress) *ProgressView {
	if p == nil {
		return nil
	}
	return &ProgressView{Turn: p.Turn, Text: p.Text, Percent: p.Percent, Step: p.Step, At: time.UnixMilli(p.AtMS).UTC()}
}

// WaitingView describes a fault after which a session waits before it tries again.
type WaitingView struct {
	Doing   string    `json:"doing"`
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"` // how many have failed
	Kind    string    `json:"kind"`
	Error   string    `json:"error"` // of the newest attempt
	NextAt  time.Time `json:"next_at"`
}
