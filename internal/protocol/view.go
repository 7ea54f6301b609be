package protocol

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// SessionStatus is a session's state in one word.
type SessionStatus string

// States of a session.
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
	Name      string            `json:"name,omitempty"`
	Archived  bool              `json:"archived,omitempty"`
	State     SessionStatus     `json:"state"`
	Host      string            `json:"host"`
	Seed      string            `json:"seed"`
	ThreadID  string            `json:"thread_id"`
	Turn      *TurnBrief        `json:"turn"`
	Requests  []RequestBrief    `json:"requests"`
	Attempt   int               `json:"attempt"`
	Switched  *SwitchedView     `json:"switched,omitempty"`
	Process   *ProcessView      `json:"process"`
	Usage     UsageView         `json:"usage"`
	Error     *Failure          `json:"error"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	Waits     string            `json:"waits,omitempty"` // what the session waits for
	Queue     int               `json:"queue,omitempty"` // messages not begun
	Queued    []QueuedView      `json:"queued,omitempty"`
	Refusals  []Refusal         `json:"refusals,omitempty"`
	Close     *CloseView        `json:"close,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	// Unprotected says why the sandbox cannot keep the agent from reading its credential.
	Unprotected string      `json:"unprotected,omitempty"`
	Budget      *BudgetView `json:"budget,omitempty"`
	// Files came with messages. Images are in the conversation instead.
	Files      []Input         `json:"files,omitempty"`
	RateLimits *RateLimitsView `json:"rate_limits,omitempty"`
	Messages   []MessageView   `json:"messages"` // newest, oldest first

	Snapshot *SnapshotView `json:"snapshot,omitempty"`
	Warm     *WarmView     `json:"warm,omitempty"` // while parked
	Lost     *LostView     `json:"lost,omitempty"`

	Policy     *PolicyView `json:"policy,omitempty"` // the session's own
	SeedPolicy *PolicyView `json:"seed_policy,omitempty"`
	// Judged counts the requests that policies answered.
	Judged   int           `json:"judged,omitempty"`
	Progress *ProgressView `json:"progress,omitempty"`
	// Notices has the model's plan, the MCP servers and a reroute of the newest turn.
	Notices    *Notices     `json:"notices,omitempty"`
	Limit      *LimitView   `json:"limit,omitempty"` // the session waits for its end
	WaitingFor *WaitingView `json:"waiting_for,omitempty"`
	// Origin is "batch/ID", "schedule/NAME", "session/ID" of a follow-up, "parent/ID" of a child,
	// or "" for a person.
	Origin string `json:"origin,omitempty"`
	// FollowUps are the newest, the oldest first. A session that ends does not wait for its
	// follow-ups, so it may show some that have ended as started.
	FollowUps []FollowUpView `json:"follow_ups,omitempty"`
	// Rules are those by which the session starts follow-ups: those of its seed, then its own.
	// Those of the seed are known when the session has come to a host.
	Rules []RuleView `json:"follow_up_rules,omitempty"`
	// Children are the sessions that this one's agent started, the oldest first. A session
	// that has ended may show some as closing. Parent is the session that started this one.
	Children []ChildView `json:"children,omitempty"`
	Parent   string      `json:"parent,omitempty"`
	// Verdicts are the newest on files that were delivered, the oldest first.
	Verdicts []FileVerdict `json:"verdicts,omitempty"`
	Audit    *AuditHead    `json:"audit,omitempty"` // the newest audit record
	Given    *GivenView    `json:"given,omitempty"`
	// Gateway is what the model gateway did; nil without one, and until it did something.
	Gateway *ModelUse `json:"gateway,omitempty"`
	// Egress is what programs of the session reached through workers; nil if nothing.
	Egress *EgressUse `json:"egress,omitempty"`
	// SeedGateway is the part of it that the session's seed is not told yet.
	SeedGateway *ModelUse `json:"gateway_not_told,omitempty"`
}

// Words returns the bounds as the command line has them.
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
	if b.Money != nil && b.Money.Limit > 0 {
		out = append(out, "money="+b.Money.Limit.String())
	}
	if b.TurnTimeout != "" {
		out = append(out, "turn="+b.TurnTimeout)
	}
	return strings.Join(out, ",")
}

