package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// A stormWave is a set of sessions, each just before a phase, that one storm
// strikes.
type stormWave struct {
	*stage
	bastion *host
	a, b    *host // where sessions are, and where they move to
	one     *host // with a single slot
	fresh   *host // without codex
	runs    []*stormRun
	rng     *rand.Rand
	long    time.Duration // duration of a storm that strikes once
	struck  time.Time     // time of the last strike
}

func (w *stormWave) hosts() []*host { return []*host{w.a, w.b, w.one, w.fresh} }

func (w *stormWave) plan(n int) {
	for _, r := range w.runs {
		r.res.planned = n
	}
}

// each calls do for all sessions concurrently and records errors.
func (w *stormWave) each(do func(*stormRun) error) {
	var wg sync.WaitGroup
	for _, r := range w.runs {
		wg.Go(func() {
			if !r.failed() {
				r.must(do(r))
			}
		})
	}
	wg.Wait()
}

// A stormRun is one session of a storm, with the sessions that it begins
// itself.
type stormRun struct {
	*stormWave
	phase   *phase
	id      string // of its session
	other   string // the session that it begins: a fork, or a schedule's
	host    *host
	res     *stormResult
	words   []string // that its commands must leave, each once
	turns   int      // number that were requested
	last    seenAt   // as of the last look
	attempt int32    // highest attempt number that was seen

	mu    sync.Mutex
	bad   bool
	trace []string
}

// seenAt is where a session is, relative to its phase.
type seenAt int

const (
	before  seenAt = iota
	inside         // an attempt is under way that was not struck yet
	between        // the next attempt has not begun
	behind
)

func (r *stormRun) logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = append(r.trace, time.Now().UTC().Format("15:04:05.000 ")+r.id+" "+fmt.Sprintf(format, args...))
}

func (r *stormRun) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.trace)
}

func (r *stormRun) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

var resMu sync.Mutex

func (r *stormRun) find(count, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.logf("%s: %s", count, text)
	r.mu.Lock()
	r.bad = true
	r.mu.Unlock()
	resMu.Lock()
	defer resMu.Unlock()
	r.res.Find(count, "%s: %s", r.id, text)
}

// An ill is an error with its own column.
type ill struct {
	count string
	error
}

func (r *stormRun) must(err error) {
	var known ill
	switch {
	case err == nil:
	case errors.As(err, &known):
		r.find(known.count, "%v", err)
	default:
		r.find(wrong, "%v", err)
	}
}

// watched returns the id of the session that is in the phase.
func (r *stormRun) watched() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.other != "" {
		return r.other
	}
	return r.id
}

func (r *stormRun) began(other string) {
	r.logf("began %s", other)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.other = other
}

