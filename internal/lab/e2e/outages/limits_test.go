package outages

import (
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A session waits for the end of a usage limit on a timer, which outlives the
// worker and the server, and then repeats the message by itself. Meanwhile
// another session's codex hangs in the middle of a turn: it is retired, and the
// thread continues in the next process.
func TestWhatWaitsForALimitOutlivesWorkerAndServer(t *testing.T) {
	const id = "limited"
	e2e.Session(t, id, "--on-limit", "wait")
	e2e.Send(t, id, "now meet the limit")
	var v protocol.SessionView
	e2e.Until(t, id+" to wait for the end of the limit", func() (bool, error) {
		v = e2e.Show(t, id)
		return v.State == protocol.Waiting && v.Limit != nil, nil
	})
	if v.Limit.Kind != "quota" || v.Limit.ResetAt.IsZero() || v.Limit.Until.Before(v.Limit.ResetAt) || !strings.Contains(v.Waits, "the account's limit to end, until ") {
		t.Errorf("it waits for %q: %+v", v.Waits, v.Limit)
	}
	first := v.Limit.Until
	var st lab.Status
	if err := e2e.Lab.JSON(e2e.Within(t), &st, "status"); err != nil {
		t.Fatal(err)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Kill(t, st.Temporal.PID)
	e2e.Until(t, "worker and server to be back", func() (bool, error) {
		var now lab.Status
		err := e2e.Lab.JSON(e2e.Within(t), &now, "status")
		worker := e2e.OwnWorker(now)
		return err == nil && now.Temporal.PID != st.Temporal.PID && now.Temporal.PID != 0 && worker != pid && worker != 0, nil
	})
	if v := e2e.Show(t, id); v.State != protocol.Waiting || v.Limit == nil || !v.Limit.Until.Equal(first) || v.Limit.Tries != 1 {
		t.Errorf("behind the restart it is %s, waits for %q: %+v", v.State, v.Waits, v.Limit)
	}

	t.Run("a codex that stands still is retired", func(t *testing.T) {
		const id = "wedged"
		e2e.Session(t, id, "--silence-timeout", "1s", "--request-timeout", "30s")
		e2e.Turn(t, id, "remember the milk")
		e2e.Send(t, id, "take your time at gate wedged")
		if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "wedged"); err != nil {
			t.Fatal(err)
		}
		before := e2e.Show(t, id)
		codex := e2e.Lab.CodexOf(id)
		if len(codex) == 0 {
			t.Fatal("codex was not found on the host")
		}
		for _, pid := range codex {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		v := e2e.Ended(t, id, 2)
		if v.Turn.Status != "interrupted" && v.Turn.Status != "unknown" || v.Error == nil || v.Error.Kind != "silent" || v.Error.Hint == "" || v.Process.Alive {
			t.Errorf("session %+v, turn %+v, process %+v, error %+v", v, v.Turn, v.Process, v.Error)
		}
		if left := e2e.Lab.CodexOf(id); len(left) > 0 {
			t.Errorf("of the codex that stood still there are %v", left)
		}
		e2e.Lab.Model.Release("wedged")
		if v := e2e.Turn(t, id, "what was first?"); v.FinalText != "The first was: remember the milk" {
			t.Errorf("the next turn is %+v", v)
		}
		if v := e2e.Show(t, id); v.ThreadID != before.ThreadID || v.Process.Incarnation <= before.Process.Incarnation || v.State != protocol.Idle {
			t.Errorf("session is %+v, process %+v", v, v.Process)
		}
	})

	if v := e2e.Ended(t, id, 2); v.Turn.Status != "completed" || v.Limit != nil || v.State != protocol.Idle || v.Turn.StartedAt.Before(first) {
		t.Errorf("behind the limit (%s) the session is %+v, turn %+v", first, v, v.Turn)
	}
	if said := e2e.LastText(t, id); said != "You said: now meet the limit" {
		t.Errorf("the model said %q", said)
	}
}
