package main

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

	"fairlead.dev/fairlead/workflows"
)

// A scheduleView is the JSON of a schedule.
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
	Batch          int         `json:"batch,omitempty"` // number of items of the batch that it starts
	By             string      `json:"by,omitempty"`
	Next           []time.Time `json:"next"`
	Running        int         `json:"running"`
	Recent         []firing    `json:"recent"` // newest first
	Fired          int         `json:"fired"`
	Skipped        int         `json:"skipped"` // because an earlier firing still ran
	Missed         int         `json:"missed"`  // because Temporal was away for too long
	CreatedAt      time.Time   `json:"created_at"`
	UpdatedAt      time.Time   `json:"updated_at,omitzero"`
}

// scheduleView describes a schedule. With recent it also finds out what its firings
// started.
func (a *app) scheduleView(ctx context.Context, t *temporal, name string, recent bool) (scheduleView, error) {
	_, d, err := t.describe(ctx, "show schedule "+name, name)
	if err != nil {
		return scheduleView{}, err
	}
	v := viewSchedule(name, d, t.noteOf(d.Memo))
	ctx, cancel := a.bounded(ctx, answerWait)
	defer cancel()
	running, err := t.running(ctx, "show schedule "+name, name, d)
	v.Running = len(running)
	if err != nil || !recent {
		return v, err
	}
	for _, act := range slices.Backward(d.Info.RecentActions) {
		if act.StartWorkflowResult != nil {
			v.Recent = append(v.Recent, t.firing(ctx, name, act.StartWorkflowResult))
		}
	}
	return v, nil
}

func viewSchedule(name string, d *client.ScheduleDescription, note workflows.ScheduleNote) scheduleView {
	v := scheduleView{
		Name: name, When: note.When, By: note.By, What: note.What, Batch: note.Batch, Zone: workflows.ZoneOf(workflows.TaskQueueOf(note.Zone)),
		Next: d.Info.NextActionTimes, Running: len(d.Info.RunningWorkflows), Recent: []firing{}, TZ: "UTC", Overlap: overlapWord(enums.SCHEDULE_OVERLAP_POLICY_SKIP),
		Fired: d.Info.NumActions, Skipped: d.Info.NumActionsSkippedOverlap, Missed: d.Info.NumActionsMissedCatchupWindow,
		CreatedAt: d.Info.CreatedAt, UpdatedAt: d.Info.LastUpdateAt,
	}
	if s := d.Schedule.State; s != nil {
		v.Paused, v.Note = s.Paused, s.Note
	}
	if p := d.Schedule.Policy; p != nil {
		v.Overlap, v.Catchup, v.PauseOnFailure = overlapWord(p.Overlap), roundTime(p.CatchupWindow.String()), p.PauseOnFailure
	}
	if s := d.Schedule.Spec; s != nil {
		if s.TimeZoneName != "" {
			v.TZ = s.TimeZoneName
		}
		if s.Jitter > 0 {
			v.Jitter = roundTime(s.Jitter.String())
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

// noteOf reads the memo that ctl wrote to a schedule. It is empty for schedules of other
// programs.
func (t *temporal) noteOf(memo *commonpb.Memo) (note workflows.ScheduleNote) {
	if p := memo.GetFields()[workflows.MemoSchedule]; p != nil {
		if t.codec.DataConverter().FromPayload(p, &note) != nil {
			return workflows.ScheduleNote{}
		}
	}
	return note
}

func scheduleShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "when it begins something, and what came of it", Args: cobra.ExactArgs(1), Example: "  ctl schedule show nightly",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkName("schedule name", args[0]); err != nil {
				return err
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			v, err := a.scheduleView(c.Context(), t, args[0], true)
			if err != nil {
				return err
			}
			return a.print().show(v, func(p *printer) { showSchedule(p, v) })
		},
	}
}

func showSchedule(p *printer, v scheduleView) {
	state := painted(green, "goes on")
	if v.Paused {
		state = painted(yellow, "paused")
	}
	var next []string
	for _, at := range v.Next[:min(len(v.Next), 5)] {
		next = append(next, at.Format(time.RFC3339))
	}
	p.fields(plain("name"), painted(bold, v.Name), plain("state"), state, plain("note"), plain(v.Note), plain("when"), plain(strings.Join(v.When, "; ")), plain("time zone"), plain(v.TZ),
		plain("overlap"), plain(v.Overlap), plain("jitter"), plain(v.Jitter), plain("catch-up"), plain(v.Catchup), plain("zone"), plain(v.Zone), plain("what"), plain(v.What),
		plain("made by"), plain(v.By), plain("next"), plain(strings.Join(next, ", ")), plain("begun"), plain(fmt.Sprintf("%d, %d run now, %d skipped, %d missed", v.Fired, v.Running, v.Skipped, v.Missed)), plain("created"), plain(v.CreatedAt))
	if len(v.Recent) == 0 {
		return
	}
	what, how := "SESSION", "TURN"
	if v.Batch > 0 {
		what, how = "BATCH", "ITEMS"
	}
	var rows [][]cell
	for _, f := range v.Recent {
		rows = append(rows, []cell{painted(bold, f.ID), plain(f.At.Format(time.RFC3339)), plain(f.State), plain(f.Status), painted(red, oneLine(f.Error, widestWait))})
	}
	p.table([]string{what, "FOR", "STATE", how, ""}, rows)
}

func scheduleListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "all schedules", Args: cobra.NoArgs, Example: "  ctl schedule list",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			list, err := a.schedules(c.Context(), t)
			if err != nil {
				return err
			}
			return showAll(a.print(), list, func(p *printer) {
				var rows [][]cell
				for _, v := range list {
					state, next := painted(green, "goes on"), ""
					if v.Paused {
						state = painted(yellow, "paused")
					} else if len(v.Next) > 0 {
						next = v.Next[0].Format(time.RFC3339)
					}
					rows = append(rows, []cell{painted(bold, v.Name), state, plain(strings.Join(v.When, "; ")), plain(v.TZ), plain(next), plain(v.Fired), plain(v.Overlap), plain(oneLine(v.What, 40))})
				}
				p.table([]string{"NAME", "STATE", "WHEN", "TIME ZONE", "NEXT", "BEGUN", "OVERLAP", "WHAT"}, rows)
			})
		},
	}
}

