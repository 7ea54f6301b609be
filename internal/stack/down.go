package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

// stopRemnants ends the children that a stack.json names: the worker first.
func (i *Info) stopRemnants() (stopped []Process, err error) {
	for n := len(i.Children) - 1; n >= 0; n-- {
		p := i.Children[n]
		if !p.Alive() {
			continue
		}
		if err := p.stop(30 * time.Second); err != nil {
			return stopped, err
		}
		stopped = append(stopped, p)
	}
	return stopped, nil
}

// Down stops the stack of a state folder and returns when nothing of it runs:
// what it stopped, by name. ErrNone where nothing ran. Ending ctx ends the
// wait, not the stop.
func Down(ctx context.Context, dir string) (stopped []Process, err error) {
	at := layout(dir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	held, err := at.held()
	if err != nil {
		return nil, fmt.Errorf("look at the lock: %w", err)
	}
	info, readErr := Read(dir)
	if held {
		pid := at.holder()
		if pid <= 0 {
			return nil, fmt.Errorf("stop the stack in %s: its lock names no process", dir)
		}
		if info != nil {
			stopped = append(stopped, info.Children...)
			slices.Reverse(stopped) // the worker goes first
		}
		supervisor := Process{Name: "supervisor", PID: pid, Started: startedAt(pid)}
		stopped = append(stopped, supervisor)
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("stop the supervisor (pid %d): %w", pid, err)
		}
		for held || supervisor.Alive() {
			if ctx.Err() != nil {
				return stopped, fmt.Errorf("stop the stack in %s: it still drains: %w", dir, context.Cause(ctx))
			}
			pause(ctx, 20*time.Millisecond)
			if held, err = at.held(); err != nil {
				return stopped, fmt.Errorf("look at the lock: %w", err)
			}
		}
		return stopped, nil
	}
	if errors.Is(readErr, ErrNone) {
		return nil, readErr
	}
	if info != nil {
		if stopped, err = info.stopRemnants(); err != nil {
			return stopped, err
		}
	}
	if err := os.Remove(at.in("stack.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stopped, err
	}
	if len(stopped) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	return stopped, nil
}

// Running says whether a supervisor holds the state folder.
func Running(dir string) (bool, error) { return layout(dir).held() }
