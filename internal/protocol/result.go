package protocol

import (
	"fmt"
	"time"
)

// A Check is one line of `ctl host check`.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	// Required says that sessions cannot run without it.
	Required bool `json:"required"`
}

// CheckHostResult is the result of a probe. Facts are os, arch, libc, cpus, memory_mb,
// disk_free_mb, shell, codex, sandbox, clock_skew.
type CheckHostResult struct {
	OK        bool              `json:"ok"`
	Checks    []Check           `json:"checks"`
	Facts     map[string]string `json:"facts"`
	CheckedAt time.Time         `json:"checked_at"`
}

// ScanHostKeysInput is the input of ScanHostKeys.
type ScanHostKeysInput struct {
	Host HostSpec `json:"host"`
}

// ScanHostKeysResult lists the keys that the host showed.
type ScanHostKeysResult struct {
	Keys []HostKey `json:"keys"`
}

// ProvisionCodexResult says where codex is and how it came there.
type ProvisionCodexResult struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	How     string `json:"how"` // present, uploaded, found
	Digest  string `json:"digest,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
}

// ExecInput is the input of RunExec.
type ExecInput struct {
	ID   string   `json:"id"`
	Host HostSpec `json:"host"`
	Argv []string `json:"argv"`
}

// ExecResult says how the command ended. The worker's API streams and keeps its output.
type ExecResult struct {
	State  string `json:"state"` // exited, lost, rebooted
	Code   int    `json:"code"`
	Stdout int64  `json:"stdout_bytes"`
	Stderr int64  `json:"stderr_bytes"`
}

// RotateKeysInput is the input of RotateKeys.
type RotateKeysInput struct {
	// Check changes nothing, and only reports.
	Check bool `json:"check,omitempty"`
}

// RotateKeysResult describes the blobs in the store, as they were last seen. It may miss
// blobs that others write or delete meanwhile.
type RotateKeysResult struct {
	Check   bool `json:"check"`
	Seeds   int  `json:"seeds"`   // blobs of seeds
	Blobs   int  `json:"blobs"`   // all blobs, including the store's own key
	Renewed int  `json:"renewed"` // encrypted anew
	Kept    int  `json:"kept"`    // already encrypted for exactly these recipients
	Gone    int  `json:"gone"`    // deleted meanwhile
	// Left counts blobs that are not encrypted for exactly these recipients, or that the
	// identities of these recipients alone cannot open. LeftKeys names the first of them.
	Left     int          `json:"left"`
	LeftKeys []string     `json:"left_keys"`
	Failed   int          `json:"failed"`
	Failures []KeyFailure `json:"failures"`
	// Recipients are the recipients for whom everything is to be encrypted. Former are the
	// recipients of further identities that the worker has. Unneeded says that nothing in
	// the store needs those identities any more.
	Recipients []string `json:"recipients"`
	Former     []string `json:"former"`
	Unneeded   bool     `json:"unneeded"`
}

// RotateKeysProgress is in the heartbeats of RotateKeys.
type RotateKeysProgress struct {
	Step    string `json:"step"` // encrypting, checking
	Done    int    `json:"done"`
	Total   int    `json:"total"`
	Renewed int    `json:"renewed"`
	Failed  int    `json:"failed"`
}

// A KeyFailure is a blob that could not be encrypted anew, or not be read.
type KeyFailure struct {
	Key   string `json:"key"`
	Error string `json:"error"`
}

// PruneSnapshotsInput is the input of PruneSnapshots.
type PruneSnapshotsInput struct {
	Session string        `json:"session,omitempty"` // if set, only the snapshots of this session
	Keep    int           `json:"keep,omitempty"`    // number of the newest of each session to keep; 0 means the worker's SnapshotLimits.Keep
	MaxAge  time.Duration `json:"max_age,omitempty"` // 0 means the worker's SnapshotLimits.MaxAge
	DryRun  bool          `json:"dry_run,omitempty"`
}

// PruneSnapshotsResult lists the dropped snapshots.
type PruneSnapshotsResult struct {
	Snapshots []string `json:"snapshots"` // dropped
	// Unasked are sessions that could not be asked which snapshots they need. None of their
	// snapshots was dropped.
	Unasked   []string `json:"unasked,omitempty"`
	Packs     int      `json:"packs"`     // deleted
	Condemned int      `json:"condemned"` // to be deleted by a later run
	Freed     int64    `json:"freed"`     // bytes of the store
}

// CheckSnapshotsInput is the input of CheckSnapshots.
type CheckSnapshotsInput struct {
	ReadData bool `json:"read_data,omitempty"` // read every byte, and not only check that it exists
}

// CheckSnapshotsResult lists the snapshots that cannot be restored.
type CheckSnapshotsResult struct {
	Snapshots int      `json:"snapshots"`
	Chunks    int64    `json:"chunks"`
	Packs     int      `json:"packs"`
	Problems  []string `json:"problems"`          // a snapshot that cannot be restored, and why
	Damaged   []string `json:"damaged,omitempty"` // ids of these snapshots
}

// SnapshotsProgress is in the heartbeats of PruneSnapshots and CheckSnapshots.
type SnapshotsProgress struct {
	Step  string `json:"step"` // what is being done, in a word or two
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"` // 0 if it is not known
}

