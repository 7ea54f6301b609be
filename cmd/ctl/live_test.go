package main

import (
	"testing"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

// What codex has by now is shown as soon as the attached worker knows; what is
// settled stays as the session has it.
func TestAMessageThatCodexHasIsShownSo(t *testing.T) {
	v := workflows.SessionView{
		Turn:    &workflows.TurnBrief{N: 2, ID: "before", Status: "completed"},
		Process: &workflows.ProcessView{Offset: 900},
		Messages: []workflows.MessageView{
			{ID: "a", State: "decided"}, {ID: "b", State: "sent"}, {ID: "c", State: "sent"}, {ID: "d", State: "rejected"}, {ID: "e", State: "queued"},
		},
	}
	live := activities.SessionLive{Attached: true, ThreadID: "t", TurnID: "now", Offset: 500, Acknowledged: []string{"a", "b", "d", "e"}}
	freshen(&v, activities.SessionLive{Offset: 1000, Acknowledged: []string{"c"}}) // nobody is attached
	freshen(&v, live)
	for i, want := range []string{"acknowledged", "acknowledged", "sent", "rejected", "queued"} {
		if v.Messages[i].State != want {
			t.Errorf("message %s is %s, want %s", v.Messages[i].ID, v.Messages[i].State, want)
		}
	}
	if v.ThreadID != "t" || v.Turn.ID != "before" || v.Process.Offset != 900 {
		t.Errorf("session is %+v, turn %+v, process %+v", v, v.Turn, v.Process)
	}
}
