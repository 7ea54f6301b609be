package console

import (
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// TestTheConsoleAloneIsEnough for a new user: start a session, read the diff that codex wants to
// make, approve it, watch the transcript grow, send a message, park, resume and close.
func TestTheConsoleAloneIsEnough(t *testing.T) {
	id, path := "alone", filepath.Join(e2e.Lab.Dir, "alone.txt")
	b := open(t, 1440, 900)
	b.Submit(`nav a[href="/sessions/new"]`)
	b.Sees("What codex is to do")
	b.HasNoBarriers("new session")
	b.Types(`textarea[name=text]`, "you need a file at "+path)
	b.Types(`input[name=seed]`, "team")
	b.Types(`input[name=host]`, "web-1")
	b.Types(`input[name=id]`, id)
	b.Shoot("console-new")
	b.Submit(`form.start button.accept`)
	e2e.Closes(t, id)
	b.Sees(id, "waiting", "+made by codex", path, "Accept")
	ap := e2e.Open(t, id, 1)[0]
	if _, err := os.Stat(path); err == nil {
		t.Fatal("the file is there before anybody accepted it")
	}
	browser.Eval[bool](b, `scrollTo(0, 0), true`) // the page went to its newest entry
	b.Shoot("console-session")
	b.HasNoBarriers("session")
	b.Submit(`[data-accept]`)
	b.Sees("Approval "+ap.ID, "accept", "acknowledged by codex ✓")
	b.Submit(`main a[href="/sessions/` + id + `"]`)
	b.Sees("The file was answered with", "idle")
	if data, err := os.ReadFile(path); err != nil || string(data) != "made by codex\n" {
		t.Errorf("the file has %q, %v", data, err)
	}
	b.Types(`form.message textarea`, "hello from the console")
	b.Submit(`form.message button.accept`)
	b.Sees("You said: hello from the console", "idle")
	b.Submit(`form[action$="/park"] button`)
	b.Sees("parked")
	b.Submit(`form[action$="/resume"] button`)
	b.Sees("idle")
	b.Submit(`form[action$="/close"] button`)
	b.Until("the end of the session", func() bool { return b.Has(".badge.quiet") && !b.Has(".acts form") })
	b.Sees("closed")
	if v := e2e.Show(t, id); v.State != protocol.Closed || v.Turn == nil || v.Turn.N != 2 {
		t.Errorf("the session is %s after turn %+v", v.State, v.Turn)
	}
}