// BudgetView shows a session's bounds, and their use as of the newest pump.
type BudgetView struct {
	Tokens    BudgetCount    `json:"tokens"`
	Turns     BudgetCount    `json:"turns"`
	Time      BudgetTimeView `json:"time"`
	Approvals BudgetCount    `json:"approvals"`
	Commands  BudgetCount    `json:"commands"`
	// Money is what the model gateway spent; nil if it spent nothing and nothing bounds it.
	Money       *BudgetMoneyView `json:"money,omitempty"`
	TurnTimeout string           `json:"turn_timeout"`
	// Warnings name bounds that are four fifths used.
	Warnings []string `json:"warnings,omitempty"`
}

// BudgetCount is one bound; Limit 0 means none.
type BudgetCount struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// BudgetMoneyView is a bound on money, and what of it is used by the count of all workers.
type BudgetMoneyView struct {
	Used  Money `json:"used"`
	Limit Money `json:"limit,omitempty"` // 0 means none
}

// BudgetTimeView is a bound on time.
type BudgetTimeView struct {
	Used  string `json:"used"`
	Limit string `json:"limit,omitempty"` // empty means none
}

// MessageView shows how far a message has come.
type MessageView struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // message, steer, decision, interrupt, budget
	Turn int    `json:"turn"`
	// State is queued or a DeliveryState. While a pump is attached, it is that at the
	// pump's beginning.
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
	// End says how it ended.
	End    string `json:"end,omitempty"`
	Offset int64  `json:"offset"`
}

// UsageView counts tokens.
type UsageView struct {
	Input   int64        `json:"input_tokens"`
	Output  int64        `json:"output_tokens"`
	Cached  int64        `json:"cached_tokens"`
	Turns   int          `json:"turns"`
	Context *ContextView `json:"context,omitempty"`
}

// Refusal is a signal that was not accepted.
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
	Kept    string `json:"kept,omitempty"`    // work folder, if it stays
}

