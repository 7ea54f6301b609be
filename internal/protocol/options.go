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

// ByProfile is the sandbox of a session whose commands run under a permission
// profile of the seed.
const ByProfile = "profile"

// Values of Confinement.Network; empty leaves the network to the sandbox, which
// blocks it.
const (
	NetworkOff   = "off"
	NetworkOn    = "on"
	NetworkHosts = "hosts" // only Confinement.Hosts, through codex's own proxy
)

// The ways in which a session's codex gets its credential.
const (
	// With CredentialsPlanted, auth.json is on the host while the session lives.
	CredentialsPlanted = "planted"
	// With CredentialsBroker, the host gets no auth.json. Pumps give codex a short-lived
	// access token, which codex keeps only in memory.
	CredentialsBroker = "broker"
)

// Policies for the work folder in a snapshot.
const (
	WorkNone = "none" // the conversation alone
	WorkGit  = "git"  // commits that the upstream does not have, and the state of the tree
	WorkFull = "full" // everything except the excluded files
)

// SnapshotOptions set the contents of a session's snapshots, and when they are taken.
type SnapshotOptions struct {
	Work    string        `json:"work,omitempty"`    // none, git or full; see WorkFull
	Exclude []string      `json:"exclude,omitempty"` // in gitignore's syntax
	When    string        `json:"when,omitempty"`    // turn, close or off
	Every   time.Duration `json:"every,omitempty"`   // interval within a turn; 0 means none
}

// The times at which a session takes snapshots by itself. Unless the value is SnapshotOff,
// a session always takes a snapshot when it parks or closes.
const (
	SnapshotTurn  = "turn"  // after each turn (the default)
	SnapshotClose = "close" // when it parks or closes
	SnapshotOff   = "off"   // never
)

// What a session does if its host is lost.
const (
	HostLostWait = "wait" // it waits for the host (the default)
	HostLostMove = "move" // it goes on elsewhere
)

// Watchdogs bound how long codex and the model may take. Zero means the default named
// beside a field. Time in which the session waits only for a person never counts.
type Watchdogs struct {
	StartUp time.Duration `json:"startup,omitempty"` // until codex answers after its start; 60 s
	Request time.Duration `json:"request,omitempty"` // until codex answers a request or takes a message; 60 s
	Silence time.Duration `json:"silence,omitempty"` // without output of codex, before it is asked for a sign of life; 2 min
	Quiet   time.Duration `json:"quiet,omitempty"`   // silence of the model after a tool has ended; 30 min, negative means no limit
}

// Bounds of a watchdog. A value of less than a second is a mistake, and one of more than a
// week would never help.
const (
	LeastWatch = time.Second
	MostWatch  = 7 * 24 * time.Hour
)

// StartTimeout is the default limit on the time from the acceptance of a session until its
// first turn can begin. The session waits during a fault that lasts a night. A fault that
// nobody mends for a day fails it.
const StartTimeout = 24 * time.Hour

// What a session does when its turn failed because codex could not get a newer access token in
// time, although the login is good.
const (
	AuthRetry = "retry" // sends the message once more if the turn cannot have had effects
	AuthAsk   = "ask"   // waits for a message
)

// What a session does when its turn is cut off because codex's process died or was retired.
const (
	InterruptAsk      = "ask"      // it waits for a message, interrupted
	InterruptContinue = "continue" // it tells codex to continue, in a new process
	InterruptFail     = "fail"     // it closes as failed
)

// What a session does when a turn failed because the account's limit, or the provider's limit on
// the rate of requests, was reached.
const (
	LimitFail = "fail" // it shows the failure and waits for a message
	LimitWait = "wait" // it waits until the limit ends and sends the message again
)

// DefaultTenant is the tenant of a session that names none.
const DefaultTenant = "default"

// Priorities of sessions that wait for a slot.
const (
	FirstPriority   = 1
	DefaultPriority = 3
	LastPriority    = 5
)

const (
	// MaxSchemaInline bounds an output schema in a message, in bytes of JSON. A longer
	// schema goes through the store.
	MaxSchemaInline = 16 << 10
	// MaxInstructions bounds developer instructions, in bytes.
	MaxInstructions = 16 << 10
)

// MaxPolicy bounds the text of a policy, in bytes, because the state of a session holds the
// text.
const MaxPolicy = 64 << 10

// IsSandbox reports whether name is a sandbox: one of codex's modes, or ByProfile.
func IsSandbox(name string) bool {
	switch name {
	case ReadOnly, WorkspaceWrite, FullAccess, ByProfile:
		return true
	}
	return false
}
