package batch

import (
	"fairlead.dev/fairlead/internal/protocol"
)

// Input starts a Batch workflow.
type Input struct {
	ID   string             `json:"id"`
	Spec protocol.BatchSpec `json:"spec"`
	By   string             `json:"by,omitempty"`
	// Origin is "schedule/NAME" if a schedule started the batch.
	Origin string `json:"origin,omitempty"`
	// When the batch has ended, the signal session_ended goes to the workflow with the id
	// Notify: a SessionEnded with the batch's id.
	Notify string `json:"notify,omitempty"`
	// Carry is the state of the run before or, with Retry, of the ended batch.
	Carry *BatchState          `json:"carry,omitempty"`
	Retry *protocol.RetryBatch `json:"retry,omitempty"`
}

// End is the result of a Batch workflow.
type End struct {
	View protocol.BatchView `json:"view"`
	// A retry needs Spec and State.
	Spec  protocol.BatchSpec `json:"spec"`
	State *BatchState        `json:"state"`
}
