package stack

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
		{2 * time.Second, 2 * time.Second},  // and further ones
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

// If another process has the pid of a child, it does not count as the child.
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
	if err := at.sign(f); err != nil {
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

// The worker reads the config as `ctl up` wrote it.
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
		len(got.Store.Recipients) != 1 || got.Limits.Drain != 7*time.Second || got.API.Listen != own.API.Listen || got.API.TLS != nil || got.State != at.in("worker") {
		t.Errorf("read back: %+v", got)
	}
	if got.Temporal.PayloadsSince != "" {
		t.Errorf("a folder that was never upgraded reads older payloads before %s", got.Temporal.PayloadsSince)
	}
	own.Temporal.PayloadsSince = "2026-11-27T12:02:00Z"
	if err := at.workerConfig(0, own, "127.0.0.1:7", "ns"); err != nil {
		t.Fatal(err)
	}
	if got, err := config.Load(at.in("worker.yaml")); err != nil || got.Temporal.PayloadsSince != own.Temporal.PayloadsSince {
		t.Errorf("read back: %+v, %v", got, err)
	}
	if info, err := os.Stat(at.in("worker.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// If the start time of a process was not recorded, another process may have its pid, so the
// process is not signalled.
func TestNobodyIsEndedByTheirPidAlone(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	p := Process{Name: "worker", PID: cmd.Process.Pid}
	if err := p.stop(time.Second); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("it was stopped: %v", err)
	}
	if !p.Alive() {
		t.Error("somebody's process was ended")
	}
	if _, err := (&Info{Children: []Process{p}}).stopRemnants(); err == nil {
		t.Error("the remnants of a stack are stopped by their pids")
	}
}

// On a system without /proc, ps gives the start time of a process.
func TestProcessKnowsItselfWithoutProc(t *testing.T) {
	was := procDir
	procDir = t.TempDir()
	defer func() { procDir = was }()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := Process{Name: "sleep", PID: cmd.Process.Pid, Started: startedAt(cmd.Process.Pid)}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }() // it is stopped below
	if p.Started == "" || !p.Alive() {
		t.Fatalf("of a running process is known: %+v", p)
	}
	stranger := p
	stranger.Started = "Thu Jan  1 00:00:00 1970"
	if err := stranger.stop(time.Second); err != nil || stranger.Alive() || !p.Alive() {
		t.Errorf("a stranger was stopped, or could not be passed by: %v", err)
	}
	if err := p.stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	<-done
	if got := startedAt(p.PID); got != "" {
		t.Errorf("a process that ended was started at %q", got)
	}
}

// While a new supervisor holds the lock and has not signed it yet, the files name the
// previous supervisor. Another process may have that pid by now.
func TestDownSparesTheFormerHolderOfAPid(t *testing.T) {
	at := layout(t.TempDir())
	stranger, supervisor := exec.Command("sleep", "600"), exec.Command("sleep", "600")
	for _, cmd := range []*exec.Cmd{stranger, supervisor} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	lock, err := at.lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	write := func(p Process) {
		t.Helper()
		if err := errors.Join(writeJSON(at.in(signed), p), os.WriteFile(at.in("lock"), []byte(strconv.Itoa(p.PID)), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(Process{Name: "supervisor", PID: stranger.Process.Pid, Started: "1@another-boot"})
	if p := at.supervisor(); p.Alive() {
		t.Errorf("the former holder counts as the supervisor: %+v", p)
	}
	type result struct {
		stopped []Process
		err     error
	}
	down := make(chan result, 1)
	go func() {
		stopped, err := Down(t.Context(), string(at))
		down <- result{stopped, err}
	}()
	// The supervisor signs in two steps.
	if err := writeJSON(at.in(signed), Process{Name: "supervisor", PID: supervisor.Process.Pid, Started: startedAt(supervisor.Process.Pid)}); err != nil {
		t.Fatal(err)
	}
	long := time.Unix(0, 0) // long ago
	if err := os.Chtimes(at.in("lock"), long, long); err != nil {
		t.Fatal(err)
	}
	if p := at.supervisor(); p.PID != 0 {
		t.Errorf("of one that has signed by half is known: %+v", p)
	}
	write(Process{Name: "supervisor", PID: supervisor.Process.Pid, Started: startedAt(supervisor.Process.Pid)})
	_ = supervisor.Wait() // Down has told it to stop
	lock.Close()
	if r := <-down; r.err != nil || len(r.stopped) != 1 || r.stopped[0].PID != supervisor.Process.Pid {
		t.Errorf("stopped %+v, %v", r.stopped, r.err)
	}
	if p := (Process{PID: stranger.Process.Pid}); !p.Alive() {
		t.Error("a stranger was ended")
	}
}

// A state folder of an older version has a database and no payloads.json. The time of the
// upgrade is chosen once, because replays depend on it.
func TestAnUpgradedFolderRemembersSinceWhenPayloadsAreEncryptedForTheirPlace(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 5, time.UTC)
	fresh, upgraded := layout(t.TempDir()), layout(t.TempDir())
	if err := os.WriteFile(upgraded.in("temporal.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if since, err := fresh.payloadsSince(now); err != nil || !since.IsZero() {
			t.Errorf("a new folder: %s, %v", since, err)
		}
		if since, err := upgraded.payloadsSince(now); err != nil || !since.Equal(time.Date(2026, 11, 27, 12, 2, 0, 0, time.UTC)) {
			t.Errorf("an older one: %s, %v", since, err)
		}
		if err := os.WriteFile(fresh.in("temporal.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	if err := os.WriteFile(fresh.in("payloads.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.payloadsSince(now); err == nil {
		t.Error("a file that cannot be read was taken for none")
	}
}

// settled returns what a start of a stack in dir writes into its worker's config.
func settled(t *testing.T, dir, authority string) *config.Config {
	t.Helper()
	own := config.Default()
	own.Authority = authority
	s := &supervisor{opts: Options{Dir: dir, Workers: 1, Config: own}, at: layout(dir), log: slog.New(slog.DiscardHandler)}
	if err := s.settle(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.at.in("temporal.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.at.workerConfig(0, &s.conf[0], "127.0.0.1:7", "ns"); err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(s.at.config(0))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// What workers write with authority: local is marked, so that it goes on with required.
func TestAStackMarksWhatItsWorkersWriteWhateverItsAuthority(t *testing.T) {
	dir := t.TempDir()
	before := time.Now()
	for i, authority := range []string{config.AuthorityRequired, config.AuthorityLocal, config.AuthorityRequired} {
		got := settled(t, dir, authority)
		if got.Temporal.WorkerPayloadKey != layout(dir).in("workers.key") || got.Temporal.WorkerPayloadSince != "" || got.Authority != authority {
			t.Errorf("start %d, with %s, marks with %q since %q and has %s", i+1, authority, got.Temporal.WorkerPayloadKey, got.Temporal.WorkerPayloadSince, got.Authority)
		}
		// What began with local takes unsigned signals until it continues as new.
		if since, err := got.RequiredSince(); err != nil || since.IsZero() != (i < 2) || i == 2 && since.Before(before) {
			t.Errorf("start %d, with %s: what began before %s continues as new, %v", i+1, authority, since, err)
		}
	}
	third := settled(t, dir, config.AuthorityRequired)
	if fourth := settled(t, dir, config.AuthorityRequired); fourth.AuthoritySince != third.AuthoritySince {
		t.Errorf("without a change, the time moves from %s to %s", third.AuthoritySince, fourth.AuthoritySince)
	}
}

func TestAStackRequiresMarksOnlyOfWhatBeganAfterAllItsWorkersMarked(t *testing.T) {
	dir := t.TempDir()
	at := layout(dir)
	settled(t, dir, config.AuthorityRequired)
	// An older version runs: with authority: local its workers mark nothing.
	if err := os.WriteFile(at.config(0), []byte("authority: local\ntemporal: {address: 127.0.0.1:7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Truncate(time.Second)
	first := settled(t, dir, config.AuthorityLocal).Temporal
	since, err := first.WorkersSince()
	if err != nil || since.Before(before) {
		t.Fatalf("payloads without marks are read from before %q, %v: want at least %s", first.WorkerPayloadSince, err, before)
	}
	if again := settled(t, dir, config.AuthorityRequired).Temporal; again.WorkerPayloadSince != first.WorkerPayloadSince {
		t.Errorf("the time moved from %s to %s, and replays depend on it", first.WorkerPayloadSince, again.WorkerPayloadSince)
	}
	// A folder of a version that kept no such time.
	if err := os.Remove(at.in("workers.json")); err != nil {
		t.Fatal(err)
	}
	if got := settled(t, dir, config.AuthorityRequired).Temporal; got.WorkerPayloadSince == "" {
		t.Error("a folder whose workers may have marked nothing requires all marks")
	}
	// The key is lost, and with it what proves the marks.
	whole := t.TempDir()
	settled(t, whole, config.AuthorityRequired)
	if err := os.Remove(layout(whole).in("workers.key")); err != nil {
		t.Fatal(err)
	}
	if got := settled(t, whole, config.AuthorityRequired).Temporal; got.WorkerPayloadSince == "" {
		t.Error("with another key, marks of the lost one are required")
	}
	if err := os.WriteFile(at.in("workers.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := at.workersKey(time.Now(), config.AuthorityLocal); err == nil {
		t.Error("a file that cannot be read was taken for none")
	}
}
