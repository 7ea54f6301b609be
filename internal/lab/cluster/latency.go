package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// goal is what 19 of 20 requests should take at most.
const goal = time.Second

// measure measures from a request to Temporal until codex has it, as the host or the model shows.
func (t *trial) measure(ctx context.Context) error {
	if t.times == 0 {
		return nil
	}
	temporal, err := t.lab.Temporal(ctx)
	if err != nil {
		return err
	}
	defer temporal.Close()
	m := &stopwatch{trial: t, temporal: temporal}
	if err := t.start(ctx, m.session()); err != nil {
		return err
	}
	for _, kind := range []struct {
		what string
		once func(ctx context.Context, n int) (time.Duration, error)
	}{
		{"interrupt", m.interrupt},
		{"steer", m.steer},
		{"decide, nothing else open", m.decide},
		{"decide one of two", m.decideOne},
	} {
		var took []time.Duration
		for n := range t.times {
			d, err := kind.once(ctx, n)
			if err != nil {
				return fmt.Errorf("%s, for the %d. time: %w", kind.what, n+1, err)
			}
			took = append(took, d)
		}
		slices.Sort(took)
		at := func(part float64) time.Duration {
			return took[min(int(part*float64(len(took))), len(took)-1)].Round(time.Millisecond)
		}
		t.say("cluster: %-26s %d times: p50 %v, p95 %v, most %v (goal p95 ≤ %v)", kind.what, len(took), at(.5), at(.95), at(1), goal)
	}
	return t.ctl(ctx, "session", "close", m.session(), "--discard")
}

type stopwatch struct {
	*trial
	temporal client.Client
}

func (m *stopwatch) session() string { return "timed" }

// update sends a request, and returns when it was sent.
func (m *stopwatch) update(ctx context.Context, name string, arg any) (began time.Time, err error) {
	began = time.Now()
	h, err := m.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: protocol.SessionID(m.session()), UpdateName: name, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{arg},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	return began, err
}

// until polls what is in this process, or a file, so that polls cost nothing.
func until(ctx context.Context, began time.Time, what string, is func() bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, scenario.Patience)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waited in vain until %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return time.Since(began), nil
}

func (m *stopwatch) interrupt(ctx context.Context, n int) (time.Duration, error) {
	gate := fmt.Sprintf("interrupt-%d", n)
	if err := m.gate(ctx, m.session(), gate); err != nil {
		return 0, err
	}
	began, err := m.update(ctx, protocol.SignalInterrupt, protocol.Interrupt{By: "cluster"})
	if err != nil {
		return 0, err
	}
	// codex no longer wants the model's answer.
	d, err := until(ctx, began, "codex ends its turn", func() bool {
		return !slices.ContainsFunc(m.lab.Model.Waiting(), func(w scriptedmodel.Waiter) bool { return w.Gate == gate })
	})
	if err != nil {
		return 0, err
	}
	return d, m.ended(ctx, m.session(), "interrupted")
}

func (m *stopwatch) steer(ctx context.Context, n int) (time.Duration, error) {
	gate, id := fmt.Sprintf("steer-%d", n), fmt.Sprintf("steered-%d", n)
	if err := m.gate(ctx, m.session(), gate); err != nil {
		return 0, err
	}
	began, err := m.update(ctx, protocol.SignalMessage, protocol.Message{ID: id, Text: "hello in between", Mode: "steer", By: "cluster"})
	if err != nil {
		return 0, err
	}
	d, err := until(ctx, began, "codex acknowledges the message", func() bool { return m.wrote(id) })
	if err != nil {
		return 0, err
	}
	m.lab.Model.Release(gate)
	return d, m.ended(ctx, m.session(), "completed")
}

// wrote reports whether codex wrote an answer to the request with an id.
func (m *stopwatch) wrote(id string) bool {
	names, err := filepath.Glob(filepath.Join(m.root, "sessions", m.session(), "proc", "*", "out.log"))
	if err != nil {
		return false
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err == nil && bytes.Contains(data, []byte(`"`+id+`"`)) {
			return true
		}
	}
	return false
}

// open waits until so many approvals are open, and returns the first of them.
func (m *stopwatch) open(ctx context.Context, n int) (first protocol.Approval, err error) {
	err = scenario.Again(ctx, "codex asks", func(ctx context.Context) error {
		v, err := m.temporal.QueryWorkflow(ctx, protocol.SessionID(m.session()), "", protocol.QueryDetail)
		if err != nil {
			return err
		}
		var d protocol.SessionDetail
		if err := v.Get(&d); err != nil {
			return err
		}
		var open []protocol.Approval
		for _, a := range d.Approvals {
			if a.State == protocol.ApprovalOpen {
				open = append(open, a)
			}
		}
		if len(open) != n {
			return fmt.Errorf("%d approvals are open, not %d", len(open), n)
		}
		first = open[0]
		return nil
	})
	return first, err
}

// accept accepts an approval, and waits for the effect of its command: so many files whose name
// begins with a word.
func (m *stopwatch) accept(ctx context.Context, a protocol.Approval, name string, files int) (time.Duration, error) {
	began, err := m.update(ctx, protocol.SignalDecide, protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "cluster"})
	if err != nil {
		return 0, err
	}
	return until(ctx, began, "the command runs", func() bool {
		made, err := filepath.Glob(filepath.Join(m.work(m.session()), name+"*"))
		return err == nil && len(made) == files
	})
}

func (m *stopwatch) decide(ctx context.Context, n int) (time.Duration, error) {
	name := fmt.Sprintf("one-%d.", n)
	if err := m.send(ctx, m.session(), "touch the file "+name); err != nil {
		return 0, err
	}
	a, err := m.open(ctx, 1)
	if err != nil {
		return 0, err
	}
	d, err := m.accept(ctx, a, name, 1)
	if err != nil {
		return 0, err
	}
	return d, m.ended(ctx, m.session(), "completed")
}

// decideOne decides the first of two approvals of a turn. The pump is attached for the other one
// only after the first decision.
func (m *stopwatch) decideOne(ctx context.Context, n int) (time.Duration, error) {
	name := fmt.Sprintf("two-%d", n)
	if err := m.send(ctx, m.session(), "touch two files "+name); err != nil {
		return 0, err
	}
	first, err := m.open(ctx, 2)
	if err != nil {
		return 0, err
	}
	d, err := m.accept(ctx, first, name+"-", 1)
	if err != nil {
		return 0, err
	}
	second, err := m.open(ctx, 1)
	if err != nil {
		return 0, err
	}
	if _, err := m.accept(ctx, second, name+"-", 2); err != nil {
		return 0, err
	}
	return d, m.ended(ctx, m.session(), "completed")
}
