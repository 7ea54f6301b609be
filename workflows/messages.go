package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities"
)

// Names that other programs rely on.
const (
	// TaskQueue is the queue of zone "default"; TaskQueueOf gives the others.
	TaskQueue = "fairlead"

	SignalMessage   = "message"
	SignalDecide    = "decide"
	SignalInterrupt = "interrupt"
	SignalClose     = "close"
	SignalBudget    = "budget"

	QueryState     = "state"     // → SessionView
	QueryApprovals = "approvals" // → []Approval, open ones first
	QueryTurn      = "turn"      // TurnQuery → TurnView
	QueryDetail    = "detail"    // → SessionDetail

	// Of a pool workflow.
	UpdatePutHost    = "put_host"    // PutHost → HostView; adds or changes
	UpdateRemoveHost = "remove_host" // RemoveHost → HostView
	UpdateSetHost    = "set_host"    // SetHost (cordon, uncordon, …) → HostView
	QueryHosts       = "hosts"       // → []HostView
	QueryHost        = "host"        // name → HostView

	// Of a seed workflow.
	UpdatePutSeed    = "put_seed"    // PutSeed → SeedView
	UpdateSetSeed    = "set_seed"    // SetSeed → SeedView
	UpdateReviveSeed = "revive_seed" // ReviveSeed → SeedView
	UpdateDeleteSeed = "delete_seed" // DeleteSeed → SeedView
	QuerySeed        = "seed"        // → SeedView

	// Of a workflow that stands for a pool of seeds.
	QuerySeedPool = "seed_pool" // → SeedPoolView
)

// Workflow types.
const (
	TypeSession   = "Session"
	TypeHostPool  = "HostPool"
	TypeSeed      = "Seed"
	TypeSeedPool  = "SeedPool"
	TypeProvision = "ProvisionHost"
	TypeCheck     = "CheckHost"
	TypeExec      = "ExecOnHost"
	TypeScan      = "ScanHostKeys"

	TypeMaintenance = "Maintenance"
	TypeCapture     = "CaptureSeed"
	TypeLogin       = "LoginSeed"
	TypeRotate      = "RotateKeys"

	TypePrune          = "PruneSnapshots"
	TypeCheckSnapshots = "CheckSnapshots"
)

// MemoCreated is the field of a session's memo that says when it was created,
// once its first run has ended: a list knows only when the newest one began.
const MemoCreated = "created_at"

// Types of the application errors with which updates are refused.
const (
	RefusedBadInput = "bad_input" // exit 2
	RefusedNotFound = "not_found" // exit 3
	RefusedState    = "refused"   // exit 6: stale, duplicate, or not in this state
)

// SessionID gives the id of a session's workflow.
func SessionID(id string) string { return activities.SessionWorkflowID(id) }

// PoolID gives the id of a zone's pool workflow.
func PoolID(zone string) string {
	if zone == "" {
		zone = "default"
	}
	return "pool/" + zone
}

// SeedID gives the id of a seed's workflow.
func SeedID(name string) string { return activities.SeedWorkflowID(name) }

// SeedPoolID gives the id of the workflow of a pool of seeds.
func SeedPoolID(name string) string { return "seedpool/" + name }

// HostTaskID gives the id of a short workflow about a host, e.g. provision.
func HostTaskID(host, what string) string { return "host/" + host + "/" + what }

// TaskQueueOf gives the task queue of a zone's workers.
func TaskQueueOf(zone string) string {
	if zone == "" || zone == "default" {
		return TaskQueue
	}
	return TaskQueue + "-" + zone
}

// ZoneOf is the zone whose workers serve a task queue.
func ZoneOf(queue string) string {
	if zone, ok := strings.CutPrefix(queue, TaskQueue+"-"); ok {
		return zone
	}
	return "default"
}

// SessionInput starts a Session workflow. Only the newest run's carry is set
// by continue-as-new.
type SessionInput struct {
	ID      string         `json:"id"`
	Options SessionOptions `json:"options"`
	Carry   *sessionState  `json:"carry,omitempty"`
}

