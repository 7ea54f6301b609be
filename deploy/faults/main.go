package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	repo     string
	seed     uint64
	runs     int
	only     string // a fault
	moment   string
	nth      int // -1: any
	short    bool
	markdown string // a file
	out      io.Writer
}

func main() {
	o := options{out: os.Stdout}
	flag.Uint64Var(&o.seed, "seed", 0, "what decides the schedule (0: a new one)")
	flag.IntVar(&o.runs, "runs", 200, "how many runs at least, and each row of seeds and snapshots once for every 200 of them")
	flag.StringVar(&o.only, "only", "", "only this `fault`; \"seeds\" or \"seeds: FAULT\" for those of seeds, likewise \"snapshots\"")
	flag.StringVar(&o.moment, "moment", "", "only this `moment`, or step of a seed or a snapshot")
	flag.IntVar(&o.nth, "nth", -1, "only the n-th wave of the fault")
	flag.BoolVar(&o.short, "short", false, "a few runs of each quick kind of fault")
	flag.StringVar(&o.markdown, "markdown", "", "`file` to write the matrix to, as Markdown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := tryWhatIsAsked(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nfaults: %v\n", err)
		os.Exit(1)
	}
}

// tryWhatIsAsked runs the sessions' faults and those of their seeds and of their
// snapshots, or what -only names: "seeds", or "seeds: FAULT", and "snapshots".
func tryWhatIsAsked(ctx context.Context, o options) error {
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	kinds := []*kind{seedKind, snapKind}
	var err error
	if !slices.ContainsFunc(kinds, func(k *kind) bool { return k.names(o.only) }) {
		err = tryAll(ctx, o)
	}
	for _, k := range kinds {
		if o.only == "" || k.names(o.only) {
			err = errors.Join(err, tryRows(ctx, o, k))
		}
	}
	return err
}

// command is what makes the same runs again.
func (o options) command() string {
	text := fmt.Sprintf("go run ./deploy/faults -seed %d", o.seed)
	if o.only != "" {
		text += fmt.Sprintf(" -only %q", o.only)
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

// errNotClean: the matrix is not all zeros.
var errNotClean = errors.New("not every run went as it must")

// tryAll makes the schedule, runs it, and prints the matrix.
func tryAll(ctx context.Context, o options) error {
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
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
	m := newMatrix(results)
	summary := fmt.Sprintf("seed %d, %d runs in %s", o.seed, m.runs(), time.Since(began).Round(time.Second))
	fmt.Fprintf(o.out, "\n%s\n%s\n", plainTable(m.whole()), summary)
	if err != nil {
		return err
	}
	if o.markdown != "" {
		text := fmt.Sprintf("%s (`%s`):\n\n%s\nBy moment:\n\n%s", summary, o.command(), markdownTable(m.brief()), markdownTable(m.whole()))
		if err := os.WriteFile(o.markdown, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if m.runs() < total || !m.clean() {
		return errNotClean
	}
	return nil
}