// schedules lists our schedules by name. It asks for each one, because Temporal's list lags
// behind and has fewer fields.
func (a *app) schedules(ctx context.Context, t *temporal) ([]scheduleView, error) {
	ctx, cancel := a.bounded(ctx, 30*time.Second)
	defer cancel()
	it, err := t.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
	if err != nil {
		return nil, t.scheduleError(ctx, "list schedules", err)
	}
	list := []scheduleView{}
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, t.scheduleError(ctx, "list schedules", err)
		}
		name, ours := workflows.ScheduleName(e.ID)
		if !ours {
			continue
		}
		v, err := a.scheduleView(ctx, t, name, false)
		if exitOf(err) == exitNotFound && err != nil {
			continue // it was deleted just now
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b scheduleView) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// mostFilledIn is how many sessions or batches one backfill may start.
const mostFilledIn = 500

func scheduleBackfillCommand(a *app) *cobra.Command {
	var from, to, overlap string
	c := &cobra.Command{
		Use: "backfill NAME --from T --to T", Short: "begin what times that passed would have begun", Args: cobra.ExactArgs(1),
		Long: `Begins, now, what the schedule would have begun from one moment to another, one after
the other, whether or not it did so then. What is begun has the ids of those times.`,
		Example: "  ctl schedule backfill nightly --from 2026-01-05 --to 2026-01-09T12:00",
		RunE: func(c *cobra.Command, args []string) error {
			policy, err := parseOverlap(overlap)
			if err != nil {
				return err
			}
			if err := checkName("schedule name", args[0]); err != nil {
				return err
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			return a.backfill(c.Context(), t, args[0], from, to, policy)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the first `moment`, such as 2026-01-31T22:30 (in the schedule's time zone)")
	c.Flags().StringVar(&to, "to", "", "the last `moment`")
	c.Flags().StringVar(&overlap, "overlap", "buffer-all", overlapHelp)
	_ = c.MarkFlagRequired("from") // fails only for a flag that does not exist
	_ = c.MarkFlagRequired("to")
	return c
}

func (a *app) backfill(ctx context.Context, t *temporal, name, from, to string, overlap enums.ScheduleOverlapPolicy) error {
	doing := "backfill schedule " + name
	h, d, err := t.describe(ctx, doing, name)
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
		return usage("--to %s is before --from %s", to, from)
	case end.After(time.Now()):
		return usage("--to %s has not come yet", to).hinted("what is to come begins by itself")
	}
	ctx, cancel := a.bounded(ctx, answerWait)
	defer cancel()
	times, err := t.timesOf(ctx, doing, name, start, end)
	if err != nil {
		return err
	}
	if n := len(times); n == 0 {
		return usage("%s: none of its times is between %s and %s", doing, start.Format(time.RFC3339), end.Format(time.RFC3339))
	} else if n > mostFilledIn {
		return usage("%s: %d of its times are in there, at most %d at once", doing, n, mostFilledIn)
	}
	err = h.Backfill(ctx, client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{{Start: start, End: end, Overlap: overlap}}})
	if err := t.scheduleError(ctx, doing, err); err != nil {
		return err
	}
	return a.print().show(map[string]any{"name": name, "times": times}, func(p *printer) {
		p.printf("schedule %s: %d begin now, for\n", name, len(times))
		for _, at := range times {
			p.printf("  %s\n", at.In(loc).Format(time.RFC3339))
		}
	})
}

// timesOf returns the times of a schedule from one moment to another, both included, as in
// Temporal's backfill. Temporal's list excludes the first moment.
func (t *temporal) timesOf(ctx context.Context, doing, name string, from, to time.Time) ([]time.Time, error) {
	res, err := t.WorkflowService().ListScheduleMatchingTimes(ctx, &workflowservice.ListScheduleMatchingTimesRequest{
		Namespace: t.namespace, ScheduleId: workflows.ScheduleID(name), StartTime: timestamppb.New(from.Add(-time.Millisecond)), EndTime: timestamppb.New(to),
	})
	if err != nil {
		return nil, t.scheduleError(ctx, doing, err)
	}
	out := []time.Time{}
	for _, at := range res.GetStartTime() {
		out = append(out, at.AsTime())
	}
	return out, nil
}
