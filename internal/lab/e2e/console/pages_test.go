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
	for path, says := range map[string]string{
		"/sessions": id, "/audit": "ctl audit verify", "/sessions/" + id + "/snapshots": "Snapshots of " + id, "/sessions/" + id + "/entries?from=1": "You said: hello",
		"/sessions/none-such": "none-such", "/nowhere": "there is no such page",
	} {
		b.GoTo(path)
		b.Sees(says)
		b.HasNoBarriers(path)
	}
	b.Submit(`form.who button`)
	b.Sees("Log in")
	b.HasNoBarriers("login")
}
