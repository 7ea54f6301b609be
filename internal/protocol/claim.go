package protocol

import "time"

// ActivityClaimStart records that a signed start was used, and refuses one that begins with what
// its principal may not read: ClaimStart → StartClaimed.
const ActivityClaimStart = "ClaimStart"

// ClaimStart names a signed start.
type ClaimStart struct {
	Workflow string    `json:"workflow"`
	Run      string    `json:"run"` // the first run of the workflow
	Nonce    string    `json:"nonce"`
	At       time.Time `json:"at"` // when it was signed
	// Schedule is the Schedule whose input was signed. Such a start is used again and again,
	// for as long as that Schedule exists.
	Schedule string `json:"schedule,omitempty"`
	// Reads is what the start needs of others. Nonce may then be empty.
	Reads *StartReads `json:"reads,omitempty"`
}

// StartReads is what a session begins with that its principal must be allowed to read.
type StartReads struct {
	Principal string   `json:"principal"`
	Groups    []string `json:"groups,omitempty"`
	Session   string   `json:"session"` // that begins
	Snapshot  string   `json:"snapshot,omitempty"`
	// Owners are those of files that other principals uploaded: session.ID, batch.ID or
	// schedule.NAME.
	Owners []string `json:"owners,omitempty"`
}

// Renew is the content of SignalRenew.
type Renew struct{}

// StartClaimed says why a start does not count.
type StartClaimed struct {
	Refused string `json:"refused,omitempty"`
}
