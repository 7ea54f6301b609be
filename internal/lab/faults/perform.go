package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// together is how many waves that strike only hosts run at the same time.
const together = 2

func perform(ctx context.Context, o options, waves []wave) (results []*scenario.Result, err error) {
	out := scenario.Printer(o.out)
	for len(waves) > 0 && ctx.Err() == nil {
		n := waves[0].fault.workers()
		var here []wave
		for len(waves) > 0 && waves[0].fault.workers() == n {
			here = append(here, waves[0])
			waves = waves[1:]
		}
		some, err := performOn(ctx, o, out, n, here)
		results = append(results, some...)
		if err != nil {
			return results, err
		}
	}
	return results, ctx.Err()
}

func performOn(ctx context.Context, o options, out func(string, ...any), workers int, waves []wave) (results []*scenario.Result, err error) {
	s, err := newStage(ctx, o, workers, out)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var mu sync.Mutex
	one := func(w wave, host string) error {
		some, err := s.wave(ctx, o, w, host)
		mu.Lock()
		defer mu.Unlock()
		results = append(results, some...)
		return err
	}
	// A wave that strikes the stack runs alone; waves that strike hosts run
	// together.
	for len(waves) > 0 && ctx.Err() == nil {
		if waves[0].fault.whole {
			if err := one(waves[0], "h1"); err != nil {
				return results, err
			}
			waves = waves[1:]
			continue
		}
		var g errgroup.Group
		for n := 1; n <= together && len(waves) > 0 && !waves[0].fault.whole; n++ {
			w := waves[0]
			waves = waves[1:]
			g.Go(func() error { return one(w, fmt.Sprintf("h%d", n)) })
		}
		if err := g.Wait(); err != nil {
			return results, err
		}
	}
	return results, nil
}

