package takeover

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// The test binary can also run as another worker. It then begins two tasks, reports this,
// and runs until it is killed.
func TestMain(m *testing.M) {
	if root := os.Getenv("TAKEOVER_TEST_ROOT"); root != "" {
		l, err := Open(root)
		if err == nil {
			_, err = l.Begin([]byte("first"))
		}
		if err == nil {
			var end func()
			if end, err = l.Begin([]byte("done")); err == nil {
				end()
				_, err = l.Begin([]byte("second"))
			}
		}
		fmt.Println(err)
		// An empty select would end the process: the runtime takes it for a deadlock.
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// worker starts a process that has tasks in progress below root.
func worker(t *testing.T, root string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TAKEOVER_TEST_ROOT="+root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // open until the test ends
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "<nil>\n" {
		t.Fatalf("the worker said %q, %v", said, err)
	}
	return cmd
}

func open(t *testing.T, root string) *Ledger {
	t.Helper()
	l, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dead(t *testing.T, l *Ledger) []*Dead {
	t.Helper()
	d, err := l.Dead()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A worker counts as dead only when its process has ended. Then its tasks are known, and
// are given to one caller.
func TestOnlyADeadWorkersTasksAreTakenOver(t *testing.T) {
	root := t.TempDir()
	other := worker(t, root)
	one, two := open(t, root), open(t, root)
	if d := dead(t, one); len(d) > 0 {
		t.Fatalf("%d workers count as dead while all live", len(d))
	}
	if err := other.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if d := dead(t, one); len(d) > 0 {
		t.Fatal("a worker that hangs counts as dead")
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // killed
	found := dead(t, one)
	if len(found) != 1 {
		t.Fatalf("%d workers count as dead, want 1", len(found))
	}
	if d := dead(t, two); len(d) > 0 {
		t.Error("two workers take over from one")
	}
	if err := found[0].Release(); err != nil {
		t.Fatal(err)
	}
	if found = dead(t, two); len(found) != 1 {
		t.Fatal("what one worker gives up is not there for the next one")
	}
	tasks, err := found[0].Tasks()
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, task := range tasks {
		said = append(said, string(task))
	}
	if slices.Sort(said); !slices.Equal(said, []string{"first", "second"}) {
		t.Errorf("it did %q", said)
	}
	if err := found[0].Forget(); err != nil {
		t.Fatal(err)
	}
	if d := dead(t, one); len(d) > 0 {
		t.Error("what is done is told again")
	}
}

// A worker that ends without tasks in progress leaves nothing. If a worker closes while
// tasks are in progress, it counts as dead only when its process has ended.
func TestAClosedLedgerLeavesOnlyWhatIsInProgress(t *testing.T) {
	root := t.TempDir()
	one, two := open(t, root), open(t, root)
	if _, err := two.Begin([]byte("task")); err != nil {
		t.Fatal(err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	if d := dead(t, one); len(d) > 0 {
		t.Error("a worker that still does a task counts as dead")
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
