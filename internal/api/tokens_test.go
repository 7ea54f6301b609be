package api

import (
	"errors"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/owned"
)

func TestATokenIsKeptForOneServerAndOneSession(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	blob, err := c.PutToken(t.Context(), "night-1", "", "https://git.example.com/team/app.git", "a-token")
	if err != nil || !strings.HasPrefix(blob, "tokens/night-1/") {
		t.Fatalf("kept as %q, %v", blob, err)
	}
	if data, err := b.store.Get(t.Context(), blob); err != nil || string(data) != `{"server":"https://git.example.com:443","token":"a-token"}` {
		t.Errorf("kept %q, %v", data, err)
	}
	shared, err := c.PutToken(t.Context(), "", aFolder, "https://git.example.com/team/app.git", "a-token")
	if err != nil || !owned.Is(shared, owned.Tokens) {
		t.Errorf("for several it is kept as %q, %v", shared, err)
	}
	for what, a := range map[string][4]string{
		"no server":        {"night-1", "", "a-token"},
		"in clear":         {"night-1", "http://git.example.com/app.git", "a-token"},
		"no token":         {"night-1", "https://git.example.com/app.git", "two\nlines"},
		"no such name":     {"../night", "https://git.example.com/app.git", "a-token"},
		"nobody's":         {"", "https://git.example.com/app.git", "a-token"},
		"two owners":       {"night-1", "https://git.example.com/app.git", "a-token", aFolder},
		"not in a folder":  {"", "https://git.example.com/app.git", "a-token", "seeds"},
		"beside a session": {"night-1", "https://git.example.com/app.git", "a-token", "seeds"},
	} {
		var e *Error
		if blob, err := c.PutToken(t.Context(), a[0], a[3], a[1], a[2]); !errors.As(err, &e) || e.Kind != ErrBadInput || strings.Contains(e.Message, a[2]) {
			t.Errorf("%s: %q, %v", what, blob, err)
		}
	}
}
