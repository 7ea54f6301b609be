package seed

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/seed"
)

func captureCommand(a *core.App) *cobra.Command {
	var zone, host, home string
	var move bool
	c := &cobra.Command{
		Use: "capture NAME --host H", Short: "make a seed of a login that is on a host", Args: cobra.ExactArgs(1),
		Long: `Reads a codex home on a host, as ` + "`ctl seed import`" + ` reads one here, and keeps it encrypted.
A ChatGPT login rotates: once the seed is used, the login that stays on the host is worth nothing,
and whoever uses it there burns both. --move removes it there when it is safely kept. Without it no
session is given the seed until it is captured again with --move, or ` + "`ctl seed revive NAME`" + ` says that
nobody uses the login there any more.`,
		Example: "  ctl seed capture team --host web-1 --move\n  ctl seed capture ci --host web-1 --codex-home /srv/codex",
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if err := core.CheckName("seed name", name); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			doing := "capture seed " + name
			h, err := t.Host(c.Context(), doing, zone, host)
			if err != nil {
				return err
			}
			var out seed.CaptureSeedResult
			if err := t.HostTask(c.Context(), doing, zone, protocol.HostTaskID(h.Name, "capture-"+core.RandomID()), protocol.TypeCapture,
				seed.CaptureSeedInput{Name: name, Zone: zone, Host: *h.Spec, Home: home, Move: move, By: core.Person()}, &out); err != nil {
				return err
			}
			return captured(a, h.Name, out)
		},
	}
	c.Flags().StringVar(&host, "host", "", "the host that has the login")
	c.Flags().StringVar(&home, "codex-home", "", "its codex home `folder` on the host (default: $CODEX_HOME of the user there, or ~/.codex)")
	c.Flags().BoolVar(&move, "move", false, "remove auth.json there once it is kept")
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	_ = c.MarkFlagRequired("host")
	return c
}

// captured prints what was captured, and warns if the login now has two holders.
func captured(a *core.App, host string, out seed.CaptureSeedResult) error {
	for _, path := range out.Ignored {
		a.Note("left out: %s", core.Clean(path))
	}
	err := a.Print().Show(out, func(p *core.Printer) {
		p.Printf("seed %s: %s, %d files, from %s on %s\n", out.Name, out.Kind, len(out.Files), core.Clean(out.Home), host)
		if out.Moved {
			p.Printf("the login is gone from %s\n", host)
		}
	})
	if err == nil && out.StaysRotating {
		a.Note("WARNING: the login is still in %s on %s, so it has two holders now. Its refresh token can be used once: "+
			"whoever uses it second burns the login for both. No session gets seed %s until it is removed there with "+
			"`ctl seed capture %s --host %s --codex-home %s --move` (not with `codex logout`, which revokes it), or `ctl seed revive %s` says that nobody uses it there.",
			core.Clean(out.Home), host, out.Name, out.Name, host, core.Clean(out.Home), out.Name)
	}
	if err == nil && out.Problem != nil {
		return core.Failed("%s", core.Clean(out.Problem.Message)).Hinted("%s", core.Clean(out.Problem.Hint))
	}
	return err
}

func loginCommand(a *core.App) *cobra.Command {
	var zone, host string
	c := &cobra.Command{
		Use: "login NAME --host H", Short: "log in to ChatGPT with a code, by a host's codex", Args: cobra.ExactArgs(1),
		Long: `Starts codex's device login on a host, shows its link and code, and makes a seed of the login when
somebody has entered the code in a browser anywhere. The login is made in a folder of its own,
which is removed from the host when the seed has it. ^C gives it up and removes it as well. A login
that was made and cannot be kept stays there, and where is said.`,
		Example: "  ctl seed login team --host web-1",
		RunE: func(c *cobra.Command, args []string) error {
			return login(c.Context(), a, zone, host, args[0])
		},
	}
	c.Flags().StringVar(&host, "host", "", "the host whose codex logs in")
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	_ = c.MarkFlagRequired("host")
	return c
}

func login(ctx context.Context, a *core.App, zone, host, name string) error {
	if err := core.CheckName("seed name", name); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	a.Begins = true
	doing := "log in for seed " + name
	h, err := t.Host(ctx, doing, zone, host)
	if err != nil {
		return err
	}
	worker, err := conn.WorkerOf(ctx, a, t, protocol.TaskQueueOf(zone))
	if err != nil {
		return err
	}
	id := protocol.LoginPrefix + core.RandomID()
	run, err := t.Start(ctx, doing, client.StartWorkflowOptions{
		ID: protocol.HostTaskID(h.Name, id), TaskQueue: protocol.TaskQueueOf(zone), StaticSummary: doing,
	}, protocol.TypeLogin, seed.LoginSeedInput{ID: id, Name: name, Host: *h.Spec, By: core.Person()})
	if err != nil {
		return err
	}
	var out seed.CaptureSeedResult
	end := make(chan error, 1)
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		end <- t.TaskFailure(doing, t.Result(ctx, doing, run, 30*time.Minute, &out))
		stop()
	}()
	_, ferr := live.Follow(fctx, a, worker, h.Name, id)
	if ctx.Err() == nil && ferr != nil && !errors.Is(ferr, context.Canceled) {
		a.Note("the code cannot be shown: %v", ferr)
	}
	err = <-end
	if ctx.Err() != nil {
		return errors.Join(err, giveUp(ctx, t, doing, run))
	}
	if err != nil {
		return err
	}
	return captured(a, h.Name, out)
}

// giveUp cancels a task after an interrupt, and waits for its cleaning up.
func giveUp(ctx context.Context, t *conn.Conn, doing string, run client.WorkflowRun) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := t.CancelWorkflow(ctx, run.GetID(), run.GetRunID()); err != nil {
		return t.Explain(ctx, doing, err)
	}
	err := run.Get(ctx, nil)
	var cancelled *temporalsdk.CanceledError
	switch {
	case ctx.Err() != nil:
		return core.TimedOut("%s: it was cancelled, but its processes and files on the host may not have been removed", doing)
	case err == nil:
		t.App.Note("it was done before it could be given up")
		return nil
	case !errors.As(err, &cancelled):
		return t.TaskFailure(doing, err)
	}
	t.App.Note("given up; nothing of it is left on the host")
	return nil
}