// TurnQuery asks for a turn by number or by its message.
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
	Act       string `json:"act,omitempty"` // compact, review or ""
	// BegunBy is "codex" if codex began the turn by itself.
	BegunBy        string    `json:"begun_by,omitempty"`
	Status         string    `json:"status"` // queued, inProgress, completed, interrupted, failed, unknown
	FinalText      string    `json:"final_text"`
	FinalTruncated bool      `json:"final_truncated,omitempty"` // the transcript has the full text
	Items          int       `json:"items"`
	Usage          UsageView `json:"usage"`
	DiffStat       string    `json:"diff_stat"`
	TurnOutput
	StartedAt  time.Time `json:"started_at,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	Error      *Failure  `json:"error"`
	FollowedBy int       `json:"followed_by,omitempty"` // turn that continues this one
	// EndedBy is an EndedBy constant, or "".
	EndedBy string `json:"ended_by,omitempty"`
	// Finish is what the agent declared by the tool finish, or nil.
	Finish *Finish `json:"finish,omitempty"`
}

// Done reports whether the turn has ended.
func (t TurnView) Done() bool { return t.Status != "queued" && t.Status != "inProgress" }

// TurnOutput is a turn's output.
type TurnOutput struct {
	// Output is the JSON with which the turn ended; OutputError says why there is none.
	Output      json.RawMessage `json:"output,omitempty"`
	OutputError string          `json:"output_error,omitempty"`
	// Structured says that there is an output schema. FinalAt is where the last message
	// begins in FinalText.
	Structured bool `json:"structured,omitempty"`
	FinalAt    int  `json:"final_at,omitempty"`
}

// ApprovalState is an approval's state.
type ApprovalState string

// States of an approval.
const (
	ApprovalOpen         ApprovalState = "open"
	ApprovalDecided      ApprovalState = "decided"
	ApprovalSent         ApprovalState = "sent"
	ApprovalAcknowledged ApprovalState = "acknowledged"
	ApprovalExpired      ApprovalState = "expired"
	ApprovalVoid         ApprovalState = "void"
	// ApprovalUnjudged is ctl's: Temporal keeps a decision, no worker has judged it, and ctl has
	// no access file to judge it with.
	ApprovalUnjudged ApprovalState = "unjudged"
)

// Approval is the Approval JSON of the command line.
type Approval struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Turn    int    `json:"turn"`
	// Host and Sandbox are those of the session now. Only answers to queries have them.
	Host    string   `json:"host,omitempty"`
	Sandbox string   `json:"sandbox,omitempty"`
	Agent   string   `json:"agent,omitempty"` // the sub-agent's name, if one asks; codex or the model chose it
	Kind    string   `json:"kind"`
	Summary string   `json:"summary"`
	Command string   `json:"command"`
	CWD     string   `json:"cwd"`
	Reason  string   `json:"reason"`
	Changes []Change `json:"changes"`
	Network string   `json:"network,omitempty"`
	// GrantRoot is a folder: accepting allows all changes below it.
	GrantRoot string `json:"grant_root,omitempty"`

	Permissions json.RawMessage `json:"permissions,omitempty"`
	Questions   []Question      `json:"questions"`
	URL         string          `json:"url,omitempty"`
	Server      string          `json:"server,omitempty"`
	Tool        string          `json:"tool,omitempty"`
	Args        string          `json:"args,omitempty"` // of an MCP tool call
	Amendment   []string        `json:"amendment,omitempty"`

	Digest string `json:"digest"`
	// Digested is the rest of what Digest covers.
	Digested *Digested `json:"digested,omitempty"`
	// DigestCheck is set by ctl: what CheckDigest says.
	DigestCheck DigestCheck `json:"digest_check,omitempty"`

	Offered   []string      `json:"offered"`
	Truncated bool          `json:"truncated,omitempty"` // texts are excerpts; `approval show` has them in full
	AskedAt   time.Time     `json:"asked_at"`
	ExpiresAt time.Time     `json:"expires_at"`
	State     ApprovalState `json:"state"`
	Decision  *Decision     `json:"decision"`

	Delivery   string           `json:"delivery,omitempty"`    // a DeliveryState: that of the decision
	VoidReason string           `json:"void_reason,omitempty"` // why it can no longer be decided
	Earlier    *EarlierDecision `json:"earlier,omitempty"`

	// Ruling is that of the policy, also if people decide.
	Ruling *Ruling `json:"ruling,omitempty"`
	// Signed says that only signed decisions of Approvers count. Agreed has those so far;
	// Missing counts the people who have yet to agree.
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
	// State is decided (never reached codex), or sent or acknowledged (may have had its
	// effect).
	State ApprovalState `json:"state"`
	// Answers and Grant are set if short and not secret.
	Answers map[string][]string `json:"answers,omitempty"`
	Grant   json.RawMessage     `json:"grant,omitempty"`
}

// Decision is the decision on an approval.
type Decision struct {
	Outcome string    `json:"outcome"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Scope   string    `json:"scope"`
	// Answers are by question id. Answers to the Secret questions are never shown; the
	// store had them under AnswersBlob until codex got them.
	Answers     map[string][]string `json:"answers,omitempty"`
	Secret      []string            `json:"secret,omitempty"`
	AnswersBlob string              `json:"answers_blob,omitempty"`
	Grant       json.RawMessage     `json:"grant,omitempty"`
	Signed      bool                `json:"signed,omitempty"` // By is the signer, not a mere claim
	// StepUp says how the person proved who they are, if the request was of high risk: passkey,
	// fido, or token for an API token that the policy names.
	StepUp string `json:"step_up,omitempty"`
}

// An Agreement is a person's signed decision on an approval that needs several people.
type Agreement struct {
	By      string    `json:"by"`
	Outcome string    `json:"outcome"`
	Scope   string    `json:"scope"`
	Payload string    `json:"payload,omitempty"` // digest of the answers or the grant
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
	// As has the signer's name in each policy, by the policy's owner (session, seed).
	As map[string]string `json:"as,omitempty"`
}

// SessionDetail tells Fairlead's own programs where the session's data is.
type SessionDetail struct {
	View      SessionView `json:"view"`
	Layout    Layout      `json:"layout"`
	Host      *HostSpec   `json:"host"`
	Approvals []Approval  `json:"approvals"`
	Turns     []TurnView  `json:"turns"`
	Seq       int64       `json:"seq"`
	// Taken are the newest requests with an id that the session has taken.
	Taken []TakenRequest `json:"taken,omitempty"`
}

