package snaps

import (
	"time"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// SnapshotPolicy says which part of the work folder a snapshot keeps.
type SnapshotPolicy struct {
	Work    string   `json:"work"`
	Exclude []string `json:"exclude,omitempty"` // in gitignore's syntax
	// MaxBytes limits the content of one snapshot; 0 is the worker's default.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// TakeSnapshotInput is the input of TakeSnapshot.
type TakeSnapshotInput struct {
	Claim  protocol.Claim    `json:"claim"`
	Layout protocol.Layout   `json:"layout"`
	Seed   *protocol.SeedRef `json:"seed,omitempty"` // its secrets are masked
	SnapshotSpec
}

// SnapshotSpec names a snapshot to be taken, and says what it keeps.
type SnapshotSpec struct {
	Policy SnapshotPolicy `json:"policy"`
	// N and At are part of the snapshot's id, so that every attempt makes the same
	// snapshot.
	N  int       `json:"n"`
	At time.Time `json:"at"`
	// Parent is the session's newest good snapshot.
	Parent string `json:"parent,omitempty"`
	SessionFacts
}

// NoPolicy stands for a session without a policy of its own.
const NoPolicy = snapshots.NoPolicy

// SessionFacts describe how a thread was set up, for a session that goes on with it.
type SessionFacts struct {
	ThreadID     string                  `json:"thread_id,omitempty"`
	Thread       conversation.ThreadSpec `json:"thread"`
	CodexVersion string                  `json:"codex_version,omitempty"`
	Labels       map[string]string       `json:"labels,omitempty"` // of the host
	Cursor       protocol.Cursor         `json:"cursor"`
	Turn         int                     `json:"turn"`
	Running      bool                    `json:"running,omitempty"`       // the turn had not ended
	PolicyDigest string                  `json:"policy_digest,omitempty"` // of the session's own policy, or NoPolicy
	Confine      map[string]string       `json:"confine,omitempty"`       // the confinement that was asked for, in words
	Budget       string                  `json:"budget,omitempty"`        // in the form of --budget
}

// SnapshotBrief has the facts of a complete snapshot that a workflow remembers.
type SnapshotBrief struct {
	ID    string    `json:"id"`
	Turn  int       `json:"turn"`
	At    time.Time `json:"at"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	Added int64     `json:"added"` // encrypted bytes that were new to the store
	// Unreadable is the number of files that the snapshot lacks because the host would
	// not let us read them. Unread names some of them.
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

// TakeSnapshotResult has a snapshot that is complete, was read back and was searched
// for secrets. Snapshot is nil if nothing is worth keeping yet.
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
	Workspace *workspaces.Workspace `json:"workspace,omitempty"`
}

// ParkSessionResult has what is certain afterwards.
type ParkSessionResult struct {
	Snapshot *SnapshotBrief `json:"snapshot,omitempty"`
	Wiped    bool           `json:"wiped"`
	Seq      int64          `json:"seq"`
}

// RestoreSpec says from which snapshot or folder a session goes on.
type RestoreSpec struct {
	// Snapshot is restored on the host. It is not restored if the folder there is
	// unchanged since generation Warm of the session was parked.
	Snapshot string `json:"snapshot"`
	Warm     int64  `json:"warm,omitempty"`
	// Fork says that the snapshot may be another session's.
	Fork bool `json:"fork,omitempty"`
}

// From returns the snapshot to restore; "" if there is none.
func (r *RestoreSpec) From() string {
	if r == nil {
		return ""
	}
	return r.Snapshot
}