// SessionOptions are what a person chose. Seed is resolved by the workflow.
type SessionOptions struct {
	Zone           string            `json:"zone,omitempty"`
	Host           string            `json:"host,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Seed           string            `json:"seed,omitempty"`
	SeedPool       string            `json:"seed_pool,omitempty"` // any healthy seed of it, in place of Seed
	Dir            string            `json:"dir,omitempty"`
	Model          string            `json:"model,omitempty"`
	Effort         string            `json:"effort,omitempty"`
	Sandbox        string            `json:"sandbox,omitempty"`         // default workspace-write
	ApprovalPolicy string            `json:"approval_policy,omitempty"` // default on-request
	// Expiry is how long an approval stays open before it counts as declined; default 24 h.
	Expiry time.Duration `json:"expiry,omitempty"`
	// TurnTimeout bounds one turn; default 24 h.
	TurnTimeout time.Duration `json:"turn_timeout,omitempty"`
	// Tokens bounds what the session may use in all; 0 means no bound.
	Tokens int64 `json:"tokens,omitempty"`
	// OnInterrupt is what happens when a turn loses its process: ask (the
	// default), continue or fail.
	OnInterrupt string `json:"on_interrupt,omitempty"`
	// Credentials are planted on the host (the default), or a broker's: then the
	// host gets none, and codex short-lived access tokens of a ChatGPT login.
	Credentials string `json:"credentials,omitempty"`
	// OnAuth is what happens when a turn got no access token in time: retry (the
	// default with a broker) or ask.
	OnAuth string `json:"on_auth,omitempty"`
	// Snapshot says what is kept of the session, and when.
	Snapshot SnapshotOptions `json:"snapshot,omitzero"`
	// ParkAfter is how long the session is idle before it parks by itself; 0 is never.
	ParkAfter time.Duration `json:"park_after,omitempty"`
	// OnHostLost is what happens when the host cannot be reached for LostAfter:
	// wait (the default) or move.
	OnHostLost string        `json:"on_host_lost,omitempty"`
	LostAfter  time.Duration `json:"lost_after,omitempty"`
	// From is the snapshot that a session begins with, as a fork of the one that
	// it is of.
	From string `json:"from,omitempty"`
	// CloseAfter closes the session when its first turn has ended (ctl run without --keep).
	CloseAfter bool   `json:"close_after,omitempty"`
	By         string `json:"by,omitempty"`
}

// Message is what a person says to codex.
type Message struct {
	ID     string `json:"id"`
	Text   string `json:"text,omitempty"`
	Blob   string `json:"blob,omitempty"`  // in the store, for texts above MaxText
	Chars  int    `json:"chars,omitempty"` // length of the text in the blob
	Mode   string `json:"mode,omitempty"`  // queue (default), steer
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	By     string `json:"by,omitempty"`
}

// Limits of a message.
const (
	MaxText  = 32 << 10  // bytes inline in a message; above it the text goes through the store
	MaxChars = 1_048_576 // codex's own limit, in characters
)

// MessageAccepted is the answer to a message.
type MessageAccepted struct {
	Session   string `json:"session"`
	N         int    `json:"n"` // the turn it will be
	MessageID string `json:"message_id"`
}

// Decide is a decision on an approval. The digest is required.
type Decide struct {
	Approval string          `json:"approval"`
	Digest   string          `json:"digest"`
	Outcome  string          `json:"outcome"`         // accept, decline, cancel, answer, grant
	Scope    string          `json:"scope,omitempty"` // once (default), session
	Reason   string          `json:"reason,omitempty"`
	By       string          `json:"by,omitempty"`
	Answers  json.RawMessage `json:"answers,omitempty"`
	Grant    json.RawMessage `json:"grant,omitempty"`
}

// Interrupt ends the running turn.
type Interrupt struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Close ends the session.
type Close struct {
	By      string `json:"by,omitempty"`
	Discard bool   `json:"discard,omitempty"`
}

// Budget changes the bounds of a session; what is not given stays.
type Budget struct {
	By          string `json:"by,omitempty"`
	TurnTimeout string `json:"turn_timeout,omitempty"` // of one turn, e.g. 90m
	Tokens      *int64 `json:"tokens,omitempty"`       // of the session in all; 0 means no bound
}

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
	Refusals  []Refusal         `json:"refusals,omitempty"`
	Close     *CloseView        `json:"close,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	// Unprotected says why the agent can read its credential, where it can
	// although the sandbox should keep it from that.
	Unprotected string        `json:"unprotected,omitempty"`
	Budget      *BudgetView   `json:"budget,omitempty"`
	Messages    []MessageView `json:"messages"` // the newest ones, oldest first

	Snapshot *SnapshotView `json:"snapshot,omitempty"`
	Warm     *WarmView     `json:"warm,omitempty"` // while it is parked
	Lost     *LostView     `json:"lost,omitempty"`
}

// BudgetView is what a session may use.
type BudgetView struct {
	Tokens      int64  `json:"tokens"` // in all; 0 means no bound
	Used        int64  `json:"used"`
	TurnTimeout string `json:"turn_timeout"`
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
}

