package sessions

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// fails runs ctl, which must print a turn and exit with status 1, for failed
// work.
func fails(t *testing.T, args ...string) protocol.TurnView {
	t.Helper()
	r := e2e.Lab.Ctl(e2e.Within(t), nil, append(args, "-o", "json")...)
	var v protocol.TurnView
	if err := json.Unmarshal([]byte(lastLine(r.Stdout)), &v); err != nil || r.Code != 1 {
		t.Fatalf("want exit 1 and a turn: %v (%v)", r, err)
	}
	return v
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A session is held to each of its bounds in the middle of a turn. It warns
// before, says so then, accepts no message while a bound is used up, and
// continues when it is raised.
func TestATurnIsInterruptedWhereItsBudgetEnds(t *testing.T) {
	const id = "bounded"
	closed(t, id)
	all := written(t, "policy.yaml", "rules: [{name: all of it, when: \"true\", outcome: accept}]\n")
	turns := 0
	spends := func(what, warned string, v protocol.TurnView) {
		t.Helper()
		turns++
		if v.N != turns || v.Status != "interrupted" || v.Error == nil || v.Error.Kind != "budget" || v.EndedBy != "budget" ||
			!strings.Contains(v.Error.Message, what) || !strings.Contains(v.Error.Hint, "session set "+id+" --budget "+what) {
			t.Errorf("%s: turn %+v, error %+v", what, v, v.Error)
		}
		said := func(words ...string) int {
			return slices.IndexFunc(e2e.Transcript(t, id), func(e protocol.Entry) bool {
				return e.Turn == turns && e.Status == "budget" && e.Data["budget"] == what && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Text, w) })
			})
		}
		near, over := said(warned, "% are reached"), said("the turn is interrupted")
		if over < 0 || warned != "" && (near < 0 || near > over) {
			t.Errorf("%s: the warning is entry %d, the interrupt %d", what, near, over)
		}
	}
	v := fails(t, "run", "--keep", "--host", "web-1", "--seed", "team", "--id", id, "--policy", all, "--budget", "tokens=1000", "you may spend tokens")
	spends("tokens", "850 of the 1000 tokens", v)
	if v.Usage.Input+v.Usage.Output != 1170 {
		t.Errorf("used is %+v", v.Usage)
	}
	if s := e2e.Show(t, id); s.Budget.Tokens != (protocol.BudgetCount{Used: 1170, Limit: 1000}) || len(s.Budget.Warnings) != 1 {
		t.Errorf("budget %+v", s.Budget)
	}
	e2e.Refused(t, 6, "--budget tokens=N", "session", "send", id, "hello")

	for _, c := range []struct{ budget, what, warned, prompt string }{
		{"tokens=0,commands=4", "commands", "4 of the 4 commands", "you may spend commands"},
		{"commands=0,approvals=1", "approvals", "1 of the 1 approvals", "you may spend approvals"},
	} {
		e2e.OK(t, "session", "set", id, "--budget", c.budget)
		spends(c.what, c.warned, fails(t, "session", "send", id, c.prompt))
	}

	// No line of codex's reports time. The next turn gets a few seconds.
	used, err := time.ParseDuration(e2e.Show(t, id).Budget.Time.Used)
	if err != nil {
		t.Fatal(err)
	}
	most := (used + 4*time.Second).Round(time.Second).String()
	e2e.OK(t, "session", "set", id, "--budget", "approvals=0,time="+most)
	v = fails(t, "session", "send", id, "you may spend time")
	turns++
	if v.Status != "interrupted" || v.Error == nil || v.Error.Kind != "budget" || v.EndedBy != "budget" || !strings.Contains(v.Error.Message, most) {
		t.Errorf("time: turn %+v, error %+v", v, v.Error)
	}

	list, err := lab.Lines[protocol.Approval](e2e.Within(t), e2e.Lab, "approval", "list", "--all", "--session", id)
	if err != nil || len(list) != 1 || list[0].Ruling == nil || list[0].Ruling.Rule != "all of it" {
		t.Errorf("asked was %+v, %v; want what the policy answered within the budget, and nothing behind it", list, err)
	}
	e2e.OK(t, "session", "set", id, "--budget", "time=0,turns=5")
	if v := e2e.Turn(t, id, "hello"); v.Status != "completed" {
		t.Errorf("within its turns: %+v", v)
	}
	e2e.Refused(t, 6, "--budget turns=N", "session", "send", id, "hello")
	e2e.OK(t, "session", "set", id, "--budget", "turns=0")
	if v := e2e.Turn(t, id, "what was first?"); v.FinalText != "The first was: you may spend tokens" {
		t.Errorf("after all that the thread says %q", v.FinalText)
	}
}
