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
	Commanded
	Host HostSpec `json:"host"`
}

// ScanHostKeysResult has the host's keys.
type ScanHostKeysResult struct {
	Keys []HostKey `json:"keys"`
}

// ProvisionCodexResult says where codex is and how it came there.
type ProvisionCodexResult struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	How     string `json:"how"` // present, uploaded, found, repaired
	Digest  string `json:"digest,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Sums    string `json:"sums,omitempty"` // SHA-256 of the list of its files
	// Repaired says what had been changed and was put back.
	Repaired string `json:"repaired,omitempty"`
}

// ExecInput is the input of RunExec.
type ExecInput struct {
	Commanded
	ID   string   `json:"id"`
	Host HostSpec `json:"host"`
	Argv []string `json:"argv"`
}

// ExecResult says how the command ended. The worker's API has the output.
type ExecResult struct {
	State  string `json:"state"` // exited, lost, rebooted
	Code   int    `json:"code"`
	Stdout int64  `json:"stdout_bytes"`
	Stderr int64  `json:"stderr_bytes"`
}

// RotateKeysInput is the input of RotateKeys.
type RotateKeysInput struct {
	Commanded
	Check bool `json:"check,omitempty"`
}

// RotateKeysResult describes the blobs as last seen. It may miss concurrent writes and
// deletes.
type RotateKeysResult struct {
	Check   bool `json:"check"`
	Seeds   int  `json:"seeds"`
	Blobs   int  `json:"blobs"`
	Renewed int  `json:"renewed"`
	Kept    int  `json:"kept"` // already encrypted for these recipients
	Gone    int  `json:"gone"` // deleted meanwhile
	// Left counts blobs that are not encrypted for exactly these recipients, or that their
	// identities alone cannot open. LeftKeys names the first ones.
	Left     int          `json:"left"`
	LeftKeys []string     `json:"left_keys"`
	Failed   int          `json:"failed"`
	Failures []KeyFailure `json:"failures"`
	// Recipients are those for whom all is to be encrypted, and Former those of the
	// worker's further identities. Unneeded says that nothing in the store needs the
	// latter.
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

// A KeyFailure is a blob that could not be read or encrypted anew.
type KeyFailure struct {
	Key   string `json:"key"`
	Error string `json:"error"`
}

// PruneSnapshotsInput is the input of PruneSnapshots.
type PruneSnapshotsInput struct {
	Commanded
	Session string        `json:"session,omitempty"` // empty means all
	Keep    int           `json:"keep,omitempty"`    // newest of each session; 0 means SnapshotLimits.Keep
	MaxAge  time.Duration `json:"max_age,omitempty"` // 0 means SnapshotLimits.MaxAge
	DryRun  bool          `json:"dry_run,omitempty"`
}

// PruneSnapshotsResult lists the dropped snapshots.
type PruneSnapshotsResult struct {
	Snapshots []string `json:"snapshots"`
	// Unasked sessions could not be asked what they need; nothing of theirs was dropped.
	Unasked   []string `json:"unasked,omitempty"`
	Packs     int      `json:"packs"`
	Condemned int      `json:"condemned"` // for a later run to delete
	Freed     int64    `json:"freed"`     // bytes
}

// CheckSnapshotsInput is the input of CheckSnapshots.
type CheckSnapshotsInput struct {
	Commanded
	ReadData bool `json:"read_data,omitempty"` // read every byte, not only check that it exists
}

// CheckSnapshotsResult lists the snapshots that cannot be restored.
type CheckSnapshotsResult struct {
	Snapshots int      `json:"snapshots"`
	Chunks    int64    `json:"chunks"`
	Packs     int      `json:"packs"`
	Problems  []string `json:"problems"`          // a snapshot, and why it cannot be restored
	Damaged   []string `json:"damaged,omitempty"` // their ids
}

// SnapshotsProgress is in the heartbeats of PruneSnapshots and CheckSnapshots.
type SnapshotsProgress struct {
	Step  string `json:"step"`
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"` // 0 if unknown
}

func (p SnapshotsProgress) String() string {
	if p.Total > 0 {
		return fmt.Sprintf("%s: %d of %d", p.Step, p.Done, p.Total)
	}
	return fmt.Sprintf("%s: %d", p.Step, p.Done)
}

// Use is what a session has used so far. Viewers of an attached pump see it before the pump
// returns.
type Use struct {
	Usage      Usage       `json:"usage"`
	TurnUsage  Usage       `json:"turn_usage"`
	Context    *ContextUse `json:"context,omitempty"`
	RateLimits *RateLimits `json:"rate_limits,omitempty"`
}

// A Deliverable is a file that codex handed over, or wanted to. It outlives its session.
type Deliverable struct {
	Session     string    `json:"session"`
	Call        string    `json:"call"` // id in the session
	Turn        int       `json:"turn"`
	Name        string    `json:"name"`
	Version     int       `json:"version"` // from 1, per name
	Path        string    `json:"path"`    // in the work folder, without links
	Bytes       int64     `json:"bytes"`
	Digest      string    `json:"digest"`
	At          time.Time `json:"at"`
	Description string    `json:"description,omitempty"`
	// Newest says that no deliverable of this name came later.
	Newest bool `json:"newest"`
	// Verdict is a person's, if the session asks for verdicts and there is one yet.
	Verdict *FileVerdict `json:"verdict,omitempty"`
}

// A WorkDiff has the changes in a work folder since the session began.
type WorkDiff struct {
	Session string `json:"session"`
	Text    string `json:"diff"`
	Cut     bool   `json:"cut"`
}

// SessionLive tells viewers that this worker attached to a session's process, or detached.
// While attached, one is sent at once when the thread, the turn or a delivery changes; for
// other changes about every second.
type SessionLive struct {
	Attached bool   `json:"attached"`
	Reason   string `json:"reason,omitempty"` // why the pump returned; empty if it has not
	Seq      int64  `json:"seq"`              // of the newest entry
	// ThreadID, TurnID, Offset and Use are set while the pump is attached.
	ThreadID string `json:"thread_id,omitempty"`
	TurnID   string `json:"turn_id,omitempty"`
	Offset   int64  `json:"offset,omitempty"`
	Use      *Use   `json:"use,omitempty"`
	// Acknowledged are the sends acknowledged since the pump was attached.
	Acknowledged []string  `json:"acknowledged,omitempty"`
	Progress     *Progress `json:"progress,omitempty"`
	Notices      *Notices  `json:"notices,omitempty"`
}

// An ExecChunk is a piece of a command's output. At is its offset in the stream.
type ExecChunk struct {
	Stream string `json:"stream"` // stdout, stderr
	At     int64  `json:"at"`
	Data   []byte `json:"data"`
}
