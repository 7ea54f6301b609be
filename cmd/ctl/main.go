package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/access"
	"fairlead.dev/fairlead/cmd/ctl/internal/approval"
	"fairlead.dev/fairlead/cmd/ctl/internal/audit"
	"fairlead.dev/fairlead/cmd/ctl/internal/batch"
	"fairlead.dev/fairlead/cmd/ctl/internal/cluster"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/host"
	"fairlead.dev/fairlead/cmd/ctl/internal/login"
	"fairlead.dev/fairlead/cmd/ctl/internal/notify"
	"fairlead.dev/fairlead/cmd/ctl/internal/policy"
	"fairlead.dev/fairlead/cmd/ctl/internal/schedule"
	"fairlead.dev/fairlead/cmd/ctl/internal/seed"
	"fairlead.dev/fairlead/cmd/ctl/internal/session"
	"fairlead.dev/fairlead/cmd/ctl/internal/snapshot"
	"fairlead.dev/fairlead/cmd/ctl/internal/stack"
	"fairlead.dev/fairlead/cmd/ctl/internal/token"
)

// commands are in the order of --help.
var commands = []func(*core.App) *cobra.Command{
	stack.Up,
	stack.Down,
	stack.Status,
	stack.UI,
	stack.Doctor,
	host.Command,
	host.PoolCommand,
	seed.Command,
	session.RunCommand,
	session.Command,
	batch.Command,
	approval.Command,
	session.TranscriptCommand,
	snapshot.Command,
	schedule.Command,
	policy.Command,
	access.Command,
	login.Login,
	login.Logout,
	login.Whoami,
	token.Command,
	audit.Command,
	notify.Command,
	cluster.Command,
	cluster.Recover,
	cluster.Capacity,
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run returns the exit code. It leaves nothing running.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := interruptible()
	defer stop()
	stdout, stderr = core.Screen(stdout), core.Screen(stderr)
	a := &core.App{Name: core.NameOf(os.Args[0]), In: stdin, Out: stdout, Err: stderr}
	defer a.Close()
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	e := core.AsError(ctx, err, a.Began, c.CommandPath())
	if !e.Silent {
		report(a, e, a.Flags.Output == "json" || wantsJSON(args), stdout, stderr)
	}
	return e.Code
}

// report prints a line on standard error, and with asJSON an object on standard output.
func report(a *core.App, e *core.Error, asJSON bool, stdout, stderr io.Writer) {
	message, hint := a.Called(e.Message), a.Called(e.Hint)
	line := a.Program() + ": " + core.Clean(message)
	if hint != "" {
		line += " (" + core.Clean(hint) + ")"
	}
	fmt.Fprintln(stderr, line)
	if !asJSON {
		return
	}
	var v struct {
		Error struct {
			Kind    string `json:"kind"`
			Message string `json:"message"`
			Hint    string `json:"hint"`
		} `json:"error"`
	}
	v.Error.Kind, v.Error.Message, v.Error.Hint = e.Kind, message, hint
	_ = core.WriteJSON(stdout, v) // a failure cannot be reported
}

// interruptible returns a context that the first ^C or SIGTERM cancels with
// core.ErrInterrupted. A second signal ends the program.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
			cancel(core.ErrInterrupted)
			signal.Stop(signals)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		<-done
	}
}

// wantsJSON finds -o json without the flag parser, for errors in the flags.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch {
		case arg == "--":
			return false
		case arg == "-ojson", arg == "-o=json", arg == "--output=json":
			return true
		case (arg == "-o" || arg == "--output") && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}

func newRoot(a *core.App) *cobra.Command {
	root := core.Group(a.Program(), "run OpenAI codex on remote hosts, durably")
	root.Long = "Fairlead runs OpenAI codex on other machines over SSH and never loses the thread."
	root.Example = strings.TrimSpace(`
  ctl up --detach                                  # a stack on this machine
  ctl run --host local --seed team "what is here?" # one turn
  ctl status -o json`)
	// A flag before the command name is ctl's own, even if the command has the same flag
	// (core.StateFlag): `ctl --state DIR session list --state idle`.
	root.TraverseChildren = true
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.Version = core.Version()
	root.SetVersionTemplate(a.Program() + " {{.Version}}\n")
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if o := a.Flags.Output; o != "text" && o != "json" {
			return core.Usage("-o %q: the output is text or json", o)
		}
		if a.Flags.Timeout < 0 {
			return core.Usage("--timeout %s: the time must not be negative", a.Flags.Timeout)
		}
		a.Began = true
		return nil
	}
	f := root.PersistentFlags()
	f.StringVarP(&a.Flags.Output, "output", "o", "text", "`format` of the output: text or json")
	f.StringVar(&a.Flags.Config, "config", "", "config `file` ($FAIRLEAD_CONFIG, ~/.config/fairlead/config.yaml)")
	f.StringVar(&a.Flags.State, "state", "", "`folder` of a local stack ($FAIRLEAD_STATE, $XDG_STATE_HOME/fairlead)")
	f.StringVar(&a.Flags.Address, "address", "", "Temporal's `host:port` (TEMPORAL_ADDRESS)")
	f.StringVar(&a.Flags.Namespace, "namespace", "", "Temporal's `namespace` (TEMPORAL_NAMESPACE)")
	f.DurationVar(&a.Flags.Timeout, "timeout", 0, "longest `wait`, such as 30s (each command has its own)")
	f.BoolVar(&a.Flags.NoInput, "no-input", false, "never ask; exit 7 where a person is needed")
	f.BoolVarP(&a.Flags.Quiet, "quiet", "q", false, "no progress on standard error")
	root.SetHelpCommand(core.HelpCommand())
	for _, command := range commands {
		root.AddCommand(command(a))
	}
	root.AddCommand(manCommand(a))
	sayArguments(root)
	rename(a, root)
	return root
}
