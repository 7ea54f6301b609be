package activities

import (
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

// smallRoot returns a root folder on an 80 MiB disk of its own.
func smallRoot(t *testing.T) string {
	t.Helper()
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
	return root
}

// If the disk is too full to take the lock, codex is not stopped and the session does
// not end. StopServer is retried until somebody makes room.
func TestStopOnAFullDiskIsTriedAgain(t *testing.T) {
	root := smallRoot(t)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: root})
	k := &talk{bed: b, claim: protocol.Claim{Session: "full", Host: b.spec, Generation: 1}}
	k.layout = folder.LayoutOf(root, "full")
	k.makeFolders(1)
	t.Cleanup(k.kill)
	k.job()
	// The epoch is removed, because a new epoch could be written over an old one even
	// on a full disk.
	b.sh(`rm "$1/epoch"`, k.layout.Dir)
	fill := root + "/fill"
	b.sh(`cat /dev/zero >"$1" 2>/dev/null || :`, fill)

	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	b.set.Register(env)
	in := places.StopServerInput{Claim: k.next(), Layout: k.layout, Incarnation: k.incarnation}
	_, err := env.ExecuteActivity(b.set.Place.StopServer, in)
	if app := appError(t, err); app.Type() != protocol.ErrTypeNoSpace || app.NonRetryable() {
		t.Errorf("on a full disk: %v", err)
	} else if p := (protocol.Problem{}); app.Details(&p) != nil || p.Hint == "" {
		t.Errorf("nobody is told what to do: %+v", p)
	}
	if marked("full") == 0 {
		t.Error("it was stopped by somebody who holds no lock")
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if _, err := env.ExecuteActivity(b.set.Place.StopServer, in); err != nil || marked("full") != 0 {
		t.Errorf("with room again: %v; %d processes are left", err, marked("full"))
	}
}

// If the disk is so full that nothing can be written, discarding a session still
// removes its credential and everything it stored on the disk.
func TestDiscardOnAFullDiskWipesTheCredential(t *testing.T) {
	root := smallRoot(t)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: root})
	k := &talk{bed: b, claim: protocol.Claim{Session: "brimful", Host: b.spec, Generation: 1}}
	k.layout = folder.LayoutOf(root, "brimful")
	k.makeFolders(1)
	k.seed = b.rotating(nil, "brimful", 1)
	d := newDesk(t, k.seed, "brimful")
	b.set.site.Desk = d
	k.replace(login("acct-1", 0))
	t.Cleanup(k.kill)
	k.job()
	b.sh(`cat /dev/zero >"$1" 2>/dev/null || :; : >"$1.none" 2>/dev/null; echo x >>"$1.none" 2>/dev/null && exit 1 || :`, root+"/fill")

	in := k.closing()
	in.Discard = true
	out, err := k.close(in)
	if err != nil || !out.Wiped || !out.Removed || out.Unsaved {
		t.Errorf("closed: %+v, %v", out, err)
	}
	if left := b.sh(`find "$1" -name "auth.json*"`, root); left != "" || marked("brimful") != 0 {
		t.Errorf("left: %s, %d processes", left, marked("brimful"))
	}
	// An older claim is still refused.
	k.claim.Pump = 1
	if _, err := k.close(k.closing()); err == nil && b.sh(`[ ! -e "$1" ] || echo y`, k.layout.Dir) != "" {
		t.Error("a former holder has made the folder anew")
	}
	k.claim.Pump = 50
}
