package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Restarts: at once, unless a child dies again and again.
const (
	manyDeaths  = 5 // within deathWindow
	deathWindow = 30 * time.Second
	firstPause  = time.Second
	longPause   = 15 * time.Second
	maxLog      = 32 << 20 // bytes; a log that is larger at a start is put aside
)

// A child is one program that is kept running.
type child struct {
	name  string
	path  string
	args  func() []string // asked at every start
	env   []string
	log   string        // file for its standard error
	drain time.Duration // from TERM to KILL
	// started is called with the standard output of every new process, and
	// returns when it has read what it wants from it.
	started func(pid int, stdout io.Reader)
	logger  *slog.Logger
	// refusals are exit statuses with which the program says that trying
	// again is no use; they count until it has run for a while.
	refusals []int
}

// settled is how long a program runs before its exit status is no refusal.
const settled = 10 * time.Second

// run keeps the child alive until ctx ends, then stops it. The error says why
// it could not even be started; a child that dies is no error.
func (c *child) run(ctx context.Context) error {
	var again restarts
	for {
		began := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && slices.Contains(c.refusals, exit.ExitCode()) && time.Since(began) < settled {
			return fmt.Errorf("%s refuses to start: %s", c.name, Tail(c.log, 3))
		}
		var start *startError
		if errors.As(err, &start) {
			return err
		}
		wait := again.died(time.Now())
		c.logger.Warn("process died", "name", c.name, "how", fmt.Sprint(err), "pause", wait.String(), "log", c.log)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// restarts decides how long to wait before a child is started again.
type restarts struct {
	deaths []time.Time
	pause  time.Duration
}

// died takes down a death and says how long to wait: not at all, unless there
// were too many of late.
func (r *restarts) died(now time.Time) time.Duration {
	r.deaths = append(r.deaths, now)
	for now.Sub(r.deaths[0]) > deathWindow {
		r.deaths = r.deaths[1:]
	}
	if len(r.deaths) < manyDeaths {
		r.pause = 0
		return 0
	}
	r.pause = min(max(2*r.pause, firstPause), longPause)
	return r.pause
}

// A startError is a program that cannot be run at all.
type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

// once runs one process to its end. Ending ctx stops it in good order.
func (c *child) once(ctx context.Context) error {
	if info, err := os.Stat(c.log); err == nil && info.Size() > maxLog {
		_ = os.Rename(c.log, c.log+".1") // a log must not keep the stack from running
	}
	log, err := os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return &startError{fmt.Errorf("open the log of %s: %w", c.name, err)}
	}
	defer log.Close()
	cmd := exec.Command(c.path, c.args()...)
	cmd.Env = c.env
	cmd.Stderr = log // a file, not a pipe: it outlives this supervisor
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return &startError{err}
	}
	// A group of its own: ^C in the supervisor's terminal is not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return &startError{fmt.Errorf("start %s: %w", c.name, err)}
	}
	c.logger.Info("process started", "name", c.name, "pid", cmd.Process.Pid)
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.started(cmd.Process.Pid, stdout)
		_, _ = io.Copy(io.Discard, stdout)
	}()
	exited := make(chan error, 1)
	go func() {
		<-read // Wait closes the pipe
		exited <- cmd.Wait()
	}()
	select {
	case err := <-exited:
		return err
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case err := <-exited:
		c.logger.Info("process stopped", "name", c.name)
		return err
	case <-time.After(c.drain):
	}
	c.logger.Warn("process does not stop, killing it", "name", c.name)
	_ = cmd.Process.Kill()
	return <-exited
}

// childEnv is the environment without what would lead a child to another
// Temporal than this stack's.
func childEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TEMPORAL_") && !strings.HasPrefix(kv, "FAIRLEAD_") {
			env = append(env, kv)
		}
	}
	return append(env, "TEMPORAL_CONFIG_FILE="+os.DevNull)
}

// Tail is the last lines of a log, for an error.
func Tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(data) > 16<<10 {
		data = data[len(data)-16<<10:]
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
