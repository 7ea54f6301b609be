package live

import (
	"testing"

	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// ctl shows at once which messages the attached worker reports as acknowledged. A final
// state is shown as the session has it.
func TestAMessageThatCodexHasIsShownSo(t *testing.T) {
	v := protocol.SessionView{
		Turn:    &protocol.TurnBrief{N: 2, ID: "before", Status: "completed"},
		Process: &protocol.ProcessView{Offset: 900},
		Messages: []protocol.MessageView{
			{ID: "a", State: "decided"}, {ID: "b", State: "sent"}, {ID: "c", State: "sent"}, {ID: "d", State: "rejected"}, {ID: "e", State: "queued"},
		},
	}
	live := protocol.SessionLive{Attached: true, ThreadID: "t", TurnID: "now", Offset: 500, Acknowledged: []string{"a", "b", "d", "e"}}
	freshen(&v, protocol.SessionLive{Offset: 1000, Acknowledged: []string{"c"}}, "") // no pump is attached
	freshen(&v, live, "")
	for i, want := range []string{"acknowledged", "acknowledged", "sent", "rejected", "queued"} {
		if v.Messages[i].State != want {
			t.Errorf("message %s is %s, want %s", v.Messages[i].ID, v.Messages[i].State, want)
		}
	}
	if v.ThreadID != "t" || v.Turn.ID != "before" || v.Process.Offset != 900 {
		t.Errorf("session is %+v, turn %+v, process %+v", v, v.Turn, v.Process)
	}
}

func TestAHostThatCannotBeReachedIsSaidWhileATurnRuns(t *testing.T) {
	failed := &failurepb.Failure{Message: "session s: talk to codex: web-1 cannot be reached"}
	v := protocol.SessionView{Waits: "codex"}
	for _, c := range []struct {
		pending *workflowpb.PendingActivityInfo
		want    string
	}{
		{&workflowpb.PendingActivityInfo{Attempt: 1}, "codex"},
		{&workflowpb.PendingActivityInfo{Attempt: 12, LastFailure: failed}, "try 12, since the last one failed: session s: talk to codex: web-1 cannot be reached"},
	} {
		freshen(&v, protocol.SessionLive{}, troubleOf([]*workflowpb.PendingActivityInfo{c.pending}, payload.NewCodec("default")))
		if v.Waits != c.want {
			t.Errorf("it waits for %q, not %q", v.Waits, c.want)
		}
	}
}
