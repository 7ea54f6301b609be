package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// A row is a fault at one step of something that sessions do besides their
// turns. It creates all that it needs, and judges it.
type row struct {
	fault, step string
	short       bool // also in the short form
	try         func(context.Context, *rowRun)
}

// A kind is a set of rows with the same columns.
type kind struct {
	name  string // as in -only
	title string // of its table
	// counts are the columns: what must not happen. The last is always wrong.
	counts []string
	rows   []row
	after  func(context.Context, *stage) error // judges the whole stage at the end
}

// wrong counts whatever has no column of its own.
const wrong = "wrong"

type rowRun struct {
	*stage
	rng *rand.Rand
	id  string // of what it creates: a session, a seed
	res rowResult
	// traces tell what happened, if something went wrong.
	traces []func() []string
}

type rowResult struct {
	fault, step string
	nth         int
	took        bool // the fault struck in that step, and the run finished
	tries       int  // needed to strike there; 0: one was certain to
	found       map[string][]string
}

func (r *rowResult) clean() bool {
	for _, words := range r.found {
		if len(words) > 0 {
			return false
		}
	}
	return r.took
}

func (r *rowResult) find(count, format string, args ...any) {
	if r.found == nil {
		r.found = map[string][]string{}
	}
	r.found[count] = append(r.found[count], fmt.Sprintf(format, args...))
}

func (r *rowResult) must(what string, err error) {
	if err != nil {
		r.find(wrong, "%s: %v", what, err)
	}
}

// tryRows runs the rows of a kind, in an order that the seed decides, and
// prints their table.
func tryRows(ctx context.Context, o options, k *kind) (err error) {
	if o.repo, err = o.repository(); err != nil {
		return err
	}
	s, err := newStage(ctx, o, 1, (&writer{w: o.out}).printf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	began := time.Now()
	var results []rowResult
	for nth := range o.times() {
		for _, i := range random(o.seed, k.name, nth).Perm(len(k.rows)) {
			if ctx.Err() != nil || !o.wants(k, k.rows[i], nth) {
				continue
			}
			if one := s.row(ctx, o, k, k.rows[i], nth); ctx.Err() == nil {
				results = append(results, one)
			}
		}
	}
	table := k.table(results)
	summary := fmt.Sprintf("seed %d, %d runs in %s", o.seed, len(results), time.Since(began).Round(time.Second))
	fmt.Fprintf(o.out, "\n%s\n%s: %s\n", plainTable(table), k.name, summary)
	if err := o.append(fmt.Sprintf("\n%s: %s (`%s`):\n\n%s", k.title, summary, o.command(), markdownTable(table))); err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), k.after(ctx, s)); err != nil {
		return err
	}
	if len(results) == 0 || slices.ContainsFunc(results, func(r rowResult) bool { return !r.clean() }) {
		return errNotClean
	}
	return nil
}

// times returns how often each row runs: once for every 200 runs, at least
// once.
func (o options) times() int {
	if o.short {
		return 1
	}
	return max(1, o.runs/200)
}

func (o options) wants(k *kind, r row, nth int) bool {
	return (!o.short || r.short) &&
		(o.only == "" || strings.EqualFold(o.only, k.name) || strings.EqualFold(o.only, k.name+": "+r.fault)) &&
		(o.moment == "" || strings.EqualFold(o.moment, r.step)) &&
		(o.nth < 0 || o.nth == nth)
}

func (k *kind) names(only string) bool {
	name, _, _ := strings.Cut(only, ":")
	return strings.EqualFold(name, k.name)
}

func (o options) append(text string) error {
	if o.markdown == "" {
		return nil
	}
	f, err := os.OpenFile(o.markdown, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// row runs one row.
func (s *stage) row(ctx context.Context, o options, k *kind, row row, nth int) rowResult {
	rng := random(o.seed, k.name, row.fault, row.step, nth)
	r := &rowRun{stage: s, rng: rng, id: fmt.Sprintf("%c%08x-%d", k.name[0], rng.Uint32(), nth)}
	r.res = rowResult{fault: row.fault, step: row.step, nth: nth}
	began := time.Now()
	row.try(ctx, r)
	r.report(o, k, time.Since(began))
	return r.res
}

func (r *rowRun) report(o options, k *kind, took time.Duration) {
	var b strings.Builder
	verdict := "ok"
	if !r.res.clean() {
		verdict = "FAILED"
		for _, count := range k.counts {
			for _, words := range r.res.found[count] {
				fmt.Fprintf(&b, "\n    %s: %.1500s", count, words)
			}
		}
		fmt.Fprintf(&b, "\n    again: go run ./internal/lab/faults -seed %d -only %q -moment %q -runs %d -nth %d", o.seed, k.name+": "+r.res.fault, r.res.step, 200*(r.res.nth+1), r.res.nth)
		for _, trace := range r.traces {
			for _, line := range trace() {
				b.WriteString("\n      " + line)
			}
		}
	}
	if r.res.tries > 1 {
		verdict += fmt.Sprintf(" at try %d", r.res.tries)
	}
	r.say("%s %s: %-32s %-8s %s, %s%s", time.Now().UTC().Format("15:04:05"), k.name, r.res.fault, r.res.step, verdict, took.Round(100*time.Millisecond), b.String())
}

func (k *kind) table(results []rowResult) [][]string {
	out := [][]string{append([]string{"fault", "step", "runs"}, k.counts...)}
	line := func(fault, step string, of func(rowResult) bool) {
		tried, took, found := 0, 0, map[string]int{}
		for _, r := range results {
			if !of(r) {
				continue
			}
			tried++
			if r.took {
				took++
			}
			for count, words := range r.found {
				found[count] += len(words)
			}
		}
		if tried == 0 {
			return
		}
		cells := []string{fault, step, fmt.Sprint(took)}
		if took != tried {
			cells[2] = fmt.Sprintf("%d of %d", took, tried)
		}
		for _, count := range k.counts {
			cells = append(cells, fmt.Sprint(found[count]))
		}
		out = append(out, cells)
	}
	for _, r := range k.rows {
		line(r.fault, r.step, func(x rowResult) bool { return x.fault == r.fault && x.step == r.step })
	}
	line("all", "", func(rowResult) bool { return true })
	return out
}
