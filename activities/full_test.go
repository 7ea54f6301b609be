package activities

import (
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/hostexec/hosttest"
)

// Somebody makes room on a full disk sooner or later: until then codex is not
// stopped, and that is no end of the session.
func TestStopOnAFullDiskIsTriedAgain(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	unmount, err := hosttest.SmallDisk(t.Context(), root, 80<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmount(); err != nil {
			t.Error(err)
		}
	})
	b := newBed(t, HostSpec{Name: LocalHost, Root: root})
	k := &talk{bed: b, claim: Claim{Session: "full", Host: b.spec, Generation: 1}}
	k.layout = layoutOf(root, "full")
	if _, err := makeFolders(t.Context(), b.host(), k.layout, k.next().fence(k.layout.Dir, 1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.kill)
	k.job()
	fill := root + "/fill"
	b.sh(`cat /dev/zero >"$1" 2>/dev/null || :`, fill)

	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(b.set.Sessions)
	in := StopServerInput{Claim: k.next(), Layout: k.layout, Incarnation: k.incarnation}
	_, err = env.ExecuteActivity(b.set.Sessions.StopServer, in)
	if app := appError(t, err); app.Type() != ErrTypeNoSpace || app.NonRetryable() {
		t.Errorf("on a full disk: %v", err)
	} else if p := (Problem{}); app.Details(&p) != nil || p.Hint == "" {
		t.Errorf("nobody is told what to do: %+v", p)
	}
	if marked("full") == 0 {
		t.Error("it was stopped by somebody who holds no lock")
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if _, err := env.ExecuteActivity(b.set.Sessions.StopServer, in); err != nil || marked("full") != 0 {
		t.Errorf("with room again: %v; %d processes are left", err, marked("full"))
	}
}