func (p SnapshotsProgress) String() string {
	if p.Total > 0 {
		return fmt.Sprintf("%s: %d of %d", p.Step, p.Done, p.Total)
	}
	return fmt.Sprintf("%s: %d", p.Step, p.Done)
}

// Use shows how much a session has used by now. Viewers of an attached pump see it before
// the pump returns.
type Use struct {
	Usage      Usage       `json:"usage"`      // of the session
	TurnUsage  Usage       `json:"turn_usage"` // of the running turn
	Context    *ContextUse `json:"context,omitempty"`
	RateLimits *RateLimits `json:"rate_limits,omitempty"`
}

// A Deliverable is a file that codex has handed over, or wanted to hand over. Like the
// transcript, it outlives its session.
type Deliverable struct {
	Session     string    `json:"session"`
	Call        string    `json:"call"` // its id in the session
	Turn        int       `json:"turn"`
	Name        string    `json:"name"`
	Version     int       `json:"version"` // from 1, among the deliverables of the same name
	Path        string    `json:"path"`    // in the work folder, without links
	Bytes       int64     `json:"bytes"`
	Digest      string    `json:"digest"` // SHA-256
	At          time.Time `json:"at"`
	Description string    `json:"description,omitempty"`
	// Newest says that no deliverable of the same name came later.
	Newest bool `json:"newest"`
}

// A WorkDiff has the changes in a session's work folder since the session's start.
type WorkDiff struct {
	Session string `json:"session"`
	Text    string `json:"diff"`
	Cut     bool   `json:"cut"`
}

// SessionLive tells viewers that this worker attached to a session's process, or detached.
// While it is attached, a SessionLive is sent at once when the thread, the turn or a
// delivery changes. For other changes one is sent about every second.
type SessionLive struct {
	Attached bool   `json:"attached"`
	Reason   string `json:"reason,omitempty"` // why the pump returned; empty if it has not
	Seq      int64  `json:"seq"`              // of the newest entry
	// ThreadID, TurnID and Offset are the place of the pump, while it is attached.
	ThreadID string `json:"thread_id,omitempty"`
	TurnID   string `json:"turn_id,omitempty"`
	Offset   int64  `json:"offset,omitempty"`
	// Use shows how much was used so far, while the pump is attached.
	Use *Use `json:"use,omitempty"`
	// Acknowledged are the sends that codex has acknowledged since the pump was attached.
	Acknowledged []string `json:"acknowledged,omitempty"`
	// Progress is the model's last report of progress.
	Progress *Progress `json:"progress,omitempty"`
}

// An ExecChunk is a piece of a command's output. At is its offset in the stream, so that a
// viewer can tell which bytes it has.
type ExecChunk struct {
	Stream string `json:"stream"` // stdout, stderr
	At     int64  `json:"at"`
	Data   []byte `json:"data"`
}
