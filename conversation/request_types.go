package conversation

import (
	"encoding/json"

	"fairlead.dev/fairlead/internal/protocol"
)

// Asked is the request that a policy judges, not redacted and not cut. It is never stored.
type Asked struct {
	Kind        protocol.RequestKind
	Action      string // what to do with the command, if not run it
	Command     string
	CWD         string
	Changes     []AskedChange
	GrantRoot   string
	NetworkHost string
	Permissions json.RawMessage
	Server      string
	Tool        string
	Arguments   string // of an MCP tool: JSON, sorted keys, no spaces
	Reason      string
	Digest      string
	Turn        int
	Model       string
	Counts      Counts
	ID          string // of the request: its codex process and its RPC id
}

// AskedChange is one file of a file change.
type AskedChange struct {
	Path, Kind, MovedTo string
}

// Counts are a session's approvals before a request.
type Counts struct {
	InTurn    int `json:"in_turn,omitempty"`
	InMinute  int `json:"in_minute,omitempty"` // in the 60 s before, by codex's clock
	InSession int `json:"in_session,omitempty"`
	Accepted  int `json:"accepted,omitempty"`
	Declined  int `json:"declined,omitempty"`
}

// A Verdict is a policy's answer. Outcome is Accept or Decline; empty means that a person
// is asked.
type Verdict struct {
	Outcome    protocol.Outcome
	ForSession bool
	Rule       string
	Reason     string
	Policy     string // digest of the policy file
	Risk       string // of a Ruling
}
