package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
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

type rowRun struct {
	*stage
	rng   *rand.Rand
	id    string // of what it creates: a session, a seed
	res   scenario.Result
	tries int // needed to strike in that step; 0: one was certain to
	// traces tell what happened, if something went wrong.
	traces []func() []string
}

// tryRows runs the rows of a kind, in an order that the seed decides, and
// prints their table.
func tryRows(ctx context.Context, o options, k *kind) (err error) {
	if o.repo, err = o.repository(); err != nil {
		return err
	}
	s, err := newStage(ctx, o, 1, scenario.Printer(o.out))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	began := time.Now()
	var results []*scenario.Result
	for nth := range o.times() {
		for _, i := range scenario.Random(o.seed, k.name, nth).Perm(len(k.rows)) {
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
	fmt.Fprintf(o.out, "\n%s\n%s: %s\n", table.Plain(), k.name, summary)
	if err := o.append(fmt.Sprintf("\n%s: %s (`%s`):\n\n%s", k.title, summary, o.command(), table.Markdown())); err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), k.after(ctx, s)); err != nil {
		return err
	}
	if !scenario.Clean(results) {
		return scenario.ErrNotClean
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
func (s *stage) row(ctx context.Context, o options, k *kind, row row, nth int) *scenario.Result {
	rng := scenario.Random(o.seed, k.name, row.fault, row.step, nth)
	r := &rowRun{stage: s, rng: rng, id: fmt.Sprintf("%c%08x-%d", k.name[0], rng.Uint32(), nth)}
	r.res = scenario.Result{Subject: row.fault, Moment: row.step, Nth: nth}
	began := time.Now()
	row.try(ctx, r)
	r.report(o, k, time.Since(began))
	return &r.res
}

func (r *rowRun) report(o options, k *kind, took time.Duration) {
	verdict, found := "ok", ""
	if !r.res.Clean() {
		verdict = "FAILED"
		var trace []string
		for _, lines := range r.traces {
			trace = append(trace, lines()...)
		}
		found = r.res.Report(k.counts, fmt.Sprintf("go run ./internal/lab/faults -seed %d -only %q -moment %q -runs %d -nth %d",
			o.seed, k.name+": "+r.res.Subject, r.res.Moment, 200*(r.res.Nth+1), r.res.Nth), trace)
	}
	if r.tries > 1 {
		verdict += fmt.Sprintf(" at try %d", r.tries)
	}
	r.say("%s %s: %-32s %-8s %s, %s%s", time.Now().UTC().Format("15:04:05"), k.name, r.res.Subject, r.res.Moment, verdict, took.Round(100*time.Millisecond), found)
}

func (k *kind) table(results []*scenario.Result) scenario.Table {
	columns := append([]scenario.Column{scenario.Runs}, scenario.Counts(k.counts)...)
	t := scenario.NewTable([]string{"fault", "step"}, columns)
	for _, r := range k.rows {
		t.Add([]string{r.fault, r.step}, columns, scenario.Select(results, func(x *scenario.Result) bool { return x.Subject == r.fault && x.Moment == r.step }))
	}
	t.Add([]string{"all", ""}, columns, results)
	return t
}
