package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

func TestRunShowsTheAnswerAndLeavesNothingOnTheHost(t *testing.T) {
	r := shared.Ctl(within(t), nil, "run", "--host", "web-1", "--seed", "team", "--id", "run-1", "hello you")
	if r.Code != 0 || !strings.Contains(r.Stdout, "You said: hello you") {
		t.Fatal(r)
	}
	if v := show(t, "run-1"); v.State != workflows.Closed || v.Close == nil || !v.Close.Wiped || !v.Close.Removed {
		t.Errorf("session is %+v", v)
	}
	if _, err := os.Stat(filepath.Join(root1, "sessions", "run-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the session's folder is still there: %v", err)
	}
	var turn workflows.TurnView
	if err := shared.JSON(within(t), &turn, "run", "--host", "web-1", "--seed", "team", "again"); err != nil {
		t.Fatal(err)
	}
	if turn.Status != "completed" || turn.FinalText != "You said: again" || turn.Usage.Input == 0 || turn.N != 1 {
		t.Errorf("turn is %+v", turn)
	}
}

func TestTheThreadRemembers(t *testing.T) {
	session(t, "memory")
	turn(t, "memory", "my name is Ann")
	if v := turn(t, "memory", "what was first?"); v.FinalText != "The first was: my name is Ann" || v.N != 2 {
		t.Errorf("turn is %+v", v)
	}
	list := transcript(t, "memory")
	if got := texts(list, activities.EntryUser); len(got) != 2 || got[0] != "my name is Ann" {
		t.Errorf("user entries are %q", got)
	}
	if got := texts(list, activities.EntryAssistant); len(got) != 2 {
		t.Errorf("assistant entries are %q", got)
	}
}

