package hostexec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If there is no key to offer, no host is dialed. The error names this machine, because it
// lacks the key.
func TestTheMachineThatLacksAKeyIsNamed(t *testing.T) {
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	gone := filepath.Join(t.TempDir(), "id")
	for identity, want := range map[string]string{
		gone: "no key to offer from machine " + here + ": identity " + gone + ": no such file or directory",
		"":   "no key to offer from machine " + here + ": no identity is named",
	} {
		_, err := newCredentials(identity, "")
		if !errors.Is(err, ErrAuth) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("identity %q: %v, want %s", identity, err, want)
		}
	}
}
