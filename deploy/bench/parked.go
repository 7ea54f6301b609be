package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

// measureParked says something to a session of the real codex in turn while it
// is idle and when it has been parked, on a host that is warm.
func measureParked(ctx context.Context, o *options) (err error) {
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Script: []byte(script), Keep: o.keep}, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.lab.ImportSeed(ctx, "bench"); err != nil {
		return err
	}
	const id = "sleeper"
	if err := f.start(ctx, id, workflows.SessionOptions{Host: "web-1", Seed: "bench"}, "say yes"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(context.WithoutCancel(ctx), []string{id})) }()
	ws, err := f.workers()
	if err != nil {
		return err
	}
	v, err := f.watch(ctx, id, []string{ws[0].API})
	if err != nil {
		return err
	}
	defer v.Close()
	p := &sleeper{fleet: f, id: id, v: v}
	if err := p.is(ctx, workflows.Idle, 1); err != nil {
		return err
	}
	var idle, parked series
	for n := range o.parked + 1 {
		awake, err := p.says(ctx)
		if err != nil {
			return err
		}
		if err := f.c.SignalWorkflow(ctx, workflows.SessionID(id), "", workflows.SignalPark, workflows.Park{By: "bench"}); err != nil {
			return err
		}
		if err := p.is(ctx, workflows.Parked, p.turns); err != nil {
			return err
		}
		asleep, err := p.says(ctx)
		if err != nil {
			return err
		}
		if n > 0 { // warm
			idle, parked = append(idle, awake), append(parked, asleep)
		}
	}
	fmt.Printf("  idle    %v\n  parked  %v   (n %d)\n", idle, parked, len(parked))
	var more series
	for i := range parked {
		more = append(more, parked[i]-idle[i])
	}
	more.against("a parked one's first words come later by", 2*time.Second)
	return nil
}

type sleeper struct {
	*fleet
	id    string
	v     *viewer
	turns int
}

// is waits until the session has had that many turns, and is at rest.
func (p *sleeper) is(ctx context.Context, state workflows.SessionStatus, turns int) error {
	p.turns = turns
	return lab.Until(ctx, "the session to be "+string(state), func() (bool, error) {
		d, err := p.detail(ctx, p.id)
		return d.View.State == state && len(d.Turns) == turns && d.Turns[turns-1].Done(), err
	})
}

// says is how long it takes from a message to the first words.
func (p *sleeper) says(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	m := workflows.Message{ID: fmt.Sprintf("m%d", p.turns+1), Text: "say yes", By: "bench"}
	if err := p.c.SignalWorkflow(ctx, workflows.SessionID(p.id), "", workflows.SignalMessage, m); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := p.v.await(ctx, "the first words", func() bool { return !p.v.after(begin).IsZero() }); err != nil {
		return 0, err
	}
	p.v.mu.Lock()
	d := p.v.after(begin).Sub(begin)
	p.v.at = nil
	p.v.mu.Unlock()
	return d, p.is(ctx, workflows.Idle, p.turns+1)
}
