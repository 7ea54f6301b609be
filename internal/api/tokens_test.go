package api

import (
	"errors"
	"strings"
	"testing"
)

func TestATokenIsKeptForOneServerAndOneSession(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	blob, err := c.PutToken(t.Context(), "night-1", "https://git.example.com/team/app.git", "a-token")
	if err != nil || !strings.HasPrefix(blob, "tokens/night-1/") {
		t.Fatalf("kept as %q, %v", blob, err)
	}
	if data, err := b.store.Get(t.Context(), blob); err != nil || string(data) != `{"server":"https://git.example.com:443","token":"a-token"}` {
		t.Errorf("kept %q, %v", data, err)
	}
	for what, a := range map[string][3]string{
		"no server":    {"night-1", "", "a-token"},
		"in clear":     {"night-1", "http://git.example.com/app.git", "a-token"},
		"no token":     {"night-1", "https://git.example.com/app.git", "two\nlines"},
		"no such name": {"../night", "https://git.example.com/app.git", "a-token"},
	} {
		var e *Error
		if blob, err := c.PutToken(t.Context(), a[0], a[1], a[2]); !errors.As(err, &e) || e.Kind != ErrBadInput || strings.Contains(e.Message, a[2]) {
			t.Errorf("%s: %q, %v", what, blob, err)
		}
	}
}
