package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// calmWithin bounds how long anything may take after a storm: the longest
// back-off between two attempts, and the slowness of the machine.
const calmWithin = 10 * time.Minute

// begin starts a session, or succeeds if it was started already.
func (s *stage) begin(ctx context.Context, in session.Input) error {
	_, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: protocol.SessionID(in.ID), TaskQueue: protocol.TaskQueueOf("")},
		protocol.TypeSession, in)
	return err
}

// waitFor retries do once a second until it succeeds.
func waitFor(ctx context.Context, what string, do func(context.Context) error) error {
	return scenario.Wait{Most: calmWithin, Try: 20 * time.Second, Gap: time.Second}.For(ctx, what, do)
}

// await polls a session until ok returns true or the session has ended.
func (r *stormRun) await(ctx context.Context, id, what string, ok func(protocol.SessionDetail) bool) (protocol.SessionDetail, error) {
	var last protocol.SessionDetail
	err := waitFor(ctx, id+" "+what, func(ctx context.Context) error {
		d, err := r.detail(ctx, id)
		if err != nil {
			return err
		}
		if last = d; ok(d) {
			return nil
		}
		err = fmt.Errorf("%s is %s, waits for %q, turns %s, approvals %s, error %+v", id, d.View.State, d.View.Waits, briefTurns(d), briefApprovals(d), d.View.Error)
		if slices.Contains(over, d.View.State) {
			return scenario.Hopeless(err)
		}
		return err
	})
	return last, err
}

func (r *stormRun) becomes(ctx context.Context, id string, state protocol.SessionStatus) error {
	_, err := r.await(ctx, id, "to be "+string(state), func(d protocol.SessionDetail) bool { return d.View.State == state })
	return err
}

// completes waits until turn n has ended. It must be completed.
func (r *stormRun) completes(ctx context.Context, id string, n int) error {
	var turn protocol.TurnView
	d, err := r.await(ctx, id, fmt.Sprintf("to end turn %d", n), func(d protocol.SessionDetail) bool {
		for _, t := range d.Turns {
			if turn = t; t.N == n && t.Done() {
				return true
			}
		}
		return false
	})
	r.logf("turn %d of %s is %s (%v)", n, id, turn.Status, err)
	if err == nil && turn.Status != "completed" {
		err = fmt.Errorf("turn %d of %s is %s (%+v); the session is %s, error %+v", n, id, turn.Status, turn.Error, d.View.State, d.View.Error)
	}
	if err != nil {
		return ill{notCompleted, err}
	}
	return nil
}

func (r *stormRun) closes(ctx context.Context, id string) error {
	if d, err := r.detail(ctx, id); err == nil && d.View.State == protocol.Closed {
		return nil
	}
	if err := r.signal(ctx, id, protocol.SignalClose, protocol.Close{By: "faults"}); err != nil {
		return err
	}
	return r.becomes(ctx, id, protocol.Closed)
}

func (w *stormWave) conclude(ctx context.Context, hosts []*host) {
	for _, r := range w.runs {
		r.must(r.judgeEffects())
	}
	var g errgroup.Group
	g.SetLimit(atATime)
	for _, r := range w.runs {
		g.Go(func() error {
			r.closeAndJudge(ctx)
			return nil
		})
	}
	_ = g.Wait() // errors are in the results
	for _, h := range hosts {
		w.sweepHost(ctx, h)
	}
	w.seedIsFree(ctx)
}

func (r *stormRun) judgeEffects() error {
	data, err := os.ReadFile(r.effects())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	times := map[string]int{}
	for line := range strings.Lines(string(data)) {
		times[strings.TrimSuffix(line, "\n")]++
	}
	for _, word := range r.words {
		switch n := times[word]; {
		case n == 0:
			r.find(effectLost, "the command that leaves %q had no effect", word)
		case n > 1:
			r.find(effectRepeated, "the command that leaves %q had its effect %d times", word, n)
		}
	}
	return nil
}

// closeAndJudge closes the sessions of a run, and checks their messages and
// what they left on hosts.
func (r *stormRun) closeAndJudge(ctx context.Context) {
	ids := []string{r.id}
	switch {
	case r.phase != nil && (r.phase.name == "batch item" || r.phase.name == "schedule firing"):
		ids = nil // they close by themselves
	case r.phase != nil && r.phase.name == "queued":
		ids = append(ids, r.id+"-holder")
	case r.other != "":
		ids = append(ids, r.other)
	}
	for _, id := range ids {
		d, err := r.detail(ctx, id)
		if err != nil {
			r.find(wrong, "ask for %s: %v", id, err)
			continue
		}
		for _, m := range d.View.Messages {
			if m.State == "void" || m.State == "rejected" {
				r.find(messageVoid, "%s %s of turn %d of %s is %s", m.Kind, m.ID, m.Turn, id, m.State)
			}
		}
		if d.View.State == protocol.Failed {
			continue // already reported
		}
		if err := r.closes(ctx, id); err != nil {
			r.find(leftOver, "close %s: %v", id, err)
		}
	}
}

func (w *stormWave) sweepHost(ctx context.Context, h *host) {
	first := w.runs[0]
	err := waitFor(ctx, "the host "+h.name+" to be free", func(ctx context.Context) error {
		var v struct {
			Used    int      `json:"used"`
			Holders []string `json:"holders"`
		}
		if err := w.JSON(ctx, &v, "host", "show", h.name); err != nil {
			return err
		}
		if v.Used > 0 {
			return fmt.Errorf("%d slots are held by %v", v.Used, v.Holders)
		}
		if dirs := foldersOn(h); len(dirs) > 0 {
			return fmt.Errorf("there are %v", dirs)
		}
		working := append(processesOf(nobody, filepath.Join(h.root, "sessions")), processesOf(nobody, filepath.Join(h.root, "rooms"))...)
		if ps := slices.DeleteFunc(working, func(p process) bool { return strings.Contains(p.command, "sshd") }); len(ps) > 0 {
			return fmt.Errorf("process %d runs: %.200s", ps[0].pid, ps[0].command)
		}
		return nil
	})
	if err != nil {
		first.find(leftOver, "%v", err)
	}
	if rules, err := rulesLeft(h.port); err != nil || rules != "" {
		first.find(leftOver, "rules of the kernel's are in force: %s (%v)", rules, err)
	}
}

func (w *stormWave) seedIsFree(ctx context.Context) {
	err := waitFor(ctx, "the seed to be free", func(ctx context.Context) error {
		var v struct {
			Holders []protocol.SeedHolder `json:"holders"`
		}
		if err := w.JSON(ctx, &v, "seed", "show", "team"); err != nil {
			return err
		}
		if len(v.Holders) > 0 {
			return fmt.Errorf("it is held by %+v", v.Holders)
		}
		return nil
	})
	if err != nil {
		w.runs[0].find(leftOver, "%v", err)
	}
}

// keepLogs saves the stack's logs, for people to look at.
func (s *stage) keepLogs(ctx context.Context) string {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-faults-storm-")
	if err != nil {
		return err.Error()
	}
	for _, name := range []string{"worker.log", "supervisor.log", "temporal.log"} {
		if data, err := os.ReadFile(filepath.Join(s.State, "logs", name)); err == nil {
			_ = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
	}
	return dir
}
