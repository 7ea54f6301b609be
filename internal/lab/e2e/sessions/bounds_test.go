package sessions

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// Whoever starts a session, in whatever way, cannot lift the bounds that others set.
func TestBoundsHoldHoweverASessionIsStarted(t *testing.T) {
	l, run := e2e.Own(t, `limits: {watch: 1s}
bounds:
  sandbox: workspace-write
  approval_policies: [untrusted, on-request]
  hooks: false
  network: false
  dir: false
  hosts:
    - {labels: {tier: prod}, approval_policies: [untrusted], exec: false}
`)
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const org = "set by bounds of the workers' configuration"
	refused := func(says string, args ...string) {
		t.Helper()
		r := l.Ctl(e2e.Within(t), nil, args...)
		if r.Code != 6 || !strings.Contains(r.Stderr, says) {
			t.Errorf("want exit 6 and %q: %v", says, r)
		}
	}
	fails := func(begun any, id string) {
		t.Helper()
		e2e.Until(t, "session "+id+" is refused", func() (bool, error) {
			var v protocol.SessionView
			if err := l.JSON(e2e.Within(t), &v, "session", "show", id); err != nil {
				return false, fmt.Errorf("%w (%v)", err, begun)
			}
			return v.Error != nil && v.Error.Kind == protocol.ErrTypeBounds && strings.Contains(v.Error.Message, "tier=prod"), nil
		})
	}
	start := func(more ...string) []string {
		return append(append([]string{"run", "--host", "web-1", "--seed", "team"}, more...), "how is it going?")
	}
	refused(org, start("--sandbox", "danger-full-access")...)
	refused("--approval-policy never", start("--approval-policy", "never")...)
	refused("before_run", start("--hooks", file("hooks.yaml", "before_run: touch hooked\n"))...)
	refused("--network on", start("--network", "on")...)
	refused("--dir /tmp", start("--dir", "/tmp")...)

	// Within the bounds, a session runs. Narrower bounds hold when codex is to start again,
	// and for its forks.
	run("run", "--host", "web-1", "--seed", "team", "--id", "base", "--keep", "how is it going?")
	run("host", "exec", "web-1", "--", "true")
	run("host", "set", "web-1", "--label", "tier=prod")
	refused("commands may not be run on host web-1", "host", "exec", "web-1", "--", "true")
	refused("tier=prod", start()...)
	r := l.Ctl(e2e.Within(t), nil, "session", "fork", "base", "--id", "forked", "--host", "web-1")
	fails(r, "forked")

	batch := file("batch.yaml", "id: over\nprompt: \"{{.item}}\"\ndefaults: {host: web-1, seed: team}\nitems: [how is it going?]\n")
	b := l.Ctl(e2e.Within(t), nil, "-o", "json", "batch", "run", batch)
	if b.Code == 0 || !strings.Contains(b.Stdout, protocol.ErrTypeBounds) {
		t.Errorf("a batch: %v", b)
	}
	run("schedule", "create", "over", "--every", "1000h", "--", "--host", "web-1", "--seed", "team", "how is it going?")
	var fired struct {
		ID string `json:"id"`
	}
	if err := l.JSON(e2e.Within(t), &fired, "schedule", "trigger", "over"); err != nil {
		t.Fatal(err)
	}
	fails(fired, fired.ID)

	// A seed has its own bounds, on any host.
	run("host", "set", "web-1", "--label", "tier-")
	run("seed", "set", "team", "--allow-approval-policy", "untrusted", "--max-sandbox", "read-only")
	refused("set by seed team", start()...)
	run("run", "--host", "web-1", "--seed", "team", "--sandbox", "read-only", "--approval-policy", "untrusted", "how is it going?")
	run("seed", "set", "team", "--no-bounds")
	run("run", "--host", "web-1", "--seed", "team", "how is it going?")
}
