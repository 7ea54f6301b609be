package e2e

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/workflows"
)

// Somebody gives a session up whose host is gone in the middle of a turn: it
// closes while he looks on, says what it could not do, and gives the host back.
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
		for _, pid := range lab.CodexOf("given-up") { // the host is this machine after all
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	if err := sshd.Close(); err != nil {
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
		return h.Used == 0, err
	})
	ok(t, "host", "remove", "--force", "doomed") // what it may have left there nobody will wipe any more
}