// ContextView is the use of the context window, in tokens.
type ContextView struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window"`
}

// RateLimitsView shows an account's rate limits; what codex did not report is left out.
type RateLimitsView struct {
	Primary   *RateWindowView `json:"primary,omitempty"`
	Secondary *RateWindowView `json:"secondary,omitempty"`
	Plan      string          `json:"plan,omitempty"`
	Reached   string          `json:"reached,omitempty"`
	At        time.Time       `json:"at"`
}

// RateWindowView is the use of a time window's allowance.
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
	N    int    `json:"n"`             // turn that the message will begin
	Act  string `json:"act,omitempty"` // compact, review or ""
	Text string `json:"text"`          // beginning
	By   string `json:"by,omitempty"`
}

// LimitView is a limit whose end a session waits for.
type LimitView struct {
	Kind    string    `json:"kind"`              // quota, rate_limit, budget
	Since   time.Time `json:"since"`             // first met
	Until   time.Time `json:"until,omitzero"`    // next try; none before the budget is raised
	ResetAt time.Time `json:"reset_at,omitzero"` // if known
	Tries   int       `json:"tries"`
	// AsksAt is when the pool is asked for another seed.
	AsksAt time.Time `json:"asks_at,omitzero"`
}

// SwitchedView says that a session went on with another seed of its pool when the quota of
// its seed ended.
type SwitchedView struct {
	N       int       `json:"n"` // counts the changes
	From    string    `json:"from"`
	To      string    `json:"to,omitempty"` // empty until the pool lends one
	Pool    string    `json:"pool"`
	Turn    int       `json:"turn"` // that goes on with the next seed
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at"`
}

// LostView says that a session's host cannot be reached.
type LostView struct {
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"`
	// Stays says why the session waits for that host, if so.
	Stays string `json:"stays,omitempty"`
}

// WarmView is the folder that a parked session left on its host, where a resume copies
// nothing.
type WarmView struct {
	Host       string    `json:"host"`
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"`
}

// SnapshotView shows a session's newest good snapshot, and how the newest attempt ended.
type SnapshotView struct {
	ID    string    `json:"id"` // empty if none
	N     int       `json:"n"`
	Turn  int       `json:"turn"`
	At    time.Time `json:"at,omitzero"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	Added int64     `json:"added_bytes"`
	Lacks string    `json:"lacks,omitempty"` // what could not be read

	Taking int      `json:"taking,omitempty"` // number of the one being taken
	Tried  int      `json:"tried,omitempty"`  // number of the newest attempt that ended, well or not
	Error  *Failure `json:"error,omitempty"`  // of attempt Tried
}

// PolicyTexts are the texts of a session's policies.
type PolicyTexts struct {
	Session string `json:"session,omitempty"`
	Seed    string `json:"seed,omitempty"`
}

// PolicyView is a policy of a session.
type PolicyView struct {
	Digest string `json:"digest"`
	// State is active or broken. A broken policy declines everything; Error says why it is
	// broken.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
	// Approvers are those whose signatures count, and Required is how many must sign.
	// Without approvers, anybody may decide.
	Approvers          []string `json:"approvers,omitempty"`
	Required           int      `json:"required,omitempty"`
	RequesterMayDecide bool     `json:"requester_may_decide,omitempty"`
	Expiry             string   `json:"expiry,omitempty"`
}

// States of a policy.
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

// String returns the report in one line.
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

// ViewOfProgress returns nil if p is nil.
func ViewOfProgress(p *Progress) *ProgressView {
	if p == nil {
		return nil
	}
	return &ProgressView{Turn: p.Turn, Text: p.Text, Percent: p.Percent, Step: p.Step, At: time.UnixMilli(p.AtMS).UTC()}
}

// WaitingView is a fault that a session waits out.
type WaitingView struct {
	Doing   string    `json:"doing"`
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"` // how many failed
	Kind    string    `json:"kind"`
	Error   string    `json:"error"` // of the newest
	NextAt  time.Time `json:"next_at"`
}
