package workflows

import (
	"time"
)

// What people and programs say of snapshots, and of where a session goes on.
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

// What a session does whose host is lost.
const (
	HostLostWait = "wait" // for the host (the default)
	HostLostMove = "move" // goes on elsewhere
)

// SnapshotOptions say what a session's snapshots hold, and when they are taken.
type SnapshotOptions struct {
	Work    string        `json:"work,omitempty"`    // none, git or full; see activities.WorkFull
	Exclude []string      `json:"exclude,omitempty"` // in gitignore's syntax
	When    string        `json:"when,omitempty"`    // turn, close or off
	Every   time.Duration `json:"every,omitempty"`   // also within a turn; 0 is not
}

// TakeSnapshot asks for a snapshot now. It does not wait for it: the session's
// view says what became of snapshot N.
type TakeSnapshot struct {
	By string `json:"by,omitempty"`
}

// SnapshotAccepted is the answer to TakeSnapshot.
type SnapshotAccepted struct {
	Session string `json:"session"`
	N       int    `json:"n"` // of the session's snapshots, from 1
}

// SnapshotView is the newest good snapshot of a session, and how the newest try
// ended: one that failed hides none that is good.
type SnapshotView struct {
	ID    string    `json:"id"` // empty: there is none yet
	N     int       `json:"n"`
	Turn  int       `json:"turn"`
	At    time.Time `json:"at,omitzero"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	Added int64     `json:"added_bytes"`
	Lacks string    `json:"lacks,omitempty"` // what could not be read there

	Taking int      `json:"taking,omitempty"` // the one that is being taken
	Tried  int      `json:"tried,omitempty"`  // the newest whose taking has ended, well or not
	Error  *Failure `json:"error,omitempty"`  // of Tried, where that failed
}

// Park asks an idle session to give back host and seed; the next message
// brings it back.
type Park struct {
	By string `json:"by,omitempty"`
}

// Resume brings a parked session back, moves an idle one, and has one whose
// host is lost go on elsewhere.
type Resume struct {
	Host string `json:"host,omitempty"` // where; empty: where it was, or any that will do
	By   string `json:"by,omitempty"`
}

// WarmView is what a parked session left on its host: there it comes back
// without anything having to travel.
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
	// Stays says why the session waits for that host, where it does.
	Stays string `json:"stays,omitempty"`
}
