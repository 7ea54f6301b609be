package console

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// atName is open at localhost: browsers keep passkeys for names.
func atName(t *testing.T) *browser.Tab {
	t.Helper()
	link := strings.Replace(strings.TrimSpace(e2e.OK(t, "ui")), "127.0.0.1", "localhost", 1)
	base, _, _ := strings.Cut(link, "/login")
	b := browser.Open(t, base, 1440, 900)
	b.GoTo(link)
	b.Sees("Inbox")
	return b
}

// addsPasskey registers a passkey in the console.
func addsPasskey(b *browser.Tab, name string) {
	b.Helper()
	b.GoTo("/passkeys")
	b.Types(`input[name=name]`, name)
	b.Submit(`form[data-passkey-add] button`)
	b.Sees("Remove " + name)
}

func TestAPersonAddsAndRemovesAPasskey(t *testing.T) {
	b := atName(t)
	b.Authenticator()
	b.GoTo("/passkeys")
	b.Sees("You have none.")
	b.HasNoBarriers("passkeys")
	addsPasskey(b, "laptop")
	b.HasNoBarriers("passkeys")
	b.Shoot("console-passkeys")
	b.Submit(`a[href^="/passkeys/remove"]`)
	b.Sees("decides nothing any more")
	b.HasNoBarriers("remove a passkey")
	b.Submit(`button[data-confirm]`)
	b.Sees("You have none.")
	for _, verb := range []string{"passkey.add", "passkey.remove"} {
		e2e.Until(t, verb+" on record", func() (bool, error) { return strings.Contains(e2e.OK(t, "audit", "list"), verb), nil })
	}
	// At an address without a name, the page says where to go.
	at := open(t, 1440, 900)
	at.GoTo("/passkeys")
	at.Sees("http://localhost:")
	if at.Has(`form[data-passkey-add]`) {
		t.Error("the page offers to add a passkey at an address")
	}
}

// riskyPolicy marks all that codex asks for as high risk.
func riskyPolicy(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("rules:\n  - {name: risky, when: 'true', outcome: ask, risk: high}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// catches keeps the form that the page is about to send with its passkey, and sends nothing.
const catches = `HTMLFormElement.prototype.submit = function () { window.caught = new URLSearchParams(new FormData(this)).toString() }; true`

// sendsCaught sends a form that was caught, perhaps with other fields, to a card. It returns the
// status of the answer and what the answer's page says.
func sendsCaught(b *browser.Tab, card, form string, with map[string]string) (int, string) {
	b.Helper()
	fields, err := url.ParseQuery(form)
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range with {
		fields.Set(name, value)
	}
	got := browser.Eval[string](b, fmt.Sprintf(`fetch("/approvals/%s/decision", {method: "POST", body: new URLSearchParams(%q)}).then(async r => r.status + " " + await r.text())`, card, fields.Encode()))
	code, text, _ := strings.Cut(got, " ")
	n, err := strconv.Atoi(code)
	if err != nil {
		b.Fatal(err)
	}
	return n, text
}

func TestHighRiskIsAcceptedWithAPasskey(t *testing.T) {
	id := "risky"
	b := atName(t)
	b.Authenticator()
	e2e.Session(t, id, "--policy", riskyPolicy(t))
	e2e.Send(t, id, "you need commands one after another")
	first := e2e.Open(t, id, 1)[0]
	card := "/approvals/" + first.ID
	b.GoTo(card)
	b.Sees("The policy marks this as high risk", "add one")
	b.HasNoBarriers("high risk without a passkey")
	if b.Has(`button[data-accept]`) || !b.Has(`button[data-decline]`) {
		t.Error("without a passkey, the card does not offer to decline alone")
	}
	e2e.Refused(t, 6, "needs your passkey", "approval", "accept", first.ID)
	addsPasskey(b, "laptop")
	b.GoTo(card)
	b.Sees("Accept with your passkey")
	b.HasNoBarriers("high risk")
	b.Shoot("console-high-risk")
	browser.Eval[bool](b, catches)
	b.Press(`button[data-accept]`)
	b.Until("what the passkey signed", func() bool { return browser.Eval[bool](b, `!!window.caught`) })
	form := browser.Eval[string](b, `window.caught`)
	// What it signed counts for this decision alone.
	for what, with := range map[string]map[string]string{
		"for the session": {"outcome": "accept_for_session", "key": "k1"},
		"without it":      {"passkey": "", "key": "k2"},
		"no JSON":         {"passkey": "{", "key": "k3"},
	} {
		if code, said := sendsCaught(b, first.ID, form, with); code < 400 {
			t.Errorf("%s: %d %s", what, code, said)
		}
	}
	if code, said := sendsCaught(b, first.ID, form, nil); code != 200 || !strings.Contains(said, "<strong>accept</strong>") {
		t.Fatalf("the decision is answered %d %s", code, said)
	}
	second := e2e.Open(t, id, 1)[0]
	if second.ID == first.ID {
		t.Fatal("the first approval is open")
	}
	if code, said := sendsCaught(b, second.ID, form, map[string]string{"digest": second.Digest, "key": "k4"}); code != 403 || !strings.Contains(said, "signed another decision") {
		t.Errorf("the same assertion for the next approval is answered %d %s", code, said)
	}
	// A passkey that was removed meanwhile decides nothing.
	b.GoTo("/approvals/" + second.ID)
	browser.Eval[bool](b, catches)
	b.Press(`button[data-accept]`)
	b.Until("what the passkey signed", func() bool { return browser.Eval[bool](b, `!!window.caught`) })
	form = browser.Eval[string](b, `window.caught`)
	b.GoTo("/passkeys")
	b.Submit(`a[href^="/passkeys/remove"]`)
	b.Submit(`button[data-confirm]`)
	b.Sees("You have none.")
	if code, said := sendsCaught(b, second.ID, form, nil); code != 403 || !strings.Contains(said, "was removed") {
		t.Errorf("a removed passkey is answered %d %s", code, said)
	}
	addsPasskey(b, "another")
	b.GoTo("/approvals/" + second.ID)
	b.Submit(`button[data-accept]`)
	b.Sees("accept", "recorded ✓")
	third := e2e.Open(t, id, 1)[0]
	b.GoTo("/approvals/" + third.ID)
	b.Submit(`button[data-decline]`)
	b.Sees("decline", "recorded ✓")
	e2e.Until(t, "refusals on record", func() (bool, error) {
		said := e2e.OK(t, "audit", "list", "-o", "json") // the table cuts reasons
		return strings.Contains(said, "signed another decision") && strings.Contains(said, "was removed"), nil
	})
	e2e.Closes(t, id)
}
