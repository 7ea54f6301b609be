package pumps

import (
	"slices"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// RunPumpInput is the input of RunPump.
type RunPumpInput struct {
	Claim  protocol.Claim         `json:"claim"`
	Layout protocol.Layout        `json:"layout"`
	Seed   *protocol.SeedRef      `json:"seed,omitempty"` // for redaction
	Pump   conversation.PumpInput `json:"pump"`
	// Files are those of earlier messages, for a host to which the session moved.
	Files []protocol.Input `json:"files,omitempty"`
	// Credentials is CredentialsBroker if the pump gives codex access tokens, and
	// CredentialsGateway if it serves the model.
	Credentials string `json:"credentials,omitempty"`
	// Account is the name under which the model gateway counts what the session uses. If it is
	// empty, nothing is counted.
	Account string `json:"account,omitempty"`
	// Tenant is that of the session; empty means the default one. It is set with the model gateway
	// alone.
	Tenant string `json:"tenant,omitempty"`
	// Egress are the rules of what programs of the session may reach through the worker.
	Egress []string `json:"egress,omitempty"`
	// Unkept says that the session lost its lease on the seed and codex was stopped for
	// that. The pump only reads the journal, and does not save the login or watch the
	// lease.
	Unkept bool `json:"unkept,omitempty"`
	// LostAfter is how long the host may be out of reach; 0 means forever.
	LostAfter time.Duration `json:"lost_after,omitempty"`
	// Team are the tools of a team that codex may call.
	Team *protocol.ToolsGiven `json:"team_tools,omitempty"`
	// Workflow, if set, gets the model's reports as SignalProgress.
	Workflow string `json:"workflow,omitempty"`
	// Forget names blobs of secret answers that codex will never get.
	Forget []string `json:"forget,omitempty"`
	// Policies judge requests. Requesters sent the turn's message or steered the turn.
	Policies   []site.PolicyRef  `json:"policies,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Requesters []string          `json:"requesters,omitempty"`
	Audit      *audit.Batch      `json:"audit,omitempty"` // to be written to the store
}

// RunPumpResult is a pump's result. If the process ended, Process says how.
type RunPumpResult struct {
	Pump    conversation.PumpResult `json:"pump"`
	Process *ProcessGone            `json:"process,omitempty"`
	// HostLost is set if the host is given up, and then nothing else is.
	HostLost *protocol.HostLost `json:"host_lost,omitempty"`
	// SeedLost says that the session lost its seed, which ended the pump. codex's login is
	// not saved; codex must not go on.
	SeedLost *protocol.Problem `json:"seed_lost,omitempty"`
	// PolicyBroken maps the owner (PolicyRef.Of) of an unusable policy to the reason.
	// Everything was declined.
	PolicyBroken map[string]string `json:"policies_broken,omitempty"`
	// Model is what the model gateway did; nil without one, or if it did nothing.
	Model *protocol.ModelUse `json:"model,omitempty"`
	// Egress is what programs of the session reached through the worker; nil if nothing.
	Egress *protocol.EgressUse `json:"egress,omitempty"`
	// Audited is the newest audit record that is in the store.
	Audited int64 `json:"audited,omitempty"`
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
	Audit   *audit.Batch        `json:"audit,omitempty"` // to be written to the store
}

// RecordNotesResult gives the newest sequence number.
type RecordNotesResult struct {
	Seq     int64 `json:"seq"`
	Audited int64 `json:"audited,omitempty"` // the newest audit record that is in the store
}

// Urgent reports whether the pump brings to codex what a person decided. It may then have a
// slot beyond the limit (see activities/slots).
func (in RunPumpInput) Urgent() bool {
	return slices.ContainsFunc(in.Pump.Sends, func(s conversation.Send) bool {
		return s.Kind == conversation.SendDecision || s.Kind == conversation.SendInterrupt
	})
}
