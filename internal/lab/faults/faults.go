package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// A fault strikes something that all runs of a wave depend on.
type fault struct {
	name string
	// ends: the fault ends codex itself.
	ends bool
	// whole: the fault strikes the whole stack, so no other wave may run.
	whole bool
	// torn: part of what codex wrote can no longer be read. Everything from
	// some point on is lost, and the turn does not count as completed.
	torn bool
	// spares: codex may also survive and continue.
	spares bool
	// small: the sessions' disk is a small one.
	small bool
	// two: the fault needs two workers.
	two bool
	// rare: the fault runs once only, because it takes long.
	rare    bool
	moments []string
	short   []string // moments of the short form
	// strike returns when the fault is over. It calls w.struck when the fault
	// has begun or, if the fault ends processes, when they have ended.
	strike func(ctx context.Context, w *struckWave) error
}

func (f *fault) workers() int {
	if f.two {
		return 2
	}
	return 1
}

type struckWave struct {
	*stage
	host   *host
	runs   []*run
	rng    *rand.Rand
	struck func()
	// done is closed when the turns of all runs have ended.
	done <-chan struct{}
}

// lively are all moments whose turn must not notice the fault.
var lively = []string{"starting", "message just sent", "mid-stream", "command running", "request open", "two requests open",
	"decision under way", "written, not acknowledged", "interrupt just sent", "idle", "closing"}

// tended are those of faults of workers and wires: also those at which codex asks the model
// through its worker.
var tended = slices.Concat(lively, gated)

// mortal are the moments at which codex can be ended.
var mortal = []string{"starting", "message just sent", "mid-stream", "command running", "request open", "two requests open",
	"decision under way", "decided too late", "written, not acknowledged", "interrupt just sent", "idle"}

// torn are the moments at which a journal can be lost.
var torn = []string{"mid-stream", "command running", "request open", "decision under way", "idle"}

var faults = []*fault{
	{name: "worker killed", whole: true, moments: slices.Concat(tended, pointNames()), short: append([]string{"mid-stream", "decision under way", gatedStream}, pointNames()...), strike: killWorker},
	{name: "worker killed, away for 15 s", whole: true, moments: tended, strike: workersAway(15 * time.Second)},
	{name: "worker killed, away for 5 min", whole: true, rare: true, moments: gated, strike: workersAway(5 * time.Minute)},
	{name: "worker stopped in good order", whole: true, moments: tended, short: []string{"mid-stream", "request open"}, strike: stopWorker},
	{name: "one of two workers paused", whole: true, two: true, moments: tended, short: []string{"mid-stream"}, strike: pauseWorker},
	{name: "TCP reset", moments: tended, short: []string{"mid-stream", "decision under way", gatedStream}, strike: resetHost},
	{name: "TCP silent for 5 s", moments: tended, short: []string{"mid-stream"}, strike: silenceHost(5 * time.Second)},
	{name: "TCP silent for 30 s", moments: tended, strike: silenceHost(30 * time.Second)},
	{name: "TCP silent for 120 s", rare: true, moments: []string{"message just sent", "mid-stream", "request open", "decision under way"}, strike: silenceHost(120 * time.Second)},
	{name: "sshd's child killed", moments: tended, short: []string{"mid-stream"}, strike: killChild},
	{name: "sshd restarted", moments: tended, strike: restartSSHD},
	{name: "Temporal killed", whole: true, moments: tended, short: []string{"mid-stream", "message just sent"}, strike: killTemporal},
	{name: "Temporal and worker killed", whole: true, moments: tended, strike: killBoth},
	{name: "network to Temporal cut", whole: true, moments: tended, strike: cutTemporal},
	{name: "model restarted", whole: true, moments: gated, short: []string{gatedStream}, strike: restartModel},
	{name: "codex killed", ends: true, moments: mortal, short: []string{"mid-stream", "decided too late", "written, not acknowledged"}, strike: killCodex},
	{name: "codex out of memory", ends: true, moments: []string{"mid-stream", "command running", "request open", "idle"}, strike: starveCodex},
	{name: "host rebooted", ends: true, moments: mortal, short: []string{"mid-stream"}, strike: reboot},
	{name: "journal deleted", ends: true, torn: true, moments: torn, strike: deleteJournal},
	{name: "journal truncated", ends: true, torn: true, moments: torn, strike: truncateJournal},
	{name: "disk full", ends: true, torn: true, spares: true, small: true, moments: torn, strike: fillDisk},
}

func (s *stage) workerPIDs(ctx context.Context) ([]int, error) {
	st, err := s.status(ctx)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, w := range st.Workers {
		if w.PID > 0 {
			pids = append(pids, w.PID)
		}
	}
	if len(pids) != s.workers {
		return pids, fmt.Errorf("the stack has workers %v, not %d", pids, s.workers)
	}
	return pids, nil
}

