package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func asking(n int) []byte {
	var b strings.Builder
	b.WriteString("rules:\n- name: ask\n  steps:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - - shell: {cmd: \"printf %d\", escalate: true, justification: bench}\n", i)
	}
	b.WriteString("  - say: Done.\n")
	return []byte(b.String())
}

// measureDecisions decides what the real codex asks, while nobody is attached.
func measureDecisions(ctx context.Context, o *options) (err error) {
	const warm = 3
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Script: asking(o.decide + warm), Keep: o.keep}, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.lab.ImportSeed(ctx, "bench"); err != nil {
		return err
	}
	if err := f.start(ctx, "ask", session.Options{Host: "web-1", Seed: "bench"}, "ask"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(context.WithoutCancel(ctx), []string{"ask"})) }()
	ws, err := f.workers()
	if err != nil {
		return err
	}
	v, err := f.watch(ctx, "ask", []string{ws[0].API})
	if err != nil {
		return err
	}
	defer v.Close()
	var accepted, acked series
	for i := range o.decide + warm {
		a, err := f.waits(ctx, "ask", i+1)
		if err != nil {
			return err
		}
		begin := time.Now()
		h, err := f.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: protocol.SessionID("ask"), UpdateName: protocol.SignalDecide, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "bench"}},
		})
		if err == nil {
			err = h.Get(ctx, nil)
		}
		if err != nil {
			return fmt.Errorf("decide %s: %w", a.ID, err)
		}
		took := time.Since(begin)
		id := protocol.SendID("ask", i+1)
		late, cancel := context.WithTimeout(ctx, time.Minute)
		err = v.await(late, "the acknowledgement of "+a.ID, func() bool { return !v.acks[id].IsZero() })
		cancel()
		if err != nil {
			return err
		}
		if i >= warm {
			v.mu.Lock()
			accepted, acked = append(accepted, took), append(acked, v.acks[id].Sub(begin))
			v.mu.Unlock()
		}
	}
	accepted.against("decision given, until it is on record", 400*time.Millisecond)
	acked.against("decision given, until codex acknowledged it", 400*time.Millisecond)
	fmt.Printf("  goal p50 ≤ 150 ms: %v\n", acked.at(.5).Round(time.Millisecond))
	return nil
}

// waits waits until a session waits for its n-th decision with nobody attached.
func (f *fleet) waits(ctx context.Context, id string, n int) (a protocol.Approval, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = lab.Until(ctx, fmt.Sprintf("approval %d of %s", n, id), func() (bool, error) {
		d, err := f.detail(ctx, id)
		if err != nil || d.View.State != protocol.Waiting {
			return false, err
		}
		for _, open := range d.Approvals {
			if open.ID == fmt.Sprintf("%s.%d", id, n) && open.State == protocol.ApprovalOpen {
				a = open
				return true, nil
			}
		}
		return false, nil
	})
	return a, err
}
