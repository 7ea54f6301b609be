package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

type options struct {
	repo     string
	seed     uint64
	sessions int
	troubles int
	markdown string
	out      io.Writer
}

func main() {
	o := options{out: os.Stdout}
	flag.Uint64Var(&o.seed, "seed", 0, "what decides the items and the troubles (0: a new one)")
	flag.IntVar(&o.sessions, "sessions", 200, "how many items the batch has, 999 at most")
	flag.IntVar(&o.troubles, "troubles", 0, "how many troubles there are (0: one for ten items, two at least)")
	flag.StringVar(&o.markdown, "markdown", "", "`file` to write the result to, as Markdown")
	flag.Parse()
	scenario.Main("fleet", func(ctx context.Context) (err error) {
		if o.repo, err = os.Getwd(); err != nil {
			return err
		}
		return try(ctx, o)
	})
}

// try makes and prints the plan, carries it out, and judges.
func try(ctx context.Context, o options) (err error) {
	o.seed = scenario.NewSeed(o.seed)
	if o.troubles == 0 {
		o.troubles = max(2, o.sessions/10)
	}
	if o.sessions < 2 || o.sessions > 999 {
		return fmt.Errorf("-sessions %d is not between 2 and 999", o.sessions)
	}
	say := scenario.Printer(o.out)
	e := &evidence{items: planItems(o.seed, o.sessions)}
	plan := planTroubles(o.seed, o.sessions, o.troubles)
	say("seed %d: %d items over %d hosts with %d slots each, %d troubles:", o.seed, o.sessions, len(hostNames()), slots, len(plan))
	for _, t := range plan {
		say("  %s", t)
	}
	f, err := newFleet(ctx, o.repo, say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	began := time.Now()
	if err := f.carryOut(ctx, plan, e); err != nil {
		kept, keptErr := f.keep(context.WithoutCancel(ctx))
		return errors.Join(fmt.Errorf("%w (kept in %s)", err, kept), keptErr)
	}
	took := time.Since(began)
	f.gather(ctx, e)
	rows := judge(e)
	say("\n%s", plainRows(rows))
	say("seed %d: %d items in %s", o.seed, o.sessions, took.Round(time.Second))
	if o.markdown != "" {
		if err := os.WriteFile(o.markdown, []byte(markdown(o, e, rows, took)), 0o644); err != nil {
			return err
		}
	}
	if !scenario.Clean(rows) {
		kept, keptErr := f.keep(context.WithoutCancel(ctx))
		return errors.Join(fmt.Errorf("%w: seed %d (kept in %s)", scenario.ErrNotClean, o.seed, kept), keptErr)
	}
	return nil
}

func (f *fleet) carryOut(ctx context.Context, plan []trouble, e *evidence) error {
	if err := f.ImportSeed(ctx, "team"); err != nil {
		return err
	}
	file := filepath.Join(f.Dir, "batch.yaml")
	if err := os.WriteFile(file, []byte(batchFile(e.items, f.effects)), 0o600); err != nil {
		return err
	}
	for _, it := range e.items {
		if err := os.Mkdir(filepath.Join(f.effects, it.id), 0o755); err != nil {
			return err
		}
	}
	w := f.watch(ctx)
	defer func() {
		w.end()
		e.most, e.over, e.samples = w.most, w.over, w.samples
	}()
	if _, err := f.Out(ctx, "batch", "run", file, "--detach"); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	struck := make(chan []strike, 1)
	go func() { struck <- f.perform(ctx, plan) }()
	var err error
	if e.batch, err = f.follow(ctx); err != nil {
		stop()
	}
	e.strikes = <-struck
	return err
}

func plainRows(rows []*scenario.Result) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-10s %3d wrong  %s\n", r.Subject, len(r.Found[scenario.Wrong]), r.Note)
		for _, w := range r.Found[scenario.Wrong] {
			fmt.Fprintf(&b, "             %.1500s\n", w)
		}
	}
	return b.String()
}

func markdown(o options, e *evidence, rows []*scenario.Result, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A batch in trouble\n\n`make fleet FLEET='-seed %d -sessions %d -troubles %d'`: %d items over %d hosts with %d slots each, in two zones, with three workers at the start, in %s: "+
		"%d completed, %d failed, %d tries.\n\n", o.seed, o.sessions, o.troubles, len(e.items), len(hostNames()), slots, took.Round(time.Second), e.batch.Done, e.batch.Failed, e.batch.Tries)
	b.WriteString("| judged | wrong | found |\n| --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", r.Subject, len(r.Found[scenario.Wrong]), r.Note)
	}
	b.WriteString("\nWhat befell it:\n\n| trouble | whom | after items | for |\n| --- | --- | --- | --- |\n")
	for _, s := range e.strikes {
		name := s.kind.name
		if s.silent {
			name += ", silently"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %.1f s |\n", name, s.target, s.after, s.over.Sub(s.struck).Seconds())
	}
	return b.String()
}
