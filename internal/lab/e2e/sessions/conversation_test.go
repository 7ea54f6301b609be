package sessions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestRunShowsTheAnswerAndLeavesNothingOnTheHost(t *testing.T) {
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "run", "--host", "web-1", "--seed", "team", "--id", "run-1", "hello you")
	if r.Code != 0 || !strings.Contains(r.Stdout, "You said: hello you") {
		t.Fatal(r)
	}
	if v := e2e.Show(t, "run-1"); v.State != protocol.Closed || v.Close == nil || !v.Close.Wiped || !v.Close.Removed {
		t.Errorf("session is %+v", v)
	}
	if _, err := os.Stat(filepath.Join(e2e.Root, "sessions", "run-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the session's folder is still there: %v", err)
	}
	var turn protocol.TurnView
	if err := e2e.Lab.JSON(e2e.Within(t), &turn, "run", "--host", "web-1", "--seed", "team", "again"); err != nil {
		t.Fatal(err)
	}
	if turn.Status != "completed" || turn.FinalText != "You said: again" || turn.Usage.Input == 0 || turn.N != 1 {
		t.Errorf("turn is %+v", turn)
	}
}

func TestTheThreadRemembers(t *testing.T) {
	e2e.Session(t, "memory")
	e2e.Turn(t, "memory", "my name is Ann")
	if v := e2e.Turn(t, "memory", "what was first?"); v.FinalText != "The first was: my name is Ann" || v.N != 2 {
		t.Errorf("turn is %+v", v)
	}
	list := e2e.Transcript(t, "memory")
	if got := e2e.Texts(list, protocol.EntryUser); len(got) != 2 || got[0] != "my name is Ann" {
		t.Errorf("user entries are %q", got)
	}
	if got := e2e.Texts(list, protocol.EntryAssistant); len(got) != 2 {
		t.Errorf("assistant entries are %q", got)
	}
}

func TestAnAcceptedCommandRunsOnce(t *testing.T) {
	e2e.Session(t, "accept")
	e2e.Send(t, "accept", "you need a command")
	a := e2e.Open(t, "accept", 1)[0]
	if a.Kind != "command" || !strings.Contains(a.Command, "ran.txt") || a.Reason != "to see it run" || a.CWD == "" || len(a.Digest) != 64 {
		t.Errorf("approval is %+v", a)
	}
	if v := e2e.Show(t, "accept"); v.State != protocol.Waiting || len(v.Requests) != 1 {
		t.Errorf("session is %+v", v)
	}
	var got protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &got, "approval", "accept", a.ID, "--reason", "looked at it"); err != nil {
		t.Fatal(err)
	}
	if got.Decision == nil || got.Decision.Outcome != "accept" || got.Decision.Reason != "looked at it" || got.Decision.By == "" {
		t.Errorf("the decision is %+v", got.Decision)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "approval", "decline", a.ID); r.Code != 6 {
		t.Errorf("a second decision: %v", r)
	}
	if v := e2e.Ended(t, "accept", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if data, err := os.ReadFile(filepath.Join(e2e.Root, "sessions", "accept", "work", "ran.txt")); err != nil || string(data) != "it ran\n" {
		t.Errorf("the command left %q (%v)", data, err)
	}
	if all := e2e.Texts(e2e.Transcript(t, "accept"), protocol.EntryDecision); len(all) != 1 {
		t.Errorf("decisions on record: %q", all)
	}
	if list, err := lab.Lines[protocol.Approval](e2e.Within(t), e2e.Lab, "approval", "list", "--all", "--session", "accept"); err != nil || len(list) != 1 || list[0].State != protocol.ApprovalAcknowledged {
		t.Errorf("approvals are %+v (%v)", list, err)
	}
}

