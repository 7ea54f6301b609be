package stack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/config"
)

func TestRestartsAreAtOnceUntilFiveDeathsInHalfAMinute(t *testing.T) {
	var r restarts
	now := time.Unix(0, 0)
	for i, step := range []struct {
		after, want time.Duration
	}{
		{0, 0}, {time.Second, 0}, {time.Second, 0}, {time.Second, 0},
		{time.Second, time.Second},          // the fifth
		{2 * time.Second, 2 * time.Second},  // and on
		{2 * time.Second, 4 * time.Second},  //
		{4 * time.Second, 8 * time.Second},  //
		{8 * time.Second, 15 * time.Second}, // never longer
		{31 * time.Second, 0},               // it ran well for a while
		{time.Second, 0},
	} {
		now = now.Add(step.after)
		if got := r.died(now); got != step.want {
			t.Errorf("death %d: pause %s, want %s", i+1, got, step.want)
		}
	}
}

func TestSocketPathIsShortEnoughForAnyStateFolder(t *testing.T) {
	long := layout("/tmp/" + strings.Repeat("a-long-folder-name/", 12))
	if got := long.socket(0); len(got) > config.MaxSocketPath || !strings.HasSuffix(got, "/api.sock") {
		t.Errorf("socket %q has %d bytes", got, len(got))
	}
	if other := layout(string(long) + "x"); other.socket(0) == long.socket(0) {
		t.Error("two state folders share a socket")
	}
	if got := layout("/s").socket(0); got != "/s/api.sock" {
		t.Errorf("socket of a short folder is %q", got)
	}
}

// A pid that was given to another process is not the child.
func TestProcessKnowsItselfByItsStartTime(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := Process{Name: "sleep", PID: cmd.Process.Pid, Started: startedAt(cmd.Process.Pid)}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }() // it is killed below
	if !p.Alive() {
		t.Error("a running process counts as gone")
	}
	stranger := p
	stranger.Started = "1@another-boot"
	if stranger.Alive() {
		t.Error("a stranger with the same pid counts as the child")
	}
	if err := stranger.stop(time.Second); err != nil || !p.Alive() {
		t.Errorf("a stranger was stopped, or could not be passed by: %v", err)
	}
	if err := p.stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	<-done
	if p.Alive() || !cmd.ProcessState.Exited() && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the process ended with %v, want a TERM", cmd.ProcessState)
	}
}

func TestLockIsHeldByOneSupervisor(t *testing.T) {
	at := layout(t.TempDir())
	if held, err := at.held(); held || err != nil {
		t.Fatalf("an empty folder is held: %v, %v", held, err)
	}
	f, err := at.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := sign(f); err != nil {
		t.Fatal(err)
	}
	if _, err := at.lock(); err == nil || !strings.Contains(err.Error(), ErrRunning.Error()) {
		t.Errorf("a second lock: %v", err)
	}
	if held, err := at.held(); !held || err != nil || at.holder() != os.Getpid() {
		t.Errorf("held %v by %d, %v", held, at.holder(), err)
	}
	f.Close()
	if held, err := at.held(); held || err != nil {
		t.Errorf("still held after its holder went: %v, %v", held, err)
	}
}

func TestReadSaysWhereThereIsNone(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "no stack here") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stack.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "ctl down") {
		t.Errorf("a torn file: %v", err)
	}
}

// What `ctl up` writes is what the worker reads.
func TestWorkerConfigReadsBack(t *testing.T) {
	at := layout(t.TempDir())
	own := config.Default()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	own.Store = config.Store{URL: "file:///s", Identity: "/id", Recipients: []string{id.Recipient().String()}}
	own.Limits.Drain = 7 * time.Second
	own.API.Listen = "unix:///a b/é.sock"
	if err := at.workerConfig(0, own, "127.0.0.1:7", "ns"); err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(at.in("worker.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Temporal.Address != "127.0.0.1:7" || got.Temporal.Namespace != "ns" || got.Store.URL != "file:///s" ||
		len(got.Store.Recipients) != 1 || got.Limits.Drain != 7*time.Second || got.API.Listen != own.API.Listen || got.API.TLS != nil {
		t.Errorf("read back: %+v", got)
	}
	if info, err := os.Stat(at.in("worker.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
