package schedule

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/internal/schedules"
	"fairlead.dev/fairlead/internal/protocol"
)

func showCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "when it begins something, and what came of it", Args: cobra.ExactArgs(1), Example: "  ctl schedule show nightly",
		RunE: func(c *cobra.Command, args []string) error {
			if err := core.CheckName("schedule name", args[0]); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			v, err := schedules.Show(c.Context(), t.Conn, args[0], true)
			if err != nil {
				return err
			}
			return a.Print().Show(v, func(p *core.Printer) { showSchedule(p, v) })
		},
	}
}

func showSchedule(p *core.Printer, v protocol.ScheduleView) {
	state := core.Painted(core.Green, "goes on")
	if v.Paused {
		state = core.Painted(core.Yellow, "paused")
	}
	var next []string
	for _, at := range v.Next[:min(len(v.Next), 5)] {
		next = append(next, at.Format(time.RFC3339))
	}
	p.Fields(core.Plain("name"), core.Painted(core.Bold, v.Name), core.Plain("state"), state, core.Plain("note"), core.Plain(v.Note), core.Plain("when"), core.Plain(strings.Join(v.When, "; ")), core.Plain("time zone"), core.Plain(v.TZ),
		core.Plain("overlap"), core.Plain(v.Overlap), core.Plain("jitter"), core.Plain(v.Jitter), core.Plain("catch-up"), core.Plain(v.Catchup), core.Plain("zone"), core.Plain(v.Zone), core.Plain("what"), core.Plain(v.What),
		core.Plain("made by"), core.Plain(v.By), core.Plain("next"), core.Plain(strings.Join(next, ", ")), core.Plain("begun"), core.Plain(fmt.Sprintf("%d, %d run now, %d skipped, %d missed", v.Fired, v.Running, v.Skipped, v.Missed)), core.Plain("created"), core.Plain(v.CreatedAt))
	if len(v.Recent) == 0 {
		return
	}
	what, how := "SESSION", "TURN"
	if v.Batch > 0 {
		what, how = "BATCH", "ITEMS"
	}
	var rows [][]core.Cell
	for _, f := range v.Recent {
		rows = append(rows, []core.Cell{core.Painted(core.Bold, f.ID), core.Plain(f.At.Format(time.RFC3339)), core.Plain(f.State), core.Plain(f.Status), core.Painted(core.Red, core.OneLine(f.Error, show.WidestWait))})
	}
	p.Table([]string{what, "FOR", "STATE", how, ""}, rows)
}

func listCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "all schedules", Args: cobra.NoArgs, Example: "  ctl schedule list",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			list, err := schedules.All(c.Context(), t.Conn, nil)
			if err != nil {
				return err
			}
			return core.ShowAll(a.Print(), list, func(p *core.Printer) {
				var rows [][]core.Cell
				for _, v := range list {
					state, next := core.Painted(core.Green, "goes on"), ""
					if v.Paused {
						state = core.Painted(core.Yellow, "paused")
					} else if len(v.Next) > 0 {
						next = v.Next[0].Format(time.RFC3339)
					}
					rows = append(rows, []core.Cell{core.Painted(core.Bold, v.Name), state, core.Plain(strings.Join(v.When, "; ")), core.Plain(v.TZ), core.Plain(next), core.Plain(v.Fired), core.Plain(v.Overlap), core.Plain(core.OneLine(v.What, 40))})
				}
				p.Table([]string{"NAME", "STATE", "WHEN", "TIME ZONE", "NEXT", "BEGUN", "OVERLAP", "WHAT"}, rows)
			})
		},
	}
}

func backfillCommand(a *core.App) *cobra.Command {
	var from, to, overlap string
	c := &cobra.Command{
		Use: "backfill NAME --from T --to T", Short: "start what the schedule would have started at past times", Args: cobra.ExactArgs(1),
		Long: `Begins, now, what the schedule would have begun from one moment to another, one after
the other, whether or not it did so then. What is begun has the ids of those times.`,
		Example: "  ctl schedule backfill nightly --from 2026-01-05 --to 2026-01-09T12:00",
		RunE: func(c *cobra.Command, args []string) error {
			policy, err := schedules.ParseOverlap(overlap)
			if err != nil {
				return err
			}
			if err := core.CheckName("schedule name", args[0]); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			return backfill(c.Context(), a, t, args[0], from, to, policy)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the first `moment`, such as 2026-01-31T22:30 (in the schedule's time zone)")
	c.Flags().StringVar(&to, "to", "", "the last `moment`")
	c.Flags().StringVar(&overlap, "overlap", "buffer-all", overlapHelp)
	_ = c.MarkFlagRequired("from") // fails only for unknown flags
	_ = c.MarkFlagRequired("to")
	return c
}

func backfill(ctx context.Context, a *core.App, t *conn.Conn, name, from, to string, overlap enums.ScheduleOverlapPolicy) error {
	by, err := t.By(ctx, "backfill schedule "+name)
	if err != nil {
		return err
	}
	h := schedules.Hand{Conn: t.Conn, By: by, Person: core.Person()}
	plan, err := h.PlanBackfill(ctx, name, from, to, overlap)
	if err == nil {
		err = h.Backfill(ctx, plan)
	}
	if err != nil {
		return err
	}
	return a.Print().Show(map[string]any{"name": name, "times": plan.Times}, func(p *core.Printer) {
		p.Printf("schedule %s: %d begin now, for\n", name, len(plan.Times))
		for _, at := range plan.Times {
			p.Printf("  %s\n", at.In(plan.Location).Format(time.RFC3339))
		}
	})
}
