package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/protocol"
)

type scheduleView struct {
	Name           string      `json:"name"`
	Paused         bool        `json:"paused"`
	Note           string      `json:"note,omitempty"`
	When           []string    `json:"when"`
	TZ             string      `json:"tz"`
	Overlap        string      `json:"overlap"`
	Jitter         string      `json:"jitter,omitempty"`
	Catchup        string      `json:"catchup,omitempty"`
	PauseOnFailure bool        `json:"pause_on_failure"`
	Zone           string      `json:"zone"`
	What           string      `json:"what"`
	Batch          int         `json:"batch,omitempty"` // items
	By             string      `json:"by,omitempty"`
	Next           []time.Time `json:"next"`
	Running        int         `json:"running"`
	Recent         []firing    `json:"recent"` // newest first
	Fired          int         `json:"fired"`
	Skipped        int         `json:"skipped"` // an earlier firing still ran
	Missed         int         `json:"missed"`  // Temporal was down for too long
	CreatedAt      time.Time   `json:"created_at"`
	UpdatedAt      time.Time   `json:"updated_at,omitzero"`
}

// viewOf describes a schedule, with its firings if recent is set.
func viewOf(ctx context.Context, a *core.App, t *conn.Conn, name string, recent bool) (scheduleView, error) {
	_, d, err := describe(ctx, t, "show schedule "+name, name)
	if err != nil {
		return scheduleView{}, err
	}
	v := viewSchedule(name, d, noteOf(t, d.Memo))
	ctx, cancel := a.Bounded(ctx, conn.AnswerWait)
	defer cancel()
	running, err := running(ctx, t, "show schedule "+name, name, d)
	v.Running = len(running)
	if err != nil || !recent {
		return v, err
	}
	for _, act := range slices.Backward(d.Info.RecentActions) {
		if act.StartWorkflowResult != nil {
			v.Recent = append(v.Recent, firingOf(ctx, t, name, act.StartWorkflowResult))
		}
	}
	return v, nil
}

func viewSchedule(name string, d *client.ScheduleDescription, note protocol.ScheduleNote) scheduleView {
	v := scheduleView{
		Name: name, When: note.When, By: note.By, What: note.What, Batch: note.Batch, Zone: protocol.ZoneOf(protocol.TaskQueueOf(note.Zone)),
		Next: d.Info.NextActionTimes, Running: len(d.Info.RunningWorkflows), Recent: []firing{}, TZ: "UTC", Overlap: overlapWord(enums.SCHEDULE_OVERLAP_POLICY_SKIP),
		Fired: d.Info.NumActions, Skipped: d.Info.NumActionsSkippedOverlap, Missed: d.Info.NumActionsMissedCatchupWindow,
		CreatedAt: d.Info.CreatedAt, UpdatedAt: d.Info.LastUpdateAt,
	}
	if s := d.Schedule.State; s != nil {
		v.Paused, v.Note = s.Paused, s.Note
	}
	if p := d.Schedule.Policy; p != nil {
		v.Overlap, v.Catchup, v.PauseOnFailure = overlapWord(p.Overlap), show.RoundTime(p.CatchupWindow.String()), p.PauseOnFailure
	}
	if s := d.Schedule.Spec; s != nil {
		if s.TimeZoneName != "" {
			v.TZ = s.TimeZoneName
		}
		if s.Jitter > 0 {
			v.Jitter = show.RoundTime(s.Jitter.String())
		}
	}
	if v.Next == nil {
		v.Next = []time.Time{}
	}
	if v.When == nil {
		v.When = []string{}
	}
	return v
}

// noteOf reads ctl's memo, which other programs' schedules lack.
func noteOf(t *conn.Conn, memo *commonpb.Memo) (note protocol.ScheduleNote) {
	if p := memo.GetFields()[protocol.MemoSchedule]; p != nil {
		if t.Codec.DataConverter().FromPayload(p, &note) != nil {
			return protocol.ScheduleNote{}
		}
	}
	return note
}

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
			v, err := viewOf(c.Context(), a, t, args[0], true)
			if err != nil {
				return err
			}
			return a.Print().Show(v, func(p *core.Printer) { showSchedule(p, v) })
		},
	}
}

