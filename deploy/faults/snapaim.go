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
)

// A trouble is what strikes. It aims first, since a step may be short; strike
// returns when it is over.
type trouble func(ctx context.Context, s *snapRun) (strike func() error, err error)

// errOver: there was nothing left that a trouble could have disturbed.
var errOver = errors.New("it came too late to disturb anything")

// struckBy is a fault that strikes the session's host, or the whole stack.
func struckBy(f *fault) trouble {
	return func(ctx context.Context, s *snapRun) (func() error, error) {
		w := &struckWave{stage: s.stage, host: s.run.host, runs: []*run{s.run}, rng: s.rng, struck: func() {}}
		return func() error { return f.strike(ctx, w) }, nil
	}
}

// workerDies has the worker killed the moment that is asked for.
func workerDies(ctx context.Context, s *snapRun) (func() error, error) {
	pids, err := s.workerPIDs(ctx)
	return func() error { return killAll(pids, syscall.SIGKILL) }, err
}

// connectionsDie has those between worker and host reset.
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

// awayDir is where the store is while nobody finds it.
func (s *stage) awayDir() string { return s.storeDir() + ".away" }

// outage is how long a store is in trouble.
const outage = 10 * time.Second

func storeIsAway(ctx context.Context, s *snapRun) (func() error, error) {
	return func() error {
		restore, err := s.storeGone()
		if err != nil {
			return err
		}
		sleep(ctx, outage)
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
		sleep(ctx, outage)
		s.stillThere()
		return restore()
	}, nil
}

// storeIsSlow has each write take a second or two for a while, or each read of
// a part of the store.
func storeIsSlow(part string) trouble {
	return func(ctx context.Context, s *snapRun) (func() error, error) {
		by := time.Second + time.Duration(s.rng.Int64N(int64(time.Second)))
		return func() error {
			slow, err := slowDown(s.storeDir(), cmp.Or(part, writing), by)
			if err != nil {
				return err
			}
			sleep(ctx, outage)
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
	// within says whether it is in that step yet; asked as late as can be.
	within func() bool
	last   time.Duration // before the strike, at random
}

// struck strikes in a step; not, if the session was quicker than we. Then
// what strikes has struck all the same, behind the step.
func (s *snapRun) struck(ctx context.Context, at step) (hit bool, err error) {
	s.run.pause(ctx, at.last)
	hit = at.within()
	s.run.logf("the fault strikes: %s (in its step: %v)", s.res.fault, hit)
	err = at.strike()
	if errors.Is(err, errOver) {
		hit, err = false, nil
	}
	err = errors.Join(err, s.healthy(ctx))
	s.run.logf("it is over (it took place: %v)", hit)
	return hit, err
}

// tries bounds how often a session is brought to a step that it was quicker
// through than we.
const tries = 8

// untilStruck has a session come to a step, be struck there and go on, until
// it was struck within that step.
func (s *snapRun) untilStruck(ctx context.Context, to func(context.Context) (hit bool, err error)) error {
	for try := range tries {
		s.res.tries = try + 1
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
