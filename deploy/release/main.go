package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/deploy/internal/programs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	dist := flags.String("out", "dist", "`folder` for the files of the release; what is there of the same version is replaced")
	version := flags.String("version", "", "what the release is called (default: what git calls the commit)")
	names := flags.String("platforms", strings.Trim(fmt.Sprint(programs.All), "[]"), "platforms, separated by spaces")
	work := flags.String("work", "", "`folder` for the programs (default: a temporary one)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	platforms, err := programs.Parse(*names)
	if err != nil {
		return err
	}
	if *version == "" {
		if *version, err = programs.Version(ctx); err != nil {
			return err
		}
	}
	at, err := programs.Time(ctx)
	if err != nil {
		return err
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return fmt.Errorf("read the changelog: %w (release runs in the folder of the repository)", err)
	}
	if err := checkChanges(string(changes), *version); err != nil {
		return err
	}
	if *work == "" {
		if *work, err = os.MkdirTemp("", "fairlead-release-"); err != nil {
			return err
		}
		defer os.RemoveAll(*work)
	}
	if err := os.MkdirAll(*dist, 0o755); err != nil {
		return err
	}
	// The manual pages and the completions come from the program itself, so one must run here.
	fmt.Fprintf(out, "release %s: compiles for %s\n", *version, programs.Own())
	own, err := programs.Build(ctx, filepath.Join(*work, "own"), *version, programs.Own())
	if err != nil {
		return err
	}
	help, err := helpOf(ctx, own.Fairlead)
	if err != nil {
		return err
	}
	r := release{version: *version, at: at, dist: *dist, help: help, changes: changes}
	for _, p := range platforms {
		pair := own
		if p != programs.Own() {
			fmt.Fprintf(out, "release %s: compiles for %s\n", *version, p)
			if pair, err = programs.Build(ctx, filepath.Join(*work, p.OS+"-"+p.Arch), *version, p); err != nil {
				return err
			}
		}
		if err := r.pack(p, pair); err != nil {
			return err
		}
	}
	if err := r.finish(); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(*dist, sumsFile))
	if err != nil {
		return err
	}
	_, err = out.Write(sums)
	return err
}
