package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

func deliverables(t *testing.T, id string) []activities.Deliverable {
	t.Helper()
	list, err := lab.Lines[activities.Deliverable](within(t), shared, "session", "deliverables", id)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// codex says how far it is, hands a file over, is refused another one, asks,
// and does so again when the session has slept; what it handed over outlives all.
func TestCodexHandsThingsOverReportsAndAsks(t *testing.T) {
	const id = "tools"
	session(t, id, "--tools", "all")
	send(t, id, "hand over the report, gate "+id)
	var v workflows.SessionView
	until(t, "progress while the turn runs", func() (bool, error) {
		v = show(t, id)
		return v.Progress != nil, nil
	})
	if p := v.Progress; v.State != workflows.Running || p.Text != "reading the sources" || *p.Percent != 40 || p.Step != "2/5" || p.Turn != 1 || v.Options["tools"] != "ask_human,deliver,report_progress" {
		t.Errorf("session %s with progress %+v, tools %q", v.State, p, v.Options["tools"])
	}
	if r := shared.Ctl(within(t), nil, "session", "show", id); !strings.Contains(r.Stdout, "40 %, 2/5: reading the sources") {
		t.Errorf("a person is shown %v", r)
	}
	shared.Model.Release(id)

	a := open(t, id, 1)[0]
	if a.Kind != "user_input" || a.Tool != activities.ToolAskHuman || len(a.Questions) != 1 || a.Questions[0].Text != "Which colour?" || len(a.Questions[0].Options) != 2 {
		t.Fatalf("asked is %+v", a)
	}
	decided(t, "answer", "approval", "answer", a.ID, a.Questions[0].ID+"=blue")
	if v = ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("session is %+v", v)
	}
	said := lastText(t, id)
	for _, want := range []string{"link.md lies outside of the working directory", "Delivered report.md: 12 bytes, SHA-256 ", "blue"} {
		if !strings.Contains(said, want) {
			t.Errorf("the model had %q, not %q", said, want)
		}
	}
	list := deliverables(t, id)
	if len(list) != 1 || list[0].Name != "report.md" || list[0].Session != id || list[0].Turn != 1 || list[0].Bytes != 12 || list[0].Description != "what was found" {
		t.Fatalf("delivered %+v", list)
	}

	// Where nobody asks a worker, Temporal's lists say it too.
	c, err := shared.Outsider(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until(t, "the search attribute", func() (bool, error) {
		r, err := c.ListWorkflow(within(t), &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowId = '%s' AND FairleadProgress = '40 %%, 2/5: reading the sources'", workflows.SessionID(id))})
		return err == nil && len(r.Executions) > 0, err
	})

	ok(t, "session", "park", id)
	if got := deliverables(t, id); len(got) != 1 {
		t.Errorf("while it sleeps: %+v", got)
	}
	if v := turn(t, id, "hand it over again"); !strings.Contains(v.FinalText, "Delivered report.md: 14 bytes") {
		t.Errorf("behind a sleep the model had %q", v.FinalText)
	}
	ok(t, "session", "close", id)
	list = deliverables(t, id)
	if len(list) != 2 || list[0].Newest || !list[1].Newest || list[1].Version != 2 {
		t.Fatalf("of a closed session: %+v", list)
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "report.md")
	ok(t, "session", "deliverables", id, "--get", "report.md", "--to", file)
	holds := func(want string) {
		t.Helper()
		if data, err := os.ReadFile(file); err != nil || string(data) != want {
			t.Errorf("the file holds %q, %v, want %q", data, err, want)
		}
	}
	holds("all is better\n")
	refusedWith(t, 6, "there already", "session", "deliverables", id, "--get", "report.md", "--to", file)
	ok(t, "session", "deliverables", id, "--get", "report.md", "--version", "1", "--to", file, "--force")
	holds("all is well\n")
	if r := shared.Ctl(within(t), nil, "session", "deliverables", id, "--get", "report.md", "--to", "-"); r.Code != 0 || r.Stdout != "all is better\n" {
		t.Errorf("to standard output: %v", r)
	}
	refusedWith(t, 3, "delivered no such file", "session", "deliverables", id, "--get", "other.md", "--to", file+".other")
	refusedWith(t, 3, "", "session", "deliverables", "never-was")
	refusedWith(t, 2, "no tool", "session", "start", "--host", "web-1", "--seed", "team", "--tools", "deliver,rm")
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("beside the file: %v, %v", left, err)
	}
}