// Failure is an error as people see it.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
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
	Status         string    `json:"status"` // queued, inProgress, completed, interrupted, failed, unknown
	FinalText      string    `json:"final_text"`
	FinalTruncated bool      `json:"final_truncated,omitempty"` // the whole is in the transcript
	Items          int       `json:"items"`
	Usage          UsageView `json:"usage"`
	DiffStat       string    `json:"diff_stat"`
	StartedAt      time.Time `json:"started_at,omitzero"`
	EndedAt        time.Time `json:"ended_at,omitzero"`
	Error          *Failure  `json:"error"`
	FollowedBy     int       `json:"followed_by,omitempty"` // the turn that goes on with what this one was cut off from
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
	ID        string              `json:"id"`
	Session   string              `json:"session"`
	Turn      int                 `json:"turn"`
	Kind      string              `json:"kind"`
	Summary   string              `json:"summary"`
	Command   string              `json:"command"`
	CWD       string              `json:"cwd"`
	Reason    string              `json:"reason"`
	Changes   []activities.Change `json:"changes"`
	Questions json.RawMessage     `json:"questions,omitempty"`
	Digest    string              `json:"digest"`
	Offered   []string            `json:"offered"`
	Truncated bool                `json:"truncated,omitempty"` // texts are excerpts; `approval show` has the whole
	AskedAt   time.Time           `json:"asked_at"`
	ExpiresAt time.Time           `json:"expires_at"`
	State     ApprovalState       `json:"state"`
	Decision  *Decision           `json:"decision"`

	Delivery   string           `json:"delivery,omitempty"`    // how far the decision came: decided, sent, acknowledged, rejected, void
	VoidReason string           `json:"void_reason,omitempty"` // why nobody can decide it any more
	Earlier    *EarlierDecision `json:"earlier,omitempty"`
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
}

// SendID names the message that takes the decision on an approval to codex.
func SendID(session string, n int) string { return fmt.Sprintf("%s.a%d", session, n) }

