package protocol

import (
	"encoding/json"
)

// BatchItem is one session to be started.
type BatchItem struct {
	ID      string          `json:"id"`
	Options int             `json:"options"`
	First   json.RawMessage `json:"first"`
}

// BatchOptions are the options of sessions, and the task queue of their zone's workers.
type BatchOptions struct {
	Queue   string                     `json:"queue"`
	Session map[string]json.RawMessage `json:"session"`
}

// A BatchPage is a part of a batch's items, as it is in the store. Options and
// first messages are those of the workflow Session, which activities do not know.
type BatchPage struct {
	// Options are few and items many: an item names its options by index.
	Options []BatchOptions `json:"options"`
	Items   []BatchItem    `json:"items"`
}
