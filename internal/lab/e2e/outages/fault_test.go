package outages

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestATurnOutlivesItsWorker(t *testing.T) {
	e2e.Session(t, "worker")
	e2e.Send(t, "worker", "take your time at gate outlived")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "outlived"); err != nil {
		t.Fatal(err)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	e2e.Lab.Model.Release("outlived")
	if v := e2e.Ended(t, "worker", 1); v.Turn.Status != "completed" || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
	list := e2e.Transcript(t, "worker")
	if got := e2e.Texts(list, protocol.EntryAssistant); len(got) != 1 || !strings.HasSuffix(got[0], "twelve") {
		t.Errorf("codex said %q", got)
	}
}

func TestATurnOutlivesItsConnection(t *testing.T) {
	e2e.Session(t, "wire")
	e2e.Send(t, "wire", "take your time at gate cut")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "cut"); err != nil {
		t.Fatal(err)
	}
	if n := e2e.Lab.Host("web-1").KillSessions(); n == 0 {
		t.Fatal("there was no connection to cut")
	}
	e2e.Lab.Model.Release("cut")
	if v := e2e.Ended(t, "wire", 1); v.Turn.Status != "completed" || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
	if got := e2e.Texts(e2e.Transcript(t, "wire"), protocol.EntryAssistant); len(got) != 1 {
		t.Errorf("codex said %q", got)
	}
}

func TestATurnOutlivesTheTemporalServer(t *testing.T) {
	e2e.Session(t, "server")
	e2e.Send(t, "server", "take your time at gate restarted")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "restarted"); err != nil {
		t.Fatal(err)
	}
	var st lab.Status
	if err := e2e.Lab.JSON(e2e.Within(t), &st, "status"); err != nil {
		t.Fatal(err)
	}
	e2e.Kill(t, st.Temporal.PID)
	e2e.Lab.Model.Release("restarted")
	e2e.Until(t, "the server to answer again", func() (bool, error) {
		var now lab.Status
		err := e2e.Lab.JSON(e2e.Within(t), &now, "status")
		return err == nil && now.Temporal.PID != st.Temporal.PID && now.Temporal.PID != 0, nil
	})
	e2e.Until(t, "the turn's end", func() (bool, error) {
		var v protocol.SessionView
		if err := e2e.Lab.JSON(e2e.Within(t), &v, "session", "show", "server"); err != nil {
			return false, nil // it may just be starting
		}
		return v.Turn != nil && v.Turn.Status == "completed", nil
	})
	if got := e2e.Texts(e2e.Transcript(t, "server"), protocol.EntryAssistant); len(got) != 1 {
		t.Errorf("codex said %q", got)
	}
}

func TestACodexThatIsKilledIsResumedWithItsThread(t *testing.T) {
	e2e.Session(t, "killed")
	e2e.Turn(t, "killed", "remember the milk")
	e2e.Send(t, "killed", "take your time at gate dead")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "dead"); err != nil {
		t.Fatal(err)
	}
	before := e2e.Show(t, "killed")
	codex := e2e.Lab.CodexOf("killed")
	if len(codex) == 0 {
		t.Fatal("codex was not found on the host")
	}
	for _, pid := range codex {
		e2e.Kill(t, pid)
	}
	v := e2e.Ended(t, "killed", 2)
	if v.State != protocol.Interrupted || v.Turn.Status != "interrupted" || v.Process.Alive || v.Error == nil {
		t.Errorf("session is %+v", v)
	}
	e2e.Lab.Model.Release("dead")
	if v := e2e.Turn(t, "killed", "what was first?"); v.FinalText != "The first was: remember the milk" {
		t.Errorf("turn is %+v", v)
	}
	if v := e2e.Show(t, "killed"); v.ThreadID != before.ThreadID || v.Process.Incarnation != 2 {
		t.Errorf("session is %+v", v)
	}
}

func TestADecisionWaitsForAWorkerToComeBack(t *testing.T) {
	e2e.Session(t, "decision")
	e2e.Send(t, "decision", "you need a command")
	a := e2e.Open(t, "decision", 1)[0]
	pid := e2e.WorkerPID(t)
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e2e.Kill(t, pid)
	if err := c.SignalWorkflow(e2e.Within(t), "session/decision", "", "decide",
		protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	e2e.Back(t, pid)
	if v := e2e.Ended(t, "decision", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if got := e2e.Texts(e2e.Transcript(t, "decision"), protocol.EntryDecision); len(got) != 1 {
		t.Errorf("decisions on record: %q", got)
	}
}

func TestAnInterruptReachesATurnWhoseWorkerHasJustDied(t *testing.T) {
	e2e.Session(t, "orphan")
	e2e.Send(t, "orphan", "take your time at gate orphaned")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "orphaned"); err != nil {
		t.Fatal(err)
	}
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e2e.Kill(t, e2e.WorkerPID(t))
	if err := c.SignalWorkflow(e2e.Within(t), "session/orphan", "", "interrupt", protocol.Interrupt{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	v := e2e.Ended(t, "orphan", 1)
	if v.Turn.Status != "interrupted" || v.Process == nil || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
	e2e.Lab.Model.Release("orphaned")
	if v := e2e.Turn(t, "orphan", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}
