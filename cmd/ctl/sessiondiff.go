package main

import (
	"strconv"

	"github.com/spf13/cobra"
)

func sessionDiffCommand(a *app) *cobra.Command {
	var turn string
	var moving bool
	c := &cobra.Command{
		Use: "diff ID [--turn N|last]", Short: "what a session, or a turn of it, changed in files", Args: cobra.ExactArgs(1),
		Long: `Prints what is not in the work folder as it was when the session began, whoever changed it, as a
unified diff that git apply takes; git on the host makes it, and .gitignore holds. While a turn
runs, or where one began meanwhile, that is refused (exit 6), unless --while-running is given. With --turn it
is all that a turn changed: what codex's own edits did, not what commands wrote. last is the
newest turn that changed anything; exit 3 where there is none.`,
		Example: "  ctl session diff release-42 | git apply --check\n  ctl session diff release-42 --turn last | git apply --check\n  ctl session diff release-42 --turn 3",
		RunE: func(c *cobra.Command, args []string) error {
			if moving && turn != "" {
				return usage("--while-running: what a turn changed (--turn) is told at any time")
			}
			n := 0
			if turn != "last" && turn != "" {
				var err error
				if n, err = strconv.Atoi(turn); err != nil || n < 1 {
					return usage("--turn %q is neither the number of a turn nor last", turn)
				}
			}
			if err := checkName("session id", args[0]); err != nil {
				return err
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			worker, err := a.workerFor(c.Context(), t, args[0])
			if err != nil {
				return err
			}
			if turn == "" {
				return a.unlessEnded(c.Context(), t, args[0], "compare the work of", a.workDiff(c.Context(), worker, args[0], moving))
			}
			d, err := worker.Diff(c.Context(), args[0], n)
			if err != nil {
				return apiFailure("read the diff of session "+args[0], err)
			}
			if d.Cut {
				a.note("the diff of turn %d is cut at %d bytes", d.Turn, len(d.Text))
			}
			return a.print().show(map[string]any{"session": args[0], "turn": d.Turn, "diff": d.Text, "cut": d.Cut}, func(p *printer) {
				showTurnDiff(p, d.Text)
			})
		},
	}
	c.Flags().BoolVar(&moving, "while-running", false, "also while a turn writes there: files may be half written")
	c.Flags().StringVar(&turn, "turn", "", "`N`, counted from 1, or last")
	return c
}

// showTurnDiff prints a diff, cleaned and in colours at a terminal, and otherwise
// unchanged, so that `git apply` accepts it.
func showTurnDiff(p *printer, diff string) {
	if isTerminal(p.w) {
		showDiff(p, diff)
		return
	}
	p.printf("%s", diff)
}
