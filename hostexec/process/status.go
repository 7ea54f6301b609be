package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// Inspect returns the status of a journaled process, which may be Absent.
func Inspect(ctx context.Context, h hostexec.Host, dir string) (Status, error) {
	st, err := inspect(ctx, h, hostexec.Command{Script: inspectScript, Args: []string{dir}}, dir)
	if err != nil {
		return Status{}, fmt.Errorf("look at process in %s on %s: %w", dir, h.Name(), err)
	}
	return st, nil
}

// ListRunning returns those folders in dir called name or name.* whose processes run. A
// missing dir is no error.
func ListRunning(ctx context.Context, h hostexec.Host, dir, name string) ([]string, error) {
	err := checkDir(dir)
	var res hostexec.Result
	if err == nil {
		res, err = h.Run(ctx, hostexec.Command{Script: runningScript, Args: []string{dir, name}})
	}
	if err != nil {
		return nil, fmt.Errorf("look at the processes in %s on %s: %w", dir, h.Name(), processError(err))
	}
	return strings.FieldsFunc(string(res.Stdout), func(r rune) bool { return r == '\n' }), nil
}

func inspect(ctx context.Context, h hostexec.Host, c hostexec.Command, dir string) (Status, error) {
	if err := checkDir(dir); err != nil {
		return Status{}, err
	}
	res, err := h.Run(ctx, c)
	if err != nil {
		return Status{}, processError(err)
	}
	return parseReport(res.Stdout)
}

// killWait bounds the wait after KILL. A process that outlives it is stuck in the kernel.
const killWait = 15 * time.Second

// Stop sends TERM to a process's group, then KILL after grace, and returns when the end is
// known. It succeeds if the process had ended before or never began.
//
// A later process with the same pid is left alone. Processes that left the group live on:
// see Reap. The session's lock is held only while a signal is sent. If a newer holder takes
// over meanwhile, the error wraps ErrFenced.
func Stop(ctx context.Context, h hostexec.Host, dir string, fence hostexec.Fence, grace time.Duration) (Status, error) {
	fail := func(err error) (Status, error) {
		return Status{}, fmt.Errorf("stop process in %s on %s: %w", dir, h.Name(), err)
	}
	for _, step := range []struct {
		signal string
		wait   time.Duration
	}{{"TERM", grace}, {"KILL", killWait}} {
		st, err := inspect(ctx, h, hostexec.Command{Script: stopScript, Args: []string{dir, step.signal}, Fence: &fence}, dir)
		if err != nil {
			return fail(err)
		}
		deadline := time.Now().Add(step.wait)
		for pause := 10 * time.Millisecond; st.State == Running && time.Now().Before(deadline); pause = min(2*pause, 250*time.Millisecond) {
			if err := sleep(ctx, min(pause, time.Until(deadline))); err != nil {
				return fail(err)
			}
			if st, err = inspect(ctx, h, hostexec.Command{Script: inspectScript, Args: []string{dir}}, dir); err != nil {
				return fail(err)
			}
		}
		if st.State != Running {
			return st, nil
		}
	}
	return fail(errors.New("the process still runs after SIGKILL; it may be stuck in the kernel"))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// parseReport parses a status line and the tail of err.log.
func parseReport(out []byte) (Status, error) {
	line, rest, ok := bytes.Cut(out, []byte("\n"))
	if !ok {
		return Status{}, fmt.Errorf("%w: %q", script.ErrGarbled, script.LastBytes(out, 200))
	}
	st, err := parseStatus(string(line), "fairlead-process")
	st.StderrTail = string(script.LastBytes(rest, 4096))
	return st, err
}

func parseStatus(line, word string) (Status, error) {
	var st Status
	n, _ := fmt.Sscanf(line, word+" %s %d %d %d %d %d %d", &st.State, &st.PID, &st.Code, &st.Size, &st.ErrSize, &st.Trimmed, &st.ErrTrimmed)
	if n != 7 {
		return st, fmt.Errorf("%w: %.200q", script.ErrGarbled, line)
	}
	switch st.State {
	case Absent, Running, Exited, Lost, Rebooted:
	default:
		return st, fmt.Errorf("%w: %.200q", script.ErrGarbled, line)
	}
	st.Size, st.ErrSize = max(st.Size, 0), max(st.ErrSize, 0)
	return st, nil
}
