package session

import (
	"slices"
	"testing"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// If codex begins a turn for a goal, all people who sent messages since count as having
// asked for it. So none of them may decide its requests alone.
func TestATurnThatCodexBeginsIsAskedForByAllWhoMayHaveSetItsGoal(t *testing.T) {
	from := func(id, by string) protocol.Message { return protocol.Message{ID: id, Text: "hello", By: by} }
	s := assembled(&core{id: "s1", st: &State{processState: processState{Pump: conversation.PumpState{Restless: true}}, policyState: policyState{Requesters: []string{"ada"}}}})
	if s.approvals.requestedBy(from("m2", "bob"), true); !slices.Equal(s.st.Requesters, []string{"ada", "bob"}) {
		t.Errorf("asked for by %q", s.st.Requesters)
	}
}
