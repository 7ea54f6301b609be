package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
)

//go:embed model.yaml
var script []byte

func main() {
	old := flag.String("old", "", "`folder` with ctl and worker of an older commit")
	n := flag.Int("sessions", 3, "sessions of each kind")
	keep := flag.Bool("keep", false, "keep the lab's folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 90*time.Minute)
	defer cancel()
	if err := run(ctx, *old, *n, *keep); err != nil {
		fmt.Fprintf(os.Stderr, "upgrade: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("upgrade: nothing was lost, nothing was repeated")
}

func run(ctx context.Context, old string, n int, keep bool) (err error) {
	if old == "" || n < 1 {
		return errors.New("-old names the folder of the older programs, and there is at least one session of each kind")
	}
	repo, err := os.Getwd()
	if err != nil {
		return err
	}
	s, err := newStage(repo, old)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := lab.New(ctx, lab.Options{Repo: s.dir, Script: script, Workers: workers, Keep: keep})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s.lab = l
	root := filepath.Join(l.Dir, "host")
	if _, err := l.AddHost(ctx, "web-1", hosttest.Options{Root: root}, "--slots", "200", "--label", "size=large"); err != nil {
		return err
	}
	if _, err := l.AddHost(ctx, "small", hosttest.Options{}, "--slots", "1", "--label", "size=small"); err != nil {
		return err
	}
	if err := l.ImportSeed(ctx, "team"); err != nil {
		return err
	}
	p := newPlay(l, root, n)
	if err := p.begin(ctx); err != nil {
		return fmt.Errorf("begin under N: %w", err)
	}
	if err := s.through(ctx, p, old, filepath.Join(repo, "bin")); err != nil {
		return err
	}
	if err := p.end(ctx); err != nil {
		return err
	}
	return judge(ctx, l)
}
