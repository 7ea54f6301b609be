package activities

import (
	"time"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
)

// Workflows speak of hosts and conversations only through these names.
type (
	HostSpec    = hostexec.Spec
	HostKey     = hostexec.HostKey
	Survivor    = hostexec.Survivor
	ThreadSpec  = conversation.ThreadSpec
	PumpState   = conversation.PumpState
	Cursor      = conversation.Cursor
	Usage       = conversation.Usage
	Send        = conversation.Send
	SendKind    = conversation.SendKind
	Outcome     = conversation.Outcome
	Delivery    = conversation.Delivery
	Note        = conversation.Note
	Request     = conversation.Request
	Change      = conversation.Change
	Question    = conversation.Question
	Ruling      = conversation.Ruling
	Judged      = conversation.Judged
	Problem     = conversation.Problem
	TurnEnd     = conversation.TurnEnd
	Limits      = conversation.Limits
	Act         = conversation.Act
	Review      = conversation.Review
	Model       = conversation.Model
	ModelList   = conversation.ModelList
	Bounds      = conversation.Budget
	BudgetUse   = conversation.BudgetUse
	Tell        = conversation.Tell
	PumpResult  = conversation.PumpResult
	PumpReason  = conversation.PumpReason
	RequestKind = conversation.RequestKind
	Progress    = conversation.Progress
	EntryType   = conversation.EntryType
	Input       = conversation.Input
	RateLimits  = conversation.RateLimits
	RateWindow  = conversation.RateWindow
	ContextUse  = conversation.Context
)

// LocalHost is the name of the host that is this machine.
const LocalHost = hostexec.Local

// A Claim says who acts on a host for which session. Its epoch is completed
// with the activity's attempt; the host refuses a lower one.
type Claim struct {
	Session    string   `json:"session"`
	Host       HostSpec `json:"host"`
	Generation int64    `json:"generation"`
	Pump       int64    `json:"pump"`
	// Told says that codex was told secrets in answers: what hides them is in
	// the store.
	Told bool `json:"told,omitempty"`
}

// SeedRef names one generation of a seed. The bundle itself is only ever in
// the store (encrypted) and on the host (0600).
type SeedRef struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Blob       string `json:"blob"`
	Digest     string `json:"digest"` // of the manifest
	Kind       string `json:"kind"`
	// Epoch is that of the lease under which a session holds it; 0 outside of one.
	Epoch int64 `json:"epoch,omitempty"`
}

// Layout is where a session lives on its host; all paths absolute.
type Layout struct {
	Root      string `json:"root"`       // ours on the host
	Dir       string `json:"dir"`        // Root/sessions/<id>
	CodexHome string `json:"codex_home"` // Dir/codex-home
	WorkDir   string `json:"work_dir"`   // Dir/work, or the person's own --dir
	OwnWork   bool   `json:"own_work"`   // WorkDir is ours to remove
	Codex     string `json:"codex"`      // the binary
}

// PrepareSessionInput: bring codex, folders and credentials to the host.
type PrepareSessionInput struct {
	Claim   Claim    `json:"claim"`
	Seed    *SeedRef `json:"seed,omitempty"`
	Dir     string   `json:"dir,omitempty"` // --dir
	Sandbox string   `json:"sandbox"`
	// Confine is what is asked of the sandbox beyond its mode.
	Confine Confinement `json:"confine,omitzero"`
	// Credentials are planted (or empty), or a broker's.
	Credentials string `json:"credentials,omitempty"`
	// Restore is set where the session goes on with what was kept of it.
	Restore *RestoreSpec `json:"restore,omitempty"`
	// Policies are the texts of those that judge what codex asks for.
	Policies []string `json:"policies,omitempty"`
	// Snapshot is how to keep what another generation may have left there; nil
	// keeps all of it.
	Snapshot *SnapshotSpec `json:"snapshot,omitempty"`
	// Workspace is what the session begins to work in; nil is an empty folder.
	Workspace *Workspace `json:"workspace,omitempty"`

	stop <-chan struct{} // closed when this worker stops
}

