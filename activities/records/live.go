package records

import (
	"encoding/json"

	"fairlead.dev/fairlead/internal/protocol"
)

// Live shows events to people while they happen. It is the worker's own hub. Everything
// that is published is in the store soon after, or never needs to be there.
type Live interface {
	// Publish hands an event to whoever watches the topic. It returns at once
	// whether or not anybody does, and is safe for concurrent use.
	//
	// A topic is SessionTopic or ExecTopic. A second attempt publishes the entries of
	// the first again, with the same Seq; viewers drop those that they have. An entry
	// is in the store at the latest a few seconds after it was published, and before
	// the workflow gets it.
	Publish(topic string, ev LiveEvent)
}

// A LiveEvent is one thing to show.
type LiveEvent struct {
	// Kind is entry (Data is an Entry), delta (a Delta), state (a
	// SessionLive or ExecLive) or output (an ExecChunk).
	Kind string `json:"kind"`
	// Seq is the entry's; 0 for other kinds.
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

// SessionTopic is the topic of a session's events.
func SessionTopic(session string) string { return "session/" + session }

// ExecTopic is the topic of a command's output.
func ExecTopic(id string) string { return "exec/" + id }

// ExecLive tells viewers that a command has ended and how.
type ExecLive struct {
	Ended  bool                `json:"ended"`
	Result protocol.ExecResult `json:"result"`
}
