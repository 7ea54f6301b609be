package workflows

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/protocol"
)

// Names that other programs rely on.
const (
	// TaskQueue is the task queue of zone "default". TaskQueueOf returns the others.
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
	UpdatePutHosts   = "put_hosts"   // PutHosts → PutHostsDone; all or none
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

	TypeClaimKey = "ClaimKey"

	TypePrune          = "PruneSnapshots"
	TypeCheckSnapshots = "CheckSnapshots"
)

// MemoCreated is the memo field with a session's creation time, set when its first run ends. A
// workflow list shows only when the newest run began.
const MemoCreated = "created_at"

// Types of the application errors with which updates are refused.
const (
	RefusedBadInput = "bad_input" // exit 2
	RefusedNotFound = "not_found" // exit 3
	RefusedState    = "refused"   // exit 6: stale, duplicate, or not in this state
	RefusedBudget   = "budget"    // exit 6: the budget is used up
)

// PoolID returns the id of a zone's pool workflow.
func PoolID(zone string) string {
	if zone == "" {
		zone = "default"
	}
	return "pool/" + zone
}

// SeedPoolID returns the id of the workflow of a pool of seeds.
func SeedPoolID(name string) string { return "seedpool/" + name }

// HostTaskID returns the id of a short workflow about a host, e.g. provision.
func HostTaskID(host, what string) string { return "host/" + host + "/" + what }

// TaskQueueOf returns the task queue of a zone's workers.
func TaskQueueOf(zone string) string {
	if zone == "" || zone == "default" {
		return TaskQueue
	}
	return TaskQueue + "-" + zone
}

// ZoneOf returns the zone whose workers serve a task queue.
func ZoneOf(queue string) string {
	if zone, ok := strings.CutPrefix(queue, TaskQueue+"-"); ok {
		return zone
	}
	return "default"
}

// SessionInput starts a Session workflow. Only continue-as-new sets Carry.
type SessionInput struct {
	ID      string         `json:"id"`
	Options SessionOptions `json:"options"`
	// First is the first message, if it comes with the start.
	First *Message      `json:"first,omitempty"`
	Carry *sessionState `json:"carry,omitempty"`
}

