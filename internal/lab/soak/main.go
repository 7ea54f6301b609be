package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/pgcluster"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

//go:embed model.yaml
var script []byte

type options struct {
	repo, old, markdown string
	seed                uint64
	sessions            int
	lasts, every        time.Duration
	keep                bool
}

func main() {
	var o options
	flag.StringVar(&o.old, "old", "", "`folder` with ctl and worker of an older commit")
	flag.Uint64Var(&o.seed, "seed", 0, "what decides the work and the faults (0: a new one)")
	flag.IntVar(&o.sessions, "sessions", 50, "sessions that work")
	flag.DurationVar(&o.lasts, "lasts", time.Hour, "how long they work")
	flag.DurationVar(&o.every, "every", 40*time.Second, "time between two faults, on average")
	flag.StringVar(&o.markdown, "markdown", "", "`file` to write the result to, as Markdown")
	flag.BoolVar(&o.keep, "keep", false, "keep the stack's folder")
	flag.Parse()
	scenario.Main("soak", func(ctx context.Context) (err error) {
		if o.repo, err = os.Getwd(); err != nil {
			return err
		}
		if o.old == "" || o.sessions < 1 || o.lasts < time.Minute || o.every < time.Second {
			return errors.New("-old names the folder of the older programs; there is at least one session, for at least a minute")
		}
		return try(ctx, o)
	})
}

const workers = 3

// A soak is the stack under work.
type soak struct {
	options
	lab     *lab.Lab
	c       client.Client
	cluster *pgcluster.Cluster
	sshd    *hosttest.SSHD
	bin     string // folder of the programs that the stack runs
	root    string // of the host
	metrics string // address of the first worker's
	say     func(format string, args ...any)
	all     []*worked // the sessions
}

func try(ctx context.Context, o options) (err error) {
	o.seed = scenario.NewSeed(o.seed)
	s := &soak{options: o, say: scenario.Printer(os.Stdout)}
	s.say("soak: seed %d, %d sessions for %s, a fault every %s or so", o.seed, o.sessions, o.lasts, o.every)
	if s.cluster, err = pgcluster.New(ctx, o.repo); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.cluster.Close()) }()
	if err := s.begin(ctx); err != nil {
		return errors.Join(fmt.Errorf("start the stack: %w", err), s.Close())
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	before, err := s.weigh(ctx)
	if err != nil {
		return err
	}
	s.say("soak: the first worker before: %s", before)
	began := time.Now()
	w := s.watch(ctx, began)
	struck, err := s.work(ctx, began)
	samples := w.end()
	if err != nil {
		return err
	}
	rows := s.judge(ctx, before, samples)
	var text strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&text, "| %s | %d | %s |\n", r.Subject, len(r.Found[scenario.Wrong]), r.Note)
		for _, wrong := range r.Found[scenario.Wrong] {
			s.say("wrong: %s: %.1500s", r.Subject, wrong)
		}
	}
	result := fmt.Sprintf("Seed %d: %d sessions worked for %s, with %s.\n\n| judged | wrong | found |\n| --- | --- | --- |\n%s", o.seed, o.sessions, o.lasts, struck, &text)
	s.say("\n%s", result)
	if o.markdown != "" {
		if err := os.WriteFile(o.markdown, []byte(result), 0o644); err != nil {
			return err
		}
	}
	if !scenario.Clean(rows) {
		return fmt.Errorf("%w: seed %d", scenario.ErrNotClean, o.seed)
	}
	return nil
}

// begin starts the stack with the older programs.
func (s *soak) begin(ctx context.Context) error {
	if err := s.cluster.Prepare(ctx); err != nil {
		return err
	}
	repo, err := s.cluster.Stage(ctx)
	if err != nil {
		return err
	}
	s.bin = filepath.Join(repo, "bin")
	if err := s.place(s.old, "ctl", "worker"); err != nil {
		return err
	}
	if s.metrics, err = lab.FreeAddress(); err != nil {
		return err
	}
	config := fmt.Sprintf("metrics: {listen: %q, pprof: true, fleet: false}\n", s.metrics)
	if s.lab, err = lab.New(ctx, lab.Options{Repo: repo, Script: script, Workers: workers, Config: config, Keep: s.keep}); err != nil {
		return err
	}
	if s.c, err = s.lab.Temporal(ctx); err != nil {
		return err
	}
	s.root = filepath.Join(s.lab.Dir, "host")
	if s.sshd, err = s.lab.AddHost(ctx, host, hosttest.Options{Root: s.root, Config: []string{"MaxStartups 100"}}, "--slots", fmt.Sprint(s.sessions+4)); err != nil {
		return err
	}
	if _, err := s.lab.Out(ctx, "host", "provision", host); err != nil {
		return err
	}
	return s.lab.ImportSeed(ctx, seedName)
}

// place puts other programs in. Those that run go on as they are.
func (s *soak) place(from string, names ...string) error {
	for _, name := range names {
		if err := lab.PlaceProgram(filepath.Join(from, name), filepath.Join(s.bin, name)); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the stack.
func (s *soak) Close() error {
	if s.c != nil {
		s.c.Close()
	}
	if s.lab == nil {
		return nil
	}
	return s.lab.Close()
}
