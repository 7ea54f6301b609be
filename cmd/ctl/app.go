package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/internal/config"
)

// globals holds the flags that every command has.
type globals struct {
	output    string
	config    string
	state     string
	address   string
	namespace string
	timeout   time.Duration
	noInput   bool
	quiet     bool
}

// An app is one run of ctl: its streams, its flags, and the resources that its commands
// open.
type app struct {
	in       io.Reader
	out, err io.Writer
	flags    globals
	began    bool // the command line was accepted
	begins   bool // the command starts something that Temporal keeps until a worker handles it
	closing  sync.Mutex
	closers  []io.Closer

	signWith string // --sign-with

	loadOnce sync.Once
	conf     *config.Config
	confErr  error

	linesOnce sync.Once
	lineCh    chan typedLine
	strayed   time.Time // when a prompt was last abandoned, because its approval was no longer open
}

// print returns the printer for results, which go to standard output.
func (a *app) print() *printer { return newPrinter(a.out, a.flags.output == "json") }

// note writes a progress message to standard error, unless -q is given.
func (a *app) note(format string, args ...any) {
	if !a.flags.quiet {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// mayAsk reports whether ctl may ask a person: standard input and standard error are
// terminals, and --no-input was not given.
func (a *app) mayAsk() bool {
	return !a.flags.noInput && isTerminal(a.in) && isTerminal(a.err)
}

// bounded returns a context that ends after --timeout, or after def if it was not given.
func (a *app) bounded(ctx context.Context, def time.Duration) (context.Context, context.CancelFunc) {
	d := a.wait(def)
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %s: %w", d, context.DeadlineExceeded))
}

// wait returns --timeout, or def if it was not given.
func (a *app) wait(def time.Duration) time.Duration {
	if a.flags.timeout > 0 {
		return a.flags.timeout
	}
	return def
}

// config loads the config file once. Without a file it returns the defaults.
func (a *app) config() (*config.Config, error) {
	a.loadOnce.Do(func() {
		path, explicit := a.configPath()
		if path == "" {
			a.conf = config.Default()
			return
		}
		a.conf, a.confErr = config.Load(path)
		if a.confErr != nil {
			hint := "mend the file"
			if explicit && os.IsNotExist(unwrapAll(a.confErr)) {
				hint = "check --config and FAIRLEAD_CONFIG"
			}
			a.confErr = usage("%v", a.confErr).hinted("%s", hint).because(a.confErr)
		}
	})
	return a.conf, a.confErr
}

// configPath finds the config file. explicit reports whether the user named it.
func (a *app) configPath() (path string, explicit bool) {
	if a.flags.config != "" {
		return a.flags.config, true
	}
	if p := os.Getenv("FAIRLEAD_CONFIG"); p != "" {
		return p, true
	}
	places := []string{"fairlead.yaml"}
	if dir, err := os.UserConfigDir(); err == nil {
		places = append(places, filepath.Join(dir, "fairlead", "config.yaml"))
	}
	for _, p := range places {
		if _, err := os.Stat(p); err == nil {
			return p, false
		}
	}
	return "", false
}

// stateDir returns the absolute path of the local stack's folder.
func (a *app) stateDir() (string, error) {
	dir := cmp.Or(a.flags.state, os.Getenv("FAIRLEAD_STATE"))
	if dir == "" {
		base := os.Getenv("XDG_STATE_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", usage("find the state folder: %v", err).hinted("give --state DIR")
			}
			base = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(base, "fairlead")
	}
	return filepath.Abs(dir)
}

// onClose registers c to be closed when ctl ends.
func (a *app) onClose(c io.Closer) {
	a.closing.Lock()
	defer a.closing.Unlock()
	a.closers = append(a.closers, c)
}

func (a *app) close() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i].Close()
	}
	a.closers = nil
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		err = u.Unwrap()
	}
}

// group returns a command that only holds other commands. Calling it alone is a usage
// error.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%q is not a command of %s", args[0], c.CommandPath()).hinted("%s", meantCommand(c, args[0]))
			}
			return usage("%s needs a command", c.CommandPath()).hinted("see `%s --help`", c.CommandPath())
		},
	}
	c.AddCommand(children...)
	return c
}

// meantCommand returns the hint for a word that is not a command of c.
func meantCommand(c *cobra.Command, word string) string {
	var names, near []string
	for _, child := range c.Commands() {
		names = append(names, child.Name())
	}
	for _, name := range meant(word, names) {
		near = append(near, fmt.Sprintf("`%s %s`", c.CommandPath(), name))
	}
	hint := fmt.Sprintf("see `%s --help`", c.CommandPath())
	if len(near) > 0 {
		hint = fmt.Sprintf("is %s meant? %s", strings.Join(near, " or "), hint)
	}
	return hint
}

// helpCommand returns a help command that, unlike cobra's, refuses an unknown topic.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "help on a command",
		Example: "  ctl help session start",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || found == nil {
				return usage("there is no help on %q", strings.Join(args, " ")).hinted("see `%s --help`", c.Root().CommandPath())
			}
			if len(rest) > 0 {
				return usage("there is no help on %q", rest[0]).hinted("%s", meantCommand(found, rest[0]))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
