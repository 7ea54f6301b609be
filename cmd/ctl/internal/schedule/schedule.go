package schedule

import (
	"context"
	_ "time/tzdata" // for --tz on machines without the database

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/schedules"
)

// Command is `ctl schedule`.
func Command(a *core.App) *cobra.Command {
	return core.Group("schedule", "sessions and batches that begin by the clock",
		createCommand(a), listCommand(a), showCommand(a), pauseCommand(a), resumeCommand(a),
		triggerCommand(a), backfillCommand(a), deleteCommand(a))
}

const overlapHelp = "when what an earlier time began still runs: skip (this time), buffer-one or buffer-all (begin when it has ended), cancel-other or terminate-other (close it in good order, then begin; terminate-other does not wait), allow-all (run side by side)"

// hand returns what acts on schedules for the user.
func hand(ctx context.Context, a *core.App, doing, name string) (schedules.Hand, error) {
	if err := core.CheckName("schedule name", name); err != nil {
		return schedules.Hand{}, err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return schedules.Hand{}, err
	}
	by, err := t.By(ctx, doing)
	return schedules.Hand{Conn: t.Conn, By: by, Person: core.Person()}, err
}

func changed(a *core.App, name, done string) error {
	return a.Print().Show(map[string]string{"name": name}, func(p *core.Printer) { p.Printf("schedule %s %s\n", name, done) })
}

func pauseCommand(a *core.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "pause NAME", Short: "start nothing by the clock until it is resumed", Args: cobra.ExactArgs(1), Example: "  ctl schedule pause nightly --reason 'release week'",
		RunE: func(c *cobra.Command, args []string) error {
			h, err := hand(c.Context(), a, "pause schedule "+args[0], args[0])
			if err == nil {
				err = h.Pause(c.Context(), args[0], reason)
			}
			if err != nil {
				return err
			}
			return changed(a, args[0], "is paused")
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

func resumeCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME", Short: "start sessions and batches by the clock again", Args: cobra.ExactArgs(1), Example: "  ctl schedule resume nightly",
		Long: `What should have begun while it was paused is not made up for; 'ctl schedule backfill' does that.`,
		RunE: func(c *cobra.Command, args []string) error {
			h, err := hand(c.Context(), a, "resume schedule "+args[0], args[0])
			if err == nil {
				err = h.Resume(c.Context(), args[0])
			}
			if err != nil {
				return err
			}
			return changed(a, args[0], "goes on")
		},
	}
}

func deleteCommand(a *core.App) *cobra.Command {
	var stop bool
	c := &cobra.Command{
		Use: "delete NAME", Short: "delete a schedule", Args: cobra.ExactArgs(1),
		Long: `What it has begun goes on, and can be found by its name still; --close closes
what still runs, in good order.`,
		Example: "  ctl schedule delete nightly\n  ctl schedule delete nightly --close",
		RunE: func(c *cobra.Command, args []string) error {
			h, err := hand(c.Context(), a, "delete schedule "+args[0], args[0])
			if err != nil {
				return err
			}
			d, err := h.Delete(c.Context(), args[0], stop)
			if err != nil {
				return err
			}
			return a.Print().Show(d, func(p *core.Printer) {
				p.Printf("schedule %s is deleted", args[0])
				if d.Closing > 0 {
					p.Printf("; what it began is closing (%d)", d.Closing)
				}
				if d.Running > 0 {
					p.Printf("; what it began goes on (%d): %s", d.Running, schedules.BegunBy(args[0], d.Batch))
				}
				p.Printf("\n")
			})
		},
	}
	c.Flags().BoolVar(&stop, "close", false, "also close what it began and what still runs")
	return c
}

func triggerCommand(a *core.App) *cobra.Command {
	var overlap string
	c := &cobra.Command{
		Use: "trigger NAME", Short: "begin one now", Args: cobra.ExactArgs(1),
		Long: `Begins what the schedule is for, now, also while it is paused; its own overlap policy
holds, unless --overlap says otherwise. Prints the id of what was begun.`,
		Example: "  ctl schedule trigger nightly\n  ctl schedule trigger nightly --overlap allow-all",
		RunE: func(c *cobra.Command, args []string) error {
			policy, err := schedules.ParseOverlap(overlap)
			if err != nil {
				return err
			}
			h, err := hand(c.Context(), a, "trigger schedule "+args[0], args[0])
			if err != nil {
				return err
			}
			id, err := h.Trigger(c.Context(), args[0], policy)
			if err != nil {
				return err
			}
			if id == "" {
				return a.Print().Show(map[string]any{"name": args[0], "id": nil}, func(p *core.Printer) {
					p.Printf("schedule %s: it begins when what still runs has ended\n", args[0])
				})
			}
			return a.Print().Show(map[string]any{"name": args[0], "id": id}, func(p *core.Printer) { p.Printf("%s\n", id) })
		},
	}
	c.Flags().StringVar(&overlap, "overlap", "", overlapHelp)
	return c
}

// onRecord is schedules.OnRecord for the user.
func onRecord(ctx context.Context, t *conn.Conn, doing, name, zone, act, about string) error {
	by, err := t.By(ctx, doing)
	if err != nil {
		return err
	}
	return schedules.OnRecord(ctx, t.Conn, by, doing, name, zone, act, about)
}