// Decision is what was decided, by whom, when and why.
type Decision struct {
	Outcome string    `json:"outcome"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Scope   string    `json:"scope"`
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

// PutHost adds a host to the inventory, or changes one.
type PutHost struct {
	Spec   activities.HostSpec `json:"spec"`
	Labels map[string]string   `json:"labels,omitempty"`
	Slots  int                 `json:"slots,omitempty"` // default 4
	// Jump names the host of the same zone to go through.
	Jump string `json:"jump,omitempty"`
	Zone string `json:"zone,omitempty"`
	// Replace allows changing a host that is there; else the update is refused.
	Replace bool `json:"replace,omitempty"`
}

// RemoveHost takes a host out of the inventory; refused while in use.
type RemoveHost struct {
	Name string `json:"name"`
	// Force: also when sessions may have left something there that nobody will
	// wipe any more.
	Force bool `json:"force,omitempty"`
}

// SetHost changes the state of a host or records what a probe found.
type SetHost struct {
	Name   string                      `json:"name"`
	Cordon *bool                       `json:"cordon,omitempty"`
	Check  *activities.CheckHostResult `json:"check,omitempty"`
	Codex  string                      `json:"codex,omitempty"` // version provisioned
}

// HostView is the Host JSON of the command line.
type HostView struct {
	Name        string            `json:"name"`
	Address     string            `json:"address"`
	User        string            `json:"user"`
	Port        int               `json:"port"`
	Labels      map[string]string `json:"labels"`
	Slots       int               `json:"slots"`
	Used        int               `json:"used"`
	State       string            `json:"state"` // ready, cordoned, unchecked, unfit
	Zone        string            `json:"zone"`
	Fingerprint string            `json:"fingerprint"`
	Codex       string            `json:"codex"`
	Sandbox     string            `json:"sandbox"`
	CheckedAt   time.Time         `json:"checked_at"`

	// Unclean is how many sessions may have left a credential there that is not
	// wiped yet; Leftovers tells of them, and of those that were wiped.
	Unclean   int        `json:"unclean,omitempty"`
	Leftovers []Leftover `json:"leftovers,omitempty"`

	Holders []string             `json:"holders,omitempty"` // sessions
	Queue   int                  `json:"queue,omitempty"`
	Spec    *activities.HostSpec `json:"spec,omitempty"`
}

// PutSeed records a new generation of a seed.
type PutSeed struct {
	Name   string             `json:"name"`
	Ref    activities.SeedRef `json:"ref"` // Generation is assigned by the workflow
	Files  []SeedFile         `json:"files"`
	By     string             `json:"by,omitempty"`
	Expect int64              `json:"expect,omitempty"` // the generation it replaces; 0 = whatever is there
	Force  bool               `json:"force,omitempty"`  // also in place of what codex has rotated it to
	Share  *int               `json:"share,omitempty"`  // as in SetSeed
	Pools  *[]string          `json:"pools,omitempty"`
	// Elsewhere, Moved and Ask are as in activities.PutSeedInput.
	Elsewhere string `json:"elsewhere,omitempty"`
	Moved     bool   `json:"moved,omitempty"`
	Ask       bool   `json:"ask,omitempty"`
}

// SetSeed changes how a seed is given; what is not given stays.
type SetSeed struct {
	By    string `json:"by,omitempty"`
	Share *int   `json:"share,omitempty"` // how many sessions may have it at a time; 0 means any number
	// Pools are all the pools that it is in.
	Pools *[]string `json:"pools,omitempty"`
}

// SeedPoolView is the Seed pool JSON of the command line.
type SeedPoolView struct {
	Name  string           `json:"name"`
	Seeds []SeedPoolMember `json:"seeds"`
	Queue int              `json:"queue"` // sessions that wait for any of them
}

// SeedPoolMember is a seed as it told its pool last.
type SeedPoolMember struct {
	Name   string     `json:"name"`
	Free   bool       `json:"free"`
	State  string     `json:"state"`
	Health string     `json:"health"`
	UsedAt *time.Time `json:"used_at,omitempty"`
}

// ReviveSeed says that the stored generation is what there is: what could not
// be fetched or saved is given up, what was thought of it is forgotten.
type ReviveSeed struct {
	By string `json:"by,omitempty"`
}

// DeleteSeed forgets a seed; Purge removes its blobs too.
type DeleteSeed struct {
	Purge bool `json:"purge,omitempty"`
}

// SeedFile is one file of a seed, never its content.
type SeedFile = activities.SeedFile

// SeedView is the Seed JSON of the command line.
type SeedView struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind"`
	Generation int64      `json:"generation"`
	State      string     `json:"state"`  // free, held, verifying, recovering
	Health     string     `json:"health"` // unknown, healthy, suspect, dead
	Reason     string     `json:"reason,omitempty"`
	Hint       string     `json:"hint,omitempty"`
	Since      *time.Time `json:"since,omitempty"` // of the health
	HeldBy     []string   `json:"held_by"`
	Epoch      int64      `json:"epoch"`
	Files      []SeedFile `json:"files"`
	VerifiedAt *time.Time `json:"verified_at"`

	Holders  []SeedHolder  `json:"holders,omitempty"`
	Queue    int           `json:"queue"` // sessions that wait for it
	Share    int           `json:"share"` // how many may have it at a time; 0 means any number
	Pools    []string      `json:"pools"`
	UsedAt   *time.Time    `json:"used_at,omitempty"`
	Rotated  *SeedRotated  `json:"rotated,omitempty"`
	Check    *SeedCheck    `json:"check,omitempty"` // the newest verification
	Recovery *SeedRecovery `json:"recovery,omitempty"`
	Exported *SeedExport   `json:"exported,omitempty"` // last

	Ref     *activities.SeedRef `json:"ref,omitempty"`
	Deleted bool                `json:"deleted,omitempty"`
}

// The states of a seed.
const (
	SeedFree       = "free"
	SeedHeld       = "held"
	SeedVerifying  = "verifying"  // it is being refreshed; nobody gets it meanwhile
	SeedRecovering = "recovering" // what an ended holder has of it is being fetched; nobody gets it before
)

// SeedCheck is how a verification ended: alive, dead, suspect, unknown, lost (a
// refresh was sent and its answer is not known), fresh (by its own words, nobody
// was asked), held or recovering (nothing was asked).
type SeedCheck struct {
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason,omitempty"`
	Hint    string    `json:"hint,omitempty"`
}

// SeedHolder is who has a seed, or had it and did not give it back.
type SeedHolder struct {
	Session string    `json:"session"`
	Epoch   int64     `json:"epoch"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
}

// SeedRotated is a login that codex made and that is not saved yet.
type SeedRotated struct {
	Session string    `json:"session"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"` // why it could not be saved so far
}

// SeedRecovery is what is done about a holder that ended without giving the
// seed back.
type SeedRecovery struct {
	Session string     `json:"session"`
	Host    string     `json:"host"`
	Why     string     `json:"why"`
	Tries   int        `json:"tries"`
	NextTry *time.Time `json:"next_try,omitempty"`
	Problem *Failure   `json:"problem,omitempty"` // of the newest try
}