func TestADecisionIsAcknowledgedWhileTheTurnGoesOn(t *testing.T) {
	e2e.Session(t, "acked")
	e2e.Send(t, "acked", "a long command at gate acked")
	a := e2e.Open(t, "acked", 1)[0]
	var got protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &got, "approval", "accept", a.ID); err != nil {
		t.Fatal(err)
	}
	if got.State != protocol.ApprovalAcknowledged {
		t.Errorf("the decision is %s while the turn goes on", got.State)
	}
	if v := e2e.Show(t, "acked"); v.State != protocol.Running {
		t.Errorf("session is %s", v.State)
	}
	e2e.Lab.Model.Release("acked")
	if v := e2e.Ended(t, "acked", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
}

func TestADeclinedFileIsNotWrittenAndTheTurnGoesOn(t *testing.T) {
	e2e.Session(t, "decline")
	path := filepath.Join(e2e.Lab.Dir, "declined.txt")
	e2e.Send(t, "decline", "you need a file at "+path)
	a := e2e.Open(t, "decline", 1)[0]
	if a.Kind != "file_change" || len(a.Changes) != 1 || a.Changes[0].Path != path || !strings.Contains(a.Changes[0].Diff, "made by codex") {
		t.Errorf("approval is %+v", a)
	}
	e2e.OK(t, "approval", "decline", a.ID, "--digest", a.Digest)
	if v := e2e.Ended(t, "decline", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there (%v)", err)
	}
}

func TestTwoRequestsAtOnceAreDecidedOnTheirOwn(t *testing.T) {
	e2e.Session(t, "two")
	e2e.Send(t, "two", "run two commands")
	list := e2e.Open(t, "two", 2)
	e2e.OK(t, "approval", "accept", list[1].ID)
	e2e.OK(t, "approval", "decline", list[0].ID)
	if v := e2e.Ended(t, "two", 1); v.Turn.Status != "completed" || v.State != protocol.Idle {
		t.Errorf("session is %+v", v)
	}
	if got := e2e.Texts(e2e.Transcript(t, "two"), protocol.EntryRequest); len(got) != 2 {
		t.Errorf("requests on record: %q", got)
	}
}