// SessionOptions are a person's choices. The workflow resolves Seed.
type SessionOptions struct {
	Zone           string            `json:"zone,omitempty"`
	Host           string            `json:"host,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Select         []string          `json:"select,omitempty"` // further conditions that its host must meet: mem>=32, !gpu (selector.go)
	Rather         []string          `json:"rather,omitempty"` // conditions that are preferred
	Seed           string            `json:"seed,omitempty"`
	SeedPool       string            `json:"seed_pool,omitempty"` // any healthy seed of this pool, instead of Seed
	Tenant         string            `json:"tenant,omitempty"`    // the tenant that its slot counts for; default "default"
	Priority       int               `json:"priority,omitempty"`  // 1 is first, 5 last; 0 is 3
	Dir            string            `json:"dir,omitempty"`
	Model          string            `json:"model,omitempty"`
	Effort         string            `json:"effort,omitempty"`
	Sandbox        string            `json:"sandbox,omitempty"`         // default workspace-write
	ApprovalPolicy string            `json:"approval_policy,omitempty"` // default on-request
	// Confine asks more of the sandbox than its mode does.
	Confine activities.Confinement `json:"confine,omitzero"`
	// Policy is the text of a policy file: rules that decide what codex asks for.
	Policy string `json:"policy,omitempty"`
	// Expiry is how long an approval stays open before it counts as declined; default 24 h.
	Expiry time.Duration `json:"expiry,omitempty"`
	// TurnTimeout bounds one turn; default 24 h.
	TurnTimeout time.Duration `json:"turn_timeout,omitempty"`
	// Bounds limit what the session may use in all; 0 means no bound.
	protocol.Bounds
	// OnInterrupt is what happens when a turn loses its process: ask (the default), continue or
	// fail.
	OnInterrupt string `json:"on_interrupt,omitempty"`
	// Credentials says whether the credential is planted on the host (the default), or stays with
	// a broker. With a broker the host gets none, and codex gets short-lived access tokens of a
	// ChatGPT login.
	Credentials string `json:"credentials,omitempty"`
	// OnAuth is what happens when a turn got no access token in time: retry (the
	// default with a broker) or ask.
	OnAuth string `json:"on_auth,omitempty"`
	// Snapshot says what is kept of the session, and when.
	Snapshot SnapshotOptions `json:"snapshot,omitzero"`
	// ParkAfter is how long the session is idle before it parks by itself; 0 means never.
	ParkAfter time.Duration `json:"park_after,omitempty"`
	// TTL is how long the session may live from its start. It then closes, after a running turn;
	// 0 means no limit.
	TTL time.Duration `json:"ttl,omitempty"`
	// StartTimeout bounds the time from acceptance until the first turn can begin, whatever the
	// delay; default 24 h, 0 means no limit.
	StartTimeout *time.Duration `json:"start_timeout,omitempty"`
	// OnHostLost is what happens when the host cannot be reached for LostAfter:
	// wait (the default) or move.
	OnHostLost string        `json:"on_host_lost,omitempty"`
	LostAfter  time.Duration `json:"lost_after,omitempty"`
	// Watchdogs bound how long codex and the model may take; see also TurnTimeout.
	Watchdogs Watchdogs `json:"watchdogs,omitzero"`
	// OnLimit is what happens when a turn fails because the account's limit, or the provider's
	// limit on the rate of requests, is reached: fail, or wait until the limit ends and send the
	// message again. If empty, policies decide; the default is fail.
	OnLimit string `json:"on_limit,omitempty"`
	// Tools are our tools that codex may call: ask_human, deliver, report_progress.
	Tools []string `json:"tools,omitempty"`
	// From is the snapshot that the session begins with, as a fork of that snapshot's session.
	From string `json:"from,omitempty"`
	// Instructions are the thread's developer instructions. Personality is codex's setting for
	// how it speaks.
	Instructions string `json:"instructions,omitempty"`
	Personality  string `json:"personality,omitempty"`
	// Files came with messages of the session that this one forks.
	Files []protocol.Input `json:"files,omitempty"`
	// Workspace is what the session works in: a repository, a snapshot's work, hooks.
	Workspace activities.Workspace `json:"workspace,omitzero"`
	// CloseAfter closes the session after its first turn and the turns of all messages accepted
	// meanwhile (ctl run without --keep).
	CloseAfter bool   `json:"close_after,omitempty"`
	By         string `json:"by,omitempty"`
	// Origin is what started the session: "batch/ID" or "schedule/NAME".
	Origin string `json:"origin,omitempty"`
	// Notify is the id of the workflow that the signal session_ended goes to when the session has
	// ended.
	Notify string `json:"notify,omitempty"`
}

// Message is what a person says to codex.
type Message struct {
	ID    string `json:"id"`
	Text  string `json:"text,omitempty"`
	Blob  string `json:"blob,omitempty"`  // in the store, for texts above MaxText
	Chars int    `json:"chars,omitempty"` // length of the text in the blob
	Mode  string `json:"mode,omitempty"`  // queue (default), steer
	// Turn is the turn to steer. The message is refused if another turn runs, and void if the
	// turn ends first.
	Turn int `json:"turn,omitempty"`
	// Do makes it a turn that takes no text: compact, or review, of Review.
	Do     protocol.Act     `json:"do,omitempty"`
	Review *protocol.Review `json:"review,omitempty"`
	// AnyModel accepts a Model that codex does not list.
	AnyModel bool   `json:"any_model,omitempty"`
	Model    string `json:"model,omitempty"`
	Effort   string `json:"effort,omitempty"`
	By       string `json:"by,omitempty"`
	// Inputs are attached files, as returned by the worker's API.
	Inputs []protocol.Input `json:"inputs,omitempty"`
	// Schema is the JSON schema for the last message of the turn. A schema above MaxSchemaInline
	// is in the store, as SchemaBlob.
	Schema     json.RawMessage `json:"output_schema,omitempty"`
	SchemaBlob string          `json:"output_schema_blob,omitempty"`
}

// Limits of a message.
const (
	MaxText  = 32 << 10  // bytes of text in a message; longer texts go through the store
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
	Approval string `json:"approval"`
	Digest   string `json:"digest"`
	Outcome  string `json:"outcome"`         // accept, decline, cancel, answer, grant, amend
	Scope    string `json:"scope,omitempty"` // once (default), session
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	// Answers, for the outcome answer, maps question ids to a text or a list of texts. Secret
	// answers are not included: AnswersBlob names them in the store, where the worker's API put
	// them after checking the questions.
	Answers     json.RawMessage `json:"answers,omitempty"`
	AnswersBlob string          `json:"answers_blob,omitempty"`
	// Grant, for the outcome grant, is the part of the requested permissions that is given, in
	// the shape of Approval.Permissions.
	Grant json.RawMessage `json:"grant,omitempty"`
	// Signature is an armored signature, as of `ssh-keygen -Y sign`, over sshsig's Decision of
	// this message.
	Signature string `json:"signature,omitempty"`
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

// Budget changes the bounds of a session; omitted values stay.
type Budget struct {
	By          string `json:"by,omitempty"`
	TurnTimeout string `json:"turn_timeout,omitempty"` // of one turn, e.g. 90m
	// All of these apply to the whole session; 0 means no bound.
	Tokens    *int64 `json:"tokens,omitempty"`
	Turns     *int64 `json:"turns,omitempty"`
	Time      string `json:"time,omitempty"` // of its turns together, e.g. 8h
	Approvals *int64 `json:"approvals,omitempty"`
	Commands  *int64 `json:"commands,omitempty"`
}

// SendID returns the id of the message that takes a decision to codex; n is the approval's
// number.
func SendID(session string, n int) string { return fmt.Sprintf("%s.a%d", session, n) }
