package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func farZone(t *testing.T) {
	t.Helper()
	addWorker(t, "far", "far")
	hostOf(t, "far", "far-1")
}

// hostOf adds a host to a zone once a worker serves it.
func hostOf(t *testing.T, zone, name string) {
	t.Helper()
	dir, root := filepath.Join(e2e.Lab.Dir, "sshd-"+zone), filepath.Join(e2e.Lab.Dir, zone)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sshd, err := hosttest.NewSSHD(context.Background(), dir, hosttest.Options{Name: name, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sshd.Close(); err != nil {
			t.Error(err)
		}
	})
	e2e.Until(t, "the zone "+zone+" to take hosts", func() (bool, error) {
		r := e2e.Lab.Ctl(e2e.Within(t), nil, "host", "list", "--zone", zone)
		return r.Code == 0 && r.Stderr == "", nil // otherwise no worker serves the zone yet
	})
	e2e.OK(t, "host", "add", name, sshd.User()+"@"+sshd.Address(), "--zone", zone, "--host-key", sshd.HostKey(),
		"--identity", sshd.Identity(), "--root", root)
	e2e.OK(t, "host", "provision", name, "--zone", zone)
}

// Bytes of a zone come from a worker of that zone. The worker of ctl's own zone
// need not even be up.
func TestBytesOfAZoneComeFromAWorkerOfThatZone(t *testing.T) {
	farZone(t)
	e2e.OK(t, "session", "start", "--zone", "far", "--host", "far-1", "--seed", "team", "--id", "distant")
	e2e.Send(t, "distant", "need a command of 40000 digits")
	a := e2e.Open(t, "distant", 1)[0]
	if !a.Truncated || len(a.Command) >= 40000 {
		t.Fatalf("of the long command %d bytes are listed", len(a.Command))
	}
	back := e2e.NoWorker(t)
	r := e2e.Exits(t, 3, "host", "exec", "--zone", "far", "far-1", "--", "sh", "-c", "echo to out; echo to err >&2; exit 3")
	if r.Stdout != "to out\n" || !strings.Contains(r.Stderr, "to err\n") {
		t.Errorf("%v", r)
	}
	e2e.Exits(t, 2, "host", "exec", "far-1", "--zone", "far", "--", "true")
	var whole protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &whole, "approval", "show", a.ID); err != nil {
		t.Fatal(err)
	}
	if whole.Truncated || !strings.Contains(whole.Command, strings.Repeat("0", 39999)+"7") {
		t.Errorf("of the long command %d bytes are shown", len(whole.Command))
	}
	var got protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &got, "approval", "accept", a.ID); err != nil {
		t.Fatal(err)
	}
	if got.State != protocol.ApprovalAcknowledged {
		t.Errorf("the decision is %s", got.State)
	}
	if v := e2e.Ended(t, "distant", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	if got := e2e.Texts(e2e.Transcript(t, "distant"), protocol.EntryAssistant); len(got) != 1 || !strings.Contains(got[0], "40000") {
		t.Errorf("codex said %q", got)
	}
	back()
	e2e.OK(t, "session", "close", "distant")
	if left := lab.Below(filepath.Join(e2e.Lab.Dir, "far")); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	e2e.OK(t, "host", "remove", "far-1", "--zone", "far")
}
