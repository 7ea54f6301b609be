package snaps

import (
	"time"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// SnapshotPolicy says what a snapshot keeps of the work folder.
type SnapshotPolicy struct {
	Work    string   `json:"work"`
	Exclude []string `json:"exclude,omitempty"` // in gitignore's syntax
	// MaxBytes limits the content; 0 is the worker's default.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// TakeSnapshotInput is the input of TakeSnapshot.
type TakeSnapshotInput struct {
	Claim  protocol.Claim    `json:"claim"`
	Layout protocol.Layout   `json:"layout"`
	Seed   *protocol.SeedRef `json:"seed,omitempty"` // to be masked
	SnapshotSpec
}

// SnapshotSpec names a snapshot and its content.
type SnapshotSpec struct {
	Policy SnapshotPolicy `json:"policy"`
	// N and At are part of the id, so that all attempts make the same snapshot.
	N  int       `json:"n"`
	At time.Time `json:"at"`
	// Parent is the newest good snapshot.
	Parent string `json:"parent,omitempty"`
	SessionFacts
}

// NoPolicy stands for no policy of the session's own.
const NoPolicy = snapshots.NoPolicy

// SessionFacts describe a thread for the session that goes on with it.
type SessionFacts struct {
	ThreadID     string                  `json:"thread_id,omitempty"`
	Thread       conversation.ThreadSpec `json:"thread"`
	CodexVersion string                  `json:"codex_version,omitempty"`
	Labels       map[string]string       `json:"labels,omitempty"` // of the host
	Cursor       protocol.Cursor         `json:"cursor"`
	Turn         int                     `json:"turn"`
	Running      bool                    `json:"running,omitempty"`
	PolicyDigest string                  `json:"policy_digest,omitempty"` // the session's own, or NoPolicy
	Confine      map[string]string       `json:"confine,omitempty"`       // the confinement asked for, in words
	Budget       string                  `json:"budget,omitempty"`        // as in --budget
}

// SnapshotBrief is what a workflow keeps of a complete snapshot.
type SnapshotBrief struct {
	ID    string    `json:"id"`
	Turn  int       `json:"turn"`
	At    time.Time `json:"at"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	Added int64     `json:"added"` // encrypted bytes new to the store
	// Unreadable counts files that could not be read. Unread names some.
	Unreadable int64    `json:"unreadable,omitempty"`
	Unread     []string `json:"unread,omitempty"`
}

// Lacks says what is missing, or "".
func (b *SnapshotBrief) Lacks() string {
	if b == nil || b.Unreadable == 0 {
		return ""
	}
	return unreadText(b.Unreadable, b.Unread)
}

// TakeSnapshotResult has a complete snapshot, read back and searched for secrets; nil if
// nothing is worth keeping yet.
type TakeSnapshotResult struct {
	Snapshot *SnapshotBrief `json:"snapshot,omitempty"`
}

// ParkSessionInput is the input of ParkSession.
type ParkSessionInput struct {
	TakeSnapshotInput
	Incarnation int                   `json:"incarnation"`
	Seq         int64                 `json:"seq"`
	Notes       []conversation.Note   `json:"notes,omitempty"`
	Workspace   *workspaces.Workspace `json:"workspace,omitempty"`
	Audit       *audit.Batch          `json:"audit,omitempty"` // to be written to the store
}

// ParkSessionResult is what is certain after ParkSession.
type ParkSessionResult struct {
	Snapshot *SnapshotBrief `json:"snapshot,omitempty"`
	Wiped    bool           `json:"wiped"`
	Seq      int64          `json:"seq"`
	Audited  int64          `json:"audited,omitempty"` // the newest audit record that is in the store
}

// RestoreSpec names the snapshot that a session continues from.
type RestoreSpec struct {
	// Snapshot is restored unless the host's folder is unchanged since generation Warm was
	// parked.
	Snapshot string `json:"snapshot"`
	Warm     int64  `json:"warm,omitempty"`
	// Fork allows another session's snapshot.
	Fork bool `json:"fork,omitempty"`
}

// From returns Snapshot, or "".
func (r *RestoreSpec) From() string {
	if r == nil {
		return ""
	}
	return r.Snapshot
}
