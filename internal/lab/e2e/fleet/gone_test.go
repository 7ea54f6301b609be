package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A person gives up a session whose host disappears in the middle of a turn. It
// closes while the person watches, says what it could not do, and gives the
// slot back. What it left on the host is known and wiped as soon as the host is
// back, even if the worker was killed meanwhile.
func TestASessionWhoseHostIsGoneCanBeGivenUp(t *testing.T) {
	dir := filepath.Join(e2e.Lab.Dir, "sshd-doomed")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(e2e.Lab.Dir, "doomed")
	sshd, err := hosttest.NewSSHD(context.Background(), dir, hosttest.Options{Name: "doomed", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "host", "add", "doomed", sshd.User()+"@"+sshd.Address(), "--host-key", sshd.HostKey(), "--identity", sshd.Identity(), "--root", root)
	e2e.OK(t, "host", "provision", "doomed")
	e2e.OK(t, "session", "start", "--host", "doomed", "--seed", "team", "--id", "given-up")
	e2e.Send(t, "given-up", "take your time at gate given-up")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "given-up"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e2e.Lab.Model.Release("given-up")
		for _, pid := range e2e.Lab.CodexOf("given-up") { // the host is really this machine
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		if err := sshd.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := sshd.Stop(); err != nil {
		t.Fatal(err)
	}
	var v protocol.SessionView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "session", "close", "--discard", "given-up"); err != nil {
		t.Fatal(err)
	}
	if v.State != protocol.Closed || v.Close == nil || v.Close.Wiped || v.Close.Removed || v.Error == nil {
		t.Errorf("session is %+v", v)
	}
	e2e.Until(t, "the slot to be free", func() (bool, error) {
		var h protocol.HostView
		err := e2e.Lab.JSON(e2e.Within(t), &h, "host", "show", "doomed")
		return h.Used == 0 && h.Unclean == 1 && h.Leftovers[0].Error != "", err
	})
	if out := e2e.OK(t, "host", "show", "doomed"); !strings.Contains(out, "given-up") || !strings.Contains(out, "not wiped yet") {
		t.Errorf("shown as %s", out)
	}
	if out := e2e.OK(t, "host", "list"); !strings.Contains(out, " may have left a credential") {
		t.Errorf("listed as %s", out)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "host", "remove", "doomed"); r.Code != 6 || !strings.Contains(r.Stderr, "--force") {
		t.Errorf("removed with a credential on it: %v", r)
	}
	if len(e2e.Lab.CodexOf("given-up")) == 0 || len(lab.Below(filepath.Join(root, "sessions", "given-up"))) == 0 {
		t.Fatal("nothing is left that could be wiped")
	}
	e2e.Kill(t, e2e.WorkerPID(t))
	if err := sshd.Start(e2e.Within(t)); err != nil {
		t.Fatal(err)
	}
	var h protocol.HostView
	e2e.Until(t, "what was left to be wiped", func() (bool, error) {
		h = protocol.HostView{} // a missing field would leave the old value
		err := e2e.Lab.JSON(e2e.Within(t), &h, "host", "show", "doomed")
		return h.Unclean == 0, err
	})
	if l := h.Leftovers[0]; l.Session != "given-up" || l.Seed != "team" || l.WipedAt.IsZero() || !l.Removed || l.Kept != "" {
		t.Errorf("the proof is %+v", l)
	}
	if left := lab.Below(filepath.Join(root, "sessions", "given-up")); len(left) > 0 {
		t.Errorf("left on the host: %v", left)
	}
	if pids := e2e.Lab.CodexOf("given-up"); len(pids) > 0 {
		t.Errorf("codex still runs: %v", pids)
	}
	if out := e2e.OK(t, "host", "show", "doomed"); !strings.Contains(out, "looked at, nothing found") {
		t.Errorf("shown as %s", out)
	}
	e2e.OK(t, "host", "remove", "doomed")
}
