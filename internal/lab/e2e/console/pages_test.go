package console

import (
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestNoPageHasBarriers: those that no other test of this package looks at.
func TestNoPageHasBarriers(t *testing.T) {
	id := "pages"
	e2e.Session(t, id)
	e2e.Turn(t, id, "hello")
	b := open(t, 1440, 900)
	for _, page := range []struct{ path, says, picture string }{
		{"/sessions", id, "console-sessions"},
		{"/audit", "ctl audit verify", "console-audit"},
		{"/sessions/" + id + "/snapshots", "Snapshots of " + id, ""},
		{"/sessions/" + id + "/entries?from=1", "You said: hello", "console-entries"},
		{"/sessions/none-such", "none-such", ""},
		{"/nowhere", "there is no such page", "console-problem"},
	} {
		b.GoTo(page.path)
		b.Sees(page.says)
		b.HasNoBarriers(page.path)
		if page.picture != "" {
			b.Shoot(page.picture)
		}
	}
	b.Submit(`form.who button`)
	b.Sees("Log in")
	b.HasNoBarriers("login")
	b.Shoot("console-login")
}
