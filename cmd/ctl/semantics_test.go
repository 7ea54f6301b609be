package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/workflows"
)

func TestWhatWasDecidedEarlierIsSaid(t *testing.T) {
	for _, c := range []struct {
		outcome string
		state   workflows.ApprovalState
		want    string
	}{
		{"accept", workflows.ApprovalSent, "approved earlier, may have run (s1.1 by bob)"},
		{"accept", workflows.ApprovalAcknowledged, "approved earlier, may have run (s1.1 by bob)"},
		{"accept", workflows.ApprovalDecided, "approved earlier by bob (s1.1), never delivered"},
		{"decline", workflows.ApprovalSent, "declined earlier by bob (s1.1)"},
		{"cancel", workflows.ApprovalAcknowledged, "cancelled earlier by bob (s1.1)"},
	} {
		e := &workflows.EarlierDecision{Approval: "s1.1", Outcome: c.outcome, By: "bob", State: c.state}
		if got := earlierText(e); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.outcome, c.state, got, c.want)
		}
		var b bytes.Buffer
		showApproval(newPrinter(&b, false), workflows.Approval{ID: "s1.2", State: workflows.ApprovalOpen, Earlier: e}, false)
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("the prompt does not say %q:\n%s", c.want, b.String())
		}
	}
	if got := earlierText(nil); got != "" {
		t.Errorf("nothing was decided, and it says %q", got)
	}
}

func TestAnApprovalSaysWhyItIsVoidAndHowFarItsDecisionCame(t *testing.T) {
	var b bytes.Buffer
	showApproval(newPrinter(&b, false), workflows.Approval{ID: "s1.2", State: workflows.ApprovalVoid, VoidReason: "codex's process is gone", Delivery: "void"}, false)
	for _, want := range []string{"void      codex's process is gone", "delivery  void"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}

func TestABudgetIsRead(t *testing.T) {
	b, err := parseBudget("tokens=500, time=90m,turn=2h,turns=3,approvals=4,commands=0")
	if err != nil || *b.Tokens != 500 || b.Time != "1h30m0s" || b.TurnTimeout != "2h0m0s" || *b.Turns != 3 || *b.Approvals != 4 || *b.Commands != 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err = parseBudget("tokens=0"); err != nil || b.Tokens == nil || *b.Tokens != 0 || b.Time != "" || b.TurnTimeout != "" || b.Turns != nil {
		t.Errorf("%+v, %v", b, err)
	}
	for _, bad := range []string{"", "500", "tokens=many", "tokens=-1", "turn=0", "turn=-1h", "time=soon", "time=-1s", "turns=1.5", "tokens=1,tokens=2", "approvals=", "commands=x", "money=5", "tokens=1,"} {
		if _, err := parseBudget(bad); exitOf(err) != exitUsage || err == nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWhatTemporalDoesNotKeepIsNullAndNotZero(t *testing.T) {
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "session/s1"},
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
			"FairleadTurn": {Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte("3")},
		}},
	}
	raw, err := json.Marshal(keptSession{keptView(info, payload.NewCodec("default"))})
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usage", "process", "attempt", "requests", "messages", "updated_at"} {
		if got, there := v[name]; !there || got != nil {
			t.Errorf("%s is %v", name, got)
		}
	}
	if turn := v["turn"].(map[string]any); turn["n"] != 3.0 || turn["status"] != nil || turn["id"] != nil || turn["started_at"] != nil {
		t.Errorf("turn is %v", turn)
	}
	if strings.Contains(string(raw), "0001-") {
		t.Errorf("a date that nobody knows: %s", raw)
	}
}

