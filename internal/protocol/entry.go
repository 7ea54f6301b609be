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

	EntryPlan         EntryType = "plan"          // the model's plan, whole, after a change
	EntryMCPServer    EntryType = "mcp_server"    // an MCP server has started, or not
	EntryToolProgress EntryType = "tool_progress" // what an MCP tool says while it works
	EntryHook         EntryType = "hook"          // a hook of codex has run
	EntryReroute      EntryType = "reroute"       // another model answers
	EntryContext      EntryType = "context"       // how full the context window is
	EntryItem         EntryType = "item"          // an item that is none of the others; Data has its type
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
	// Agent is the sub-agent that the entry is from; nil for the session's own thread.
	Agent *Agent     `json:"agent,omitempty"`
	Plan  []PlanStep `json:"plan,omitempty"`
}

// SubAgent returns the thread of the sub-agent that the entry is from, or "". Entries of
// older workers have it only in Data.
func (e Entry) SubAgent() string {
	switch {
	case e.Agent != nil:
		return e.Agent.Thread
	case e.Type == EntryState || e.Type == EntryDecision:
		return "" // Data names another thread, if any
	}
	return e.Data["thread"]
}

// A Delta is text of an unfinished item. At is its byte position in the item's text, by
// which a viewer knows what it has. Deltas are never stored.
type Delta struct {
	Item string    `json:"item"`
	Type EntryType `json:"type"` // assistant, reasoning, command, tool_progress
	Turn int       `json:"turn"`
	At   int64     `json:"at"`
	Text string    `json:"text"`
	// Command is the command that runs, in its first piece, which may have no text.
	Command string `json:"command,omitempty"`
	Agent   *Agent `json:"agent,omitempty"` // as in Entry
}
