package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/pgcluster"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

//go:embed model.yaml
var script []byte

type options struct {
	repo     string
	sessions int           // that run while the database is stopped
	outage   time.Duration // of the database
	times    int           // that each kind of request is measured; 0: none
	settings settings      // of Temporal
	out      io.Writer
}

type settings []string

func (s *settings) String() string     { return fmt.Sprint(*s) }
func (s *settings) Set(v string) error { *s = append(*s, v); return nil }

func main() {
	o := options{out: os.Stdout}
	flag.IntVar(&o.sessions, "sessions", 6, "sessions of each kind that run while the database is stopped")
	flag.DurationVar(&o.outage, "outage", time.Minute, "how long the database is stopped")
	flag.IntVar(&o.times, "times", 30, "how often an interrupt, a steer and a decision are measured")
	flag.Var(&o.settings, "dynamic-config-value", "one more setting of Temporal's, as `KEY=VALUE`; repeatable")
	flag.Parse()
	scenario.Main("cluster", func(ctx context.Context) (err error) {
		if o.repo, err = os.Getwd(); err != nil {
			return err
		}
		return try(ctx, o)
	})
}

// workers are those of the stack.
const workers = 2

func try(ctx context.Context, o options) (err error) {
	c, err := pgcluster.New(ctx, o.repo)
	if err != nil {
		return err
	}
	c.Settings = o.settings
	defer func() { err = errors.Join(err, c.Close()) }()
	say := scenario.Printer(o.out)
	if err := makeReady(ctx, c, say); err != nil {
		return fmt.Errorf("make a namespace ready: %w", err)
	}
	repo, err := c.Stage(ctx)
	if err != nil {
		return err
	}
	l, err := lab.New(ctx, lab.Options{Repo: repo, Script: script, Workers: workers})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	t := &trial{options: o, lab: l, cluster: c, root: filepath.Join(l.Dir, "host"), say: say, said: map[string][]string{}}
	if _, err := l.AddHost(ctx, "web-1", hosttest.Options{Root: t.root}, "--slots", "64"); err != nil {
		return err
	}
	if err := l.ImportSeed(ctx, "team"); err != nil {
		return err
	}
	for _, part := range []struct {
		what string
		do   func(context.Context) error
	}{{"use everything", t.useAll}, {"stop the database", t.outageUnderWork}, {"measure", t.measure}} {
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return nil
}
