package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// measureAuthority decides what the real codex asks on two stacks in turn: one takes the
// commands of everybody who reaches Temporal, and one takes those that are signed and allowed.
func measureAuthority(ctx context.Context, o *options) (err error) {
	const warm = 3
	people, err := lab.NewPeople("  - {name: alice, roles: [admin], to: [alice]}\n  - {name: bob, roles: [approver], to: [bob], when: 'owner != who'}\n", []string{"alice", "bob"}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, people.Close()) }()
	script := asking(o.decide + warm)
	before, err := newDecider(ctx, lab.Options{Repo: o.repo, Script: script, Keep: o.keep}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, before.Close()) }()
	after, err := newDecider(ctx, lab.Options{Repo: o.repo, Script: script, Keep: o.keep, Config: people.Stack("alice"), Own: true}, people)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, after.Close()) }()
	for i := range o.decide + warm {
		for _, d := range []*decider{before, after} { // each rests while the other is measured
			if err := d.decide(ctx, i+1, i >= warm); err != nil {
				return err
			}
		}
	}
	return reportAuthority(ctx, before, after)
}

func reportAuthority(ctx context.Context, before, after *decider) error {
	var events [2]int
	for i, d := range []*decider{before, after} {
		var err error
		if events[i], err = d.events(ctx); err != nil {
			return err
		}
	}
	ms := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	fmt.Printf("  %-28s %-12s %-12s %s\n", "decision given, until on", "p50", "p95", "events until the next one")
	for i, row := range []struct {
		name string
		of   *decider
	}{{"record, authority: local", before}, {"record, authority: required", after}} {
		fmt.Printf("  %-28s %-12v %-12v %d   (n %d)\n", row.name, ms(row.of.took.at(.5)), ms(row.of.took.at(.95)), events[i], len(row.of.took))
	}
	added, verdict := after.took.at(.95)-before.took.at(.95), "reached"
	if added > 5*time.Millisecond || events[1] > events[0] {
		verdict = "missed"
	}
	fmt.Printf("  added: p50 %v, p95 %v, %d events; goal: p95 ≤ 5 ms, no event: %s\n",
		ms(after.took.at(.5)-before.took.at(.5)), ms(added), events[1]-events[0], verdict)
	return nil
}

// A decider is a stack with one session, whose requests are accepted.
type decider struct {
	*fleet
	people *lab.People // nil if nothing is signed
	took   series
}

func newDecider(ctx context.Context, opts lab.Options, people *lab.People) (*decider, error) {
	f, err := newFleet(ctx, opts, 1)
	if err != nil {
		return nil, err
	}
	err = f.lab.ImportSeed(ctx, "bench")
	for _, args := range [][]string{{"session", "start", "--host", "web-1", "--seed", "bench", "--id", "ask"}, {"session", "send", "ask", "--no-wait", "ask"}} {
		if err == nil {
			_, err = f.lab.Out(ctx, args...)
		}
	}
	if err == nil {
		_, err = f.waits(ctx, "ask", 1)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &decider{fleet: f, people: people}, nil
}

// decide accepts the n-th request, and waits until the next one is open.
func (d *decider) decide(ctx context.Context, n int, counts bool) error {
	a, err := d.waits(ctx, "ask", n)
	if err != nil {
		return err
	}
	begin := time.Now()
	var arg any = protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "bob"}
	if d.people != nil {
		if arg, err = d.people.Sign("bob", protocol.SessionID("ask"), protocol.SignalDecide, arg); err != nil {
			return err
		}
	}
	h, err := d.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: protocol.SessionID("ask"), UpdateName: protocol.SignalDecide, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{arg},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("decide %s: %w", a.ID, err)
	}
	if counts {
		d.took = append(d.took, time.Since(begin))
	}
	return d.rests(ctx, n+1)
}

// rests waits until the session waits for its n-th decision, or has had the last one.
func (d *decider) rests(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return lab.Until(ctx, fmt.Sprintf("approval %d of ask, or the end of its turn", n), func() (bool, error) {
		at, err := d.detail(ctx, "ask")
		if err != nil || at.View.State == protocol.Idle {
			return err == nil, err
		}
		open := func(a protocol.Approval) bool {
			return a.ID == fmt.Sprintf("ask.%d", n) && a.State == protocol.ApprovalOpen
		}
		return at.View.State == protocol.Waiting && slices.ContainsFunc(at.Approvals, open), nil
	})
}

// events is how many events the history has from a decision to the next one.
func (d *decider) events(ctx context.Context) (int, error) {
	var at, gaps []int
	for it, n := d.c.GetWorkflowHistory(ctx, protocol.SessionID("ask"), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT), 0; it.HasNext(); n++ {
		e, err := it.Next()
		if err != nil {
			return 0, err
		}
		if e.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED {
			at = append(at, n)
		}
	}
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i]-at[i-1])
	}
	if len(gaps) == 0 {
		return 0, errors.New("the history has no two decisions: give more (-decisions)")
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2], nil
}
