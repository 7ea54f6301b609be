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

// MemoCreated is the field of a session's memo that says when it was created,
// once its first run has ended: a list knows only when the newest one began.
const MemoCreated = "created_at"

// Types of the application errors with which updates are refused.
const (
	RefusedBadInput = "bad_input" // exit 2
	RefusedNotFound = "not_found" // exit 3
	RefusedState    = "refused"   // exit 6: stale, duplicate, or not in this state
	RefusedBudget   = "budget"    // exit 6: it has used what it may use
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
	// First is the first message, where it comes with the start.
	First *Message      `json:"first,omitempty"`
	Carry *sessionState `json:"carry,omitempty"`
}

// SessionOptions are what a person chose. Seed is resolved by the workflow.
type SessionOptions struct {
	Zone           string            `json:"zone,omitempty"`
	Host           string            `json:"host,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Select         []string          `json:"select,omitempty"` // what its host must meet beyond those labels: mem>=32, !gpu (selector.go)
	Rather         []string          `json:"rather,omitempty"` // what it had better meet
	Seed           string            `json:"seed,omitempty"`
	SeedPool       string            `json:"seed_pool,omitempty"` // any healthy seed of it, in place of Seed
	Tenant         string            `json:"tenant,omitempty"`    // for whom it counts where slots are shared out; default "default"
	Priority       int               `json:"priority,omitempty"`  // 1 is first, 5 last; 0 is 3
	Dir            string            `json:"dir,omitempty"`
	Model          string            `json:"model,omitempty"`
	Effort         string            `json:"effort,omitempty"`
	Sandbox        string            `json:"sandbox,omitempty"`         // default workspace-write
	ApprovalPolicy string            `json:"approval_policy,omitempty"` // default on-request
	// Confine is what is asked of the sandbox beyond its mode.
	Confine activities.Confinement `json:"confine,omitzero"`
	// Policy is the text of a policy file: rules that decide what codex asks for.
	Policy string `json:"policy,omitempty"`
	// Expiry is how long an approval stays open before it counts as declined; default 24 h.
	Expiry time.Duration `json:"expiry,omitempty"`
	// TurnTimeout bounds one turn; default 24 h.
	TurnTimeout time.Duration `json:"turn_timeout,omitempty"`
	// Bounds are of what the session may use in all; 0 means no bound.
	activities.Bounds
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
	// TTL is how long the session may live from its start: then it closes, after
	// the turn that runs; 0 is for ever.
	TTL time.Duration `json:"ttl,omitempty"`
	// OnHostLost is what happens when the host cannot be reached for LostAfter:
	// wait (the default) or move.
	OnHostLost string        `json:"on_host_lost,omitempty"`
	LostAfter  time.Duration `json:"lost_after,omitempty"`
	// Watchdogs say how long codex and the model may take; see TurnTimeout too.
	Watchdogs Watchdogs `json:"watchdogs,omitzero"`
	// OnLimit is what happens when a turn fails because the account's limit is
	// reached, or the provider's for the rate of requests: fail, or wait until it
	// ends, and say the same again. Where nothing is said, policies decide; what
	// they do not say is fail.
	OnLimit string `json:"on_limit,omitempty"`
	// Tools are those of ours that codex may call: ask_human, deliver,
	// report_progress.
	Tools []string `json:"tools,omitempty"`
	// From is the snapshot that a session begins with, as a fork of the one that
	// it is of.
	From string `json:"from,omitempty"`
	// Instructions are developer instructions of the thread, Personality is
	// codex's word for how it speaks.
	Instructions string `json:"instructions,omitempty"`
	Personality  string `json:"personality,omitempty"`
	// Files came with messages of the session that this one is a fork of.
	Files []activities.Input `json:"files,omitempty"`
	// Workspace is what it works in: a repository, a snapshot's work, hooks.
	Workspace activities.Workspace `json:"workspace,omitzero"`
	// CloseAfter closes the session when its first turn has ended (ctl run without --keep).
	CloseAfter bool   `json:"close_after,omitempty"`
	By         string `json:"by,omitempty"`
	// Origin is what started the session: "batch/ID" or "schedule/NAME".
	Origin string `json:"origin,omitempty"`
	// Notify is the id of the workflow that is told when the session has ended,
	// by the signal session_ended.
	Notify string `json:"notify,omitempty"`
}

// Message is what a person says to codex.
type Message struct {
	ID    string `json:"id"`
	Text  string `json:"text,omitempty"`
	Blob  string `json:"blob,omitempty"`  // in the store, for texts above MaxText
	Chars int    `json:"chars,omitempty"` // length of the text in the blob
	Mode  string `json:"mode,omitempty"`  // queue (default), steer
	// Turn is the one that is to be steered: where another one runs the message
	// is refused, and where it ends first the message is void.
	Turn int `json:"turn,omitempty"`
	// Do makes it a turn that takes no text: compact, or review of Review.
	Do     activities.Act     `json:"do,omitempty"`
	Review *activities.Review `json:"review,omitempty"`
	// AnyModel takes a Model that codex does not list.
	AnyModel bool   `json:"any_model,omitempty"`
	Model    string `json:"model,omitempty"`
	Effort   string `json:"effort,omitempty"`
	By       string `json:"by,omitempty"`
	// Inputs are files that go with it, as the worker's API gave them.
	Inputs []activities.Input `json:"inputs,omitempty"`
	// Schema is what the last message of its turn is to be JSON of: a JSON
	// schema, or SchemaBlob, one in the store, above MaxSchemaInline.
	Schema     json.RawMessage `json:"output_schema,omitempty"`
	SchemaBlob string          `json:"output_schema_blob,omitempty"`
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
	Approval string `json:"approval"`
	Digest   string `json:"digest"`
	Outcome  string `json:"outcome"`         // accept, decline, cancel, answer, grant, amend
	Scope    string `json:"scope,omitempty"` // once (default), session
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	// Answers are by the ids of the questions: a text or a list of texts each
	// (answer). What is secret is not among them: AnswersBlob names it in the
	// store, where the worker's API put it after a look at the questions.
	Answers     json.RawMessage `json:"answers,omitempty"`
	AnswersBlob string          `json:"answers_blob,omitempty"`
	// Grant is the part of the permissions asked for that is given, in the
	// shape of Approval.Permissions (grant).
	Grant json.RawMessage `json:"grant,omitempty"`
	// Signature is armored, as of `ssh-keygen -Y sign`, over sshsig's Decision
	// of this message.
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

// Budget changes the bounds of a session; what is not given stays.
type Budget struct {
	By          string `json:"by,omitempty"`
	TurnTimeout string `json:"turn_timeout,omitempty"` // of one turn, e.g. 90m
	// All these are of the session in all; 0 means no bound.
	Tokens    *int64 `json:"tokens,omitempty"`
	Turns     *int64 `json:"turns,omitempty"`
	Time      string `json:"time,omitempty"` // of its turns together, e.g. 8h
	Approvals *int64 `json:"approvals,omitempty"`
	Commands  *int64 `json:"commands,omitempty"`
}

// SendID names the message that takes the decision on an approval to codex.
func SendID(session string, n int) string { return fmt.Sprintf("%s.a%d", session, n) }
