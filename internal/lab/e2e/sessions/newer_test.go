package sessions

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A session that needs what no worker knows yet is shown with what it waits for.
func TestASessionThatWaitsForANewerWorkerSaysSo(t *testing.T) {
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	name := fresh("future")
	id := protocol.SessionID(name)
	if _, err := c.ExecuteWorkflow(e2e.Within(t), client.StartWorkflowOptions{ID: id, TaskQueue: protocol.TaskQueue}, protocol.TypeSession, map[string]any{
		"id": name, "options": map[string]any{"host": "web-1", "seed": "team"}, "requires": []string{"from_the_future"},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // the test's own has ended
		defer cancel()
		if err := c.TerminateWorkflow(ctx, id, "", "the test is over"); err != nil {
			t.Error(err)
		}
	})
	var r lab.Result
	e2e.Until(t, "it says what it waits for", func() (bool, error) {
		r = e2e.Lab.Ctl(e2e.Within(t), nil, "session", "show", name)
		return strings.Contains(r.Stdout, "a newer worker"), nil
	})
	if r.Code != 0 {
		t.Errorf("it is shown with exit code %d", r.Code)
	}
	for _, part := range []string{"does not know: from_the_future", "bring all workers of its zone up to date", "nothing of it is dropped"} {
		if !strings.Contains(r.Stdout, part) {
			t.Errorf("it is shown as %q, without %q", r.Stdout, part)
		}
	}
	if !strings.Contains(r.Stderr, "waits for a newer worker") || strings.Contains(r.Stderr, "no worker answers") {
		t.Errorf("the note is %q", r.Stderr)
	}
	if said := r.Stdout + r.Stderr; strings.Contains(said, "panic") || strings.Contains(said, "TMPRL") {
		t.Errorf("it says %q", said)
	}
	var v protocol.SessionView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "session", "show", name); err != nil || !strings.HasPrefix(v.Waits, "a newer worker: ") {
		t.Errorf("as JSON it waits for %q, %v", v.Waits, err)
	}
	// What is said to it is kept.
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "send", name, "--no-wait", "hello"); r.Code != 0 || !strings.Contains(r.Stderr, "until a newer worker serves the session") {
		t.Errorf("a message to it: %v", r)
	}
}
