package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/pgcluster"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// A trial is the work on one stack.
type trial struct {
	options
	lab     *lab.Lab
	cluster *pgcluster.Cluster
	root    string // of the host
	say     func(format string, args ...any)

	mu   sync.Mutex
	said map[string][]string // by session: its messages, each of which is one turn
}

// ctl runs a command. A busy machine may be slow to answer.
func (t *trial) ctl(ctx context.Context, args ...string) error {
	_, err := t.lab.Out(ctx, append([]string{"--timeout", "3m"}, args...)...)
	return err
}

func (t *trial) start(ctx context.Context, id string, more ...string) error {
	return t.ctl(ctx, append([]string{"session", "start", "--id", id, "--host", "web-1", "--seed", "team"}, more...)...)
}

// note keeps a message to a session, and returns how many it has had.
func (t *trial) note(id, text string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said[id] = append(t.said[id], text)
	return len(t.said[id])
}

// send sends a message and does not wait for its turn.
func (t *trial) send(ctx context.Context, id, text string) error {
	t.note(id, text)
	return t.ctl(ctx, "session", "send", id, "--no-wait", text)
}

// turn runs a turn to its end.
func (t *trial) turn(ctx context.Context, id, text string) error {
	n := t.note(id, text)
	var v protocol.TurnView
	if err := t.lab.JSON(ctx, &v, "--timeout", "3m", "session", "send", id, text); err != nil {
		return err
	}
	if v.N != n || v.Status != "completed" {
		return fmt.Errorf("session %s: turn %d is %s, not turn %d completed", id, v.N, v.Status, n)
	}
	return nil
}

// gate sends a message whose turn waits at a gate, and waits until it does.
func (t *trial) gate(ctx context.Context, id, gate string) error {
	if err := t.send(ctx, id, "wait at gate "+gate+" please"); err != nil {
		return err
	}
	_, err := t.lab.Model.AwaitWaiting(ctx, gate)
	return err
}

// see waits until a session is as it should be.
func (t *trial) see(ctx context.Context, id, what string, is func(protocol.SessionView) bool) error {
	return scenario.Wait{Most: 10 * time.Minute, Try: time.Minute, Gap: 500 * time.Millisecond}.For(ctx, "session "+id+": "+what, func(ctx context.Context) error {
		var v protocol.SessionView
		if err := t.lab.JSON(ctx, &v, "session", "show", id); err != nil {
			return err
		}
		if !is(v) {
			return fmt.Errorf("it is %s and waits for %q, its turn is %+v, it asks %d times", v.State, v.Waits, v.Turn, len(v.Requests))
		}
		return nil
	})
}

func (t *trial) asks(ctx context.Context, id string) error {
	return t.see(ctx, id, "it asks", func(v protocol.SessionView) bool { return len(v.Requests) == 1 })
}

// ended waits until each message of a session has had its turn, and that of the last one ended so.
func (t *trial) ended(ctx context.Context, id, status string) error {
	t.mu.Lock()
	n := len(t.said[id])
	t.mu.Unlock()
	return t.see(ctx, id, fmt.Sprintf("turn %d is %s", n, status), func(v protocol.SessionView) bool {
		return v.Turn != nil && v.Turn.N == n && v.Turn.Status == status
	})
}

// work is the folder of a session's work on the host.
func (t *trial) work(id string) string { return filepath.Join(t.root, "sessions", id, "room", "work") }

// each calls do for n sessions of a kind, some of them at a time.
func each(kind string, n int, do func(id string) error) error {
	var g errgroup.Group
	g.SetLimit(3)
	for i := range n {
		g.Go(func() error { return do(fmt.Sprintf("%s-%d", kind, i+1)) })
	}
	return g.Wait()
}
