package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/workflows/session"
)

type hostWants struct {
	slots int
	jump  string // the name of its jump host
	codex string // a folder of codex that hosts share; empty: it has no codex
	// behind is a delay line in front of it; overlay: its root is an overlay.
	behind  *hosttest.DelayLine
	overlay bool
}

// bareHost starts a host on which the stage has installed nothing.
func (s *stage) bareHost(ctx context.Context, name string, want hostWants) (*host, error) {
	h := &host{name: name, root: filepath.Join(s.Dir, "host-"+name)}
	if err := os.MkdirAll(h.root, 0o755); err != nil {
		return nil, err
	}
	if want.codex != "" {
		if err := errors.Join(os.MkdirAll(want.codex, 0o755), os.Symlink(want.codex, filepath.Join(h.root, "codex"))); err != nil {
			return nil, err
		}
	}
	if want.overlay {
		unmount, err := hosttest.Overlay(ctx, h.root)
		if err != nil {
			return nil, err
		}
		s.unmounts = append(s.unmounts, unmount)
	}
	flags := []string{"--slots", fmt.Sprint(want.slots)}
	if want.jump != "" {
		flags = append(flags, "--jump", want.jump)
	}
	var err error
	if h.sshd, err = s.AddHost(ctx, name, hosttest.Options{Root: h.root, Behind: want.behind}, flags...); err != nil {
		return nil, err
	}
	h.port = h.sshd.Spec().Port
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[name] = h
	return h, nil
}

// tryMany is the storm on many sessions that start at once on a host without
// codex, each with a message: workers, connections and the Temporal server are
// struck from the first second on. The short form is smaller and uses the
// stand-in.
func tryMany(ctx context.Context, o options, say func(string, ...any)) (res stormResult, err error) {
	res = stormResult{Result: scenario.Result{Subject: several, Moment: fromNew}}
	many, long := 20, 100*time.Second
	if o.short {
		many, long = 6, 20*time.Second
		o.codex, err = packStandin(ctx, o, 64<<20)
		defer os.RemoveAll(o.codex)
		if err != nil {
			return res, err
		}
	}
	o.script = stormScript
	began := time.Now()
	s, err := newStage(ctx, o, 1, say)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	h, err := s.bareHost(ctx, "m1", hostWants{slots: 64})
	if err != nil {
		return res, err
	}
	w := &stormWave{stage: s, a: h, b: h, rng: scenario.Random(o.seed, several)}
	rng := scenario.Random(o.seed, several, "sessions")
	for n := range many {
		w.runs = append(w.runs, &stormRun{stormWave: w, id: fmt.Sprintf("s%08x-%d", rng.Uint32(), n), host: h, res: &res})
	}
	plan := planStorm(w.rng, long)
	res.sessions, res.planned = many, len(plan)
	say("storms: seed %d, the plan:", o.seed)
	for _, p := range plan {
		say("  %s", p)
	}
	over := make(chan error, 1)
	go func() {
		struck, serr := s.carryOut(ctx, plan, h)
		for _, n := range struck {
			res.struck += n
		}
		say("%s the storm is over; it struck %v", time.Now().UTC().Format("15:04:05"), struck)
		res.Must("the strikes", serr)
		res.Must("the stack afterwards", s.healthy(ctx))
		over <- ctx.Err()
	}()
	w.each(func(r *stormRun) error {
		r.logf("start")
		return r.start(ctx, session.Options{Host: h.name}, r.runs("first"))
	})
	if err := <-over; err != nil {
		return res, err
	}
	calm := time.Now()
	w.each(func(r *stormRun) error { return r.completes(ctx, r.id, 1) })
	res.Took, res.Recovered = true, time.Since(calm)
	w.conclude(ctx, []*host{h})
	var traces []string
	for _, r := range w.runs {
		if r.bad {
			traces = append(traces, r.told()...)
		}
	}
	if !res.clean() {
		traces = append(traces, "kept in "+s.keepLogs(ctx))
	}
	sayStorm(o, say, &res, time.Since(began), traces)
	return res, nil
}
