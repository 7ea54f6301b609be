package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

// verifyWait is how long a verification may take. A slow issuer is waited for, because
// giving up would lose its answer.
const verifyWait = 2 * time.Minute

func seedVerifyCommand(a *app) *cobra.Command {
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
A login that is held is not touched: its holder's turns tell. Only its issuer's invalid_grant
makes a seed dead. Where an earlier refresh was sent and its answer is not known, the token may
be spent: --force uses it once more, which burns the login if it is.
Exit 0: healthy, or nothing is known against it. Exit 1: suspect, dead, or it could not be found out.`,
		Example: "  ctl seed verify team\n  ctl seed verify --all -o json",
		RunE: func(c *cobra.Command, args []string) error {
			if all && force {
				return usage("--force is for one seed: it may burn a login")
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			if !all {
				v, err := t.verifySeed(c.Context(), args[0], force)
				if err != nil {
					return err
				}
				if err := a.print().show(v, func(p *printer) { p.printf("%s\n", verified(v)) }); err != nil {
					return err
				}
				return verifiedExit(v)
			}
			return a.verifyAll(c.Context(), t)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "ask also if its refresh token may be spent already")
	c.Flags().BoolVar(&all, "all", false, "every seed, one after another")
	return c
}

func (t *temporal) verifySeed(ctx context.Context, name string, force bool) (workflows.SeedView, error) {
	var v workflows.SeedView
	if err := checkName("seed name", name); err != nil {
		return v, err
	}
	err := t.updateWithin(ctx, verifyWait, "verify seed "+name, workflows.SeedID(name), activities.UpdateVerifySeed, "", &v,
		activities.VerifySeed{Force: force, By: person()})
	return v, err
}

func (a *app) verifyAll(ctx context.Context, t *temporal) error {
	infos, err := t.list(ctx, "list seeds", fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.TypeSeed), 1000)
	if err != nil {
		return err
	}
	var worst error
	for _, info := range infos {
		id := info.GetExecution().GetWorkflowId()
		v, err := t.verifySeed(ctx, id[len(workflows.SeedID("")):], false)
		if err != nil {
			if exitOf(err) == exitNotFound {
				continue // it was never imported, or is being deleted
			}
			return err
		}
		if err := a.print().show(v, func(p *printer) { p.printf("%s\n", verified(v)) }); err != nil {
			return err
		}
		if err := verifiedExit(v); err != nil {
			worst = err
		}
	}
	return worst
}

// verified describes the result of a verification.
func verified(v workflows.SeedView) string {
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
		text += ": " + clean(reason)
	}
	if hint != "" {
		text += " (" + clean(hint) + ")"
	}
	return text
}

func verifiedExit(v workflows.SeedView) error {
	switch {
	case v.Health == workflows.Suspect, v.Health == workflows.Dead:
		return exitStatus(exitFailed)
	case v.Check != nil && v.Check.Verdict == "unknown":
		return exitStatus(exitFailed)
	}
	return nil
}
