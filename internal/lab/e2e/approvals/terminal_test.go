package approvals

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestEverythingCanBeAnsweredAtTheTerminal of the person who sent the message:
// choices by number and name, permissions one by one.
func TestEverythingCanBeAnsweredAtTheTerminal(t *testing.T) {
	id := "terminal"
	asking(t, id)
	p := e2e.At(t, "session", "send", id, "you need to know")
	p.Types("2) blue", "2")
	p.Types("What is the word?", "SOME")
	if screen := p.Leaves(); !strings.Contains(screen, "I was told") {
		t.Errorf("on the screen is\n%s", screen)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "blue") || !strings.Contains(said, `"some"`) {
		t.Errorf("the model said %q", said)
	}
	p = e2e.At(t, "session", "send", id, "you need permissions")
	p.Types("s give some of it", "s")
	p.Types("use the network? [y/n]", "n")
	p.Types("read /srv/data? [y/n]", "n")
	p.Types("write /srv/out? [y/n]", "y")
	p.Types("not only for this turn? [y/n]", "n")
	p.Leaves()
	if said := e2e.LastText(t, id); !strings.Contains(said, "/srv/out") || strings.Contains(said, "/srv/data") || strings.Contains(said, `"enabled":true`) {
		t.Errorf("the model said %q", said)
	}
	// --secret makes the answer to an ordinary question a secret.
	e2e.Send(t, id, "you need to know")
	a := e2e.Open(t, id, 1)[0]
	p = e2e.At(t, "approval", "answer", a.ID, "colour=1", "--secret", "word")
	p.Types("word (not shown) >", "swordfish in the pond")
	if screen := p.Leaves(); strings.Contains(screen, "swordfish") {
		t.Errorf("on the screen is\n%s", screen)
	}
	if v := e2e.Ended(t, id, 3); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "redacted") || strings.Contains(said, "swordfish") {
		t.Errorf("the model is shown to have said %q", said)
	}
}
