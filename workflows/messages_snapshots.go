package workflows

import (
	"time"
)

// When a session takes snapshots by itself. One that parks or closes always
// takes one, unless it is SnapshotOff.
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

// SnapshotOptions say what a session's snapshots contain and when they are taken.
type SnapshotOptions struct {
	Work    string        `json:"work,omitempty"`    // none, git or full; see activities.WorkFull
	Exclude []string      `json:"exclude,omitempty"` // in gitignore's syntax
	When    string        `json:"when,omitempty"`    // turn, close or off
	Every   time.Duration `json:"every,omitempty"`   // interval within a turn; 0 means none
}
