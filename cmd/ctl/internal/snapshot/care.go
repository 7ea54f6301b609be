package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func pruneCommand(a *core.App) *cobra.Command {
	var in protocol.PruneSnapshotsInput
	c := &cobra.Command{
		Use: "prune [ID]", Short: "drop old snapshots, and what nothing needs any more", Args: cobra.MaximumNArgs(1),
		Long: `Drops the snapshots of a session, or of all, that are not to be kept, and removes from the
store what no snapshot needs any more. How many are kept, and how old they may be, says
'snapshots' in the workers' config, or the flags. The newest good snapshot of a session is
kept in any case, and so is what an open session goes on from, or a fork is to begin with;
of a session that cannot be asked nothing is dropped. It is safe while sessions take snapshots, so what nobody needs leaves the
store in two steps: a first prune condemns it, a later one removes it. Workers prune by
themselves ('snapshots.prune' in their config).`,
		Example: "  ctl snapshot prune --dry-run\n  ctl snapshot prune --keep 3 --max-age 720h",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := core.CheckName("session id", args[0]); err != nil {
					return err
				}
				in.Session = args[0]
			}
			switch flags := c.Flags(); {
			case flags.Changed("keep") && in.Keep < 1:
				return core.Usage("--keep %d: at least 1, the newest of a session is kept in any case", in.Keep)
			case flags.Changed("max-age") && in.MaxAge <= 0:
				return core.Usage("--max-age %s: it must be greater than 0", in.MaxAge)
			}
			return pruneSnapshots(c.Context(), a, in)
		},
	}
	c.Flags().BoolVar(&in.DryRun, "dry-run", false, "only say what would go")
	c.Flags().IntVar(&in.Keep, "keep", 0, "keep the newest `N` of each session (default: the workers' snapshots.keep)")
	c.Flags().DurationVar(&in.MaxAge, "max-age", 0, "of those keep none that is older (default: the workers' snapshots.max_age)")
	return c
}

func pruneSnapshots(ctx context.Context, a *core.App, in protocol.PruneSnapshotsInput) error {
	id := protocol.PruneSnapshotsID
	if in.DryRun {
		id = protocol.LookPruneID
	}
	var out protocol.PruneSnapshotsResult
	if err := ofStore(ctx, a, "prune snapshots", id, protocol.TypePrune, in, &out); err != nil {
		return err
	}
	return a.Print().Show(out, func(p *core.Printer) { printPruned(p, in, out) })
}

func printPruned(p *core.Printer, in protocol.PruneSnapshotsInput, out protocol.PruneSnapshotsResult) {
	for _, id := range out.Snapshots {
		p.Printf("%s\n", id)
	}
	if n := len(out.Unasked); n > 0 {
		p.Printf("%s did not say what they go on from, so nothing of theirs is dropped: %s\n", core.CountOf(n, "session"), strings.Join(out.Unasked, ", "))
	}
	dropped, freed, condemned := "dropped", "freed", "condemned for a later prune"
	if in.DryRun {
		dropped, freed, condemned = "would be dropped", "would be freed", "would be "+condemned
	}
	p.Printf("%s %s, %s of %s %s, %s %s\n", core.Number(len(out.Snapshots), "snapshot"), dropped,
		core.Size(out.Freed), core.Number(out.Packs, "pack"), freed, core.Number(out.Condemned, "pack"), condemned)
}

func checkCommand(a *core.App) *cobra.Command {
	var in protocol.CheckSnapshotsInput
	c := &cobra.Command{
		Use: "check", Short: "find out whether every snapshot can be restored", Args: cobra.NoArgs,
		Long: `Looks for what is missing in the store of any snapshot, and with --read-data reads, decrypts
and compares all of it, which takes as long as it takes to read the store. Changes nothing.
Exit 1 if a snapshot cannot be restored whole; those are named, with what is wrong.`,
		Example: "  ctl snapshot check --read-data",
		RunE: func(c *cobra.Command, _ []string) error {
			return checkSnapshots(c.Context(), a, in)
		},
	}
	c.Flags().BoolVar(&in.ReadData, "read-data", false, "read every byte, not only what is there")
	return c
}

func checkSnapshots(ctx context.Context, a *core.App, in protocol.CheckSnapshotsInput) error {
	doing, id := "check snapshots", protocol.CheckSnapshotsID
	if in.ReadData {
		id += "/read-data"
	}
	var out protocol.CheckSnapshotsResult
	if err := ofStore(ctx, a, doing, id, protocol.TypeCheckSnapshots, in, &out); err != nil {
		return err
	}
	if err := a.Print().Show(out, func(p *core.Printer) { printChecked(p, out) }); err != nil {
		return err
	}
	if n := len(out.Problems); n > 0 {
		return core.NewError(core.ExitFailed, "damaged", "%s: %s found", doing, core.CountOf(n, "problem")).
			Hinted("a session that goes on is whole again with its next snapshot; `ctl snapshot delete` removes one that is no use")
	}
	return nil
}

func printChecked(p *core.Printer, out protocol.CheckSnapshotsResult) {
	for _, text := range out.Problems {
		p.Printf("%s %s\n", p.Paint(core.Red, "damaged"), core.Clean(text))
	}
	word := p.Paint(core.Green, "every one can be restored")
	if len(out.Problems) > 0 {
		word = fmt.Sprintf("%d of them cannot be restored whole", len(out.Damaged))
	}
	p.Printf("%d snapshots, %d chunks in %d packs: %s\n", out.Snapshots, out.Chunks, out.Packs, word)
}

// ofStore runs a workflow on the whole store. It first waits for one that already runs,
// which may do something else.
func ofStore(ctx context.Context, a *core.App, doing, id, kind string, in, out any) error {
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	conf, err := a.Config()
	if err != nil {
		return err
	}
	run, err := startAlone(ctx, a, t, doing, client.StartWorkflowOptions{
		ID: id, TaskQueue: protocol.TaskQueueOf(conf.Zone), StaticSummary: doing,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL, WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, kind, in)
	if err != nil {
		return err
	}
	told, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn.TellProgress(told, t, id, func(now protocol.SnapshotsProgress) string {
			if now.Step == "" {
				return ""
			}
			return now.String()
		})
	}()
	err = t.Result(ctx, doing, run, 0, out)
	stop()
	<-done
	return t.TaskFailure(doing, err)
}

func startAlone(ctx context.Context, a *core.App, t *conn.Conn, doing string, opts client.StartWorkflowOptions, kind string, in any) (client.WorkflowRun, error) {
	for told := false; ; told = true {
		run, err := t.Start(ctx, doing, opts, kind, in)
		var busy *serviceerror.WorkflowExecutionAlreadyStarted
		if !errors.As(err, &busy) {
			return run, err
		}
		if !told {
			a.Note("%s: another one is running; this one starts after it", doing)
		}
		err = t.Result(ctx, doing, t.GetWorkflow(ctx, opts.ID, ""), 0, nil)
		if code := core.ExitCode(err); ctx.Err() != nil || err != nil && (code == core.ExitTimeout || code == core.ExitUnreachable) {
			return nil, err
		}
	}
}
