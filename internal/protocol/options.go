package protocol

import (
	"time"
)

// codex's sandbox modes.
const (
	ReadOnly       = "read-only"
	WorkspaceWrite = "workspace-write"
	FullAccess     = "danger-full-access"
)

// ByProfile is the sandbox of a session whose commands run under a permission profile of
// the seed.
const ByProfile = "profile"

// Values of Confinement.Network. Empty leaves it to the sandbox, which blocks the network.
const (
	NetworkOff   = "off"
	NetworkOn    = "on"
	NetworkHosts = "hosts" // only Confinement.Hosts, through codex's proxy
)

// How a session's codex gets its credential.
const (
	// CredentialsPlanted: auth.json is on the host while the session lives.
	CredentialsPlanted = "planted"
	// CredentialsBroker: the host gets no auth.json. Pumps give codex a short-lived access
	// token, which stays in memory.
	CredentialsBroker = "broker"
	// CredentialsGateway: the host gets neither auth.json nor a key, and need not reach a
	// provider. Codex asks the worker, by a port of the host's loopback address.
	CredentialsGateway = "gateway"
)

// Ways are how a session's codex may get its credential.
var Ways = []string{CredentialsPlanted, CredentialsBroker, CredentialsGateway}

// NoDefault removes a seed's default of credentials.
const NoDefault = "none"

// Whose default it is how a session gets its credential, in the option credentials_by of a view.
// A session that says it has no such option.
const (
	BySeed         = "seed"
	ByOrganisation = "organisation"
	ByLocalHost    = "local host" // the gateway, which the seed's default names, does not serve it
)

// What a snapshot has of the work folder.
const (
	WorkNone = "none" // the conversation alone
	WorkGit  = "git"  // commits that the upstream lacks, and the state of the tree
	WorkFull = "full" // everything except the excluded files
)

// SnapshotOptions say what snapshots have, and when they are taken.
type SnapshotOptions struct {
	Work    string        `json:"work,omitempty"`
	Exclude []string      `json:"exclude,omitempty"` // in gitignore's syntax
	When    string        `json:"when,omitempty"`
	Every   time.Duration `json:"every,omitempty"` // within a turn; 0 means never
}

// When a session takes snapshots. Parking and closing take one, except with SnapshotOff.
const (
	SnapshotTurn  = "turn" // after each turn; default
	SnapshotClose = "close"
	SnapshotOff   = "off"
)

// What a session does if its host is lost.
const (
	HostLostWait = "wait" // default
	HostLostMove = "move"
)

// Watchdogs bound how long codex and the model may take. Zero means the default beside the
// field. Waits for people do not count.
type Watchdogs struct {
	StartUp time.Duration `json:"startup,omitempty"` // from start to first answer; 60 s
	Request time.Duration `json:"request,omitempty"` // for codex to answer a request or take a message; 60 s
	Silence time.Duration `json:"silence,omitempty"` // without output, before codex is asked for a sign of life; 2 min
	Quiet   time.Duration `json:"quiet,omitempty"`   // of the model after a tool ended; 30 min; negative means no limit
	// Retry bounds a turn in which codex only tries again to reach its provider; 30 min;
	// negative means no limit.
	Retry time.Duration `json:"retry,omitempty"`
}

// Bounds of a watchdog.
const (
	LeastWatch = time.Second
	MostWatch  = 7 * 24 * time.Hour
)

// StartTimeout is the default limit from the acceptance of a session to the start of its
// first turn. Sessions survive a fault of one night, not of a day.
const StartTimeout = 24 * time.Hour

// What a session does when its turn failed because a newer access token was late, although
// the login is good.
const (
	AuthRetry = "retry" // send the message again, if the turn cannot have had effects
	AuthAsk   = "ask"   // wait for a message
)

// What a session does when codex's process died or was retired during a turn.
const (
	InterruptAsk      = "ask"      // wait for a message, interrupted
	InterruptContinue = "continue" // tell codex to continue, in a new process
	InterruptFail     = "fail"     // close as failed
)

// What a session does when its turn failed at the account's or the provider's rate limit.
const (
	LimitFail = "fail" // wait for a message
	LimitWait = "wait" // wait for the limit's end, and send the message again
	// LimitSwitch goes on with the next healthy seed of the pool when a quota ends, and
	// waits if there is none.
	LimitSwitch = "switch"
)

// DefaultTenant is for sessions that name none.
const DefaultTenant = "default"

// Priorities of sessions that wait for a slot.
const (
	FirstPriority   = 1
	DefaultPriority = 3
	LastPriority    = 5
)

const (
	// MaxSchemaInline bounds the schema in a message, in bytes. A longer one goes through
	// the store.
	MaxSchemaInline = 16 << 10
	// MaxInstructions bounds developer instructions, in bytes.
	MaxInstructions = 16 << 10
)

// MaxPolicy bounds a policy, in bytes: a session's state holds it.
const MaxPolicy = 64 << 10

// IsSandbox reports whether name is a sandbox mode.
func IsSandbox(name string) bool {
	switch name {
	case ReadOnly, WorkspaceWrite, FullAccess, ByProfile:
		return true
	}
	return false
}

// NoLoginOnHost reports whether sessions with these credentials have no login on their host.
func NoLoginOnHost(credentials string) bool {
	return credentials == CredentialsBroker || credentials == CredentialsGateway
}
