package places

import (
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// PrepareSessionInput is the input of PrepareSession.
type PrepareSessionInput struct {
	Claim   protocol.Claim    `json:"claim"`
	Seed    *protocol.SeedRef `json:"seed,omitempty"`
	Dir     string            `json:"dir,omitempty"` // --dir
	Sandbox string            `json:"sandbox"`
	// Confine is the confinement that is asked for beyond the sandbox mode.
	Confine hosts.Confinement `json:"confine,omitzero"`
	// Credentials is CredentialsPlanted (or empty) or CredentialsBroker.
	Credentials string `json:"credentials,omitempty"`
	// Restore is set if the session goes on from a parked folder or a snapshot.
	Restore *snaps.RestoreSpec `json:"restore,omitempty"`
	// Policies are the texts of the policies that judge codex's requests.
	Policies []string `json:"policies,omitempty"`
	// Snapshot says how to keep the work that another generation may have left there;
	// nil keeps all of it.
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
	// Workspace is the first content of the work folder; nil means an empty folder.
	Workspace *workspaces.Workspace `json:"workspace,omitempty"`

	Stop <-chan struct{} `json:"-"` // closed when this worker stops
}

// PrepareSessionResult says what is on the host now. Repeating the activity
// returns the same.
type PrepareSessionResult struct {
	Layout       protocol.Layout `json:"layout"`
	CodexVersion string          `json:"codex_version"`
	// Permissions is the permission profile that keeps the agent from its credential.
	// It is empty for danger-full-access. It is also empty if codex has no such profile
	// and Deps.Unprotected allows that.
	Permissions string `json:"permissions,omitempty"`
	// Unprotected says in a sentence why the agent can read its credential although
	// the sandbox should prevent that; Deps.Unprotected allowed it.
	Unprotected string `json:"unprotected,omitempty"`
	// Restored is RestoredWarm if the folder was unchanged since the session left it,
	// RestoredSnapshot if a snapshot was restored, and empty otherwise.
	Restored string `json:"restored,omitempty"`
	// Differs says in one line how a restored work folder differs from the kept one.
	Differs string `json:"differs,omitempty"`
	// ThreadID is that of the restored snapshot.
	ThreadID string `json:"thread_id,omitempty"`
	// Left is the snapshot of what lay in the folder's place and was in no other
	// snapshot.
	Left string `json:"left,omitempty"`
	// Brought describes the first content of the work folder; nil if it began empty.
	Brought *workspaces.Brought `json:"brought,omitempty"`
	// BeforeRun is the run of the hook before_run; nil if there is no such hook.
	BeforeRun *workspaces.HookRun `json:"before_run,omitempty"`
}

// StartServerInput is the input of StartServer.
type StartServerInput struct {
	Claim       protocol.Claim  `json:"claim"`
	Layout      protocol.Layout `json:"layout"`
	Incarnation int             `json:"incarnation"`
}

// StartServerResult is the state of the process after the start.
type StartServerResult struct {
	Process string `json:"process"` // its name, e.g. app-server
	PID     int    `json:"pid"`
}

// StopServerInput is the input of StopServer.
type StopServerInput struct {
	Claim       protocol.Claim  `json:"claim"`
	Layout      protocol.Layout `json:"layout"`
	Incarnation int             `json:"incarnation"`
	// Seed is the seed that was planted. If codex rotated its login, the new login is
	// saved to it.
	Seed *protocol.SeedRef `json:"seed,omitempty"`
}

// StopServerResult lists what had to be ended besides the process itself.
type StopServerResult struct {
	Survivors []process.Survivor `json:"survivors,omitempty"`
}

// CloseSessionInput is the input of CloseSession.
type CloseSessionInput struct {
	Claim       protocol.Claim      `json:"claim"`
	Layout      protocol.Layout     `json:"layout"`
	Seed        *protocol.SeedRef   `json:"seed,omitempty"`
	Incarnation int                 `json:"incarnation"` // 0: no process was ever started
	Discard     bool                `json:"discard"`     // remove even what could not be saved
	ThreadID    string              `json:"thread_id,omitempty"`
	Seq         int64               `json:"seq"`
	Notes       []conversation.Note `json:"notes,omitempty"`
	// Snapshot describes the last snapshot; nil if the session takes no snapshots.
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
	// Workspace says which hooks run, and whether the work folder stays.
	Workspace *workspaces.Workspace `json:"workspace,omitempty"`
}

// CloseSessionResult has what is certain about the host afterwards.
type CloseSessionResult struct {
	Wiped     bool               `json:"wiped"`             // the credential is gone; CloseSession checked this
	Removed   bool               `json:"removed"`           // our folder is gone; CloseSession checked this
	Archive   string             `json:"archive,omitempty"` // the snapshot that has the work and the rollouts
	Kept      string             `json:"kept,omitempty"`    // the path on the host where the work folder stays
	Unsaved   bool               `json:"unsaved,omitempty"` // after Discard: a login that codex rotated may not be in the store
	Survivors []process.Survivor `json:"survivors,omitempty"`
	Problem   *protocol.Problem  `json:"problem,omitempty"`
	Seq       int64              `json:"seq"`

	notes []conversation.Note // of hooks
}
