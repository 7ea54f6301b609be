package credentials

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// budgeted starts a session whose budget is in money, and returns the root folder of its host.
func budgeted(t *testing.T, id, money string) (root string) {
	t.Helper()
	keyed(t, id+"-key")
	_, root = keylessHost(t, id+"-host", hosttest.Options{})
	e2e.OK(t, "session", "start", "--host", id+"-host", "--seed", id+"-key", "--credentials", "gateway", "--budget", "money="+money, "--id", id,
		"--approval-policy", "never")
	ended(t, id)
	return root
}

// paused waits until a turn pauses for a budget, and returns the session and what a person is
// asked.
func paused(t *testing.T, id string) (protocol.SessionView, protocol.Approval) {
	t.Helper()
	a := e2e.Open(t, id, 1)[0]
	v := e2e.Show(t, id)
	if v.State != protocol.Waiting || v.Limit == nil || v.Limit.Kind != protocol.EndBudget || v.Queue != 1 || a.Kind != string(protocol.KindBudget) {
		t.Fatalf("session %s, limit %+v, %d messages, approval %+v, error %+v", v.State, v.Limit, v.Queue, a, v.Error)
	}
	return v, a
}

// failedTurns counts the turns that a budget has ended.
func failedTurns(t *testing.T, id string) (n int) {
	t.Helper()
	for _, turn := range turnsOf(t, id) {
		if turn.Status == "failed" && turn.Error != nil && turn.Error.Kind == protocol.EndBudget {
			n++
		}
	}
	return n
}

func spentOn(t *testing.T, root, id string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "sessions", id, "room", "work", "spent.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestATurnOverItsBudgetInMoneyPausesAndAsksAPerson(t *testing.T) {
	const id = "dear"
	root := budgeted(t, id, "4.50")
	e2e.Send(t, id, "spend on a command")
	v, a := paused(t, id)
	if m := v.Budget.Money; m == nil || m.Used != 4*protocol.Unit || m.Limit != 4_500_000 || len(v.Budget.Warnings) != 1 {
		t.Errorf("budget %+v", v.Budget)
	}
	if !strings.Contains(a.Summary, "spend 9.00 instead of 4.50") || !strings.Contains(a.Reason, "has used 4.00 of the 4.50") {
		t.Errorf("asked %q, because %q", a.Summary, a.Reason)
	}
	asked := len(e2e.Lab.Model.Requests())
	// Nobody has to answer, and a decline changes nothing.
	e2e.OK(t, "approval", "decline", a.ID, "--digest", a.Digest)
	if v := e2e.Show(t, id); v.State != protocol.Waiting || v.Queue != 1 {
		t.Errorf("after a decline: %s, %d messages", v.State, v.Queue)
	}
	if n := len(e2e.Lab.Model.Requests()); n != asked {
		t.Errorf("the model was asked %d times while the turn paused", n-asked)
	}
	e2e.OK(t, "session", "set", id, "--budget", "money=10")
	if v := e2e.Ended(t, id, 2); v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	if text := spentOn(t, root, id); text != "x" {
		t.Errorf("the command ran %d times", len(text))
	}

	// An accept gives as much again as a person gave last.
	e2e.Send(t, id, "spend on a command")
	if v := e2e.Ended(t, id, 3); v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	e2e.Send(t, id, "spend on a command")
	_, a = paused(t, id)
	if !strings.Contains(a.Summary, "spend 20.00 instead of 10.00") {
		t.Errorf("asked %q", a.Summary)
	}
	e2e.OK(t, "approval", "accept", a.ID, "--digest", a.Digest)
	v = e2e.Ended(t, id, 5)
	if v.Turn.Status != "completed" || v.Budget.Money.Limit != 20*protocol.Unit {
		t.Fatalf("turn %+v, budget %+v, error %+v", v.Turn, v.Budget.Money, v.Error)
	}

	// The workers of this stack keep what was asked.
	kept, err := lab.Lines[records.KeptBody](e2e.Within(t), e2e.Lab, "session", "bodies", id)
	if err != nil || len(kept) == 0 {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	if text := e2e.OK(t, "session", "bodies", id, kept[0].ID); !strings.Contains(text, "spend on a command") || !strings.Contains(text, "response.completed") {
		t.Errorf("kept is %s", text)
	}
	if text := e2e.OK(t, "seed", "show", id+"-key"); !strings.Contains(text, "model gateway") || !strings.Contains(text, " requests") || !strings.Contains(text, " in money") {
		t.Errorf("the seed is shown as %s", text)
	}
}

func TestAStreamIsEndedWhereItsBudgetEnds(t *testing.T) {
	const id = "talkative"
	budgeted(t, id, "5")
	e2e.Send(t, id, "say more than the budget allows")
	v, a := paused(t, id)
	// About 13,000 tokens were on their way. The provider's own count came never.
	if m := v.Budget.Money; m == nil || m.Used < 4*protocol.Unit || m.Used > 6*protocol.Unit {
		t.Errorf("budget %+v", v.Budget.Money)
	}
	if g := v.Gateway; g == nil || g.LastKind != "budget" || g.Estimated != 1 || g.Requests != 1 {
		t.Errorf("the gateway did %+v", g)
	}
	if n := failedTurns(t, id); n != 1 {
		t.Errorf("%d turns have failed", n)
	}
	endsBudgetOfTokens(t, v.Gateway.Input)
	e2e.OK(t, "session", "interrupt", id)
	e2e.Until(t, "the pause to end", func() (bool, error) { return e2e.Show(t, id).State == protocol.Idle, nil })
	if r := e2e.Exits(t, 6, "approval", "accept", a.ID, "--digest", a.Digest); !strings.Contains(r.Stderr, "waits no more") {
		t.Errorf("it said %q", r.Stderr)
	}
}

// endsBudgetOfTokens has the same model say too much for a budget in tokens. asked is what its
// request puts in.
func endsBudgetOfTokens(t *testing.T, asked int64) {
	t.Helper()
	const id = "verbose"
	limit := asked + 6000
	e2e.OK(t, "session", "start", "--host", "talkative-host", "--seed", "talkative-key", "--credentials", "gateway", "--budget", fmt.Sprintf("tokens=%d", limit), "--id", id,
		"--approval-policy", "never")
	ended(t, id)
	e2e.Send(t, id, "say more than the budget allows")
	v, a := paused(t, id)
	if g := v.Gateway; g == nil || g.LastKind != "token_budget" || g.Requests != 1 || g.Estimated != 1 || g.Output < 4000 || g.Output > 8000 {
		t.Errorf("the gateway did %+v", g)
	}
	if !strings.Contains(a.Summary, fmt.Sprintf("use %d tokens instead of %d", 2*limit, limit)) || !strings.Contains(a.Reason, fmt.Sprintf("of the %d tokens", limit)) {
		t.Errorf("asked %q, because %q", a.Summary, a.Reason)
	}
	e2e.OK(t, "session", "set", id, "--budget", "tokens=1000000")
	if v := e2e.Ended(t, id, 2); v.Turn.Status != "completed" {
		t.Errorf("turn %+v, budget %+v, error %+v", v.Turn, v.Budget, v.Error)
	}
}

func TestNothingOfABudgetIsLostWithAWorker(t *testing.T) {
	const id, gate = "dear-kill", "budget-kill"
	root := budgeted(t, id, "64")
	e2e.Send(t, id, "spend behind gate "+gate)
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), gate); err != nil {
		t.Fatal(err)
	}
	// Somebody on the host who has no token is refused, and that is on record.
	res, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/v1/responses", modelPort(t, root, id)), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", res.Status)
	}
	e2e.Until(t, "the refusal to be on record", func() (bool, error) {
		return strings.Contains(e2e.OK(t, "audit", "list", "--session", id), "model.ask"), nil
	})
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Lab.Model.Release(gate)
	e2e.Back(t, pid)
	v := e2e.Ended(t, id, 1)
	if v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	// The stream that died held 1.00 and its worker a chunk of 1.00. The one after it cost 2.00.
	if m := v.Budget.Money; m == nil || m.Used < 3*protocol.Unit || m.Used > 4*protocol.Unit {
		t.Errorf("budget %+v", v.Budget.Money)
	}
}

