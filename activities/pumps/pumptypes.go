package pumps

import (
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// RunPumpInput is the input of RunPump.
type RunPumpInput struct {
	Claim  protocol.Claim         `json:"claim"`
	Layout protocol.Layout        `json:"layout"`
	Seed   *protocol.SeedRef      `json:"seed,omitempty"` // for redaction
	Pump   conversation.PumpInput `json:"pump"`
	// Files are the files of earlier messages. A host to which the session has just
	// moved needs them.
	Files []protocol.Input `json:"files,omitempty"`
	// If Credentials is CredentialsBroker, the pump gives codex access tokens.
	Credentials string `json:"credentials,omitempty"`
	// Unkept says that the session lost its lease on the seed and that codex was stopped
	// for that. The pump only reads the journal; it neither saves the login nor watches
	// the lease.
	Unkept bool `json:"unkept,omitempty"`
	// LostAfter is how long the host may be out of reach before the pump returns
	// with HostLost; 0 means forever.
	LostAfter time.Duration `json:"lost_after,omitempty"`
	// Workflow, if set, is the id of a workflow that is sent SignalProgress with the
	// model's reports.
	Workflow string `json:"workflow,omitempty"`
	// Forget names the blobs of secret answers that codex will never be given.
	Forget []string `json:"forget,omitempty"`
	// Policies judge codex's requests. Labels (of the host) and Requesters (the people
	// who sent the turn's message or steered the turn) are input for them.
	Policies   []site.PolicyRef  `json:"policies,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Requesters []string          `json:"requesters,omitempty"`
}

// RunPumpResult is a pump's result. If the process ended, Process says how.
type RunPumpResult struct {
	Pump    conversation.PumpResult `json:"pump"`
	Process *ProcessGone            `json:"process,omitempty"`
	// HostLost is set if the host is given up. Then nothing else is set.
	HostLost *protocol.HostLost `json:"host_lost,omitempty"`
	// SeedLost says that the session does not hold its seed any more, and that the pump
	// was cancelled because of this. The login that codex makes is not saved, and codex
	// must not go on.
	SeedLost *protocol.Problem `json:"seed_lost,omitempty"`
	// PolicyBroken maps the owner (PolicyRef.Of) of each policy that cannot be used
	// to the reason. Everything was declined because of that.
	PolicyBroken map[string]string `json:"policies_broken,omitempty"`
}

// ProcessGone tells how a process ended.
type ProcessGone struct {
	State      string `json:"state"` // exited, lost, rebooted, absent
	Code       int    `json:"code"`
	StderrTail string `json:"stderr_tail,omitempty"` // redacted
}

// RecordNotesInput is the input of RecordNotes.
type RecordNotesInput struct {
	Session string              `json:"session"`
	Seq     int64               `json:"seq"`
	Notes   []conversation.Note `json:"notes"`
}

// RecordNotesResult gives the newest sequence number.
type RecordNotesResult struct {
	Seq int64 `json:"seq"`
}
