package approvals

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// The workflow learns the first thread and turn only when the pump returns; the
// attached worker knows them at once.
func TestARunningSessionShowsWhereItIs(t *testing.T) {
	e2e.Session(t, "where")
	e2e.Send(t, "where", "take your time at gate where")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "where"); err != nil {
		t.Fatal(err)
	}
	at := func(v protocol.SessionView) bool {
		return v.State == protocol.Running && v.ThreadID != "" && v.Turn != nil && v.Turn.ID != "" &&
			v.Turn.Status == "inProgress" && v.Process != nil && v.Process.Alive && v.Process.Offset > 0
	}
	var v protocol.SessionView
	e2e.Until(t, "the first turn to show where it is", func() (bool, error) { v = e2e.Show(t, "where"); return at(v), nil })
	if len(v.Messages) != 1 || v.Messages[0].State != "acknowledged" {
		t.Errorf("codex speaks, and the message is %+v", v.Messages)
	}
	list, err := lab.Lines[protocol.SessionView](e2e.Within(t), e2e.Lab, "session", "list", "--state", "running")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || !at(list[0]) || list[0].ThreadID != v.ThreadID || list[0].Turn.ID != v.Turn.ID {
		t.Errorf("the list shows %+v", list)
	}

	// Without a worker, ctl shows what Temporal stores, without an error.
	back := e2e.NoWorker(t)
	if v := e2e.Show(t, "where"); v.State != protocol.Running || v.Turn == nil || v.Turn.Status != "inProgress" {
		t.Errorf("with no worker the session is %+v", v)
	}
	if _, err := lab.Lines[protocol.SessionView](e2e.Within(t), e2e.Lab, "session", "list", "--state", "running"); err != nil {
		t.Error(err)
	}
	back()
	e2e.Lab.Model.Release("where")
	after := e2e.Ended(t, "where", 1)
	if after.ThreadID != v.ThreadID || after.Turn.ID != v.Turn.ID {
		t.Errorf("it was thread %s, turn %s, and is %+v", v.ThreadID, v.Turn.ID, after)
	}
}

func TestAnAcknowledgedDecisionIsShownSoWhileTheTurnGoesOn(t *testing.T) {
	e2e.Session(t, "shown")
	e2e.Send(t, "shown", "a long command at gate shown")
	id := e2e.Open(t, "shown", 1)[0].ID
	e2e.OK(t, "approval", "accept", id)
	var ap protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &ap, "approval", "show", id); err != nil {
		t.Fatal(err)
	}
	if v := e2e.Show(t, "shown"); ap.State != protocol.ApprovalAcknowledged || v.State != protocol.Running {
		t.Errorf("the approval is %s while the session is %s", ap.State, v.State)
	}
	e2e.Lab.Model.Release("shown")
	e2e.Ended(t, "shown", 1)
}
