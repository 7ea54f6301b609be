package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

// A trouble is something that strikes. It prepares first, because a step may be
// short. strike returns when the trouble is over.
type trouble func(ctx context.Context, s *snapRun) (strike func() error, err error)

// errOver means that there was nothing left that a trouble could have
// disturbed.
var errOver = errors.New("it came too late to disturb anything")

// struckBy returns a fault on the session's host, or on the whole stack, as a
// trouble.
func struckBy(f *fault) trouble {
	return func(ctx context.Context, s *snapRun) (func() error, error) {
		w := &struckWave{stage: s.stage, host: s.run.host, runs: []*run{s.run}, rng: s.rng, struck: func() {}}
		return func() error { return f.strike(ctx, w) }, nil
	}
}

func workerDies(ctx context.Context, s *snapRun) (func() error, error) {
	pids, err := s.workerPIDs(ctx)
	return func() error { return killAll(pids, syscall.SIGKILL) }, err
}

func connectionsDie(ctx context.Context, s *snapRun) (func() error, error) {
	h := s.run.host
	return func() error {
		n, err := h.sshd.Reset(ctx)
		if err == nil && n == 0 {
			err = errOver
		}
		return err
	}, nil
}

func (s *stage) awayDir() string { return s.storeDir() + ".away" }

const outage = 10 * time.Second

func storeIsAway(ctx context.Context, s *snapRun) (func() error, error) {
	return func() error {
		restore, err := s.storeGone()
		if err != nil {
			return err
		}
		scenario.Sleep(ctx, outage)
		s.stillThere()
		return restore()
	}, nil
}

func (s *stage) storeGone() (restore func() error, err error) {
	dir, away := s.storeDir(), s.awayDir()
	return func() error { return errors.Join(os.Remove(dir), os.Rename(away, dir)) },
		errors.Join(os.Rename(dir, away), os.WriteFile(dir, nil, 0o600))
}

func storeIsReadOnly(ctx context.Context, s *snapRun) (func() error, error) {
	return func() error {
		restore, err := hosttest.ReadOnly(ctx, s.storeDir())
		if err != nil {
			return err
		}
		scenario.Sleep(ctx, outage)
		s.stillThere()
		return restore()
	}, nil
}

// storeIsSlow delays each write to the store by a second or two for a while,
// or, if part is not empty, each read of that part.
func storeIsSlow(part string) trouble {
	return func(ctx context.Context, s *snapRun) (func() error, error) {
		by := time.Second + time.Duration(s.rng.Int64N(int64(time.Second)))
		return func() error {
			slow, err := slowDown(s.storeDir(), cmp.Or(part, writing), by)
			if err != nil {
				return err
			}
			scenario.Sleep(ctx, outage)
			n, err := slow.end()
			s.run.logf("%d times it was slow", n)
			if n == 0 {
				return errOver
			}
			return err
		}, nil
	}
}

// A step is where a session is to be struck.
type step struct {
	strike func() error
	// within reports whether the session is still in the step. It is asked as
	// late as possible.
	within func() bool
	last   time.Duration // upper bound of the random pause before the strike
}

// struck strikes in a step. hit is false if the session was faster; the strike
// then came after the step.
func (s *snapRun) struck(ctx context.Context, at step) (hit bool, err error) {
	s.run.pause(ctx, at.last)
	hit = at.within()
	s.run.logf("the fault strikes: %s (in its step: %v)", s.res.Subject, hit)
	err = at.strike()
	if errors.Is(err, errOver) {
		hit, err = false, nil
	}
	err = errors.Join(err, s.healthy(ctx))
	s.run.logf("it is over (it took place: %v)", hit)
	return hit, err
}

// tries bounds how often a session that was faster is brought to a step again.
const tries = 8

// untilStruck repeats to until the session was struck within the step.
func (s *snapRun) untilStruck(ctx context.Context, to func(context.Context) (hit bool, err error)) error {
	for try := range tries {
		s.tries = try + 1
		hit, err := to(ctx)
		if err != nil {
			return err
		}
		if err := s.goesOn(ctx); err != nil || hit {
			return err
		}
	}
	return fmt.Errorf("in %d tries nothing struck within the step", tries)
}
