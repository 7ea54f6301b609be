package outages

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestApprovalsAreSeenAndDecidedWithNoWorkerUp(t *testing.T) {
	e2e.Session(t, "unmanned")
	e2e.Send(t, "unmanned", "run two commands")
	before := e2e.Open(t, "unmanned", 2)
	back := e2e.NoWorker(t)

	list, err := lab.Lines[protocol.Approval](e2e.Within(t), e2e.Lab, "approval", "list", "--session", "unmanned")
	if err != nil || len(list) != 2 || list[0].Digest != before[0].Digest || list[0].Command != before[0].Command {
		t.Errorf("with no worker the approvals are %+v (%v)", list, err)
	}
	if out := e2e.OK(t, "approval", "show", before[1].ID); !strings.Contains(out, before[1].Digest) {
		t.Errorf("with no worker the approval is shown as\n%s", out)
	}
	if v := e2e.Show(t, "unmanned"); v.State != protocol.Waiting || len(v.Requests) != 2 || v.ThreadID == "" || v.Turn.ID == "" {
		t.Errorf("with no worker the session is %+v", v)
	}
	e2e.Exits(t, 6, "approval", "accept", before[0].ID, "--digest", strings.Repeat("0", 64))
	e2e.Exits(t, 3, "approval", "accept", "unmanned.7")

	var got protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &got, "approval", "accept", before[0].ID, "--timeout", "2s", "--reason", "at night"); err != nil {
		t.Fatal(err)
	}
	if got.State != protocol.ApprovalDecided || got.Decision == nil || got.Decision.Outcome != "accept" || got.Command != before[0].Command {
		t.Errorf("with no worker the decision is %+v", got)
	}
	e2e.Exits(t, 6, "approval", "decline", before[0].ID)
	e2e.OK(t, "approval", "decline", before[1].ID, "--timeout", "2s", "--digest", before[1].Digest)

	back()
	if v := e2e.Ended(t, "unmanned", 1); v.Turn.Status != "completed" || len(v.Refusals) != 0 || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
	decisions := e2e.Texts(e2e.Transcript(t, "unmanned"), protocol.EntryDecision)
	if len(decisions) != 2 || decisions[0] != "accept "+before[0].ID || decisions[1] != "decline "+before[1].ID {
		t.Errorf("decisions on record: %q", decisions)
	}
}

func TestMessagesWaitForAWorkerAndTakeEffectOnce(t *testing.T) {
	e2e.Session(t, "outage")
	e2e.Send(t, "outage", "take your time at gate outage")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "outage"); err != nil {
		t.Fatal(err)
	}
	back := e2e.NoWorker(t)
	e2e.OK(t, "session", "interrupt", "outage", "--reason", "enough")
	for range 2 { // sent twice it is one message
		var acc protocol.MessageAccepted
		if err := e2e.Lab.JSON(e2e.Within(t), &acc, "session", "send", "outage", "--no-wait", "--message-id", "night-1", "after the outage"); err != nil {
			t.Fatal(err)
		}
		if acc.MessageID != "night-1" || acc.Session != "outage" {
			t.Errorf("accepted as %+v", acc)
		}
	}
	back()
	if v := e2e.Ended(t, "outage", 2); v.Turn.Status != "completed" || len(v.Refusals) != 0 {
		t.Errorf("session is %+v", v)
	}
	e2e.Lab.Model.Release("outage")
	list := e2e.Transcript(t, "outage")
	if got := e2e.Texts(list, protocol.EntryUser); len(got) != 2 || got[1] != "after the outage" {
		t.Errorf("said: %q", got)
	}
	if n := strings.Count(strings.Join(e2e.Texts(list, protocol.EntryState), "\n"), "enough"); n != 1 {
		t.Errorf("the interrupt is on record %d times: %q", n, e2e.Texts(list, protocol.EntryState))
	}

	back = e2e.NoWorker(t)
	e2e.Exits(t, 6, "session", "interrupt", "outage")
	e2e.OK(t, "session", "close", "outage", "--no-wait")
	e2e.Exits(t, 6, "session", "send", "outage", "--no-wait", "too late")
	back()
	e2e.Until(t, "outage to close", func() (bool, error) { return e2e.Show(t, "outage").State == protocol.Closed, nil })
	if v := e2e.Show(t, "outage"); len(v.Refusals) != 0 || v.Close == nil || !v.Close.Wiped {
		t.Errorf("session is %+v", v)
	}
}

func TestARunThatNoWorkerTookIsKept(t *testing.T) {
	back := e2e.NoWorker(t)
	r := e2e.Exits(t, 4, "run", "--host", "web-1", "--seed", "team", "--id", "kept-run", "--timeout", "5s", "after the outage")
	if !strings.Contains(r.Stderr, "kept") || !strings.Contains(r.Stderr, "session close kept-run") {
		t.Errorf("ctl said %q", r.Stderr)
	}
	back()
	e2e.Until(t, "it to run and close", func() (bool, error) { return e2e.Show(t, "kept-run").State == protocol.Closed, nil })
	if got := e2e.Texts(e2e.Transcript(t, "kept-run"), protocol.EntryUser); len(got) != 1 {
		t.Errorf("said: %q", got)
	}
}

func TestAPersonAtTheTerminalDecidesWithNoWorkerUp(t *testing.T) {
	e2e.Session(t, "prompt")
	person := e2e.Tmux(t, 100, 40, "session", "send", "prompt", "you need a command")
	person.Sees("codex asks to run a command", "y accept")
	back := e2e.NoWorker(t)
	person.Presses("y")
	person.Sees("Temporal keeps the request until one is")
	back()
	person.Sees("The command said: it ran")
	if code := person.Ends(); code != 0 {
		t.Errorf("send ended with %d:\n%s", code, person.All())
	}
	if n := strings.Count(person.All(), "The command said"); n != 1 {
		t.Errorf("the answer was shown %d times:\n%s", n, person.All())
	}
	if v := e2e.Show(t, "prompt"); len(v.Refusals) != 0 {
		t.Errorf("session is %+v", v)
	}

	// A `watch` that starts later shows the open approval, and decides it.
	e2e.Send(t, "prompt", "you need a command")
	id := e2e.Open(t, "prompt", 1)[0].ID
	back = e2e.NoWorker(t)
	watcher := e2e.Tmux(t, 100, 40, "approval", "watch", "--session", "prompt")
	watcher.Sees("> "+id, "a accept")
	watcher.Presses("n")
	watcher.Sees("declined by", "· recorded")
	watcher.Presses("C-c")
	if code := watcher.Ends(); code != 130 {
		t.Errorf("watch ended with %d:\n%s", code, watcher.All())
	}
	back()
	if v := e2e.Ended(t, "prompt", 2); v.Turn.Status != "completed" || len(v.Refusals) != 0 {
		t.Errorf("session is %+v", v)
	}
	if got := e2e.Texts(e2e.Transcript(t, "prompt"), protocol.EntryDecision); len(got) != 2 || got[1] != "decline "+id {
		t.Errorf("decisions on record: %q", got)
	}
}