func each(runs []*run, do func(*run) error) error {
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() { errs[i] = do(r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// atATime bounds concurrent starts and closes, because they cost processor
// time.
const atATime = 4

func (s *stage) wave(ctx context.Context, o options, w wave, hostName string) ([]*scenario.Result, error) {
	if w.fault.small {
		hostName += "-small"
	}
	h, err := s.host(ctx, hostName)
	if err != nil {
		return nil, err
	}
	if err := s.healthy(ctx); err != nil {
		return nil, err
	}
	struck, over := make(chan struct{}), make(chan struct{})
	runs := make([]*run, len(w.moments))
	results := make([]*scenario.Result, len(runs))
	for i, m := range w.moments {
		rng := scenario.Random(o.seed, w.fault.name, m.name, w.nth)
		id := fmt.Sprintf("r%08x-%d", rng.Uint32(), w.nth)
		runs[i] = &run{stage: s, host: h, fault: w.fault, moment: m, nth: w.nth, id: id, rng: rng, struck: struck, over: over}
		if m.spread > 0 {
			runs[i].lead = time.Duration(rng.Int64N(int64(m.spread)))
		}
		results[i] = &scenario.Result{Subject: w.fault.name, Moment: m.name, Nth: w.nth, ID: id}
	}
	began := time.Now()
	ready := s.bring(ctx, runs, results)
	strikeErr := s.strike(ctx, o, w, h, ready, results, struck, over)
	healthErr := s.healthy(ctx)
	s.conclude(ctx, ready, results, runs)
	for i := range results {
		if strikeErr != nil {
			results[i].Find(wrong, "the fault did not strike as it should: %v", strikeErr)
		}
		if healthErr != nil {
			results[i].Find(leftOver, "%v", healthErr)
		}
	}
	s.sweep(ctx, h, results)
	s.report(o, w, runs, results, time.Since(began))
	return results, ctx.Err()
}

// bring brings the sessions to their moments and returns those that are there.
func (s *stage) bring(ctx context.Context, runs []*run, results []*scenario.Result) []*run {
	var g errgroup.Group
	g.SetLimit(atATime)
	ok := make([]bool, len(runs))
	for i, r := range runs {
		g.Go(func() error {
			if err := r.moment.before(ctx, r); err != nil {
				r.logf("%v", err)
				results[i].Find(wrong, "before the fault: %v", err)
				return nil
			}
			if d, err := s.detail(ctx, r.id); err == nil {
				r.thread = d.View.ThreadID
				if d.View.Process != nil {
					r.process = d.View.Process.Incarnation
				}
			}
			ok[i] = true
			return nil
		})
	}
	_ = g.Wait() // errors are in the results
	var ready []*run
	for i, r := range runs {
		if ok[i] {
			ready = append(ready, r)
		}
	}
	return ready
}

func resultOf(r *run, results []*scenario.Result) *scenario.Result {
	for _, res := range results {
		if res.ID == r.id {
			return res
		}
	}
	panic("a run has a result")
}

// strike starts the acts, each its lead before the fault, and then the fault.
// It returns when the fault is over and every turn has ended.
func (s *stage) strike(ctx context.Context, o options, w wave, h *host, runs []*run, results []*scenario.Result, struck, over chan struct{}) error {
	var longest time.Duration
	for _, r := range runs {
		longest = max(longest, r.lead)
		if r.moment.name == "written, not acknowledged" {
			// This moment needs no timing: the act is done before the fault may
			// strike.
			if err := r.moment.act(ctx, r); err != nil {
				r.failed(results, "before the fault: "+err.Error())
				r.signalCodexCont()
			}
		}
	}
	if err := s.hold(ctx, runs, results); err != nil {
		for _, r := range runs {
			r.failed(results, "before the fault: "+err.Error())
		}
	}
	at := time.Now().Add(longest)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = each(runs, func(r *run) error {
			if err := r.goThrough(ctx, at); err != nil {
				r.failed(results, err.Error())
			} else {
				resultOf(r, results).Took = true
			}
			return nil
		})
	}()
	scenario.Sleep(ctx, time.Until(at))
	var once sync.Once
	sw := &struckWave{stage: s, host: h, runs: runs, rng: scenario.Random(o.seed, w.fault.name, "fault", w.nth), done: done}
	sw.struck = func() {
		once.Do(func() {
			now := time.Now()
			for _, r := range runs {
				r.mu.Lock()
				r.began = now
				r.mu.Unlock()
				r.logf("the fault strikes: %s", w.fault.name)
			}
			close(struck)
		})
	}
	err := w.fault.strike(ctx, sw)
	sw.struck() // in any case, so that nobody waits for it any more
	close(over)
	<-done
	return err
}

func (r *run) failed(results []*scenario.Result, what string) {
	r.logf("%s", what)
	r.mu.Lock()
	defer r.mu.Unlock()
	res := resultOf(r, results)
	res.Find(wrong, "%s", what)
}

// goThrough runs one run's act before or after the strike and waits for its
// turn.
func (r *run) goThrough(ctx context.Context, at time.Time) error {
	scenario.Sleep(ctx, time.Until(at.Add(-r.lead)))
	if r.moment.act != nil && r.moment.name != "written, not acknowledged" {
		if r.fault.ends && r.lead == 0 {
			<-r.struck
		}
		if err := r.moment.act(ctx, r); err != nil {
			return err
		}
	}
	if r.fault.spares {
		return r.afterTrouble(ctx)
	}
	if r.fault.ends {
		return r.afterEnd(ctx)
	}
	err := r.moment.after(ctx, r)
	<-r.struck
	return err
}

func (s *stage) conclude(ctx context.Context, ready []*run, results []*scenario.Result, all []*run) {
	var g errgroup.Group
	g.SetLimit(atATime)
	for _, r := range all {
		g.Go(func() error {
			res := resultOf(r, results)
			if res.Took {
				for _, late := range r.late {
					res.Find(answerRepeated, "%s", late)
				}
				res.Recovered = r.flow
				if err := r.judge(ctx, res); err != nil {
					res.Find(wrong, "judge: %v", err)
				}
			}
			if !res.Clean() {
				r.keep(ctx)
			}
			if err := r.leave(ctx, res); err != nil {
				res.Find(leftOver, "%v", err)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in the results
}

// sweep looks for what the wave as a whole may have left behind.
func (s *stage) sweep(ctx context.Context, h *host, results []*scenario.Result) {
	var left []string
	var host struct {
		Used    int      `json:"used"`
		Holders []string `json:"holders"`
	}
	err := again(ctx, "the slots of "+h.name+" to be free", func(ctx context.Context) error {
		if err := s.JSON(ctx, &host, "host", "show", h.name); err != nil {
			return err
		}
		if host.Used > 0 {
			return fmt.Errorf("%d are held by %v", host.Used, host.Holders)
		}
		return nil
	})
	if err != nil {
		left = append(left, err.Error())
	}
	// Only a session's epoch stays, for a month, so that no former holder can
	// bring the session back.
	if dirs := foldersOn(h); len(dirs) > 0 {
		left = append(left, fmt.Sprintf("on the host there are %v", dirs))
	}
	if rules, err := rulesLeft(h.port); err != nil || rules != "" {
		left = append(left, fmt.Sprintf("rules of the kernel's are in force: %s (%v)", rules, err))
	}
	for _, what := range left {
		results[0].Find(leftOver, "%s", what)
	}
}

// report prints the outcome of a wave and, for each failed run, all that is
// known and the command that repeats it.
func (s *stage) report(o options, w wave, runs []*run, results []*scenario.Result, took time.Duration) {
	bad := 0
	var b strings.Builder
	for i, res := range results {
		if res.Clean() {
			continue
		}
		bad++
		fmt.Fprintf(&b, "\n  FAILED %s, %s (session %s)", res.Subject, res.Moment, res.ID)
		command := fmt.Sprintf("go run ./internal/lab/faults -seed %d -only %q -moment %q -nth %d -runs 1", o.seed, res.Subject, res.Moment, res.Nth)
		b.WriteString(res.Report(sessionFindings, command, runs[i].trace))
		if runs[i].kept != "" {
			fmt.Fprintf(&b, "\n    kept in %s", runs[i].kept)
		}
	}
	s.say("%s %-30s %2d runs, %d failed, %s%s", time.Now().UTC().Format("15:04:05"), w.fault.name, len(results), bad, took.Round(100*time.Millisecond), b.String())
}

// keep saves what a failed run left, for people to look at.
func (r *run) keep(ctx context.Context) {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-faults-"+r.id+"-")
	if err != nil {
		r.logf("nothing could be kept: %v", err)
		return
	}
	r.kept = dir
	journals, _ := r.readJournals() // as far as they exist
	for n, data := range journals {
		_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("out.%d.log", n)), data, 0o600)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	got := r.Ctl(ctx, nil, "transcript", r.id, "-o", "json")
	_ = os.WriteFile(filepath.Join(dir, "transcript.jsonl"), []byte(got.Stdout+got.Stderr), 0o600)
	if d, err := r.detail(ctx, r.id); err == nil {
		text, _ := json.MarshalIndent(d, "", "  ")
		_ = os.WriteFile(filepath.Join(dir, "detail.json"), text, 0o600)
	}
	for _, name := range []string{"worker.log", "worker-2.log", "supervisor.log"} {
		if data, err := os.ReadFile(filepath.Join(r.State, "logs", name)); err == nil {
			_ = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
	}
}
