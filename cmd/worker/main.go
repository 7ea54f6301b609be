package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/version"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status when nothing of the worker runs any more.
func run(args []string, stdout, stderr io.Writer) int {
	name := nameOf(os.Args[0])
	if len(args) == 1 && args[0] == "version" {
		fmt.Fprintln(stdout, name, version.String())
		return 0
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("config", "", "config `file` ($FAIRLEAD_CONFIG, ~/.config/fairlead/config.yaml)")
	below := flags.String("takeover", "", "`folder` on a disk of this machine, shared by its workers: one that dies is missed at once (ctl up gives it)")
	only := flags.String("only", "", "serve only this `PART`: api is the HTTP API, without activities and workflows")
	check := flags.Bool("check-config", false, "say whether the config is right, and stop")
	flags.Usage = func() {
		fmt.Fprintf(stderr, "usage: %[1]s [--config FILE] [--takeover FOLDER] [--only api] [--check-config]\n       %[1]s version\n", name)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case *only != "" && *only != "api":
		fmt.Fprintf(stderr, "%s: --only %q: the only part that can be served alone is api\n", name, *only)
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "%s: %q is not a command (%[1]s --help)\n", name, flags.Arg(0))
		return 2
	}
	conf, err := loadConfig(*path)
	if err != nil {
		fmt.Fprintln(stderr, name+":", escape.Text(err.Error()))
		return 2
	}
	if *check {
		fmt.Fprintf(stdout, "config %s is right\n", conf.Path())
		return 0
	}
	log := newLogger(conf, stderr)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err = serve(ctx, stop, conf, *below, *only == "api", log)
	switch {
	case err == nil, ctx.Err() != nil && errors.Is(err, context.Canceled):
		log.Info("worker stopped")
		return 0
	case errors.Is(err, store.ErrOtherStore), errors.Is(err, store.ErrWrongKey), errors.Is(err, store.ErrNoIdentity), errors.Is(err, store.ErrIdentityFile):
		log.Error("worker cannot use its store", "err", err)
		return 4
	case errors.Is(err, payload.ErrNoKey), errors.Is(err, payload.ErrTorn), errors.Is(err, payload.ErrOlder),
		errors.Is(err, payload.ErrMoved), errors.Is(err, payload.ErrKeyFile):
		log.Error("worker cannot read what Temporal keeps", "err", err)
		return 4
	}
	log.Error("worker failed", "err", err)
	return 1
}

// releaseName is what a release installs the program as: worker says nothing in a PATH.
const releaseName = "fairlead-worker"

// nameOf returns how the program calls itself if it was started as path.
func nameOf(path string) string {
	if filepath.Base(path) == releaseName {
		return releaseName
	}
	return "worker"
}

// loadConfig reports all mistakes together. It reads no file of the current folder, which
// may be somebody else's.
func loadConfig(path string) (*config.Config, error) {
	if path == "" {
		path = os.Getenv("FAIRLEAD_CONFIG")
	}
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, "fairlead", "config.yaml")
	}
	conf, err := config.Load(path)
	var mistakes *config.Error
	if errors.As(err, &mistakes) {
		// The check of files needs a config without mistakes.
		return nil, mistakes
	}
	if err != nil {
		return nil, err
	}
	if err := conf.CheckFiles(); err != nil {
		return nil, err
	}
	return conf, checkAuthority(conf)
}

func newLogger(conf *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(conf.Log.Level)) // already checked
	opts := &slog.HandlerOptions{Level: level}
	if conf.Log.Format == "text" {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}
