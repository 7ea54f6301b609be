package sessions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// If a session's workspace cannot be made, the session fails with an exit code
// and the error text of git or of the hook, and leaves nothing on the host. The
// transcript has the output of hooks that run.
func TestAWorkspaceThatCannotBeMadeLeavesNothingAndSaysWhy(t *testing.T) {
	hooks := filepath.Join(t.TempDir(), "hooks.yaml")
	for _, c := range []struct {
		id, hooks, repo string
		says, hint      string
	}{
		{"ws-norepo", "", filepath.Join(t.TempDir(), "nothing.git"), "clone ", "check the URL"},
		{"ws-hangs", "after_create: 'echo waiting; sleep 1000 & wait'\ntimeout: 10s\n", "", "hook after_create was stopped, because it did not end within 10s on web-1: waiting", "timeout"},
		{"ws-fails", "before_run: 'echo no luck; exit 7'\n", "", "hook before_run failed with status 7 on web-1: no luck", "--hooks"},
	} {
		args := []string{"run", "--host", "web-1", "--seed", "team", "--id", c.id}
		if c.repo != "" {
			args = append(args, "--repo", c.repo)
		}
		if c.hooks != "" {
			if err := os.WriteFile(hooks, []byte(c.hooks), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--hooks", hooks)
		}
		r := e2e.Exits(t, 1, append(args, "hello")...)
		if !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, c.hint) {
			t.Errorf("%s: %v", c.id, r)
		}
		if s := e2e.Show(t, c.id); s.State != protocol.Failed || s.Error == nil || s.Error.Kind != protocol.ErrTypeWorkspace || s.Turn != nil {
			t.Errorf("%s is %+v, turn %+v, error %+v", c.id, s, s.Turn, s.Error)
		}
		folder := filepath.Join(e2e.Root, "sessions", c.id)
		if _, err := os.Lstat(folder); !os.IsNotExist(err) {
			t.Errorf("%s is there (%v)", folder, err)
		}
		e2e.Until(t, "all of "+c.id+" to have ended", func() (bool, error) { // killed processes take a moment to exit
			if left := lab.Below(folder); len(left) > 0 {
				return false, fmt.Errorf("there are %v", left)
			}
			return true, nil
		})
	}

	if err := os.WriteFile(hooks, []byte("after_create: 'echo made'\nbefore_run: 'seq 1 400'\nafter_run: 'echo after'\nbefore_remove: 'echo removed'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "run", "--host", "web-1", "--seed", "team", "--id", "ws-hooked", "--hooks", hooks, "hello")
	var ran []string
	for _, e := range e2e.Transcript(t, "ws-hooked") {
		if h := e.Data["hook"]; h != "" {
			ran = append(ran, h)
			if out := e.Data["output"]; h == "before_run" && (!strings.HasPrefix(out, "1\n2\n") || !strings.HasSuffix(out, "\n400")) || h != "before_run" && len(out) < 4 {
				t.Errorf("of hook %s %q is kept", h, out)
			}
		}
	}
	if want := []string{"after_create", "before_run", "after_run", "before_remove"}; !slices.Equal(ran, want) {
		t.Errorf("hooks in the transcript: %v, want %v", ran, want)
	}
}
