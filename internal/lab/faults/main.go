package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/lab/pgcluster"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

type options struct {
	repo     string
	seed     uint64
	runs     int
	only     string // a fault, a kind of rows or a storm; empty: everything but storms
	moment   string
	nth      int // -1: any
	short    bool
	markdown string // a file
	write    bool   // write the storm matrix to its file
	out      io.Writer

	cluster *pgcluster.Cluster // where stacks keep everything; nil: each in a file

	script string // the model's script; empty: the default
	codex  string // the package that is brought to hosts; empty: the real one
}

func main() {
	o := options{out: os.Stdout}
	flag.Uint64Var(&o.seed, "seed", 0, "what decides the schedule (0: a new one)")
	flag.IntVar(&o.runs, "runs", 200, "how many runs at least, and each row of seeds and snapshots once for every 200 of them")
	flag.StringVar(&o.only, "only", "", "only this `fault`; \"seeds\" or \"seeds: FAULT\" for those of seeds, likewise \"snapshots\" and \"storms\"")
	flag.StringVar(&o.moment, "moment", "", "only this `moment` (gateway: those that begin with it), or step of a seed or a snapshot, or phase that is struck by a storm")
	flag.IntVar(&o.nth, "nth", -1, "only the n-th wave of the fault")
	flag.BoolVar(&o.short, "short", false, "a few runs of each quick kind of fault")
	flag.StringVar(&o.markdown, "markdown", "", "`file` to write the matrix to, as Markdown")
	flag.BoolVar(&o.write, "write", false, "write the matrix of storms to "+stormFile)
	postgres := flag.Bool("postgres", false, "on Temporal with PostgreSQL, as a platform team has it")
	flag.Parse()
	scenario.Main("faults", func(ctx context.Context) error {
		if *postgres {
			return onPostgres(ctx, o)
		}
		return tryWhatIsAsked(ctx, o)
	})
}

// onPostgres runs what is asked on a cluster of its own.
func onPostgres(ctx context.Context, o options) (err error) {
	if o.repo, err = o.repository(); err != nil {
		return err
	}
	if o.cluster, err = pgcluster.New(ctx, o.repo); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.cluster.Close()) }()
	if err := o.cluster.Prepare(ctx); err != nil {
		return fmt.Errorf("prepare a cluster: %w", err)
	}
	return tryWhatIsAsked(ctx, o)
}

// tryWhatIsAsked runs what -only selects: a fault on sessions, or rows of seeds
// ("seeds" or "seeds: FAULT"), snapshots or storms. By default it runs
// everything but storms, which take long.
func tryWhatIsAsked(ctx context.Context, o options) error {
	o.seed = scenario.NewSeed(o.seed)
	if namesStorms(o.only) {
		return tryStorms(ctx, o)
	}
	kinds := []*kind{seedKind, snapKind}
	var err error
	if !slices.ContainsFunc(kinds, func(k *kind) bool { return k.names(o.only) }) {
		err = tryAll(ctx, o)
	}
	for _, k := range kinds {
		// A moment that is none of its steps was asked for.
		skip := o.only == "" && o.moment != "" && !slices.ContainsFunc(k.rows, func(r row) bool { return o.wants(k, r, max(o.nth, 0)) })
		if (o.only == "" || k.names(o.only)) && !skip {
			err = errors.Join(err, tryRows(ctx, o, k))
		}
	}
	return err
}

// command returns the command line that repeats these runs.
func (o options) command() string {
	text := fmt.Sprintf("go run ./internal/lab/faults -seed %d", o.seed)
	if o.only != "" {
		text += fmt.Sprintf(" -only %q", o.only)
	}
	if o.moment != "" {
		text += fmt.Sprintf(" -moment %q", o.moment)
	}
	if o.cluster != nil {
		text += " -postgres"
	}
	if o.short {
		return text + " -short"
	}
	return text + fmt.Sprintf(" -runs %d", o.runs)
}

func (o options) repository() (string, error) {
	if o.repo != "" {
		return o.repo, nil
	}
	return os.Getwd()
}

// tryAll makes the schedule, runs it and prints the matrix.
func tryAll(ctx context.Context, o options) error {
	o.seed = scenario.NewSeed(o.seed)
	var err error
	if o.repo, err = o.repository(); err != nil {
		return err
	}
	waves, err := schedule(o)
	if err != nil {
		return err
	}
	total := 0
	for _, w := range waves {
		total += len(w.moments)
	}
	fmt.Fprintf(o.out, "seed %d: %d runs in %d waves\n", o.seed, total, len(waves))
	began := time.Now()
	results, err := perform(ctx, o, waves)
	runs := len(scenario.Select(results, func(r *scenario.Result) bool { return r.Took }))
	summary := fmt.Sprintf("seed %d, %d runs in %s", o.seed, runs, time.Since(began).Round(time.Second))
	fmt.Fprintf(o.out, "\n%s\n%s\n", byMoment(results).Plain(), summary)
	if err != nil {
		return err
	}
	if o.markdown != "" {
		text := fmt.Sprintf("%s (`%s`):\n\n%s\nBy moment:\n\n%s", summary, o.command(), byFault(results).Markdown(), byMoment(results).Markdown())
		if err := os.WriteFile(o.markdown, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if runs < total || !scenario.Clean(results) {
		return scenario.ErrNotClean
	}
	return nil
}