func TestCancelEndsTheTurn(t *testing.T) {
	e2e.Session(t, "cancel")
	e2e.Send(t, "cancel", "you need a command")
	e2e.OK(t, "approval", "cancel", e2e.Open(t, "cancel", 1)[0].ID)
	if v := e2e.Ended(t, "cancel", 1); v.Turn.Status != "interrupted" {
		t.Errorf("session is %+v", v)
	}
	if v := e2e.Turn(t, "cancel", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestInterruptEndsARunningTurn(t *testing.T) {
	e2e.Session(t, "interrupt")
	e2e.Send(t, "interrupt", "take your time at gate interrupted")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "interrupted"); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "session", "interrupt", "interrupt", "--reason", "enough")
	v := e2e.Ended(t, "interrupt", 1)
	if v.Turn.Status != "interrupted" {
		t.Errorf("session is %+v", v)
	}
	e2e.Lab.Model.Release("interrupted")
	if v := e2e.Turn(t, "interrupt", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestMessagesQueueBehindARunningTurn(t *testing.T) {
	e2e.Session(t, "queue")
	e2e.Send(t, "queue", "take your time at gate queued")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "queued"); err != nil {
		t.Fatal(err)
	}
	if acc := e2e.Send(t, "queue", "second"); acc.N != 2 {
		t.Errorf("accepted as %+v", acc)
	}
	if acc := e2e.Send(t, "queue", "third"); acc.N != 3 {
		t.Errorf("accepted as %+v", acc)
	}
	e2e.Lab.Model.Release("queued")
	e2e.Ended(t, "queue", 3)
	if got := e2e.Texts(e2e.Transcript(t, "queue"), protocol.EntryUser); len(got) != 3 || got[1] != "second" || got[2] != "third" {
		t.Errorf("said: %q", got)
	}
}

func TestALongPromptTravelsThroughTheStore(t *testing.T) {
	e2e.Session(t, "long")
	text := "a long prompt " + strings.Repeat("x", 200_000)
	r := e2e.Lab.Ctl(e2e.Within(t), strings.NewReader(text), "session", "send", "long", "-", "-o", "json")
	if r.Code != 0 || !strings.Contains(r.Stdout, "Your prompt had 200014 bytes.") {
		t.Errorf("%.500s", r.Error())
	}
}

func TestAFailedTurnSaysWhyAndTheSessionGoesOn(t *testing.T) {
	e2e.Session(t, "quota")
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "send", "quota", "no quota left", "-o", "json")
	if r.Code != 1 || !strings.Contains(r.Stdout, `"kind":"quota"`) {
		t.Errorf("%v", r)
	}
	if v := e2e.Turn(t, "quota", "hello"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestSignalsOfAnotherProgramDoTheSame(t *testing.T) {
	e2e.Session(t, "signals")
	ctx := e2e.Within(t)
	// A program without the key is not heard.
	outsider, err := e2e.Lab.Outsider(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer outsider.Close()
	for _, name := range []string{"message", "decide", "close"} {
		if err := outsider.SignalWorkflow(ctx, "session/signals", "", name, map[string]any{"id": "x0", "text": "forged", "by": "an outsider"}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := outsider.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: "session/signals", UpdateName: "close",
		Args: []any{map[string]any{"by": "an outsider"}}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	if err == nil {
		t.Error("an outsider's update was accepted")
	}
	c, err := e2e.Lab.Temporal(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	signal := func(name string, arg map[string]any) {
		t.Helper()
		if err := c.SignalWorkflow(ctx, "session/signals", "", name, arg); err != nil {
			t.Fatal(err)
		}
	}
	signal("message", map[string]any{"id": "x1", "text": "you need a command"})
	a := e2e.Open(t, "signals", 1)[0]
	signal("decide", map[string]any{"approval": a.ID, "digest": a.Digest, "outcome": "accept", "by": "another program"})
	if v := e2e.Ended(t, "signals", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	signal("decide", map[string]any{"approval": a.ID, "digest": a.Digest, "outcome": "accept"})
	signal("message", map[string]any{"id": "x2", "text": "hi", "unknown": 1})
	e2e.Until(t, "two refusals on record", func() (bool, error) { return len(e2e.Show(t, "signals").Refusals) == 2, nil })
	signal("message", map[string]any{"id": "x3", "text": "take your time at gate signalled"})
	if _, err := e2e.Lab.Model.AwaitWaiting(ctx, "signalled"); err != nil {
		t.Fatal(err)
	}
	signal("interrupt", map[string]any{"by": "another program"})
	if v := e2e.Ended(t, "signals", 2); v.Turn.Status != "interrupted" {
		t.Errorf("session is %+v", v)
	}
	if n := len(e2e.Show(t, "signals").Refusals); n != 2 {
		t.Errorf("%d refusals are on record", n)
	}
	signal("close", map[string]any{"by": "another program"})
	e2e.Until(t, "the session to close", func() (bool, error) { return e2e.Show(t, "signals").State == protocol.Closed, nil })
}

func TestAViewerMissesNothingAndSeesNothingTwice(t *testing.T) {
	e2e.Session(t, "viewer")
	e2e.Turn(t, "viewer", "before anybody looked")
	e2e.Send(t, "viewer", "take your time at gate viewed")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "viewed"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e2e.Within(t))
	defer cancel()
	follow := e2e.Lab.Command(ctx, "session", "follow", "viewer", "-o", "json")
	events := newEvents(t, follow)
	events.await("the words so far", func(e event) bool { return e.Event == "delta" && strings.Contains(e.Text, "one") })
	e2e.Lab.Model.Release("viewed")
	e2e.Ended(t, "viewer", 2)
	e2e.OK(t, "session", "close", "viewer")
	all := events.end()
	want := e2e.Transcript(t, "viewer")
	var entries []string
	for _, e := range all {
		if e.Event == "entry" {
			entries = append(entries, e.ID)
		}
	}
	var record []string
	for _, e := range want {
		record = append(record, e.ID)
	}
	if strings.Join(entries, " ") != strings.Join(record, " ") {
		t.Errorf("the viewer saw\n%s\non record is\n%s", strings.Join(entries, "\n"), strings.Join(record, "\n"))
	}
}
