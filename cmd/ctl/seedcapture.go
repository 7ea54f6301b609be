package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/workflows"
)

func seedCaptureCommand(a *app) *cobra.Command {
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
			if err := checkName("seed name", name); err != nil {
				return err
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			doing := "capture seed " + name
			h, err := t.host(c.Context(), doing, zone, host)
			if err != nil {
				return err
			}
			var out workflows.CaptureSeedResult
			if err := t.hostTask(c.Context(), doing, zone, workflows.HostTaskID(h.Name, "capture-"+randomID()), workflows.TypeCapture,
				workflows.CaptureSeedInput{Name: name, Zone: zone, Host: *h.Spec, Home: home, Move: move, By: person()}, &out); err != nil {
				return err
			}
			return a.captured(h.Name, out)
		},
	}
	c.Flags().StringVar(&host, "host", "", "the host that has the login")
	c.Flags().StringVar(&home, "codex-home", "", "its codex home `folder` on the host (default: $CODEX_HOME of the user there, or ~/.codex)")
	c.Flags().BoolVar(&move, "move", false, "remove auth.json there once it is kept")
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	_ = c.MarkFlagRequired("host")
	return c
}

// captured prints what was captured. It warns if the login now has two holders.
func (a *app) captured(host string, out workflows.CaptureSeedResult) error {
	for _, path := range out.Ignored {
		a.note("left out: %s", clean(path))
	}
	err := a.print().show(out, func(p *printer) {
		p.printf("seed %s: %s, %d files, from %s on %s\n", out.Name, out.Kind, len(out.Files), clean(out.Home), host)
		if out.Moved {
			p.printf("the login is gone from %s\n", host)
		}
	})
	if err == nil && out.StaysRotating {
		a.note("WARNING: the login is still in %s on %s, so it has two holders now. Its refresh token can be used once: "+
			"whoever uses it second burns the login for both. No session gets seed %s until it is removed there with "+
			"`ctl seed capture %s --host %s --codex-home %s --move` (not with `codex logout`, which revokes it), or `ctl seed revive %s` says that nobody uses it there.",
			clean(out.Home), host, out.Name, out.Name, host, clean(out.Home), out.Name)
	}
	if err == nil && out.Problem != nil {
		return failed("%s", clean(out.Problem.Message)).hinted("%s", clean(out.Problem.Hint))
	}
	return err
}

func seedLoginCommand(a *app) *cobra.Command {
	var zone, host string
	c := &cobra.Command{
		Use: "login NAME --host H", Short: "log in to ChatGPT with a code, by a host's codex", Args: cobra.ExactArgs(1),
		Long: `Starts codex's device login on a host, shows its link and code, and makes a seed of the login when
somebody has entered the code in a browser anywhere. The login is made in a folder of its own,
which is removed from the host when the seed has it. ^C gives it up and removes it as well. A login
that was made and cannot be kept stays there, and where is said.`,
		Example: "  ctl seed login team --host web-1",
		RunE: func(c *cobra.Command, args []string) error {
			return a.login(c.Context(), zone, host, args[0])
		},
	}
	c.Flags().StringVar(&host, "host", "", "the host whose codex logs in")
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	_ = c.MarkFlagRequired("host")
	return c
}

func (a *app) login(ctx context.Context, zone, host, name string) error {
	if err := checkName("seed name", name); err != nil {
		return err
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	a.begins = true
	doing := "log in for seed " + name
	h, err := t.host(ctx, doing, zone, host)
	if err != nil {
		return err
	}
	worker, err := a.workerOf(ctx, t, workflows.TaskQueueOf(zone))
	if err != nil {
		return err
	}
	id := "login-" + randomID()
	run, err := t.start(ctx, doing, client.StartWorkflowOptions{
		ID: workflows.HostTaskID(h.Name, id), TaskQueue: workflows.TaskQueueOf(zone), StaticSummary: doing,
	}, workflows.TypeLogin, workflows.LoginSeedInput{ID: id, Name: name, Host: *h.Spec, By: person()})
	if err != nil {
		return err
	}
	var out workflows.CaptureSeedResult
	end := make(chan error, 1)
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		end <- t.taskFailure(doing, t.result(ctx, doing, run, 30*time.Minute, &out))
		stop()
	}()
	_, ferr := a.follow(fctx, worker, id)
	if ctx.Err() == nil && ferr != nil && !errors.Is(ferr, context.Canceled) {
		a.note("the code cannot be shown: %v", ferr)
	}
	err = <-end
	if ctx.Err() != nil {
		return errors.Join(err, t.giveUp(ctx, doing, run))
	}
	if err != nil {
		return err
	}
	return a.captured(h.Name, out)
}

// giveUp cancels a task after the user interrupted ctl, and waits until it has cleaned up.
func (t *temporal) giveUp(ctx context.Context, doing string, run client.WorkflowRun) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := t.CancelWorkflow(ctx, run.GetID(), run.GetRunID()); err != nil {
		return t.explain(ctx, doing, err)
	}
	err := run.Get(ctx, nil)
	var cancelled *temporalsdk.CanceledError
	switch {
	case ctx.Err() != nil:
		return timedOut("%s: it was given up, and what it left on the host may still be there", doing)
	case err == nil:
		t.app.note("it was done before it could be given up")
		return nil
	case !errors.As(err, &cancelled):
		return t.taskFailure(doing, err)
	}
	t.app.note("given up; nothing of it is left on the host")
	return nil
}
