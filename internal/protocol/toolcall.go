package protocol

import "time"

// TypeToolCall is a workflow that has a team's worker carry out one call of a tool, as an
// activity: CallToolInput → CallToolResult. Only workers start it.
const TypeToolCall = "ToolCall"

// ToolCallID is the workflow of a call. No call has the id of another one, so Temporal runs it
// once.
func ToolCallID(call string) string { return "toolcall/" + call }

// A RawPayload is a payload of Temporal as the team's worker reads or wrote it.
type RawPayload struct {
	Metadata map[string][]byte `json:"metadata,omitempty"`
	Data     []byte            `json:"data,omitempty"`
}

// Size returns about how many bytes the payload has.
//
//workflowcheck:ignore // a pure function: the order of a sum does not matter
func (p *RawPayload) Size() (n int) {
	if p == nil {
		return 0
	}
	for k, v := range p.Metadata {
		n += len(k) + len(v)
	}
	return n + len(p.Data)
}

// CallToolInput is one call. The payload is its argument.
type CallToolInput struct {
	ID       string        `json:"id"`
	Tool     string        `json:"tool"`
	Session  string        `json:"session"`
	Activity ToolActivity  `json:"activity"`
	Wait     time.Duration `json:"wait"` // bounds all attempts
	Argument RawPayload    `json:"argument"`
}

// MaxToolAnswer bounds the payload of an answer, in bytes.
const MaxToolAnswer = 256 << 10

// A ToolOutcome says how a call ended.
type ToolOutcome string

const (
	ToolAnswered ToolOutcome = "answered"
	ToolTooLong  ToolOutcome = "too_long"  // answered with more than MaxToolAnswer
	ToolRefused  ToolOutcome = "refused"   // the activity failed, and is not to be tried again
	ToolFailed   ToolOutcome = "failed"    // its last permitted attempt failed
	ToolNotBegun ToolOutcome = "not_begun" // no worker ever took it
	ToolTimedOut ToolOutcome = "timed_out"
	ToolStopped  ToolOutcome = "stopped" // by somebody who has access to Temporal
)

// CallToolResult is how a call ended.
type CallToolResult struct {
	Outcome ToolOutcome `json:"outcome"`
	Answer  *RawPayload `json:"answer,omitempty"` // nil also if the activity returned nothing
	Why     string      `json:"why,omitempty"`    // what the last attempt failed with
	Bytes   int         `json:"bytes,omitempty"`  // of an answer that is too long
}
