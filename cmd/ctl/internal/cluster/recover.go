package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// Recover is `ctl recover`.
func Recover(a *core.App) *cobra.Command {
	var yes, look bool
	c := &cobra.Command{
		Use: "recover", Short: "after Temporal's database was restored: reconcile seeds with the store", Args: cobra.NoArgs,
		Long: `Temporal's database may be restored to an earlier point. Then the store has logins that are newer
than those that Temporal knows, and using the older ones burns them. Without --yes, the command lists
for each seed what Temporal knows, what the store has, and what would be done. With --yes it is done:

  adopt    a later login in the store becomes the seed's newest generation
  suspect  a later login may exist, but cannot be taken: nobody gets the seed until a
           person imports a login or revives the seed
  absent   the store has the seed, and Temporal does not know it or it was deleted: import it
           again, if it is still needed

With --yes, each seed also fences off the leases that Temporal has forgotten. The command uses no
token. Before that, a session whose seed has a later generation in the store waits, as seed_behind.
A host may have run turns that Temporal does not know. Its session then reads them from the host's
journal. If the host refuses the session, the session parks, and its error says why. Exit 1 if a seed
could not be reconciled.`,
		Example: "  ctl recover\n  ctl recover --yes -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if yes && look {
				return core.Usage("--dry-run and --yes exclude each other")
			}
			return reconcile(c.Context(), a, !yes)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	c.Flags().BoolVar(&look, "dry-run", false, "only list what would be done, as without --yes")
	return c
}

func reconcile(ctx context.Context, a *core.App, look bool) error {
	doing, id := "reconcile seeds with the store", protocol.RecoverID
	if look {
		doing, id = "compare seeds with the store", protocol.LookRecoverID
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	conf, err := a.Config()
	if err != nil {
		return err
	}
	run, err := t.Start(ctx, doing, client.StartWorkflowOptions{
		ID: id, TaskQueue: protocol.TaskQueueOf(conf.Zone), StaticSummary: doing,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, protocol.TypeRecover, protocol.RecoverInput{DryRun: look})
	if err != nil {
		return err
	}
	var out protocol.RecoverResult
	if err := t.TaskFailure(doing, t.Result(ctx, doing, run, 0, &out)); err != nil {
		return err
	}
	if err := a.Print().Show(out, func(p *core.Printer) { printRecovered(p, out) }); err != nil {
		return err
	}
	if out.Failed > 0 {
		return core.NewError(core.ExitFailed, "not_reconciled", "%s: %d of %d seeds could not be reconciled", doing, out.Failed, len(out.Seeds)+out.Omitted).
			Hinted("each seed says why; then repeat it")
	}
	return nil
}

func printRecovered(p *core.Printer, out protocol.RecoverResult) {
	var rows [][]core.Cell
	for _, s := range out.Seeds {
		rows = append(rows, []core.Cell{core.Plain(s.Name), core.Plain(dash(s.Generation)), core.Plain(dash(s.Stored)), core.Plain(deed(s, out.DryRun)),
			core.Plain(core.Clean(strings.Join(s.HeldBy, ", ")))})
	}
	if len(rows) > 0 {
		p.Table([]string{"SEED", "TEMPORAL", "STORE", "ACTION", "HELD BY"}, rows)
	}
	for _, s := range out.Seeds {
		switch {
		case s.Problem != "":
			p.Printf("%s %s: %s\n", p.Paint(core.Red, "failed"), s.Name, core.Clean(s.Problem))
		case s.Reason != "" && s.Hint != "":
			p.Printf("%s: %s (%s)\n", s.Name, core.Clean(s.Reason), core.Clean(s.Hint))
		case s.Reason != "":
			p.Printf("%s: %s\n", s.Name, core.Clean(s.Reason))
		}
	}
	if out.Omitted > 0 {
		p.Printf("… and %d more\n", out.Omitted)
	}
	switch {
	case !out.DryRun && out.Failed == 0:
		p.Printf("the leases that Temporal has forgotten are fenced off\n")
	case !out.DryRun:
		p.Printf("the leases that Temporal has forgotten are fenced off, but for seeds that failed\n")
	case out.Due > 0:
		p.Printf("nothing was changed; `ctl recover --yes` does what is listed\n")
	default:
		p.Printf("nothing was changed; after a restore of Temporal's database, `ctl recover --yes` fences off forgotten leases\n")
	}
	if out.Sessions > 0 {
		p.Printf("%d sessions are open. If a host has run turns that Temporal does not know, its session takes them over or parks; `ctl session list --state parked` shows the parked ones\n", out.Sessions)
	}
}

func dash(generation int64) string {
	if generation == 0 {
		return "-"
	}
	return fmt.Sprint(generation)
}

func deed(s protocol.RecoveredSeed, look bool) string {
	adopts, suspects := "adopted", "became suspect"
	if look {
		adopts, suspects = "adopts", "becomes suspect"
	}
	switch {
	case s.Problem != "":
		return "failed"
	case s.Action == protocol.RecoverAdopt && s.Suspect:
		return fmt.Sprintf("%s %d as %d, %s", adopts, s.Adopts, s.Becomes, suspects)
	case s.Action == protocol.RecoverAdopt:
		return fmt.Sprintf("%s %d as %d", adopts, s.Adopts, s.Becomes)
	case s.Action == protocol.RecoverSuspect:
		return suspects
	case s.Action == protocol.RecoverAbsent:
		return "absent in Temporal"
	}
	return "nothing"
}
