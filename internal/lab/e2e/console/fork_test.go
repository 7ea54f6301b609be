package console

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestASessionIsForkedFromItsSnapshots: the new session has the conversation of the first one.
func TestASessionIsForkedFromItsSnapshots(t *testing.T) {
	id, other := "forked", "forked-on"
	b := open(t, 1440, 900)
	e2e.Session(t, id)
	e2e.Turn(t, id, "hello")
	b.GoTo("/sessions/" + id + "/snapshots")
	b.Sees("Snapshots of " + id)
	b.Shoot("console-snapshots")
	b.Submit(`a[href="/sessions/` + id + `/fork"]`)
	b.Sees("Fork session "+id, id+" stays as it is")
	b.HasNoBarriers("fork")
	b.Shoot("console-fork")
	b.Types(`input[name=id]`, other)
	b.Submit(`[data-confirm]`)
	e2e.Closes(t, other)
	b.Sees(other, "idle")
	if v := e2e.Turn(t, other, "what was first"); v.FinalText != "The first was: hello" {
		t.Errorf("the fork says %q", v.FinalText)
	}
}
