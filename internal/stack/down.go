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

// Down stops the stack of a state folder, waits until none of its processes runs, and
// returns them, or ErrNone. If ctx ends, Down only stops waiting.
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
		if info != nil {
			stopped = append(stopped, info.Children...)
			slices.Reverse(stopped) // workers are stopped first
		}
		supervisor, err := at.dismiss(ctx)
		if err != nil {
			return nil, fmt.Errorf("stop the stack in %s: %w", dir, err)
		}
		stopped = append(stopped, supervisor)
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

// signPatience is how long a supervisor may take from taking the lock to writing its
// identity.
const signPatience = 10 * time.Second

// dismiss sends SIGTERM to the holder of the lock. It waits while the files still name the
// previous holder, whose pid another process may have.
func (l layout) dismiss(ctx context.Context) (Process, error) {
	for end := time.Now().Add(signPatience); ; pause(ctx, 20*time.Millisecond) {
		if p := l.supervisor(); p.PID > 0 && p.Alive() {
			return p, p.signal(syscall.SIGTERM)
		}
		if held, err := l.held(); err != nil || !held {
			return Process{Name: "supervisor", PID: l.holder(), Started: "ended"}, err
		}
		if ctx.Err() != nil {
			return Process{}, context.Cause(ctx)
		}
		if time.Now().After(end) {
			return Process{}, errors.New("its lock is held, but names no running process (try again)")
		}
	}
}

// Running reports whether a supervisor holds the state folder.
func Running(dir string) (bool, error) { return layout(dir).held() }
