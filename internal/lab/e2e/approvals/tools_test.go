package approvals

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func deliverables(t *testing.T, id string) []protocol.Deliverable {
	t.Helper()
	list, err := lab.Lines[protocol.Deliverable](e2e.Within(t), e2e.Lab, "session", "deliverables", id)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// codex reports progress, hands over a file, is refused another one, asks a
// person, and does so again after the session was parked. The file that it
// handed over stays.
func TestCodexHandsThingsOverReportsAndAsks(t *testing.T) {
	const id = "tools"
	e2e.Session(t, id, "--tools", "all")
	e2e.Send(t, id, "hand over the report, gate "+id)
	var v protocol.SessionView
	e2e.Until(t, "progress while the turn runs", func() (bool, error) {
		v = e2e.Show(t, id)
		return v.Progress != nil, nil
	})
	if p := v.Progress; v.State != protocol.Running || p.Text != "reading the sources" || *p.Percent != 40 || p.Step != "2/5" || p.Turn != 1 || v.Options["tools"] != "ask_human,deliver,finish,report_progress" {
		t.Errorf("session %s with progress %+v, tools %q", v.State, p, v.Options["tools"])
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "show", id); !strings.Contains(r.Stdout, "40 %, 2/5: reading the sources") {
		t.Errorf("a person is shown %v", r)
	}
	e2e.Lab.Model.Release(id)

	a := e2e.Open(t, id, 1)[0]
	if a.Kind != "user_input" || a.Tool != protocol.ToolAskHuman || len(a.Questions) != 1 || a.Questions[0].Text != "Which colour?" || len(a.Questions[0].Options) != 2 {
		t.Fatalf("asked is %+v", a)
	}
	decided(t, "answer", "approval", "answer", a.ID, a.Questions[0].ID+"=blue")
	if v = e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("session is %+v", v)
	}
	said := e2e.LastText(t, id)
	for _, want := range []string{"link.md lies outside of the working directory", "Delivered report.md: 12 bytes, SHA-256 ", "blue"} {
		if !strings.Contains(said, want) {
			t.Errorf("the model had %q, not %q", said, want)
		}
	}
	list := deliverables(t, id)
	if len(list) != 1 || list[0].Name != "report.md" || list[0].Session != id || list[0].Turn != 1 || list[0].Bytes != 12 || list[0].Description != "what was found" {
		t.Fatalf("delivered %+v", list)
	}

	// Temporal's search attributes show it without a worker.
	c, err := e2e.Lab.Outsider(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e2e.Until(t, "the search attribute", func() (bool, error) {
		r, err := c.ListWorkflow(e2e.Within(t), &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowId = '%s' AND FairleadProgress = '40 %%, 2/5: reading the sources'", protocol.SessionID(id))})
		return err == nil && len(r.Executions) > 0, err
	})

	e2e.OK(t, "session", "park", id)
	if got := deliverables(t, id); len(got) != 1 {
		t.Errorf("while it sleeps: %+v", got)
	}
	if v := e2e.Turn(t, id, "hand it over again"); !strings.Contains(v.FinalText, "Delivered report.md: 14 bytes") {
		t.Errorf("behind a sleep the model had %q", v.FinalText)
	}
	e2e.OK(t, "session", "close", id)
	list = deliverables(t, id)
	if len(list) != 2 || list[0].Newest || !list[1].Newest || list[1].Version != 2 {
		t.Fatalf("of a closed session: %+v", list)
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "report.md")
	e2e.OK(t, "session", "deliverables", id, "--get", "report.md", "--to", file)
	holds := func(want string) {
		t.Helper()
		if data, err := os.ReadFile(file); err != nil || string(data) != want {
			t.Errorf("the file holds %q, %v, want %q", data, err, want)
		}
	}
	holds("all is better\n")
	e2e.Refused(t, 6, "there already", "session", "deliverables", id, "--get", "report.md", "--to", file)
	e2e.OK(t, "session", "deliverables", id, "--get", "report.md", "--version", "1", "--to", file, "--force")
	holds("all is well\n")
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "deliverables", id, "--get", "report.md", "--to", "-"); r.Code != 0 || r.Stdout != "all is better\n" {
		t.Errorf("to standard output: %v", r)
	}
	e2e.Refused(t, 3, "delivered no such file", "session", "deliverables", id, "--get", "other.md", "--to", file+".other")
	e2e.Refused(t, 3, "", "session", "deliverables", "never-was")
	e2e.Refused(t, 2, "no tool", "session", "start", "--host", "web-1", "--seed", "team", "--tools", "deliver,rm")
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("beside the file: %v, %v", left, err)
	}
}
