package session

import (
	"strconv"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
)

func diffCommand(a *core.App) *cobra.Command {
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
				return core.Usage("--while-running does not go with --turn: what a turn changed is shown at any time")
			}
			n := 0
			if turn != "last" && turn != "" {
				var err error
				if n, err = strconv.Atoi(turn); err != nil || n < 1 {
					return core.Usage("--turn %q is neither the number of a turn nor last", turn)
				}
			}
			if err := core.CheckName("session id", args[0]); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			worker, err := conn.WorkerFor(c.Context(), a, t, args[0])
			if err != nil {
				return err
			}
			if turn == "" {
				return unlessEnded(c.Context(), t, args[0], "compare the work of", workDiff(c.Context(), a, worker, args[0], moving))
			}
			d, err := worker.Diff(c.Context(), args[0], n)
			if err != nil {
				return conn.APIFailure("read the diff of session "+args[0], err)
			}
			if d.Cut {
				a.Note("the diff of turn %d is cut at %d bytes", d.Turn, len(d.Text))
			}
			return a.Print().Show(map[string]any{"session": args[0], "turn": d.Turn, "diff": d.Text, "cut": d.Cut}, func(p *core.Printer) {
				showTurnDiff(p, d.Text)
			})
		},
	}
	c.Flags().BoolVar(&moving, "while-running", false, "also while a turn writes there: files may be half written")
	c.Flags().StringVar(&turn, "turn", "", "`N`, counted from 1, or last")
	return c
}

// showTurnDiff prints a diff: unchanged for `git apply`, or cleaned and in colours at a
// terminal.
func showTurnDiff(p *core.Printer, diff string) {
	if core.IsTerminal(p.W) {
		show.Diff(p, diff)
		return
	}
	p.Exact(diff)
}
