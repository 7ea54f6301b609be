package outages

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestApprovalsAreSeenAndDecidedWithNoWorkerUp(t *testing.T) {
	e2e.Session(t, "unmanned")
	e2e.Send(t, "unmanned", "run two commands")
	before := e2e.Open(t, "unmanned", 2)
	back := e2e.NoWorker(t)

	list, err := lab.Lines[protocol.Approval](e2e.Within(t), e2e.Lab, "approval", "list", "--session", "unmanned")
	if err != nil || len(list) != 2 || list[0].Digest != before[0].Digest || list[0].Command != before[0].Command {
		t.Errorf("with no worker the approvals are %+v (%v)", list, err)
	}
	if out := e2e.OK(t, "approval", "show", before[1].ID); !strings.Contains(out, before[1].Digest) {
		t.Errorf("with no worker the approval is shown as\n%s", out)
	}
	if v := e2e.Show(t, "unmanned"); v.State != protocol.Waiting || len(v.Requests) != 2 || v.ThreadID == "" || v.Turn.ID == "" {
		t.Errorf("with no worker the session is %+v", v)
	}
	e2e.Exits(t, 6, "approval", "accept", before[0].ID, "--digest", strings.Repeat("0", 64))
	e2e.Exits(t, 3, "approval", "accept", "unmanned.7")

	var got protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &got, "approval", "accept", before[0].ID, "--timeout", "2s", "--reason", "at night"); err != nil {
		t.Fatal(err)
	}
	if got.State != protocol.ApprovalDecided || got.Decision == nil || got.Decision.Outcome != "accept" || got.Command != before[0].Command {
		t.Errorf("with no worker the decision is %+v", got)
	}
	e2e.Exits(t, 6, "approval", "decline", before[0].ID)
	e2e.OK(t, "approval", "decline", before[1].ID, "--timeout", "2s", "--digest", before[1].Digest)

	back()
	if v := e2e.Ended(t, "unmanned", 1); v.Turn.Status != "completed" || len(v.Refusals) != 0 || v.Process.Incarnation != 1 {
		t.Errorf("session is %+v", v)
	}
	decisions := e2e.Texts(e2e.Transcript(t, "unmanned"), protocol.EntryDecision)
	if len(decisions) != 2 || decisions[0] != "accept "+before[0].ID || decisions[1] != "decline "+before[1].ID {
		t.Errorf("decisions on record: %q", decisions)
	}
}

func TestMessagesWaitForAWorkerAndTakeEffectOnce(t *testing.T) {
	e2e.Session(t, "outage")
	e2e.Send(t, "outage", "take your time at gate outage")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "outage"); err != nil {
		t.Fatal(err)
	}
	back := e2e.NoWorker(t)
	e2e.OK(t, "session", "interrupt", "outage", "--reason", "enough")
	for range 2 { // sent twice it is one message
		var acc protocol.MessageAccepted
		if err := e2e.Lab.JSON(e2e.Within(t), &acc, "session", "send", "outage", "--no-wait", "--message-id", "night-1", "after the outage"); err != nil {
			t.Fatal(err)
		}
		if acc.MessageID != "night-1" || acc.Session != "outage" {
			t.Errorf("accepted as %+v", acc)
		}
	}
	back()
	if v := e2e.Ended(t, "outage", 2); v.Turn.Status != "completed" || len(v.Refusals) != 0 {
		t.Errorf("session is %+v", v)
	}
	e2e.Lab.Model.Release("outage")
	list := e2e.Transcript(t, "outage")
	if got := e2e.Texts(list, protocol.EntryUser); len(got) != 2 || got[1] != "after the outage" {
		t.Errorf("said: %q", got)
	}
	if n := strings.Count(strings.Join(e2e.Texts(list, protocol.EntryState), "\n"), "enough"); n != 1 {
		t.Errorf("the interrupt is on record %d times: %q", n, e2e.Texts(list, protocol.EntryState))
	}

	back = e2e.NoWorker(t)
	e2e.Exits(t, 6, "session", "interrupt", "outage")
	e2e.OK(t, "session", "close", "outage", "--no-wait")
	e2e.Exits(t, 6, "session", "send", "outage", "--no-wait", "too late")
	back()
	e2e.Until(t, "outage to close", func() (bool, error) { return e2e.Show(t, "outage").State == protocol.Closed, nil })
	if v := e2e.Show(t, "outage"); len(v.Refusals) != 0 || v.Close == nil || !v.Close.Wiped {
		t.Errorf("session is %+v", v)
	}
}