func showSchedule(p *core.Printer, v scheduleView) {
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
			list, err := schedules(c.Context(), a, t)
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

// schedules describes each schedule, because Temporal's list lags behind and has fewer
// fields.
func schedules(ctx context.Context, a *core.App, t *conn.Conn) ([]scheduleView, error) {
	ctx, cancel := a.Bounded(ctx, 30*time.Second)
	defer cancel()
	it, err := t.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
	if err != nil {
		return nil, scheduleError(ctx, t, "list schedules", err)
	}
	list := []scheduleView{}
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, scheduleError(ctx, t, "list schedules", err)
		}
		name, ours := protocol.ScheduleName(e.ID)
		if !ours {
			continue
		}
		v, err := viewOf(ctx, a, t, name, false)
		if core.ExitCode(err) == core.ExitNotFound && err != nil {
			continue // just deleted
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b scheduleView) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// mostFilledIn bounds what one backfill starts.
const mostFilledIn = 500

func backfillCommand(a *core.App) *cobra.Command {
	var from, to, overlap string
	c := &cobra.Command{
		Use: "backfill NAME --from T --to T", Short: "start what the schedule would have started at past times", Args: cobra.ExactArgs(1),
		Long: `Begins, now, what the schedule would have begun from one moment to another, one after
the other, whether or not it did so then. What is begun has the ids of those times.`,
		Example: "  ctl schedule backfill nightly --from 2026-01-05 --to 2026-01-09T12:00",
		RunE: func(c *cobra.Command, args []string) error {
			policy, err := parseOverlap(overlap)
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
	doing := "backfill schedule " + name
	h, d, err := describe(ctx, t, doing, name)
	if err != nil {
		return err
	}
	tz := "UTC"
	if d.Schedule.Spec != nil && d.Schedule.Spec.TimeZoneName != "" {
		tz = d.Schedule.Spec.TimeZoneName
	}
	loc, err := location(tz)
	if err != nil {
		return err
	}
	start, err := parseMoment("--from", from, loc)
	if err != nil {
		return err
	}
	end, err := parseMoment("--to", to, loc)
	switch {
	case err != nil:
		return err
	case end.Before(start):
		return core.Usage("--to %s is before --from %s", to, from)
	case end.After(time.Now()):
		return core.Usage("--to %s is in the future", to).Hinted("future times need no backfill: the schedule begins them itself")
	}
	ctx, cancel := a.Bounded(ctx, conn.AnswerWait)
	defer cancel()
	times, err := timesOf(ctx, t, doing, name, start, end)
	if err != nil {
		return err
	}
	if n := len(times); n == 0 {
		return core.Usage("%s: none of its times is between %s and %s", doing, start.Format(time.RFC3339), end.Format(time.RFC3339))
	} else if n > mostFilledIn {
		return core.Usage("%s: %d of its times are between --from and --to; at most %d are filled in at once", doing, n, mostFilledIn)
	}
	about := fmt.Sprintf("from %s to %s, %d times, overlap %s", start.Format(time.RFC3339), end.Format(time.RFC3339), len(times), overlapWord(overlap))
	if err := onRecord(ctx, t, doing, name, noteOf(t, d.Memo).Zone, protocol.ScheduleBackfill, about); err != nil {
		return err
	}
	err = h.Backfill(ctx, client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{{Start: start, End: end, Overlap: overlap}}})
	if err := scheduleError(ctx, t, doing, err); err != nil {
		return err
	}
	return a.Print().Show(map[string]any{"name": name, "times": times}, func(p *core.Printer) {
		p.Printf("schedule %s: %d begin now, for\n", name, len(times))
		for _, at := range times {
			p.Printf("  %s\n", at.In(loc).Format(time.RFC3339))
		}
	})
}

// timesOf includes both ends, like Temporal's backfill but unlike its list.
func timesOf(ctx context.Context, t *conn.Conn, doing, name string, from, to time.Time) ([]time.Time, error) {
	res, err := t.WorkflowService().ListScheduleMatchingTimes(ctx, &workflowservice.ListScheduleMatchingTimesRequest{
		Namespace: t.Namespace, ScheduleId: protocol.ScheduleID(name), StartTime: timestamppb.New(from.Add(-time.Millisecond)), EndTime: timestamppb.New(to),
	})
	if err != nil {
		return nil, scheduleError(ctx, t, doing, err)
	}
	out := []time.Time{}
	for _, at := range res.GetStartTime() {
		out = append(out, at.AsTime())
	}
	return out, nil
}
