package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestAFollowUpGoesOnWithTheThreadAndItsResultIsAttached(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	err := os.WriteFile(rules, []byte("follow_ups:\n  - name: review\n    after: {turns: 1}\n    prompt: what was first\n    sandbox: read-only\n    budget: tokens=900000\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	e2e.Session(t, "followed", "--follow-up", rules)
	e2e.Turn(t, "followed", "the first words")
	second := e2e.Started(t, "followed", 1)
	closed(t, second)
	e2e.Until(t, "the result of the follow-up is attached", func() (bool, error) {
		all := e2e.Show(t, "followed").FollowUps
		return len(all) == 1 && all[0].State != protocol.FollowUpStarted, nil
	})
	v := e2e.Show(t, "followed")
	got := v.FollowUps[0]
	if got.Session != second || !strings.HasPrefix(second, "followed-review-1-") || got.State != "closed" || got.Status != "completed" || got.Turn != 1 || !strings.Contains(got.Text, "The first was: the first words") {
		t.Errorf("it is shown as %+v", got)
	}
	its := e2e.Show(t, second)
	if its.Origin != "session/followed" || its.ThreadID == v.ThreadID || its.Options["sandbox"] != "read-only" || len(its.FollowUps) > 0 || v.State != protocol.Idle {
		t.Errorf("the follow-up is %+v, and the first session %s", its, v.State)
	}
	if out := e2e.OK(t, "session", "list", "--follow-ups-of", "followed"); !strings.Contains(out, second) {
		t.Errorf("listed are\n%s", out)
	}
}

// The rules of one session: after calls of tools, and after changes of files that a pattern matches,
// as seen from the work folder, by codex and by a command. The second follow-up has a seed, a model and a budget of its own.
// A turn that is interrupted or fails is followed by none.
func TestAFollowUpComesAfterToolCallsOrEditedFilesAndNeverAfterAnInterrupt(t *testing.T) {
	e2e.Scripted(t, `
rules:
  - when: {exact: edit}
    steps:
      - - patch: |
            *** Begin Patch
            *** Add File: migrations/1.sql
            +create table t ();
            *** End Patch
      - say: edited
  - when: {exact: call}
    steps:
      - - shell: echo one
      - - shell: echo two
      - say: called
  - when: {exact: make}
    steps:
      - - shell: "echo 'create table u ();' > migrations/2.sql"
      - say: made
  - when: {exact: hold}
    steps:
      - [{shell: echo three}, {shell: echo four}]
      - [{wait: held}, {say: never}]
  - when: {exact: break}
    steps:
      - [{shell: echo five}, {shell: echo six}]
      - fail: {kind: failed, code: insufficient_quota, message: no quota left}
  - when: {}
    steps:
      - say: fine
`)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	err := os.WriteFile(rules, []byte(`follow_ups:
  - {name: calls, after: {tool_calls: 2}, prompt: look at the calls}
  - {name: sql, after: {files: ["migrations/**"]}, prompt: look at the migration, seed: other, model: gpt-5.5, budget: tokens=900000}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := e2e.Lab.ImportSeed(e2e.Within(t), "other"); err != nil {
		t.Fatal(err)
	}
	e2e.Session(t, "ruled", "--follow-up", rules)
	e2e.Send(t, "ruled", "hold")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "held"); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "session", "interrupt", "ruled")
	if v := e2e.Ended(t, "ruled", 1); v.Turn.Status != "interrupted" {
		t.Errorf("turn %+v", v.Turn)
	}
	e2e.Lab.Model.Release("held")
	e2e.Send(t, "ruled", "break")
	if v := e2e.Ended(t, "ruled", 2); v.Turn.Status != "failed" {
		t.Errorf("turn %+v", v.Turn)
	}
	if v := e2e.Turn(t, "ruled", "edit"); v.Status != "completed" {
		t.Errorf("turn %+v", v)
	}
	of := func(n int) protocol.FollowUpView {
		t.Helper()
		e2e.Until(t, "the follow-up has ended", func() (bool, error) {
			all := e2e.Show(t, "ruled").FollowUps
			return len(all) >= n && all[n-1].State != protocol.FollowUpStarted, nil
		})
		return e2e.Show(t, "ruled").FollowUps[n-1]
	}
	if got := of(1); got.Name != "sql" || got.Turn != 3 || got.Text != "fine" {
		t.Errorf("after the edit: %+v", got)
	} else if its := e2e.Show(t, got.Session); its.Seed != "other" || its.Options["model"] != "gpt-5.5" || its.Budget == nil || its.Budget.Tokens.Limit != 900000 {
		t.Errorf("the follow-up after the edit is %+v", its)
	}
	if v := e2e.Turn(t, "ruled", "call"); v.Status != "completed" {
		t.Errorf("turn %+v", v)
	}
	if got := of(2); got.Name != "calls" || got.Turn != 4 || got.Text != "fine" {
		t.Errorf("after the calls: %+v", got)
	}
	if v := e2e.Turn(t, "ruled", "make"); v.Status != "completed" {
		t.Errorf("turn %+v", v)
	}
	if got := of(3); got.Name != "sql" || got.Turn != 5 || got.Text != "fine" {
		t.Errorf("after a command that made a file: %+v", got)
	}
}
