package e2e

import (
	"testing"

	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

// The workflow learns of its first thread and turn when the pump returns; the
// worker that is attached knows at once.
func TestARunningSessionShowsWhereItIs(t *testing.T) {
	session(t, "where")
	send(t, "where", "take your time at gate where")
	if _, err := shared.Model.AwaitWaiting(within(t), "where"); err != nil {
		t.Fatal(err)
	}
	at := func(v workflows.SessionView) bool {
		return v.State == workflows.Running && v.ThreadID != "" && v.Turn != nil && v.Turn.ID != "" &&
			v.Turn.Status == "inProgress" && v.Process != nil && v.Process.Alive && v.Process.Offset > 0
	}
	var v workflows.SessionView
	until(t, "the first turn to show where it is", func() (bool, error) { v = show(t, "where"); return at(v), nil })
	if len(v.Messages) != 1 || v.Messages[0].State != "acknowledged" {
		t.Errorf("codex speaks, and the message is %+v", v.Messages)
	}
	list, err := lab.Lines[workflows.SessionView](within(t), shared, "session", "list", "--state", "running")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || !at(list[0]) || list[0].ThreadID != v.ThreadID || list[0].Turn.ID != v.Turn.ID {
		t.Errorf("the list shows %+v", list)
	}

	// With no worker up it is what Temporal keeps, and no error.
	back := noWorker(t)
	if v := show(t, "where"); v.State != workflows.Running || v.Turn == nil || v.Turn.Status != "inProgress" {
		t.Errorf("with no worker the session is %+v", v)
	}
	if _, err := lab.Lines[workflows.SessionView](within(t), shared, "session", "list", "--state", "running"); err != nil {
		t.Error(err)
	}
	back()
	shared.Model.Release("where")
	after := ended(t, "where", 1)
	if after.ThreadID != v.ThreadID || after.Turn.ID != v.Turn.ID {
		t.Errorf("it was thread %s, turn %s, and is %+v", v.ThreadID, v.Turn.ID, after)
	}
}

func TestAnAcknowledgedDecisionIsShownSoWhileTheTurnGoesOn(t *testing.T) {
	session(t, "shown")
	send(t, "shown", "a long command at gate shown")
	id := open(t, "shown", 1)[0].ID
	ok(t, "approval", "accept", id)
	var ap workflows.Approval
	if err := shared.JSON(within(t), &ap, "approval", "show", id); err != nil {
		t.Fatal(err)
	}
	if v := show(t, "shown"); ap.State != workflows.ApprovalAcknowledged || v.State != workflows.Running {
		t.Errorf("the approval is %s while the session is %s", ap.State, v.State)
	}
	shared.Model.Release("shown")
	ended(t, "shown", 1)
}
