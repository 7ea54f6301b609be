package stack

import (
	"context"
	"encoding/json"
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

const (
	manyDeaths  = 5 // within deathWindow
	deathWindow = 30 * time.Second
	firstPause  = time.Second
	longPause   = 15 * time.Second
	maxLog      = 32 << 20 // bytes
)

type child struct {
	name  string
	path  string
	args  func() []string // called at every start
	env   []string
	log   string        // for standard error
	drain time.Duration // from SIGTERM to SIGKILL
	// started gets the standard output of every new process, and returns when it has read
	// what it needs.
	started func(pid int, stdout io.Reader)
	logger  *slog.Logger
	// refusals are exit statuses of the first process that make a retry useless.
	refusals []int
}

// run keeps the child running until ctx ends, then stops it. It returns an error only if
// the first process could not be started or refused to run, because then the user waits.
func (c *child) run(ctx context.Context) error {
	var again restarts
	for first := true; ; first = false {
		from := size(c.log)
		err := c.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var exit *exec.ExitError
		if first && errors.As(err, &exit) && slices.Contains(c.refusals, exit.ExitCode()) {
			return fmt.Errorf("%s refuses to start: %s", c.name, reason(c.log, from))
		}
		var start *startError
		if first && errors.As(err, &start) {
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

type restarts struct {
	deaths []time.Time
	pause  time.Duration
}

// died records a death and returns how long to wait.
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

type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

func (c *child) once(ctx context.Context) error {
	if info, err := os.Stat(c.log); err == nil && info.Size() > maxLog {
		_ = os.Rename(c.log, c.log+".1") // an error must not prevent the start
	}
	log, err := os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return &startError{fmt.Errorf("open the log of %s: %w", c.name, err)}
	}
	defer log.Close()
	cmd := exec.Command(c.path, c.args()...)
	cmd.Env = c.env
	cmd.Stderr = log // a file and not a pipe, because the child may outlive this supervisor
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return &startError{err}
	}
	// Its own process group keeps ^C in the supervisor's terminal from the child.
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
		<-read // Wait closes the pipe, so read first
		exited <- cmd.Wait()
	}()
	select {
	case err := <-exited:
		return err
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
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

// childEnv leaves out variables that could point a child to another Temporal server.
func childEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TEMPORAL_") && !strings.HasPrefix(kv, "FAIRLEAD_") {
			env = append(env, kv)
		}
	}
	return append(env, "TEMPORAL_CONFIG_FILE="+os.DevNull)
}

const maxTail = 16 << 10

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxLog { // once renames such a log
		return 0
	}
	return info.Size()
}

// Tail returns the last lines of a log, for an error message.
func Tail(path string, lines int) string {
	all, err := ending(path, 0)
	if err != nil {
		return err.Error()
	}
	return said(all[max(0, len(all)-lines):])
}

// reason returns the errors in a log from an offset on, or else its last lines.
func reason(path string, from int64) string {
	all, err := ending(path, from)
	if err != nil {
		return err.Error()
	}
	var errs []string
	for _, line := range all {
		if readLine(line).Level == slog.LevelError.String() {
			errs = append(errs, line)
		}
	}
	if len(errs) > 0 {
		all = errs
	}
	return said(all[max(0, len(all)-3):])
}

func ending(path string, from int64) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(from, info.Size()-maxTail), maxTail))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n"), nil
}

// A logLine is a line of slog's JSON; Msg is empty for any other.
type logLine struct{ Level, Msg, Err string }

func readLine(line string) (l logLine) {
	if json.Unmarshal([]byte(line), &l) != nil {
		return logLine{}
	}
	return l
}

func said(lines []string) string {
	var out []string
	for _, line := range lines {
		switch l := readLine(line); {
		case l.Msg == "":
			out = append(out, line)
		case l.Err == "":
			out = append(out, l.Msg)
		default:
			out = append(out, l.Msg+": "+l.Err)
		}
	}
	return strings.Join(out, "\n  ")
}