// PrepareSessionResult says what is there now. Repeating gives the same.
type PrepareSessionResult struct {
	Layout       Layout `json:"layout"`
	CodexVersion string `json:"codex_version"`
	// Permissions is the profile that keeps the agent from its credential;
	// empty for danger-full-access, or where codex knows none and that is allowed.
	Permissions string `json:"permissions,omitempty"`
	// Unprotected says in a sentence why the agent can read its credential
	// although the sandbox should keep it from that; a policy allowed it.
	Unprotected string `json:"unprotected,omitempty"`
	// Restored is warm, where the folder was there as it was left, or snapshot.
	Restored string `json:"restored,omitempty"`
	// Differs says in what a restored work folder is not as it was, in a line.
	Differs string `json:"differs,omitempty"`
	// ThreadID is that of the restored snapshot.
	ThreadID string `json:"thread_id,omitempty"`
	// Left is the snapshot that was made of what lay in the folder's place, and
	// was in no other one.
	Left string `json:"left,omitempty"`
	// Brought is what the session began to work in; nil where it was not begun
	// with anything.
	Brought *Brought `json:"brought,omitempty"`
	// BeforeRun is that hook, if there is one.
	BeforeRun *HookRun `json:"before_run,omitempty"`
}

// StartServerInput: start codex app-server as a journaled process.
type StartServerInput struct {
	Claim       Claim  `json:"claim"`
	Layout      Layout `json:"layout"`
	Incarnation int    `json:"incarnation"`
}

// StartServerResult is the state of the process after the start.
type StartServerResult struct {
	Process string `json:"process"` // its name, e.g. app-server
	PID     int    `json:"pid"`
}