// The sessions use the seed one after the other: the count is the same for both.
func TestABudgetOfASeedIsForAllItsSessions(t *testing.T) {
	keyed(t, "shared-key")
	keylessHost(t, "shared-host", hosttest.Options{})
	begin := func(id string) {
		e2e.OK(t, "session", "start", "--host", "shared-host", "--seed", "shared-key", "--credentials", "gateway", "--tenant", "frugal", "--id", id, "--approval-policy", "never")
		ended(t, id)
		e2e.Send(t, id, "spend on a command")
	}
	begin("shared-1")
	if v := e2e.Ended(t, "shared-1", 1); v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	e2e.OK(t, "session", "close", "shared-1")
	begin("shared-2")
	v, a := paused(t, "shared-2")
	if !strings.Contains(a.Summary, "the budget of the seed has ended") || !strings.Contains(a.Reason, "seed shared-key has used") || !strings.Contains(v.Waits, "its seed") {
		t.Errorf("asked %q, because %q; it waits for %s", a.Summary, a.Reason, v.Waits)
	}
	// An accept has the turn try again, and no more than that.
	e2e.OK(t, "approval", "accept", a.ID, "--digest", a.Digest)
	e2e.Until(t, "another refusal", func() (bool, error) { return failedTurns(t, "shared-2") == 2, nil })
	if _, again := paused(t, "shared-2"); again.ID == a.ID {
		t.Error("nobody is asked again")
	}
}

func TestABudgetInMoneyNeedsTheModelGateway(t *testing.T) {
	r := e2e.Exits(t, 2, "session", "start", "--host", "web-1", "--seed", "team", "--credentials", "planted", "--id", "no-money", "--budget", "money=5")
	if !strings.Contains(r.Stderr, "--credentials gateway") {
		t.Errorf("it said %q", r.Stderr)
	}
}
