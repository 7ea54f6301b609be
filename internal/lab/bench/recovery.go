package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/workflows/session"
)

// streaming makes the model talk for hours, twenty words a second.
const streaming = `
rules:
- name: talk
  steps:
  - - say: {text: '{{ repeat "word after word " 40000 }}', pace: 50ms}
`

// underway is how long after a fault an event may arrive that was sent before
// it. Later events prove that the fault was mended.
const underway = 100 * time.Millisecond

// recovering is a set of sessions of the real codex that stream while something
// happens to the stack.
type recovering struct {
	*fleet
	ids     []string
	viewers []*viewer
}

const recoverers = 3

func startRecovering(ctx context.Context, o *options, workers int) (_ *recovering, err error) {
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Script: []byte(streaming), Workers: workers, Keep: o.keep}, 1)
	if err != nil {
		return nil, err
	}
	r := &recovering{fleet: f}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(context.WithoutCancel(ctx)))
		}
	}()
	ws, err := f.workers()
	if err != nil {
		return nil, err
	}
	var apis []string
	for _, w := range ws {
		apis = append(apis, w.API)
	}
	for i := range recoverers {
		id, seed := fmt.Sprintf("stream-%d", i+1), fmt.Sprintf("bench-%d", i+1)
		if err := f.lab.ImportSeed(ctx, seed); err != nil {
			return nil, err
		}
		if err := f.start(ctx, id, session.Options{Host: "web-1", Seed: seed}, "talk"); err != nil {
			return nil, err
		}
		r.ids = append(r.ids, id)
		v, err := f.watch(ctx, id, apis)
		if err != nil {
			return nil, err
		}
		r.viewers = append(r.viewers, v)
	}
	return r, r.flowing(ctx, time.Now())
}

// flowing waits until every session has received text later than t and keeps
// receiving.
func (r *recovering) flowing(ctx context.Context, t time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for i, v := range r.viewers {
		err := v.await(ctx, "text of "+r.ids[i], func() bool {
			at := v.after(t)
			return !at.IsZero() && !v.after(at.Add(time.Second)).IsZero()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// gaps returns how long after t text came again, in each session.
func (r *recovering) gaps(t time.Time) (s series) {
	for _, v := range r.viewers {
		v.mu.Lock()
		s = append(s, v.after(t.Add(underway)).Sub(t))
		v.at = nil
		v.mu.Unlock()
	}
	return s
}

func (r *recovering) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := r.close(ctx, r.ids)
	for _, v := range r.viewers {
		v.Close()
	}
	return errors.Join(err, r.fleet.Close())
}

// measureKill kills with -9 the only worker, which the supervisor must replace,
// and one of two, from which the other takes over.
func measureKill(ctx context.Context, o *options) error {
	return signalEach(ctx, o, syscall.SIGKILL, "kill -9 of", 4*time.Second)
}

// measureStop does the same with SIGTERM.
func measureStop(ctx context.Context, o *options) error {
	return signalEach(ctx, o, syscall.SIGTERM, "SIGTERM to", 2*time.Second)
}

func signalEach(ctx context.Context, o *options, sig syscall.Signal, what string, goal time.Duration) error {
	for i, whom := range []string{"the only worker", "one of two workers"} {
		if err := signalWorkers(ctx, o, i+1, sig, what+" "+whom, goal); err != nil {
			return err
		}
	}
	return nil
}

// apart is the time between two deaths: the supervisor delays the restart of a
// process that dies five times in half a minute.
const apart = 8 * time.Second

func signalWorkers(ctx context.Context, o *options, workers int, sig syscall.Signal, what string, goal time.Duration) (err error) {
	r, err := startRecovering(ctx, o, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(context.WithoutCancel(ctx))) }()
	var all series
	for i := range o.kills {
		ws, err := r.workers()
		if err != nil {
			return err
		}
		victim := ws[i%len(ws)].PID
		t := time.Now()
		if err := syscall.Kill(victim, sig); err != nil {
			return fmt.Errorf("signal worker %d: %w", victim, err)
		}
		if err := r.flowing(ctx, t.Add(underway)); err != nil {
			return err
		}
		all = append(all, r.gaps(t)...)
		if err := r.lab.AwaitSuccessor(ctx, workers, victim); err != nil {
			return err
		}
		select {
		case <-time.After(time.Until(t.Add(apart))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	all.against(what+", until text flows again", goal)
	return nil
}
