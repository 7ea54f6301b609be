package batch

import (
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Input starts a Batch workflow.
type Input struct {
	protocol.Commanded
	ID   string             `json:"id"`
	Spec protocol.BatchSpec `json:"spec"`
	By   string             `json:"by,omitempty"`
	// Groups are those that the login of By named. The worker sets them when it admits the
	// start.
	Groups []string `json:"groups,omitempty"`
	// Judged is the principal whose command to run the batch, or its schedule, was judged.
	// Workers set it.
	Judged string `json:"judged,omitempty"`
	// Origin is empty or "schedule/NAME".
	Origin string `json:"origin,omitempty"`
	// Notify is the id of a workflow that gets the signal session_ended at the end.
	Notify string `json:"notify,omitempty"`
	// Carry is the state of the former run or, with Retry, of the ended batch.
	Carry *BatchState          `json:"carry,omitempty"`
	Retry *protocol.RetryBatch `json:"retry,omitempty"`

	newer kit.Newer // a field that this program does not know
}

// UnmarshalJSON notes a field that this program does not know.
func (in *Input) UnmarshalJSON(raw []byte) (err error) {
	type plain Input
	in.newer, err = kit.Known(raw, (*plain)(in))
	return err
}

// Required implements newer.Input.
func (in Input) Required() []string { return nil }

// Unknown implements newer.Input.
func (in Input) Unknown() []string { return in.newer.Fields() }

// Given returns the JSON of an input that has a field which this program does not know, and
// otherwise nil. The signature of a start is of this JSON.
func (in Input) Given() []byte { return in.newer.Given() }

// End is the result of a Batch workflow.
type End struct {
	View protocol.BatchView `json:"view"`
	// Spec and State are for a retry.
	Spec  protocol.BatchSpec `json:"spec"`
	State *BatchState        `json:"state"`
}
