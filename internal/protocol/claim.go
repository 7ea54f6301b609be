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
	// Judge, if set, is to be judged with what is known of the host.
	Judge *JudgeStart `json:"judge,omitempty"`
	// Audit has records to be written if the start counts.
	Audit *AuditBatch `json:"audit,omitempty"`
	// Owns, if set, takes the id of a session for its owner.
	Owns *SessionOwner `json:"owns,omitempty"`
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

// SessionOwner says whose a session's id is, and with it all that the store has under it.
type SessionOwner struct {
	Session string            `json:"session"`
	Owner   string            `json:"owner"` // a principal
	Labels  map[string]string `json:"labels,omitempty"`
	Tenant  string            `json:"tenant,omitempty"`
}

// JudgeStart asks whether a principal may start a task on a host, and whether the machine
// that the principal named is that host.
type JudgeStart struct {
	Principal string   `json:"principal"`
	Groups    []string `json:"groups,omitempty"`
	Verb      string   `json:"verb"`
	Type      string   `json:"type"` // of the workflow
	Host      HostSpec `json:"host"`
	Seed      string   `json:"seed,omitempty"`
}

// Renew is the content of SignalRenew.
type Renew struct{}

// StartClaimed says why a start does not count. It names the start, so that the answer to one
// does not count for another.
type StartClaimed struct {
	Refused string `json:"refused,omitempty"`
	Run     string `json:"run,omitempty"`
	Nonce   string `json:"nonce,omitempty"`
	// Audited is the newest record that was written.
	Audited int64 `json:"audited,omitempty"`
}
