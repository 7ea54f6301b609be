package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

// workerPID is the process id of the stack's worker.
// ownWorker is the process of the worker that the stack keeps up; 0 for none.
// Workers that a test added are known to Temporal for minutes after their end.
func ownWorker(st lab.Status) (pid int) {
	for _, w := range st.Workers {
		if w.API != "unix://"+filepath.Join(shared.State, "api.sock") {
			continue
		}
		if pid != 0 {
			return 0 // one has gone, and one has come
		}
		pid = w.PID
	}
	return pid
}

func workerPID(t *testing.T) int {
	t.Helper()
	var st lab.Status
	if err := shared.JSON(within(t), &st, "status"); err != nil {
		t.Fatal(err)
	}
	pid := ownWorker(st)
	if pid == 0 {
		t.Fatalf("workers are %+v", st.Workers)
	}
	return pid
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// back waits until another worker than pid answers.
func back(t *testing.T, pid int) {
	t.Helper()
	until(t, "another worker", func() (bool, error) {
		var st lab.Status
		err := shared.JSON(within(t), &st, "status")
		now := ownWorker(st)
		return err == nil && now != pid && now != 0, nil
	})
}

func TestATurnOutlivesItsWorker(t *testing.T) {
	session(t, "worker")
	send(t, "worker", "take your time at gate outlived")
	if _, err := shared.Model.AwaitWaiting(within(t), "outlived"); err != nil {
		t.Fatal(err)
	}
	pid := workerPID(t)
	kill(t, pid)
	back(t, pid)
	shared.Model.Release("outlived")
	if v := ended(t, "worker", 1); v.Turn.Status != "completed" || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
	list := transcript(t, "worker")
	if got := texts(list, activities.EntryAssistant); len(got) != 1 || !strings.HasSuffix(got[0], "twelve") {
		t.Errorf("codex said %q", got)
	}
}

func TestATurnOutlivesItsConnection(t *testing.T) {
	session(t, "wire")
	send(t, "wire", "take your time at gate cut")
	if _, err := shared.Model.AwaitWaiting(within(t), "cut"); err != nil {
		t.Fatal(err)
	}
	if n := shared.Host("web-1").KillSessions(); n == 0 {
		t.Fatal("there was no connection to cut")
	}
	shared.Model.Release("cut")
	if v := ended(t, "wire", 1); v.Turn.Status != "completed" || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
	if got := texts(transcript(t, "wire"), activities.EntryAssistant); len(got) != 1 {
		t.Errorf("codex said %q", got)
	}
}

func TestATurnOutlivesTheTemporalServer(t *testing.T) {
	session(t, "server")
	send(t, "server", "take your time at gate restarted")
	if _, err := shared.Model.AwaitWaiting(within(t), "restarted"); err != nil {
		t.Fatal(err)
	}
	var st lab.Status
	if err := shared.JSON(within(t), &st, "status"); err != nil {
		t.Fatal(err)
	}
	kill(t, st.Temporal.PID)
	shared.Model.Release("restarted")
	until(t, "the server to answer again", func() (bool, error) {
		var now lab.Status
		err := shared.JSON(within(t), &now, "status")
		return err == nil && now.Temporal.PID != st.Temporal.PID && now.Temporal.PID != 0, nil
	})
	until(t, "the turn's end", func() (bool, error) {
		var v workflows.SessionView
		if err := shared.JSON(within(t), &v, "session", "show", "server"); err != nil {
			return false, nil // it may just be coming up
		}
		return v.Turn != nil && v.Turn.Status == "completed", nil
	})
	if got := texts(transcript(t, "server"), activities.EntryAssistant); len(got) != 1 {
		t.Errorf("codex said %q", got)
	}
}

func TestACodexThatIsKilledIsResumedWithItsThread(t *testing.T) {
	session(t, "killed")
	turn(t, "killed", "remember the milk")
	send(t, "killed", "take your time at gate dead")
	if _, err := shared.Model.AwaitWaiting(within(t), "dead"); err != nil {
		t.Fatal(err)
	}
	before := show(t, "killed")
	codex := shared.CodexOf("killed")
	if len(codex) == 0 {
		t.Fatal("codex was not found on the host")
	}
	for _, pid := range codex {
		kill(t, pid)
	}
	v := ended(t, "killed", 2)
	if v.State != workflows.Interrupted || v.Turn.Status != "interrupted" || v.Process.Alive || v.Error == nil {
		t.Errorf("session is %+v", v)
	}
	shared.Model.Release("dead")
	if v := turn(t, "killed", "what was first?"); v.FinalText != "The first was: remember the milk" {
		t.Errorf("turn is %+v", v)
	}
	if v := show(t, "killed"); v.ThreadID != before.ThreadID || v.Process.Incarnation != 2 {
		t.Errorf("session is %+v", v)
	}
}

func TestADecisionWaitsForAWorkerToComeBack(t *testing.T) {
	session(t, "decision")
	send(t, "decision", "you need a command")
	a := open(t, "decision", 1)[0]
	pid := workerPID(t)
	c, err := shared.Temporal(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kill(t, pid)
	if err := c.SignalWorkflow(within(t), "session/decision", "", "decide",
		workflows.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	back(t, pid)
	if v := ended(t, "decision", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if got := texts(transcript(t, "decision"), activities.EntryDecision); len(got) != 1 {
		t.Errorf("decisions on record: %q", got)
	}
}

func TestAnInterruptReachesATurnWhoseWorkerHasJustDied(t *testing.T) {
	session(t, "orphan")
	send(t, "orphan", "take your time at gate orphaned")
	if _, err := shared.Model.AwaitWaiting(within(t), "orphaned"); err != nil {
		t.Fatal(err)
	}
	c, err := shared.Temporal(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kill(t, workerPID(t))
	if err := c.SignalWorkflow(within(t), "session/orphan", "", "interrupt", workflows.Interrupt{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	v := ended(t, "orphan", 1)
	if v.Turn.Status != "interrupted" || v.Process == nil || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
	shared.Model.Release("orphaned")
	if v := turn(t, "orphan", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}