func TestARunThatNoWorkerTookIsKept(t *testing.T) {
	back := e2e.NoWorker(t)
	r := e2e.Exits(t, 4, "run", "--host", "web-1", "--seed", "team", "--id", "kept-run", "--timeout", "5s", "after the outage")
	if !strings.Contains(r.Stderr, "kept") || !strings.Contains(r.Stderr, "session close kept-run") {
		t.Errorf("ctl said %q", r.Stderr)
	}
	back()
	e2e.Until(t, "it to run and close", func() (bool, error) { return e2e.Show(t, "kept-run").State == protocol.Closed, nil })
	if got := e2e.Texts(e2e.Transcript(t, "kept-run"), protocol.EntryUser); len(got) != 1 {
		t.Errorf("said: %q", got)
	}
}

type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	mu   sync.Mutex
	seen strings.Builder
	done chan struct{} // closed when all output was read
}

func newTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	far, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	s := &terminal{t: t, cmd: e2e.Lab.Command(e2e.Within(t), args...), tty: tty, done: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = far, far, far
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			s.seen.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return // the program has exited
			}
		}
	}()
	t.Cleanup(func() { tty.Close() })
	return s
}

func (s *terminal) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

func (s *terminal) await(text string) {
	s.t.Helper()
	e2e.Until(s.t, fmt.Sprintf("%q at the terminal", text), func() (bool, error) {
		select {
		case <-s.done:
			if !strings.Contains(s.screen(), text) {
				return false, fmt.Errorf("it ended with\n%s", s.screen())
			}
		default:
		}
		return strings.Contains(s.screen(), text), nil
	})
}

func (s *terminal) write(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *terminal) exit() int {
	s.t.Helper()
	<-s.done
	_ = s.cmd.Wait() // only the status matters
	return s.cmd.ProcessState.ExitCode()
}

func TestAPersonAtTheTerminalDecidesWithNoWorkerUp(t *testing.T) {
	e2e.Session(t, "prompt")
	person := newTerminal(t, "session", "send", "prompt", "you need a command")
	person.await("then Enter >")
	back := e2e.NoWorker(t)
	person.write("y\r")
	person.await("Temporal keeps the request until one is")
	back()
	person.await("The command said: it ran")
	if code := person.exit(); code != 0 {
		t.Errorf("send ended with %d:\n%s", code, person.screen())
	}
	if n := strings.Count(person.screen(), "The command said"); n != 1 {
		t.Errorf("the answer was shown %d times:\n%s", n, person.screen())
	}
	if v := e2e.Show(t, "prompt"); len(v.Refusals) != 0 {
		t.Errorf("session is %+v", v)
	}

	// A `watch` that starts later shows the open approval, and decides it.
	e2e.Send(t, "prompt", "you need a command")
	id := e2e.Open(t, "prompt", 1)[0].ID
	back = e2e.NoWorker(t)
	watcher := newTerminal(t, "approval", "watch", "--session", "prompt")
	watcher.await(id)
	watcher.await("then Enter >")
	watcher.write("n\r")
	watcher.await("Temporal keeps the request until one is")
	watcher.write("\x03")
	if code := watcher.exit(); code != 130 {
		t.Errorf("watch ended with %d:\n%s", code, watcher.screen())
	}
	back()
	if v := e2e.Ended(t, "prompt", 2); v.Turn.Status != "completed" || len(v.Refusals) != 0 {
		t.Errorf("session is %+v", v)
	}
	if got := e2e.Texts(e2e.Transcript(t, "prompt"), protocol.EntryDecision); len(got) != 2 || got[1] != "decline "+id {
		t.Errorf("decisions on record: %q", got)
	}
}
