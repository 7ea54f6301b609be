package records

import (
	"encoding/json"

	"fairlead.dev/fairlead/internal/protocol"
)

// Live is the worker's hub for live events. They are stored soon after, or never need to
// be.
type Live interface {
	// Publish returns at once and is safe for concurrent use.
	//
	// A topic is SessionTopic or ExecTopic. A second attempt publishes entries again with
	// the same Seq; viewers drop them. An entry is stored within some seconds, and before
	// the workflow gets it.
	Publish(topic string, ev LiveEvent)
}

// A LiveEvent is one thing to show.
type LiveEvent struct {
	// Kind is entry (Data is an Entry), delta (a Delta), state (a SessionLive or ExecLive)
	// or output (an ExecChunk).
	Kind string `json:"kind"`
	// Seq is the entry's, else 0.
	Seq  int64           `json:"seq,omitempty"`
	Data json.RawMessage `json:"data"`
}

// Kinds of live events.
const (
	LiveEntry  = "entry"
	LiveDelta  = "delta"
	LiveState  = "state"
	LiveOutput = "output"
)

// SessionTopic is for a session's events.
func SessionTopic(session string) string { return "session/" + session }

// ExecTopic is for a command's output.
func ExecTopic(id string) string { return "exec/" + id }

// ExecLive tells viewers how a command ended.
type ExecLive struct {
	Ended  bool                `json:"ended"`
	Result protocol.ExecResult `json:"result"`
}
