package session

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/internal/budget"
	"fairlead.dev/fairlead/internal/protocol"
)

func setCommand(a *core.App) *cobra.Command {
	var text string
	var choice start.ChooseFlags
	c := &cobra.Command{
		Use: "set ID", Short: "change what a session works with, and what it may use", Args: cobra.ExactArgs(1),
		Long: `Changes the session's budget, also while a turn runs: tokens (input and output), turns, time
(of the turns together, without what approvals waited for people), approvals asked for and
commands begun that it may use in all, and turn, the longest turn. A turn that uses more is
interrupted, and says of what; at 80 % that is said in the transcript. What is not given
stays; tokens=0 removes the limit on tokens.
Model and effort hold from the next turn on, also after the session parked or was forked. They are
checked against what codex lists ('ctl session models ID'); an effort that a new model does not
have becomes the next lower one.`,
		Example: "  ctl session set release-42 --budget tokens=500000,time=8h,turn=2h\n  ctl session set release-42 --budget approvals=50,commands=0\n  ctl session set release-42 --model gpt-6.1-sol --effort high",
		RunE: func(c *cobra.Command, args []string) error {
			m := choice.Set(c)
			if text == "" && m == nil {
				return core.Usage("nothing to set").Hinted("--model M, --effort E, --name NAME, %s", budget.Example)
			}
			var b protocol.Budget
			if text != "" {
				var err error
				if b, err = budget.Parse(text); err != nil {
					return err
				}
			}
			if m != nil {
				if err := choose(c.Context(), a, args[0], *m, quietIf(text != "", "set")); err != nil || text == "" {
					return err
				}
			}
			return setBudget(c.Context(), a, args[0], b)
		},
	}
	choice.Add(c)
	c.Flags().StringVar(&text, "budget", "", start.BudgetHelp)
	return c
}

func setBudget(ctx context.Context, a *core.App, id string, m protocol.Budget) error {
	m.By = core.Person()
	return tell(ctx, a, id, "set the budget of session "+id, protocol.SignalBudget, m, nil, "budget set")
}