func TestAWorkflowThatIsNotReadyIsToldAgain(t *testing.T) {
	tries := 0
	err := whenReady(t.Context(), func() error {
		if tries++; tries < 3 {
			return serviceerror.NewWorkflowNotReady("it continues as new")
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	other := errors.New("something else")
	if err := whenReady(t.Context(), func() error { tries++; return other }); err != other || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var unready *serviceerror.WorkflowNotReady
	if err := whenReady(ctx, func() error { return serviceerror.NewWorkflowNotReady("") }); !errors.As(err, &unready) {
		t.Errorf("given up with %v", err)
	}
}

func TestASessionShowsWhatIsOnItsWay(t *testing.T) {
	var b bytes.Buffer
	showSession(newPrinter(&b, false), workflows.SessionView{ID: "s1",
		Messages: []workflows.MessageView{{ID: "m1", Kind: "message", Turn: 1, State: "sent", At: time.Now()}}})
	for _, want := range []string{"MESSAGE", "m1", "sent"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}

// The text shows the same budget of a session as the JSON.
func TestASessionShowsItsBoundsAndWhatAnInterruptDoes(t *testing.T) {
	for _, c := range []struct {
		budget workflows.BudgetView
		want   string
	}{
		{workflows.BudgetView{Tokens: workflows.BudgetCount{Used: 20, Limit: 500}, Commands: workflows.BudgetCount{Used: 1, Limit: 5}, Time: workflows.BudgetTime{Used: "2m0s", Limit: "8h0m0s"}, TurnTimeout: "2h0m0s"},
			"20 of 500 tokens used; 1 of 5 commands used; 2m0s of 8h used; a turn may take 2h"},
		{workflows.BudgetView{Tokens: workflows.BudgetCount{Used: 20}, TurnTimeout: "1h30m0s"}, "a turn may take 1h30m"},
		{workflows.BudgetView{TurnTimeout: "1m30s"}, "a turn may take 1m30s"},
		{workflows.BudgetView{TurnTimeout: "10m0s"}, "a turn may take 10m"},
	} {
		var b bytes.Buffer
		showSession(newPrinter(&b, false), workflows.SessionView{ID: "s1", Budget: &c.budget,
			Options: map[string]string{"on_interrupt": "continue"}})
		for _, want := range []string{"budget        " + c.want + "\n", "on interrupt  continue\n"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("it does not say %q:\n%s", want, b.String())
			}
		}
	}
	var b bytes.Buffer
	showSession(newPrinter(&b, false), workflows.SessionView{ID: "s1"})
	for _, unknown := range []string{"budget", "interrupt"} {
		if strings.Contains(b.String(), unknown) {
			t.Errorf("with no worker up nobody knows the %s:\n%s", unknown, b.String())
		}
	}
}

// With no worker up, ctl refuses what the session would refuse.
func TestADecisionThatWouldBeRefusedIsNotKept(t *testing.T) {
	seen := workflows.SessionDetail{View: workflows.SessionView{State: workflows.Waiting}, Approvals: []workflows.Approval{{
		ID: "s1.1", Digest: "d", State: workflows.ApprovalOpen, Offered: []string{"accept", "decline"}, ExpiresAt: time.Now().Add(time.Hour)}}}
	for _, c := range []struct {
		outcome, scope string
		code           int
	}{{"accept", "", 0}, {"decline", "", 0}, {"cancel", "", exitRefused}, {"accept", "session", exitRefused}} {
		err := decidable("decide", workflows.Decide{Approval: "s1.1", Digest: "d", Outcome: c.outcome, Scope: c.scope})(seen)
		if code := refusalCode(err); code != c.code {
			t.Errorf("%s %s: exit %d (%v), want %d", c.outcome, c.scope, code, err, c.code)
		}
	}
}

// A decision that was kept as a signal may reach the session after another one.
func TestADecisionThatCameSecondIsRefused(t *testing.T) {
	mine := workflows.Decide{Outcome: "accept", By: "ann", Reason: "fine"}
	for _, c := range []struct {
		there *workflows.Decision
		code  int
	}{
		{nil, 0},
		{&workflows.Decision{Outcome: "accept", By: "ann", Reason: "fine", Scope: "once"}, 0},
		{&workflows.Decision{Outcome: "decline", By: "bob", Scope: "once"}, exitRefused},
		{&workflows.Decision{Outcome: "decline", By: "expiry", Scope: "once"}, exitRefused},
		{&workflows.Decision{Outcome: "accept", By: "bob", Scope: "once"}, exitRefused},
		{&workflows.Decision{Outcome: "accept", By: "ann", Reason: "fine", Scope: "session"}, exitRefused},
	} {
		if code := refusalCode(ours("decide", workflows.Approval{Decision: c.there}, mine)); code != c.code {
			t.Errorf("%+v: exit %d, want %d", c.there, code, c.code)
		}
	}
	if code := refusalCode(ours("decide", workflows.Approval{State: workflows.ApprovalVoid}, mine)); code != exitRefused {
		t.Errorf("one that is void: exit %d", code)
	}
}

func refusalCode(err error) int {
	if err == nil {
		return 0
	}
	return exitOf(err)
}
