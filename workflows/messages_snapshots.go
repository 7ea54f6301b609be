package workflows

import (
	"time"
)

// Signals about snapshots, and about where a session runs.
const (
	SignalSnapshot = "snapshot" // TakeSnapshot → SnapshotAccepted
	SignalPark     = "park"     // Park → SessionView
	SignalResume   = "resume"   // Resume → SessionView
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

// TakeSnapshot asks for a snapshot now. The answer does not wait for it: the session's view shows
// the result of snapshot N.
type TakeSnapshot struct {
	By string `json:"by,omitempty"`
}

// SnapshotAccepted is the answer to TakeSnapshot.
type SnapshotAccepted struct {
	Session string `json:"session"`
	N       int    `json:"n"` // number among the session's snapshots, from 1
}

// SnapshotView shows a session's newest good snapshot, and how the newest attempt ended. A failed
// attempt does not hide a good snapshot.
type SnapshotView struct {
	ID    string    `json:"id"` // empty: there is none yet
	N     int       `json:"n"`
	Turn  int       `json:"turn"`
	At    time.Time `json:"at,omitzero"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	Added int64     `json:"added_bytes"`
	Lacks string    `json:"lacks,omitempty"` // what could not be read

	Taking int      `json:"taking,omitempty"` // the one that is being taken
	Tried  int      `json:"tried,omitempty"`  // the newest that has ended, well or not
	Error  *Failure `json:"error,omitempty"`  // of Tried, if that failed
}

// Park makes an idle session give back its host and seed. The next message brings it back.
type Park struct {
	By string `json:"by,omitempty"`
}

// Resume brings back a parked session, moves an idle one, or lets one whose host is lost go on
// elsewhere.
type Resume struct {
	Host string `json:"host,omitempty"` // empty: where it was, or any suitable host
	By   string `json:"by,omitempty"`
}

// WarmView is what a parked session left on its host. If it comes back there, nothing has to be
// copied.
type WarmView struct {
	Host       string    `json:"host"`
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"`
}

// LostView says that a session's host cannot be reached.
type LostView struct {
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"`
	// Stays says why the session waits for that host, if it does.
	Stays string `json:"stays,omitempty"`
}
