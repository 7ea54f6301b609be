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

// Inspect returns the status of a journaled process and changes nothing. If the
// folder does not exist, or nothing was started there, the state is Absent.
func Inspect(ctx context.Context, h hostexec.Host, dir string) (Status, error) {
	st, err := inspect(ctx, h, hostexec.Command{Script: inspectScript, Args: []string{dir}}, dir)
	if err != nil {
		return Status{}, fmt.Errorf("look at process in %s on %s: %w", dir, h.Name(), err)
	}
	return st, nil
}

// ListRunning returns those folders in dir whose journaled processes run. It looks at the
// folder called name and at folders whose names begin with name and a dot. It takes one
// round trip and changes nothing. If dir does not exist, or is empty, no process runs.
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

// killWait bounds the wait for a process to vanish after KILL. A process that does not
// vanish is stuck in the kernel.
const killWait = 15 * time.Second

// Stop ends a process. It sends TERM to the process's group, then KILL after grace. It
// returns when the end is known. It also succeeds if the process had ended before or never
// began.
//
// The recorded start time and boot id must match, so a later process with the same pid is
// left alone. Processes that left the group live on: see Reap. The session's lock is held
// only while a signal is sent, not during the wait. If a newer holder takes over meanwhile,
// the error wraps ErrFenced.
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
	return fail(errors.New("it does not end, not even by KILL"))
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

// parseReport parses a status line and the tail of err.log behind it.
func parseReport(out []byte) (Status, error) {
	line, rest, ok := bytes.Cut(out, []byte("\n"))
	if !ok {
		return Status{}, fmt.Errorf("%w: %q", script.ErrGarbled, script.LastBytes(out, 200))
	}
	st, err := parseStatus(string(line), "fairlead-process")
	st.StderrTail = string(rest)
	return st, err
}

func parseStatus(line, word string) (Status, error) {
	var st Status
	n, _ := fmt.Sscanf(line, word+" %s %d %d %d %d %d %d", &st.State, &st.PID, &st.Code, &st.Size, &st.ErrSize, &st.Trimmed, &st.ErrTrimmed)
	if n != 7 {
		return st, fmt.Errorf("%w: %q", script.ErrGarbled, line)
	}
	switch st.State {
	case Absent, Running, Exited, Lost, Rebooted:
	default:
		return st, fmt.Errorf("%w: %q", script.ErrGarbled, line)
	}
	st.Size, st.ErrSize = max(st.Size, 0), max(st.ErrSize, 0)
	return st, nil
}
