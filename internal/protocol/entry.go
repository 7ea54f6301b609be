package protocol

import (
	"time"
)

// EntryType is the type of an entry.
type EntryType string

const (
	EntryUser       EntryType = "user"
	EntryAssistant  EntryType = "assistant"
	EntryReasoning  EntryType = "reasoning"
	EntryCommand    EntryType = "command"
	EntryFileChange EntryType = "file_change"
	EntryTool       EntryType = "tool"
	EntryRequest    EntryType = "request"
	EntryDecision   EntryType = "decision"
	EntryState      EntryType = "state"
	EntryError      EntryType = "error"
)

// An Entry is one line of a transcript. The same journal and inputs give the same ID and
// Seq.
type Entry struct {
	Seq  int64     `json:"seq"`
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Turn int       `json:"turn"`
	Type EntryType `json:"type"`
	Text string    `json:"text"`

	Command  string            `json:"command,omitempty"`
	CWD      string            `json:"cwd,omitempty"`
	ExitCode *int              `json:"exit_code,omitempty"`
	Status   string            `json:"status,omitempty"`
	Changes  []Change          `json:"changes,omitempty"`
	Tool     string            `json:"tool,omitempty"`
	Item     string            `json:"item,omitempty"` // codex's id, as in Delta
	Digest   string            `json:"digest,omitempty"`
	Data     map[string]string `json:"data,omitempty"`
}

// A Delta is text of an unfinished item. At is its byte position in the item's text, by
// which a viewer knows what it has. Deltas are never stored.
type Delta struct {
	Item string    `json:"item"`
	Type EntryType `json:"type"` // assistant, reasoning, command
	Turn int       `json:"turn"`
	At   int64     `json:"at"`
	Text string    `json:"text"`
}