func TestAnAcceptedCommandRunsOnce(t *testing.T) {
	session(t, "accept")
	send(t, "accept", "you need a command")
	a := open(t, "accept", 1)[0]
	if a.Kind != "command" || !strings.Contains(a.Command, "ran.txt") || a.Reason != "to see it run" || a.CWD == "" || len(a.Digest) != 64 {
		t.Errorf("approval is %+v", a)
	}
	if v := show(t, "accept"); v.State != workflows.Waiting || len(v.Requests) != 1 {
		t.Errorf("session is %+v", v)
	}
	var got workflows.Approval
	if err := shared.JSON(within(t), &got, "approval", "accept", a.ID, "--reason", "looked at it"); err != nil {
		t.Fatal(err)
	}
	if got.Decision == nil || got.Decision.Outcome != "accept" || got.Decision.Reason != "looked at it" || got.Decision.By == "" {
		t.Errorf("the decision is %+v", got.Decision)
	}
	if r := shared.Ctl(within(t), nil, "approval", "decline", a.ID); r.Code != 6 {
		t.Errorf("a second decision: %v", r)
	}
	if v := ended(t, "accept", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if data, err := os.ReadFile(filepath.Join(root1, "sessions", "accept", "work", "ran.txt")); err != nil || string(data) != "it ran\n" {
		t.Errorf("the command left %q (%v)", data, err)
	}
	if all := texts(transcript(t, "accept"), activities.EntryDecision); len(all) != 1 {
		t.Errorf("decisions on record: %q", all)
	}
	if list, err := lab.Lines[workflows.Approval](within(t), shared, "approval", "list", "--all", "--session", "accept"); err != nil || len(list) != 1 || list[0].State != workflows.ApprovalAcknowledged {
		t.Errorf("approvals are %+v (%v)", list, err)
	}
}

func TestADecisionIsAcknowledgedWhileTheTurnGoesOn(t *testing.T) {
	session(t, "acked")
	send(t, "acked", "a long command at gate acked")
	a := open(t, "acked", 1)[0]
	var got workflows.Approval
	if err := shared.JSON(within(t), &got, "approval", "accept", a.ID); err != nil {
		t.Fatal(err)
	}
	if got.State != workflows.ApprovalAcknowledged {
		t.Errorf("the decision is %s while the turn goes on", got.State)
	}
	if v := show(t, "acked"); v.State != workflows.Running {
		t.Errorf("session is %s", v.State)
	}
	shared.Model.Release("acked")
	if v := ended(t, "acked", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
}

func TestADeclinedFileIsNotWrittenAndTheTurnGoesOn(t *testing.T) {
	session(t, "decline")
	path := filepath.Join(shared.Dir, "declined.txt")
	send(t, "decline", "you need a file at "+path)
	a := open(t, "decline", 1)[0]
	if a.Kind != "file_change" || len(a.Changes) != 1 || a.Changes[0].Path != path || !strings.Contains(a.Changes[0].Diff, "made by codex") {
		t.Errorf("approval is %+v", a)
	}
	ok(t, "approval", "decline", a.ID, "--digest", a.Digest)
	if v := ended(t, "decline", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there (%v)", err)
	}
}

func TestTwoRequestsAtOnceAreDecidedOnTheirOwn(t *testing.T) {
	session(t, "two")
	send(t, "two", "run two commands")
	list := open(t, "two", 2)
	ok(t, "approval", "accept", list[1].ID)
	ok(t, "approval", "decline", list[0].ID)
	if v := ended(t, "two", 1); v.Turn.Status != "completed" || v.State != workflows.Idle {
		t.Errorf("session is %+v", v)
	}
	if got := texts(transcript(t, "two"), activities.EntryRequest); len(got) != 2 {
		t.Errorf("requests on record: %q", got)
	}
}

func TestCancelEndsTheTurn(t *testing.T) {
	session(t, "cancel")
	send(t, "cancel", "you need a command")
	ok(t, "approval", "cancel", open(t, "cancel", 1)[0].ID)
	if v := ended(t, "cancel", 1); v.Turn.Status != "interrupted" {
		t.Errorf("session is %+v", v)
	}
	if v := turn(t, "cancel", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestInterruptEndsARunningTurn(t *testing.T) {
	session(t, "interrupt")
	send(t, "interrupt", "take your time at gate interrupted")
	if _, err := shared.Model.AwaitWaiting(within(t), "interrupted"); err != nil {
		t.Fatal(err)
	}
	ok(t, "session", "interrupt", "interrupt", "--reason", "enough")
	v := ended(t, "interrupt", 1)
	if v.Turn.Status != "interrupted" {
		t.Errorf("session is %+v", v)
	}
	shared.Model.Release("interrupted")
	if v := turn(t, "interrupt", "hello again"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestMessagesQueueBehindARunningTurn(t *testing.T) {
	session(t, "queue")
	send(t, "queue", "take your time at gate queued")
	if _, err := shared.Model.AwaitWaiting(within(t), "queued"); err != nil {
		t.Fatal(err)
	}
	if acc := send(t, "queue", "second"); acc.N != 2 {
		t.Errorf("accepted as %+v", acc)
	}
	if acc := send(t, "queue", "third"); acc.N != 3 {
		t.Errorf("accepted as %+v", acc)
	}
	shared.Model.Release("queued")
	ended(t, "queue", 3)
	if got := texts(transcript(t, "queue"), activities.EntryUser); len(got) != 3 || got[1] != "second" || got[2] != "third" {
		t.Errorf("said: %q", got)
	}
}

func TestALongPromptTravelsThroughTheStore(t *testing.T) {
	session(t, "long")
	text := "a long prompt " + strings.Repeat("x", 200_000)
	r := shared.Ctl(within(t), strings.NewReader(text), "session", "send", "long", "-", "-o", "json")
	if r.Code != 0 || !strings.Contains(r.Stdout, "Your prompt had 200014 bytes.") {
		t.Errorf("%.500s", r.Error())
	}
}

func TestAFailedTurnSaysWhyAndTheSessionGoesOn(t *testing.T) {
	session(t, "quota")
	r := shared.Ctl(within(t), nil, "session", "send", "quota", "no quota left", "-o", "json")
	if r.Code != 1 || !strings.Contains(r.Stdout, `"kind":"quota"`) {
		t.Errorf("%v", r)
	}
	if v := turn(t, "quota", "hello"); v.Status != "completed" {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestSignalsOfAnotherProgramDoTheSame(t *testing.T) {
	session(t, "signals")
	ctx := within(t)
	c, err := shared.Outsider(ctx)
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
	a := open(t, "signals", 1)[0]
	signal("decide", map[string]any{"approval": a.ID, "digest": a.Digest, "outcome": "accept", "by": "another program"})
	if v := ended(t, "signals", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	signal("decide", map[string]any{"approval": a.ID, "digest": a.Digest, "outcome": "accept"})
	signal("message", map[string]any{"id": "x2", "text": "hi", "unknown": 1})
	until(t, "two refusals on record", func() (bool, error) { return len(show(t, "signals").Refusals) == 2, nil })
	signal("message", map[string]any{"id": "x3", "text": "take your time at gate signalled"})
	if _, err := shared.Model.AwaitWaiting(ctx, "signalled"); err != nil {
		t.Fatal(err)
	}
	signal("interrupt", map[string]any{"by": "another program"})
	if v := ended(t, "signals", 2); v.Turn.Status != "interrupted" {
		t.Errorf("session is %+v", v)
	}
	signal("close", map[string]any{"by": "another program"})
	until(t, "the session to close", func() (bool, error) { return show(t, "signals").State == workflows.Closed, nil })
}

func TestAViewerMissesNothingAndSeesNothingTwice(t *testing.T) {
	session(t, "viewer")
	turn(t, "viewer", "before anybody looked")
	send(t, "viewer", "take your time at gate viewed")
	if _, err := shared.Model.AwaitWaiting(within(t), "viewed"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	follow := shared.Command(ctx, "session", "follow", "viewer", "-o", "json")
	events := newEvents(t, follow)
	events.await("the words so far", func(e event) bool { return e.Event == "delta" && strings.Contains(e.Text, "one") })
	shared.Model.Release("viewed")
	ended(t, "viewer", 2)
	ok(t, "session", "close", "viewer")
	all := events.end()
	want := transcript(t, "viewer")
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
