package places

import (
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// PrepareSessionInput is the input of PrepareSession.
type PrepareSessionInput struct {
	Claim   protocol.Claim    `json:"claim"`
	Seed    *protocol.SeedRef `json:"seed,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	Sandbox string            `json:"sandbox"`
	// Confine is asked for beyond the sandbox mode.
	Confine hosts.Confinement `json:"confine,omitzero"`
	// Credentials is CredentialsPlanted (or empty), CredentialsBroker or CredentialsGateway.
	Credentials string `json:"credentials,omitempty"`
	// Egress lists the hosts that programs of the session may reach through the worker (see package rule).
	Egress []string `json:"egress,omitempty"`
	// Restore is a parked folder or a snapshot to go on from, or nil.
	Restore *snaps.RestoreSpec `json:"restore,omitempty"`
	// Policies are texts that judge codex's requests.
	Policies []string `json:"policies,omitempty"`
	// Snapshot says how to keep another generation's work; nil keeps all.
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
	// Workspace is the first content of the work folder, or nil.
	Workspace *workspaces.Workspace `json:"workspace,omitempty"`

	// Bounded says that the seed bounds what the session may ask for.
	Bounded bool `json:"bounded,omitempty"`
	// Agents are the session's instructions in AGENTS.md. Base replaces codex's own base
	// instructions.
	Agents *protocol.GivenText `json:"agents,omitempty"`
	Base   *protocol.GivenText `json:"base,omitempty"`
	// Team are tools of a team that the session has beside those of its seed.
	Team *protocol.ToolsGiven `json:"team_tools,omitempty"`

	Stop <-chan struct{} `json:"-"` // closed when this worker stops
}

// PrepareSessionResult is the same when PrepareSession is repeated, apart from CodexRepaired.
type PrepareSessionResult struct {
	Layout       protocol.Layout `json:"layout"`
	CodexVersion string          `json:"codex_version"`
	// Credentials is the default of the organisation, if it counts and is not planted.
	Credentials string `json:"credentials,omitempty"`
	// Permissions is the permission profile that keeps the agent from its credential. It is
	// empty for danger-full-access, or if codex has none and Deps.Unprotected allows that.
	Permissions string `json:"permissions,omitempty"`
	// Unprotected says why the agent can read its credential, if that is allowed.
	Unprotected string `json:"unprotected,omitempty"`
	// Restored is RestoredWarm (unchanged since the session left it), RestoredSnapshot, or
	// empty.
	Restored string `json:"restored,omitempty"`
	// Differs says in one line how a restored work folder differs from the kept one.
	Differs string `json:"differs,omitempty"`
	// ThreadID is that of the restored snapshot.
	ThreadID string `json:"thread_id,omitempty"`
	// Left is the snapshot of what was there and in no other snapshot.
	Left string `json:"left,omitempty"`
	// CodexRepaired says that codex on the host had been changed, and was put back.
	CodexRepaired string `json:"codex_repaired,omitempty"`
	// Brought is the first content of the work folder, or nil.
	Brought *workspaces.Brought `json:"brought,omitempty"`
	// BeforeRun is the run of the hook before_run, or nil.
	BeforeRun *workspaces.HookRun `json:"before_run,omitempty"`
	// FollowUps are the rules that the seed gives to its sessions.
	FollowUps []protocol.FollowUp `json:"follow_ups,omitempty"`
}

// StartServerInput is the input of StartServer.
type StartServerInput struct {
	Claim       protocol.Claim  `json:"claim"`
	Layout      protocol.Layout `json:"layout"`
	Incarnation int             `json:"incarnation"`
	// Bounded says that the seed bounds what the session may ask for.
	Bounded bool         `json:"bounded,omitempty"`
	Audit   *audit.Batch `json:"audit,omitempty"` // to be written to the store
}

// StartServerResult describes the running process.
type StartServerResult struct {
	Process string `json:"process"` // such as app-server
	PID     int    `json:"pid"`
	// CodexRepaired is as in PrepareSessionResult.
	CodexRepaired string `json:"codex_repaired,omitempty"`
	Audited       int64  `json:"audited,omitempty"` // the newest audit record that is in the store
}

// StopServerInput is the input of StopServer.
type StopServerInput struct {
	Claim       protocol.Claim  `json:"claim"`
	Layout      protocol.Layout `json:"layout"`
	Incarnation int             `json:"incarnation"`
	// Seed is the planted seed; a rotated login is saved to it.
	Seed *protocol.SeedRef `json:"seed,omitempty"`
}

// StopServerResult lists what had to be ended besides the process.
type StopServerResult struct {
	Survivors []process.Survivor `json:"survivors,omitempty"`
}

// CloseSessionInput is the input of CloseSession.
type CloseSessionInput struct {
	Claim       protocol.Claim      `json:"claim"`
	Layout      protocol.Layout     `json:"layout"`
	Seed        *protocol.SeedRef   `json:"seed,omitempty"`
	Incarnation int                 `json:"incarnation"` // 0: none was ever started
	Discard     bool                `json:"discard"`     // remove even what could not be saved
	ThreadID    string              `json:"thread_id,omitempty"`
	Seq         int64               `json:"seq"`
	Notes       []conversation.Note `json:"notes,omitempty"`
	// Snapshot is nil if the session takes none.
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
	// Workspace says which hooks run, and whether the work folder stays.
	Workspace *workspaces.Workspace `json:"workspace,omitempty"`
	Audit     *audit.Batch          `json:"audit,omitempty"` // to be written to the store
}

// CloseSessionResult has what is certain about the host afterwards.
type CloseSessionResult struct {
	Wiped     bool               `json:"wiped"`             // the credential is gone (checked)
	Removed   bool               `json:"removed"`           // our folder is gone (checked)
	Archive   string             `json:"archive,omitempty"` // has the work and the rollouts
	Kept      string             `json:"kept,omitempty"`    // path of the work folder that stays
	Unsaved   bool               `json:"unsaved,omitempty"` // after Discard: a rotated login may not be in the store
	Survivors []process.Survivor `json:"survivors,omitempty"`
	Problem   *protocol.Problem  `json:"problem,omitempty"`
	Seq       int64              `json:"seq"`
	Audited   int64              `json:"audited,omitempty"` // the newest audit record that is in the store

	notes []conversation.Note
}
