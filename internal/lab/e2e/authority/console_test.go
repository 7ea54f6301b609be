package authority

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestPeopleLogInAtTheConsoleByTheIssuer, and come to the card that they asked for. emil decides it
// in his own name, and fay, who may look only, finds no button.
func TestPeopleLogInAtTheConsoleByTheIssuer(t *testing.T) {
	id := "by-browser"
	mustDo(t, "olaf", "session", "start", "--host", "web-1", "--seed", "team", "--id", id)
	e2e.Closes(t, id)
	mustDo(t, "olaf", "session", "send", id, "--no-wait", "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	base, _, _ := strings.Cut(strings.TrimSpace(e2e.OK(t, "ui")), "/login")
	provider.SendsTo(base + "/login/callback")
	b := browser.Open(t, base, 1440, 900)
	logsIn := func(person string) {
		t.Helper()
		b.GoTo("/approvals/" + ap.ID)
		b.Sees("Log in at your organisation")
		b.Submit(`a[href^="/login/start"]`)
		b.Sees("The issuer")
		b.Types(`input[name=username]`, person)
		b.Submit(`button`)
		b.Sees("Approval "+ap.ID, person+"@example.com")
	}
	logsIn("fay")
	b.Sees("You may read this, and not decide it.")
	if b.Has(`form.decide`) || b.Has(`nav a[href="/sessions/new"]`) {
		t.Errorf("a viewer is offered more than to look:\n%s", b.Text())
	}
	b.Submit(`form.who button`)
	logsIn("emil")
	b.Submit(`[data-accept]`)
	b.Sees("accept by emil@example.com", "acknowledged by codex ✓")
	e2e.Ended(t, id, 1)
}
