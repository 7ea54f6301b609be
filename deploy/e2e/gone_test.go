package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/workflows"
)

// Somebody gives a session up whose host is gone in the middle of a turn: it
// closes while he looks on, says what it could not do, and gives the slot back.
// What it left there is known, and wiped as soon as the host is back, also when
// the worker was killed meanwhile.
func TestASessionWhoseHostIsGoneCanBeGivenUp(t *testing.T) {
	dir := filepath.Join(shared.Dir, "sshd-doomed")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(shared.Dir, "doomed")
	sshd, err := hosttest.NewSSHD(context.Background(), dir, hosttest.Options{Name: "doomed", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	ok(t, "host", "add", "doomed", sshd.User()+"@"+sshd.Address(), "--host-key", sshd.HostKey(), "--identity", sshd.Identity(), "--root", root)
	ok(t, "host", "provision", "doomed")
	ok(t, "session", "start", "--host", "doomed", "--seed", "team", "--id", "given-up")
	send(t, "given-up", "take your time at gate given-up")
	if _, err := shared.Model.AwaitWaiting(within(t), "given-up"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shared.Model.Release("given-up")
		for _, pid := range shared.CodexOf("given-up") { // the host is this machine after all
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
	var v workflows.SessionView
	if err := shared.JSON(within(t), &v, "session", "close", "--discard", "given-up"); err != nil {
		t.Fatal(err)
	}
	if v.State != workflows.Closed || v.Close == nil || v.Close.Wiped || v.Close.Removed || v.Error == nil {
		t.Errorf("session is %+v", v)
	}
	until(t, "the slot to be free", func() (bool, error) {
		var h workflows.HostView
		err := shared.JSON(within(t), &h, "host", "show", "doomed")
		return h.Used == 0 && h.Unclean == 1 && h.Leftovers[0].Error != "", err
	})
	if out := ok(t, "host", "show", "doomed"); !strings.Contains(out, "given-up") || !strings.Contains(out, "not wiped yet") {
		t.Errorf("shown as %s", out)
	}
	if out := ok(t, "host", "list"); !strings.Contains(out, " may have left a credential") {
		t.Errorf("listed as %s", out)
	}
	if r := shared.Ctl(within(t), nil, "host", "remove", "doomed"); r.Code != 6 || !strings.Contains(r.Stderr, "--force") {
		t.Errorf("removed with a credential on it: %v", r)
	}
	if len(shared.CodexOf("given-up")) == 0 || len(lab.Below(filepath.Join(root, "sessions", "given-up"))) == 0 {
		t.Fatal("nothing is left that could be wiped")
	}
	kill(t, workerPID(t))
	if err := sshd.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	var h workflows.HostView
	until(t, "what was left to be wiped", func() (bool, error) {
		h = workflows.HostView{} // what is no more is not in the answer
		err := shared.JSON(within(t), &h, "host", "show", "doomed")
		return h.Unclean == 0, err
	})
	if l := h.Leftovers[0]; l.Session != "given-up" || l.Seed != "team" || l.WipedAt.IsZero() || !l.Removed || l.Kept != "" {
		t.Errorf("the proof is %+v", l)
	}
	if left := lab.Below(filepath.Join(root, "sessions", "given-up")); len(left) > 0 {
		t.Errorf("left on the host: %v", left)
	}
	if pids := shared.CodexOf("given-up"); len(pids) > 0 {
		t.Errorf("codex still runs: %v", pids)
	}
	if out := ok(t, "host", "show", "doomed"); !strings.Contains(out, "looked at, nothing found") {
		t.Errorf("shown as %s", out)
	}
	ok(t, "host", "remove", "doomed")
}
