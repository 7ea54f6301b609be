package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

// childrenOf returns the stack's processes that run a program, with their start
// times. It asks no other process, because the stack may not answer.
func (s *stage) childrenOf(program string) map[int]string {
	out := map[int]string{}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		exe, _ := os.Readlink(p + "/exe")
		if filepath.Base(exe) != program {
			continue
		}
		cmd, _ := os.ReadFile(p + "/cmdline") // a process that has just exited has none
		if _, started, ok := stat(p); ok && bytes.Contains(cmd, []byte(s.State+"/")) {
			if pid, err := strconv.Atoi(filepath.Base(p)); err == nil {
				out[pid] = started
			}
		}
	}
	return out
}

// killChildren waits until by for processes of the stack that run a program,
// kills them, and reports whether there were any.
func (s *stage) killChildren(ctx context.Context, program string, by time.Time) bool {
	for ctx.Err() == nil {
		struck := false
		for pid := range s.childrenOf(program) {
			struck = syscall.Kill(pid, syscall.SIGKILL) == nil || struck
		}
		if struck {
			return true
		}
		if time.Now().After(by) {
			return false
		}
		scenario.Sleep(ctx, 20*time.Millisecond)
	}
	return false
}

// A planned strike belongs to a storm of several kinds.
type planned struct {
	at   time.Duration // from the start of the storm
	kind string
	how  string // for a wire
	long time.Duration
}

func (p planned) String() string {
	text := fmt.Sprintf("%5.1f s %s", p.at.Seconds(), p.kind)
	if p.how != "" {
		text += ": " + p.how
	}
	return text
}

// The kinds of strikes, and the ways to strike a connection.
var (
	stormKinds = []string{"worker", "wire", "Temporal"}
	wireWays   = []string{"connections reset", "sshd's children killed", "link silent"}
)

// planStorm plans a strike every 2 to 6 s, from the first second on, and each
// kind once before any comes again.
func planStorm(rng *rand.Rand, long time.Duration) (plan []planned) {
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(rng.Int64N(int64(to-from))) }
	var kinds []string
	for at := between(0, time.Second); at < long; at += between(2*time.Second, 6*time.Second) {
		if len(kinds) == 0 {
			for _, i := range rng.Perm(len(stormKinds)) {
				kinds = append(kinds, stormKinds[i])
			}
		}
		p := planned{at: at, kind: kinds[0]}
		kinds = kinds[1:]
		if p.kind == "wire" {
			p.how = wireWays[rng.IntN(len(wireWays))]
			p.long = between(500*time.Millisecond, 3*time.Second)
		}
		plan = append(plan, p)
	}
	return plan
}

// carryOut strikes as planned. A slow restart delays only the next strike of
// its kind. It returns the number of strikes by kind.
func (s *stage) carryOut(ctx context.Context, plan []planned, h *host) (map[string]int, error) {
	began := time.Now()
	var mu sync.Mutex
	struck, errs := map[string]int{}, []error{}
	var strikes []scenario.Strike
	for i, p := range plan {
		// A strike that finds nothing to strike waits until the next of its kind.
		by := began.Add(p.at + 6*time.Second)
		if next := slices.IndexFunc(plan[i+1:], func(q planned) bool { return q.kind == p.kind }); next >= 0 {
			by = began.Add(plan[i+1+next].at)
		}
		strikes = append(strikes, scenario.Strike{
			Target: p.kind,
			Due:    func(ctx context.Context) { scenario.Sleep(ctx, time.Until(began.Add(p.at))) },
			Do: func(ctx context.Context) {
				hit, err := s.strikeOne(ctx, p, h, by)
				mu.Lock()
				defer mu.Unlock()
				if hit {
					struck[p.kind]++
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", p, err))
				}
			},
		})
	}
	scenario.CarryOut(ctx, strikes)
	return struck, errors.Join(errs...)
}

func (s *stage) strikeOne(ctx context.Context, p planned, h *host, by time.Time) (hit bool, err error) {
	switch p.kind {
	case "worker":
		return s.killChildren(ctx, "worker", by), nil
	case "Temporal":
		return s.killChildren(ctx, "devserver", by), nil
	}
	return h.strikeWire(ctx, p, by)
}

// strikeWire waits until by for a connection between the workers and a host,
// and strikes it.
func (h *host) strikeWire(ctx context.Context, p planned, by time.Time) (hit bool, err error) {
	if p.how == wireWays[2] {
		restore, err := hosttest.DropPort(ctx, h.port)
		if err != nil {
			return false, err
		}
		scenario.Sleep(ctx, p.long)
		return true, restore()
	}
	for ctx.Err() == nil {
		n := 0
		if p.how == wireWays[0] {
			n, err = h.sshd.Reset(ctx)
		} else {
			n = h.sshd.KillSessions()
		}
		if n > 0 || time.Now().After(by) {
			return n > 0, nil // a connection that came back in that very moment does not matter
		}
		scenario.Sleep(ctx, 50*time.Millisecond)
	}
	return false, err
}