// RunPumpInput: attach to the process and converse until the workflow is needed.
type RunPumpInput struct {
	Claim  Claim                  `json:"claim"`
	Layout Layout                 `json:"layout"`
	Seed   *SeedRef               `json:"seed,omitempty"` // for redaction
	Pump   conversation.PumpInput `json:"pump"`
	// Files of earlier messages, which are to be on a host where the session
	// has just arrived.
	Files []Input `json:"files,omitempty"`
	// Credentials: with a broker's, the pump gives codex access tokens.
	Credentials string `json:"credentials,omitempty"`
	// LostAfter is how long the host may be out of reach before the pump
	// returns with HostLost; 0 is for ever.
	LostAfter time.Duration `json:"lost_after,omitempty"`
	// Workflow, if set, is sent SignalProgress with what the model reports.
	Workflow string `json:"workflow,omitempty"`
	// Forget are secret answers that codex will never be given.
	Forget []string `json:"forget,omitempty"`
	// Policies judge what codex asks for; Labels are the host's, Requesters are
	// who sent the turn's message and who steered it, for them.
	Policies   []PolicyRef       `json:"policies,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Requesters []string          `json:"requesters,omitempty"`
}

// RunPumpResult is a pump's result and, when the process ended, how.
type RunPumpResult struct {
	Pump    PumpResult   `json:"pump"`
	Process *ProcessGone `json:"process,omitempty"`
	// HostLost: nothing else of the result is set.
	HostLost *HostLost `json:"host_lost,omitempty"`
	// SeedLost says that the session does not hold its seed any more: what
	// codex makes of the login is not saved, and it must not go on. A turn is
	// called back for it.
	SeedLost *Problem `json:"seed_lost,omitempty"`
	// PolicyBroken says why everything was declined, where a policy could not be
	// used: for each such one by whose it is.
	PolicyBroken map[string]string `json:"policies_broken,omitempty"`
}

// ProcessGone tells how a process ended.
type ProcessGone struct {
	State      string `json:"state"` // exited, lost, rebooted, absent
	Code       int    `json:"code"`
	StderrTail string `json:"stderr_tail,omitempty"` // redacted
}

// StopServerInput: end the process and whatever it left behind.
type StopServerInput struct {
	Claim       Claim  `json:"claim"`
	Layout      Layout `json:"layout"`
	Incarnation int    `json:"incarnation"`
	// Seed is what was planted: a login that codex rotated is saved back.
	Seed *SeedRef `json:"seed,omitempty"`
}

// StopServerResult lists what had to be ended besides the process itself.
type StopServerResult struct {
	Survivors []Survivor `json:"survivors,omitempty"`
}

// CloseSessionInput: stop, save, wipe, remove and prove it; last notes are written.
type CloseSessionInput struct {
	Claim       Claim    `json:"claim"`
	Layout      Layout   `json:"layout"`
	Seed        *SeedRef `json:"seed,omitempty"`
	Incarnation int      `json:"incarnation"` // 0: no process was ever started
	Discard     bool     `json:"discard"`     // remove even what could not be saved
	ThreadID    string   `json:"thread_id,omitempty"`
	Seq         int64    `json:"seq"`
	Notes       []Note   `json:"notes,omitempty"`
	// Snapshot is the last one; nil where the session takes none at all.
	Snapshot *SnapshotSpec `json:"snapshot,omitempty"`
	// Workspace says which hooks run, and whether the work folder stays.
	Workspace *Workspace `json:"workspace,omitempty"`
}

// CloseSessionResult says what is certain about the host afterwards.
type CloseSessionResult struct {
	Wiped     bool       `json:"wiped"`             // the credential is gone, looked at
	Removed   bool       `json:"removed"`           // our folder is gone, looked at
	Archive   string     `json:"archive,omitempty"` // where work and rollouts are kept
	Kept      string     `json:"kept,omitempty"`    // where on the host the work folder stays
	Unsaved   bool       `json:"unsaved,omitempty"` // discarded: a login that codex rotated may be in no store
	Survivors []Survivor `json:"survivors,omitempty"`
	Problem   *Problem   `json:"problem,omitempty"`
	Seq       int64      `json:"seq"`

	notes []Note // of hooks
}

// RecordNotesInput: write transcript entries of the workflow's with no host.
type RecordNotesInput struct {
	Session string `json:"session"`
	Seq     int64  `json:"seq"`
	Notes   []Note `json:"notes"`
}

// RecordNotesResult gives the newest sequence number.
type RecordNotesResult struct {
	Seq int64 `json:"seq"`
}

// A Check is one line of `ctl host check`.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	// Required says that sessions cannot run without it.
	Required bool `json:"required"`
}

// CheckHostInput: probe a host.
type CheckHostInput struct {
	Host HostSpec `json:"host"`
}

// CheckHostResult is what the probe found. Facts are os, arch, libc, cpus,
// memory_mb, disk_free_mb, shell, codex, sandbox, clock_skew.
type CheckHostResult struct {
	OK        bool              `json:"ok"`
	Checks    []Check           `json:"checks"`
	Facts     map[string]string `json:"facts"`
	CheckedAt time.Time         `json:"checked_at"`
}

// ScanHostKeysInput: ask for a host's keys, trusting nothing.
type ScanHostKeysInput struct {
	Host HostSpec `json:"host"`
}

// ScanHostKeysResult lists what the host showed.
type ScanHostKeysResult struct {
	Keys []HostKey `json:"keys"`
}

// ProvisionCodexInput: put the pinned codex onto a host.
type ProvisionCodexInput struct {
	Host HostSpec `json:"host"`
}

// ProvisionCodexResult says where codex is and how it came there.
type ProvisionCodexResult struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	How     string `json:"how"` // present, uploaded, found
	Digest  string `json:"digest,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
}

// ExecInput: run a command of a person's on a host as a journaled process.
type ExecInput struct {
	ID   string   `json:"id"`
	Host HostSpec `json:"host"`
	Argv []string `json:"argv"`
}

// ExecResult is how it ended. Output is streamed and kept by the worker's API.
type ExecResult struct {
	State  string `json:"state"` // exited, lost, rebooted
	Code   int    `json:"code"`
	Stdout int64  `json:"stdout_bytes"`
	Stderr int64  `json:"stderr_bytes"`
}

// DeleteSeedInput: remove a seed's blobs from the store.
type DeleteSeedInput struct {
	Name  string   `json:"name"`
	Blobs []string `json:"blobs"`
	// Before is when the seed was deleted: what was in the store by then goes,
	// also what the seed never took. What came later is of a seed to come.
	Before time.Time `json:"before,omitzero"`
}
