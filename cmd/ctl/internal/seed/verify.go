package seed

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// verifyWait is enough for a slow issuer, whose answer would be lost if ctl gave up.
const verifyWait = 2 * time.Minute

func verifyCommand(a *core.App) *cobra.Command {
	var force, all bool
	c := &cobra.Command{
		Use: "verify NAME", Short: "find out whether a seed is alive, without a model call",
		Args: func(c *cobra.Command, args []string) error {
			if all {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		Long: `Finds out whether a seed is alive, without a model call: a ChatGPT login is refreshed at
its issuer and the new login is kept before it counts; a key is asked for by a list of models.
The command also reads how much of a ChatGPT login is used: see seed show.
A login that is held is not touched: its holder's turns tell. Only its issuer's invalid_grant
makes a seed dead. Where an earlier refresh was sent and its answer is not known, the token may
be spent: --force uses it once more, which burns the login if it is.
Exit 0: healthy, or nothing is known against it. Exit 1: suspect, dead, or it could not be found out.`,
		Example: "  ctl seed verify team\n  ctl seed verify --all -o json",
		RunE: func(c *cobra.Command, args []string) error {
			if all && force {
				return core.Usage("--force cannot be given with --all: it may burn a login, so name one seed")
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			if !all {
				v, err := verifySeed(c.Context(), t, args[0], force)
				if err != nil {
					return err
				}
				if err := a.Print().Show(v, func(p *core.Printer) { p.Printf("%s\n", verified(v)) }); err != nil {
					return err
				}
				return verifiedExit(v)
			}
			return verifyAll(c.Context(), a, t)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "ask also if its refresh token may be spent already")
	c.Flags().BoolVar(&all, "all", false, "every seed, one after another")
	return c
}

func verifySeed(ctx context.Context, t *conn.Conn, name string, force bool) (protocol.SeedView, error) {
	var v protocol.SeedView
	if err := core.CheckName("seed name", name); err != nil {
		return v, err
	}
	err := t.UpdateWithin(ctx, verifyWait, "verify seed "+name, protocol.SeedID(name), protocol.UpdateVerifySeed, "", &v,
		protocol.VerifySeed{Force: force, By: core.Person()})
	return v, err
}

func verifyAll(ctx context.Context, a *core.App, t *conn.Conn) error {
	infos, err := t.List(ctx, "list seeds", fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", protocol.TypeSeed), 1000)
	if err != nil {
		return err
	}
	var worst error
	for _, info := range infos {
		id := info.GetExecution().GetWorkflowId()
		v, err := verifySeed(ctx, t, id[len(protocol.SeedID("")):], false)
		if err != nil {
			if core.ExitCode(err) == core.ExitNotFound {
				continue // never imported, or being deleted
			}
			return err
		}
		if err := a.Print().Show(v, func(p *core.Printer) { p.Printf("%s\n", verified(v)) }); err != nil {
			return err
		}
		if err := verifiedExit(v); err != nil {
			worst = err
		}
	}
	return worst
}

func verified(v protocol.SeedView) string {
	text := fmt.Sprintf("seed %s (generation %d) is %s", v.Name, v.Generation, v.Health)
	reason, hint := v.Reason, v.Hint
	if c := v.Check; c != nil {
		switch c.Verdict {
		case "alive":
		case "fresh":
			text += "; fresh, not asked"
			reason, hint = c.Reason, c.Hint
		default:
			if c.Reason != "" {
				reason, hint = c.Reason, c.Hint
			}
		}
	}
	if reason != "" {
		text += ": " + core.Clean(reason)
	}
	if hint != "" {
		text += " (" + core.Clean(hint) + ")"
	}
	return text
}

func verifiedExit(v protocol.SeedView) error {
	switch {
	case v.Health == protocol.Suspect, v.Health == protocol.Dead:
		return core.ExitStatus(core.ExitFailed)
	case v.Check != nil && v.Check.Verdict == "unknown":
		return core.ExitStatus(core.ExitFailed)
	}
	return nil
}