// look updates where the session is, and whether an attempt began since the
// last strike. If nobody answers, nothing changes.
func (r *stormRun) look(ctx context.Context, since time.Time) {
	if r.failed() {
		r.last = behind
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	id := r.watched()
	d, err := r.temporal.DescribeWorkflowExecution(ctx, protocol.SessionID(id), "")
	if err != nil {
		return
	}
	tried := false
	for _, a := range d.GetPendingActivities() {
		r.attempt = max(r.attempt, a.GetAttempt())
		tried = tried || a.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED && a.GetLastStartedTime().AsTime().After(since)
	}
	was, in := r.last, r.last != before && r.last != behind
	if v, err := r.detail(ctx, id); err == nil {
		in = r.phase.in(r, v.View)
		if in != (was == inside || was == between) {
			r.logf("seen: it is %s, waits for %q, attempt %d", v.View.State, v.View.Waits, r.attempt)
		}
	}
	switch {
	case in && (tried || r.phase.still || r.phase.name == "leasing"):
		r.last = inside
	case in:
		r.last = between
	case was != before:
		r.last = behind
	}
}

// runs returns a message that makes a command leave a word.
func (r *stormRun) runs(word string) string { return "run " + r.leaves(word) }

// leaves returns a command that leaves a word, which must be there once at the
// end.
func (r *stormRun) leaves(word string) string {
	r.words = append(r.words, word)
	return fmt.Sprintf("echo %s >>%s", word, r.effects())
}

func (r *stormRun) effects() string { return filepath.Join(r.Dir, "effects", r.id) }

func (r *stormRun) start(ctx context.Context, opt session.Options, first string) error {
	opt.Seed, opt.By = "team", "faults"
	if opt.Sandbox == "" {
		opt.Sandbox, opt.ApprovalPolicy = "danger-full-access", "never"
	}
	if err := os.MkdirAll(filepath.Dir(r.effects()), 0o777); err != nil {
		return err
	}
	r.turns = 1
	in := session.Input{ID: r.id, Options: opt, First: &protocol.Message{ID: r.id + "-m1", Text: first, By: "faults"}}
	return again(ctx, "start "+r.id, func(ctx context.Context) error { return r.begin(ctx, in) })
}

func (r *stormRun) say1(ctx context.Context, id string, n int, text string) error {
	r.logf("message %d to %s: %s", n, id, text)
	return r.signal(ctx, id, protocol.SignalMessage, protocol.Message{ID: fmt.Sprintf("%s-m%d", id, n), Text: text, By: "faults"})
}

func (r *stormRun) says(ctx context.Context, text string) error {
	r.turns++
	if err := r.say1(ctx, r.id, r.turns, text); err != nil {
		return err
	}
	return r.completes(ctx, r.id, r.turns)
}

// A phase is a part of a session's life that is struck again and again.
type phase struct {
	name string
	// before brings the session to just before the phase; act makes it enter.
	before, act func(context.Context, *stormRun) error
	in          func(*stormRun, protocol.SessionView) bool
	still       bool // it lasts until the storm is over, and is struck whenever another phase is
	// after does what a person does when the storm is over, and waits for what
	// the phase must lead to.
	after func(context.Context, *stormRun) error
}

func is(states ...protocol.SessionStatus) func(*stormRun, protocol.SessionView) bool {
	return func(_ *stormRun, v protocol.SessionView) bool { return slices.Contains(states, v.State) }
}

func isNot(states ...protocol.SessionStatus) func(*stormRun, protocol.SessionView) bool {
	return func(_ *stormRun, v protocol.SessionView) bool { return !slices.Contains(states, v.State) }
}

var over = []protocol.SessionStatus{protocol.Closed, protocol.Failed}

var stormPhases = []*phase{
	{name: "queued", before: slotTaken, act: starts(func(w *stormWave) *host { return w.one }), in: is(protocol.Queued), still: true, after: slotFreed},
	{name: "leasing", before: doNothingYet, act: starts(func(w *stormWave) *host { return w.a }),
		in: func(_ *stormRun, v protocol.SessionView) bool { return v.Host == "" }, after: turnEnds(1)},
	{name: "preparing", before: doNothingYet, act: starts(func(w *stormWave) *host { return w.fresh }), in: is(protocol.Queued, protocol.Preparing), after: turnEnds(1)},
	{name: "starting codex", before: doNothingYet, act: starts(func(w *stormWave) *host { return w.a }), in: is(protocol.Starting), after: turnEnds(1)},
	{name: "running a turn", before: hasTurn, act: runsLong, in: is(protocol.Running), still: true, after: longEnds},
	{name: "waiting for an approval", before: hasTurn, act: asksPerson, in: is(protocol.Waiting), still: true, after: personDecides},
	{name: "parking", before: hasTurn, act: isToPark, in: isNot(protocol.Parked), after: parkedAndBack},
	{name: "resuming", before: isParked, act: isToResume, in: isNot(protocol.Parked, protocol.Idle), after: turnEnds(2)},
	{name: "moving", before: hasTurn, act: isToMove, in: isNot(protocol.Idle), after: movedThere},
	{name: "forking", before: hasTurn, act: forks, in: isNot(protocol.Idle), after: otherGoesOn},
	{name: "restoring", before: isParked, act: restores, in: isNot(protocol.Idle), after: otherGoesOn},
	{name: "closing", before: hasTurn, act: isToClose, in: isNot(over...), after: doNothingYet},
	{name: "batch item", before: doNothingYet, act: startsBatch, in: isNot(over...), after: batchEnds},
	{name: "schedule firing", before: hasSchedule, act: firesSchedule, in: isNot(over...), after: firedEnds},
}

// atOnce is how many storms run at the same time, each on its own stack.
const atOnce = 5

// tryPhases runs the storms on sessions that are each in a phase.
func tryPhases(ctx context.Context, o options, say func(string, ...any)) (results []stormResult, err error) {
	var waves [][]stormOn // of each storm
	for _, st := range storms {
		var phases []*phase
		for _, p := range stormPhases {
			if o.wantsStorm(st.name, p.name) {
				phases = append(phases, p)
			}
		}
		var mine []stormOn
		for some := range slices.Chunk(phases, cmp.Or(st.together, max(1, len(phases)))) {
			mine = append(mine, stormOn{st, some})
		}
		if len(mine) > 0 {
			waves = append(waves, mine)
		}
	}
	if len(waves) == 0 {
		return nil, nil
	}
	o.script = stormScript
	o.codex, err = packStandin(ctx, o, 48<<20)
	defer os.RemoveAll(o.codex)
	if err != nil {
		return nil, err
	}
	all, errs := make([][]stormResult, len(waves)), make([]error, len(waves))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, mine := range waves {
		g.Go(func() error {
			all[i], errs[i] = rage(ctx, o, say, mine)
			return nil
		})
	}
	_ = g.Wait() // errors are in errs
	return slices.Concat(all...), errors.Join(append(errs, ctx.Err())...)
}

func rage(ctx context.Context, o options, say func(string, ...any), waves []stormOn) (results []stormResult, err error) {
	s, err := newStage(ctx, o, 1, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f, err := s.stormHosts(ctx)
	if err != nil {
		return nil, err
	}
	for n, w := range waves {
		if ctx.Err() != nil {
			break
		}
		some, err := s.phaseWave(ctx, o, f, w, n)
		results = append(results, some...)
		if err != nil {
			return results, err
		}
	}
	return results, ctx.Err()
}

// stormOn is a storm and the phases that it strikes together.
type stormOn struct {
	*storm
	phases []*phase
}

func (s *stage) stormHosts(ctx context.Context) (f stormWave, err error) {
	f.stage = s
	if f.bastion, err = s.bareHost(ctx, "bastion", hostWants{slots: 1}); err != nil {
		return f, err
	}
	// No session may run on the bastion: not even if its host is away.
	if _, err = s.Out(ctx, "host", "cordon", "bastion"); err != nil {
		return f, err
	}
	codex := filepath.Join(s.Dir, "codex")
	for _, h := range []struct {
		name string
		slot int
		at   **host
	}{{"a", 64, &f.a}, {"b", 64, &f.b}, {"one", 1, &f.one}} {
		if *h.at, err = s.bareHost(ctx, h.name, hostWants{slots: h.slot, jump: "bastion", codex: codex}); err != nil {
			return f, err
		}
		if _, err := s.Out(ctx, "host", "provision", h.name); err != nil {
			return f, err
		}
	}
	return f, nil
}

// phaseWave brings a session to each phase, lets the storm strike, and judges
// the outcome.
func (s *stage) phaseWave(ctx context.Context, o options, f stormWave, on stormOn, nth int) ([]stormResult, error) {
	began := time.Now()
	w := f
	w.long, w.rng = away, scenario.Random(o.seed, on.name, nth)
	var err error
	if w.fresh, err = s.bareHost(ctx, fmt.Sprintf("fresh-%d", nth), hostWants{slots: 64, jump: "bastion"}); err != nil {
		return nil, err
	}
	results := make([]stormResult, len(on.phases))
	for i, p := range on.phases {
		results[i] = stormResult{Result: scenario.Result{Subject: on.name, Moment: p.name}, sessions: 1}
		w.runs = append(w.runs, &stormRun{stormWave: &w, phase: p, id: fmt.Sprintf("s%08x-%d", w.rng.Uint32(), i), host: w.a, res: &results[i]})
	}
	w.each(func(r *stormRun) error {
		if err := r.phase.before(ctx, r); err != nil {
			return fmt.Errorf("before the storm: %w", err)
		}
		return nil
	})
	acts := make(chan struct{})
	go func() {
		defer close(acts)
		w.each(func(r *stormRun) error { return r.phase.act(ctx, r) })
	}()
	strikeErr := on.strike(ctx, &w)
	<-acts
	healthErr := s.healthy(ctx)
	calm := time.Now()
	w.each(func(r *stormRun) error {
		r.must(strikeErr)
		r.must(healthErr)
		if err := r.phase.after(ctx, r); err != nil {
			return err
		}
		resMu.Lock()
		defer resMu.Unlock()
		r.res.Took, r.res.Recovered = true, time.Since(calm)
		return nil
	})
	w.conclude(ctx, w.hosts())
	for _, r := range w.runs {
		traces := r.told()
		if !r.res.clean() {
			traces = append(traces, "kept in "+s.keepLogs(ctx))
		}
		sayStorm(o, s.say, r.res, time.Since(began), traces)
	}
	return results, ctx.Err()
}
