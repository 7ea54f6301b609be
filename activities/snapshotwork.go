package activities

import (
	"time"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// SnapshotPolicy says what of the work folder a snapshot keeps.
type SnapshotPolicy struct {
	Work    string   `json:"work"`
	Exclude []string `json:"exclude,omitempty"` // in gitignore's syntax
	// MaxBytes bounds the content of one snapshot; 0 is the worker's default.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// TakeSnapshotInput is the input of TakeSnapshot.
type TakeSnapshotInput struct {
	Claim  protocol.Claim    `json:"claim"`
	Layout protocol.Layout   `json:"layout"`
	Seed   *protocol.SeedRef `json:"seed,omitempty"` // what is to be masked
	SnapshotSpec
}

// SnapshotSpec says which snapshot is to be taken, and what of.
type SnapshotSpec struct {
	Policy SnapshotPolicy `json:"policy"`
	// N and At name it, so that every attempt makes the same one.
	N  int       `json:"n"`
	At time.Time `json:"at"`
	// Parent is the session's newest good one.
	Parent string `json:"parent,omitempty"`
	SessionFacts
}

// NoPolicy stands for a session without a policy of its own.
const NoPolicy = snapshots.NoPolicy

// SessionFacts are how a thread was set up, for whoever goes on with it.
type SessionFacts struct {
	ThreadID     string                  `json:"thread_id,omitempty"`
	Thread       conversation.ThreadSpec `json:"thread"`
	CodexVersion string                  `json:"codex_version,omitempty"`
	Labels       map[string]string       `json:"labels,omitempty"` // of the host
	Cursor       protocol.Cursor         `json:"cursor"`
	Turn         int                     `json:"turn"`
	Running      bool                    `json:"running,omitempty"`       // the turn had not ended
	PolicyDigest string                  `json:"policy_digest,omitempty"` // of the session's own policy, or NoPolicy
	Confine      map[string]string       `json:"confine,omitempty"`       // what was asked of the sandbox, in words
	Budget       string                  `json:"budget,omitempty"`        // as --budget says it
}

// SnapshotBrief is what a workflow remembers of a complete snapshot.
type SnapshotBrief struct {
	ID    string    `json:"id"`
	Turn  int       `json:"turn"`
	At    time.Time `json:"at"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	Added int64     `json:"added"` // encrypted, new to the store
	// Unreadable counts what the host would not let us read, so that the snapshot
	// lacks it; Unread names some of it.
	Unreadable int64    `json:"unreadable,omitempty"`
	Unread     []string `json:"unread,omitempty"`
}

// Lacks says what the snapshot lacks; empty if it lacks nothing.
func (b *SnapshotBrief) Lacks() string {
	if b == nil || b.Unreadable == 0 {
		return ""
	}
	return unreadText(b.Unreadable, b.Unread)
}

// TakeSnapshotResult is a snapshot that is complete, read back and searched.
// Snapshot is nil if there is nothing worth keeping yet.
type TakeSnapshotResult struct {
	Snapshot *SnapshotBrief `json:"snapshot,omitempty"`
}

// ParkSessionInput is the input of ParkSession.
type ParkSessionInput struct {
	TakeSnapshotInput
	Incarnation int                 `json:"incarnation"`
	Seq         int64               `json:"seq"`
	Notes       []conversation.Note `json:"notes,omitempty"`
	// Workspace says which hooks run.
	Workspace *Workspace `json:"workspace,omitempty"`
}

// ParkSessionResult says what is certain afterwards.
type ParkSessionResult struct {
	Snapshot *SnapshotBrief `json:"snapshot,omitempty"`
	Wiped    bool           `json:"wiped"`
	Seq      int64          `json:"seq"`
}

// RestoreSpec says from what a session goes on when it is prepared.
type RestoreSpec struct {
	// Snapshot is restored on the host, unless the folder there is as generation Warm
	// of the session left it when it was parked.
	Snapshot string `json:"snapshot"`
	Warm     int64  `json:"warm,omitempty"`
	// Fork says that the snapshot may be another session's.
	Fork bool `json:"fork,omitempty"`
}

// SnapshotLimits are a worker's configured limits of snapshots.
type SnapshotLimits struct {
	Keep     int           // newest of each session; 0 is all
	MaxAge   time.Duration // 0 is any; the newest of a session is kept in any case
	MaxBytes int64         // of what one holds; 0 is no bound
}