func killWorker(ctx context.Context, w *struckWave) error {
	pids, err := w.workerPIDs(ctx)
	if err != nil {
		return err
	}
	w.struck()
	return killAll(pids, syscall.SIGKILL)
}

func stopWorker(ctx context.Context, w *struckWave) error {
	pids, err := w.workerPIDs(ctx)
	if err != nil {
		return err
	}
	w.struck()
	return killAll(pids, syscall.SIGTERM)
}

func killAll(pids []int, sig syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			errs = append(errs, fmt.Errorf("signal %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

func killTemporal(ctx context.Context, w *struckWave) error {
	st, err := w.status(ctx)
	if err != nil {
		return err
	}
	w.struck()
	return killAll([]int{st.Temporal.PID}, syscall.SIGKILL)
}

func killBoth(ctx context.Context, w *struckWave) error {
	st, err := w.status(ctx)
	if err != nil {
		return err
	}
	pids, err := w.workerPIDs(ctx)
	if err != nil {
		return err
	}
	return w.Unsupervised(func() error {
		w.struck()
		err := killAll(pids, syscall.SIGKILL)
		scenario.Sleep(ctx, time.Duration(w.rng.Int64N(int64(3*time.Second))))
		err = errors.Join(err, killAll([]int{st.Temporal.PID}, syscall.SIGKILL))
		scenario.Sleep(ctx, time.Duration(w.rng.Int64N(int64(3*time.Second))))
		return err
	})
}

func resetHost(ctx context.Context, w *struckWave) error {
	w.struck()
	n, err := w.host.sshd.Reset(ctx)
	if err == nil && n == 0 {
		err = errors.New("there was no connection to reset")
	}
	return err
}

func silenceHost(d time.Duration) func(context.Context, *struckWave) error {
	return func(ctx context.Context, w *struckWave) error { return silence(ctx, w, w.host.port, d) }
}

// cutTemporal makes the Temporal server unreachable for everyone.
func cutTemporal(ctx context.Context, w *struckWave) error {
	st, err := w.status(ctx)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(st.Temporal.Address)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	return silence(ctx, w, n, 5*time.Second+time.Duration(w.rng.Int64N(int64(25*time.Second))))
}

func silence(ctx context.Context, w *struckWave, port int, d time.Duration) error {
	restore, err := hosttest.DropPort(ctx, port)
	if err != nil {
		return err
	}
	w.struck()
	scenario.Sleep(ctx, d)
	return restore()
}

func killChild(ctx context.Context, w *struckWave) error {
	w.struck()
	if n := w.host.sshd.KillSessions(); n == 0 {
		return errors.New("no sshd served anybody: there was nothing to kill")
	}
	return nil
}

func restartSSHD(ctx context.Context, w *struckWave) error {
	w.struck()
	if err := w.host.sshd.Stop(); err != nil {
		return err
	}
	scenario.Sleep(ctx, time.Duration(w.rng.Int64N(int64(5*time.Second))))
	return w.host.sshd.Start(ctx)
}

// pauseWorker stops the worker that serves most of the runs, lets the other one
// take over, and resumes the first. Nothing that it had still to write may
// reach a codex: the codex processes are stopped meanwhile, and their inputs
// are compared.
func pauseWorker(ctx context.Context, w *struckWave) error {
	pids, err := w.workerPIDs(ctx)
	if err != nil {
		return err
	}
	held := map[int]int{}
	for _, r := range w.runs {
		held[r.holder(ctx)]++
	}
	pid := pids[w.rng.IntN(len(pids))]
	for _, p := range pids {
		if held[p] > held[pid] {
			pid = p
		}
	}
	w.struck()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	woken := false
	wake := func() error {
		if woken {
			return nil
		}
		woken = true
		return syscall.Kill(pid, syscall.SIGCONT)
	}
	defer func() { _ = wake() }() // on every return; the last call's error is returned below
	select {
	case <-w.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Past the heartbeat timeout in any case, even if nothing had to be done.
	scenario.Sleep(ctx, 15*time.Second)
	var still []*run
	for _, r := range w.runs {
		if r.signalCodex(syscall.SIGSTOP) > 0 {
			still = append(still, r)
		}
	}
	defer func() {
		for _, r := range still {
			r.signalCodex(syscall.SIGCONT)
		}
	}()
	before := map[*run]string{}
	for _, r := range still {
		if before[r], err = peek(r.proc(r.newest()) + "/in"); err != nil {
			return fmt.Errorf("look into the input of %s: %w", r.id, err)
		}
	}
	if err := wake(); err != nil {
		return err
	}
	if err := w.healthy(ctx); err != nil {
		return err
	}
	scenario.Sleep(ctx, 8*time.Second) // as long as the worker's pending work may take
	for _, r := range still {
		now, err := peek(r.proc(r.newest()) + "/in")
		if err != nil {
			return fmt.Errorf("look into the input of %s: %w", r.id, err)
		}
		if late := trimBlank(now); late != trimBlank(before[r]) {
			r.wroteLate("a paused worker wrote into codex's input when it woke: %q", late)
		}
	}
	return nil
}

// holder returns the pid of the worker that runs an activity of the session, or
// 0.
func (r *run) holder(ctx context.Context) int {
	d, err := r.temporal.DescribeWorkflowExecution(ctx, protocol.SessionID(r.id), "")
	if err != nil {
		return 0
	}
	return holderIn(d)
}

func holderIn(d *workflowservice.DescribeWorkflowExecutionResponse) int {
	for _, p := range d.GetPendingActivities() {
		if id, ok := api.ParseIdentity(p.GetLastWorkerIdentity()); ok {
			return id.PID
		}
	}
	return 0
}

func killCodex(ctx context.Context, w *struckWave) error {
	defer w.struck()
	return each(w.runs, func(r *run) error { return r.endCodex(ctx, syscall.SIGKILL) })
}

func (r *run) endCodex(ctx context.Context, sig syscall.Signal) error {
	return again(ctx, "find codex of "+r.id, func(context.Context) error {
		if r.signalCodex(sig) == 0 {
			return errors.New("there is no process of it")
		}
		return nil
	})
}

// starveCodex does what the kernel does when memory runs out: it kills the
// biggest process. A cgroup with a memory limit would instead kill the process
// that allocates next, and only for memory that it did not have before.
func starveCodex(ctx context.Context, w *struckWave) error {
	defer w.struck()
	return each(w.runs, func(r *run) error {
		p, ok := biggest(processesOf(r.id, r.dir()))
		if !ok {
			return fmt.Errorf("no process of %s was found", r.id)
		}
		r.logf("the biggest process is %s", p.command)
		return syscall.Kill(p.pid, syscall.SIGKILL)
	})
}

// reboot ends every process on the host, including sshd, and starts sshd with
// another boot id. Files stay.
func reboot(ctx context.Context, w *struckWave) error {
	err := w.host.sshd.Stop()
	for {
		var left []process
		for _, r := range w.runs {
			left = append(left, processesOf(r.id, r.dir())...)
		}
		if len(left) == 0 || ctx.Err() != nil {
			break
		}
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have exited
		}
		scenario.Sleep(ctx, 20*time.Millisecond)
	}
	w.struck()
	scenario.Sleep(ctx, time.Duration(w.rng.Int64N(int64(3*time.Second))))
	return errors.Join(err, lab.NewBoot(w.host.boot), w.host.sshd.Start(ctx), ctx.Err())
}

// deleteJournal unlinks codex's output file. Processes that hold it open, and
// the judge, can still use it.
func deleteJournal(ctx context.Context, w *struckWave) error {
	defer w.struck()
	return each(w.runs, func(r *run) error {
		path := r.proc(1) + "/out.log"
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		r.lost = func() ([]byte, error) {
			defer f.Close()
			return io.ReadAll(f)
		}
		return os.Remove(path)
	})
}

// truncateJournal cuts off all that codex has written. What codex writes from
// now on starts at offset 0; a reader that follows the file sees it after the
// rest.
func truncateJournal(ctx context.Context, w *struckWave) error {
	defer w.struck()
	return each(w.runs, func(r *run) error {
		r.signalCodex(syscall.SIGSTOP) // so that nothing is written in between
		defer r.signalCodex(syscall.SIGCONT)
		path := r.proc(1) + "/out.log"
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		r.lost = func() ([]byte, error) {
			after, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) {
				err = nil
			}
			return append(before, after...), err
		}
		return os.Truncate(path, 0)
	})
}

func fillDisk(ctx context.Context, w *struckWave) error {
	free, err := fill(filepath.Join(w.host.root, "sessions"), 0)
	if err != nil {
		return err
	}
	w.struck()
	scenario.Sleep(ctx, 5*time.Second+time.Duration(w.rng.Int64N(int64(5*time.Second))))
	return free()
}

// fill fills a disk except for left bytes.
func fill(dir string, left int) (free func() error, err error) {
	path := filepath.Join(dir, ".fill")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	size := int64(0)
	for piece := 1 << 20; piece > 0; {
		n, err := f.Write(make([]byte, piece))
		size += int64(n)
		if err != nil {
			piece /= 2 // ENOSPC, to the last byte
		}
	}
	if err := f.Truncate(max(0, size-int64(left))); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { return errors.Join(f.Close(), os.Remove(path)) }, nil
}

// newest returns the newest incarnation that has a folder on the host. Folders
// of older incarnations may be gone.
func (r *run) newest() int {
	newest := 1
	for n := 2; n < 20; n++ {
		if exists(r.proc(n)) {
			newest = n
		}
	}
	return newest
}