// untilSeen waits until a session is seen in an attempt at its phase that was
// not struck yet. It also returns when all sessions are past their phases or
// after a while.
func (w *stormWave) untilSeen(ctx context.Context) {
	look := func() (within, left bool) {
		var wg sync.WaitGroup
		for _, r := range w.runs {
			wg.Go(func() { r.look(ctx, w.struck) })
		}
		wg.Wait()
		for _, r := range w.runs {
			within = within || r.last == inside && !r.phase.still
			left = left || r.last != behind && !r.phase.still
		}
		return within, left
	}
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end) && ctx.Err() == nil; scenario.Sleep(ctx, 20*time.Millisecond) {
		within, left := look()
		if within {
			scenario.Sleep(ctx, time.Duration(w.rng.Int64N(int64(100*time.Millisecond))))
			return
		}
		if !left {
			scenario.Sleep(ctx, 4*time.Second) // for phases that last
			look()
			return
		}
	}
}

// count records a strike and, for each session, whether it was in its phase.
func (w *stormWave) count(struck bool) {
	w.struck = time.Now()
	for _, r := range w.runs {
		r.res.attempts = max(r.res.attempts, int(r.attempt))
		if !struck {
			continue
		}
		r.res.struck++
		if r.last == inside {
			r.res.within++
			r.last = between
		}
	}
}

// killAgainAndAgain kills a program of the stack whenever it is back and a
// session is in its phase.
func killAgainAndAgain(program string) func(context.Context, *stormWave) error {
	return func(ctx context.Context, w *stormWave) error {
		w.plan(blows)
		for range blows {
			w.untilSeen(ctx)
			w.count(w.killChildren(ctx, program, time.Now().Add(30*time.Second)))
		}
		return nil
	}
}

// resetAgainAndAgain resets all connections to the hosts whenever a session is
// in its phase.
func resetAgainAndAgain(ctx context.Context, w *stormWave) error {
	w.plan(blows)
	for range blows {
		w.untilSeen(ctx)
		n := 0
		for end := time.Now().Add(20 * time.Second); n == 0 && time.Now().Before(end) && ctx.Err() == nil; scenario.Sleep(ctx, 50*time.Millisecond) {
			for _, h := range append(w.hosts(), w.bastion) {
				n += h.sshd.KillSessions()
			}
		}
		w.count(n > 0)
	}
	return nil
}

// allAgainAndAgain kills worker, Temporal server and connections at the same
// time, whenever they are back and a session is in its phase.
func allAgainAndAgain(ctx context.Context, w *stormWave) error {
	w.plan(blows)
	for range blows {
		w.untilSeen(ctx)
		var wg sync.WaitGroup
		var hit [2]bool
		by := time.Now().Add(30 * time.Second)
		for i, program := range []string{"worker", "devserver"} {
			wg.Go(func() { hit[i] = w.killChildren(ctx, program, by) })
		}
		for _, h := range append(w.hosts(), w.bastion) {
			h.sshd.KillSessions() // missing ones ended with the worker
		}
		wg.Wait()
		w.count(hit[0] && hit[1])
	}
	return nil
}

// lasting strikes once, when the sessions are in their phases, for a long time.
func (w *stormWave) lasting(ctx context.Context, strike func() (restore func() error, err error)) error {
	w.plan(1)
	w.untilSeen(ctx)
	restore, err := strike()
	if err != nil {
		return err
	}
	w.count(true)
	scenario.Sleep(ctx, w.long)
	for _, r := range w.runs {
		r.look(ctx, w.struck)
		r.res.attempts = max(r.res.attempts, int(r.attempt))
	}
	return restore()
}

func hostsAway(ctx context.Context, w *stormWave) error {
	return w.lasting(ctx, func() (func() error, error) {
		back := func() error {
			var errs []error
			for _, h := range w.hosts() {
				errs = append(errs, h.sshd.Start(context.WithoutCancel(ctx)))
			}
			return errors.Join(errs...)
		}
		var errs []error
		for _, h := range w.hosts() {
			errs = append(errs, h.sshd.Stop())
		}
		return back, errors.Join(errs...)
	})
}

func bastionAway(ctx context.Context, w *stormWave) error {
	return w.lasting(ctx, func() (func() error, error) {
		return func() error { return w.bastion.sshd.Start(context.WithoutCancel(ctx)) }, w.bastion.sshd.Stop()
	})
}

func storeAwayForLong(ctx context.Context, w *stormWave) error {
	return w.lasting(ctx, w.storeGone)
}
