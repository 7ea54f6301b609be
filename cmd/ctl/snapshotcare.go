package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

func snapshotPruneCommand(a *app) *cobra.Command {
	var in activities.PruneSnapshotsInput
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
				if err := checkName("session id", args[0]); err != nil {
					return err
				}
				in.Session = args[0]
			}
			switch flags := c.Flags(); {
			case flags.Changed("keep") && in.Keep < 1:
				return usage("--keep %d: at least 1, the newest of a session is kept in any case", in.Keep)
			case flags.Changed("max-age") && in.MaxAge <= 0:
				return usage("--max-age %s: it must be longer than nothing", in.MaxAge)
			}
			return a.pruneSnapshots(c.Context(), in)
		},
	}
	c.Flags().BoolVar(&in.DryRun, "dry-run", false, "only say what would go")
	c.Flags().IntVar(&in.Keep, "keep", 0, "keep the newest `N` of each session (default: the workers' snapshots.keep)")
	c.Flags().DurationVar(&in.MaxAge, "max-age", 0, "of those keep none that is older (default: the workers' snapshots.max_age)")
	return c
}

func (a *app) pruneSnapshots(ctx context.Context, in activities.PruneSnapshotsInput) error {
	id := workflows.PruneSnapshotsID
	if in.DryRun {
		id = workflows.LookPruneID
	}
	var out activities.PruneSnapshotsResult
	if err := a.ofStore(ctx, "prune snapshots", id, workflows.TypePrune, in, &out); err != nil {
		return err
	}
	return a.print().show(out, func(p *printer) { printPruned(p, in, out) })
}

func printPruned(p *printer, in activities.PruneSnapshotsInput, out activities.PruneSnapshotsResult) {
	for _, id := range out.Snapshots {
		p.printf("%s\n", id)
	}
	if n := len(out.Unasked); n > 0 {
		p.printf("%s did not say what they go on from, so nothing of theirs is dropped: %s\n", countOf(n, "session"), strings.Join(out.Unasked, ", "))
	}
	dropped, freed, condemned := "dropped", "freed", "condemned for a later prune"
	if in.DryRun {
		dropped, freed, condemned = "would be dropped", "would be freed", "would be "+condemned
	}
	p.printf("%s %s, %s of %s %s, %s %s\n", number(len(out.Snapshots), "snapshot"), dropped,
		size(out.Freed), number(out.Packs, "pack"), freed, number(out.Condemned, "pack"), condemned)
}

// number is like countOf, but also says that there are none.
func number(n int, thing string) string {
	if n == 0 {
		return "no " + thing + "s"
	}
	return countOf(n, thing)
}

func snapshotCheckCommand(a *app) *cobra.Command {
	var in activities.CheckSnapshotsInput
	c := &cobra.Command{
		Use: "check", Short: "find out whether every snapshot can be restored", Args: cobra.NoArgs,
		Long: `Looks for what is missing in the store of any snapshot, and with --read-data reads, decrypts
and compares all of it, which takes as long as it takes to read the store. Changes nothing.
Exit 1 if a snapshot cannot be restored whole; those are named, with what is wrong.`,
		Example: "  ctl snapshot check --read-data",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.checkSnapshots(c.Context(), in)
		},
	}
	c.Flags().BoolVar(&in.ReadData, "read-data", false, "read every byte, not only what is there")
	return c
}

func (a *app) checkSnapshots(ctx context.Context, in activities.CheckSnapshotsInput) error {
	doing, id := "check snapshots", workflows.CheckSnapshotsID
	if in.ReadData {
		id += "/read-data"
	}
	var out activities.CheckSnapshotsResult
	if err := a.ofStore(ctx, doing, id, workflows.TypeCheckSnapshots, in, &out); err != nil {
		return err
	}
	if err := a.print().show(out, func(p *printer) { printChecked(p, out) }); err != nil {
		return err
	}
	if n := len(out.Problems); n > 0 {
		return newExit(exitFailed, "damaged", "%s: %s found", doing, countOf(n, "problem")).
			hinted("a session that goes on is whole again with its next snapshot; `ctl snapshot delete` removes one that is no use")
	}
	return nil
}

func printChecked(p *printer, out activities.CheckSnapshotsResult) {
	for _, text := range out.Problems {
		p.printf("%s %s\n", p.paint(red, "damaged"), clean(text))
	}
	word := p.paint(green, "every one can be restored")
	if len(out.Problems) > 0 {
		word = fmt.Sprintf("%d of them cannot be restored whole", len(out.Damaged))
	}
	p.printf("%d snapshots, %d chunks in %d packs: %s\n", out.Snapshots, out.Chunks, out.Packs, word)
}

// ofStore runs a workflow on the whole store, shows its progress and waits for its end.
// Only one workflow with this id runs at a time. A running one may do something else, so
// ofStore waits for it before starting its own.
func (a *app) ofStore(ctx context.Context, doing, id, kind string, in, out any) error {
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	conf, err := a.config()
	if err != nil {
		return err
	}
	run, err := a.startAlone(ctx, t, doing, client.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.TaskQueueOf(conf.Zone), StaticSummary: doing,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL, WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, kind, in)
	if err != nil {
		return err
	}
	told, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tellProgress(told, t, id, func(now activities.SnapshotsProgress) string {
			if now.Step == "" {
				return ""
			}
			return now.String()
		})
	}()
	err = t.result(ctx, doing, run, 0, out)
	stop()
	<-done
	return t.taskFailure(doing, err)
}

func (a *app) startAlone(ctx context.Context, t *temporal, doing string, opts client.StartWorkflowOptions, kind string, in any) (client.WorkflowRun, error) {
	for told := false; ; told = true {
		run, err := t.start(ctx, doing, opts, kind, in)
		var busy *serviceerror.WorkflowExecutionAlreadyStarted
		if !errors.As(err, &busy) {
			return run, err
		}
		if !told {
			a.note("%s: one is at work already; this one begins when it has ended", doing)
		}
		err = t.result(ctx, doing, t.GetWorkflow(ctx, opts.ID, ""), 0, nil)
		if code := exitOf(err); ctx.Err() != nil || err != nil && (code == exitTimeout || code == exitUnreachable) {
			return nil, err
		}
	}
}

// tellProgress prints the progress of a workflow's activities: the text that say makes of
// the newest heartbeat, if any, and the reason for a retry.
func tellProgress[P comparable](ctx context.Context, t *temporal, id string, say func(P) string) {
	var last P
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		d, err := t.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			continue // the result will say what is wrong
		}
		for _, p := range d.GetPendingActivities() {
			var now P
			if err := t.codec.DataConverter().FromPayloads(p.GetHeartbeatDetails(), &now); err == nil && now != last {
				if text := say(now); text != "" {
					last = now
					t.app.note("%s", text)
				}
			}
			if why := t.codec.Message(p.GetLastFailure()); why != "" && p.GetAttempt() > 1 {
				t.app.note("try %d, since the last one failed: %s", p.GetAttempt(), oneLine(clean(why), 200))
			}
		}
	}
}
