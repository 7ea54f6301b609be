package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab"
)

// Refused runs ctl, which must exit with the code and print the words.
func Refused(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	r := Lab.Ctl(Within(t), nil, append(args, "-o", "json")...)
	var out struct {
		Error struct{ Kind, Message, Hint string }
	}
	if r.Code != code || json.Unmarshal([]byte(r.Stdout), &out) != nil || !strings.Contains(out.Error.Message+out.Error.Hint, says) {
		t.Errorf("want exit %d and %q: %v", code, says, r)
	}
}

// FirstJSON decodes the first object that a command printed; a command that
// fails prints its error after it.
func FirstJSON(text string, into any) error {
	return json.NewDecoder(strings.NewReader(text)).Decode(into)
}

// Within returns a context that bounds one step of a test, generously, for slow
// machines.
func Within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// OK runs ctl, which must exit 0, and returns what it printed.
func OK(t *testing.T, args ...string) string {
	t.Helper()
	out, err := Lab.Out(Within(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Until polls until cond holds.
func Until(t *testing.T, what string, cond func() (bool, error)) {
	t.Helper()
	if err := lab.Until(Within(t), what, cond); err != nil {
		t.Fatal(err)
	}
}

// Exits runs ctl, which must exit with the code.
func Exits(t *testing.T, code int, args ...string) lab.Result {
	t.Helper()
	r := Lab.Ctl(Within(t), nil, args...)
	if r.Code != code {
		t.Fatalf("want exit %d: %v", code, r)
	}
	return r
}
