package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for --tz on machines without the database

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
)

// Command is `ctl schedule`.
func Command(a *core.App) *cobra.Command {
	return core.Group("schedule", "sessions and batches that begin by the clock",
		createCommand(a), listCommand(a), showCommand(a), pauseCommand(a), resumeCommand(a),
		triggerCommand(a), backfillCommand(a), deleteCommand(a))
}

// overlaps say what happens if an earlier firing still runs.
var overlaps = []struct {
	word   string
	policy enums.ScheduleOverlapPolicy
}{
	{"skip", enums.SCHEDULE_OVERLAP_POLICY_SKIP},
	{"buffer-one", enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE},
	{"buffer-all", enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL},
	{"cancel-other", enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER},
	{"terminate-other", enums.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER},
	{"allow-all", enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL},
}

const overlapHelp = "when what an earlier time began still runs: skip (this time), buffer-one or buffer-all (begin when it has ended), cancel-other or terminate-other (close it in good order, then begin; terminate-other does not wait), allow-all (run side by side)"

func parseOverlap(word string) (enums.ScheduleOverlapPolicy, error) {
	var words []string
	for _, o := range overlaps {
		if o.word == word {
			return o.policy, nil
		}
		words = append(words, o.word)
	}
	if word == "" {
		return enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED, nil
	}
	return 0, core.Usage("--overlap %q is not one of %s", word, strings.Join(words, ", "))
}

func overlapWord(p enums.ScheduleOverlapPolicy) string {
	for _, o := range overlaps {
		if o.policy == p {
			return o.word
		}
	}
	return "skip"
}

// scheduleHandle asks no server.
func scheduleHandle(ctx context.Context, t *conn.Conn, name string) (client.ScheduleHandle, error) {
	if err := core.CheckName("schedule name", name); err != nil {
		return nil, err
	}
	return t.ScheduleClient().GetHandle(ctx, protocol.ScheduleID(name)), nil
}

func describe(ctx context.Context, t *conn.Conn, doing, name string) (client.ScheduleHandle, *client.ScheduleDescription, error) {
	h, err := scheduleHandle(ctx, t, name)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := t.App.Bounded(ctx, conn.AnswerWait)
	defer cancel()
	d, err := h.Describe(ctx)
	return h, d, scheduleError(ctx, t, doing, err)
}

// scheduleError is Explain for schedules.
func scheduleError(ctx context.Context, t *conn.Conn, doing string, err error) error {
	var bad *serviceerror.InvalidArgument
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &bad):
		return core.Usage("%s: %s", doing, conn.FirstSentence(err)).Because(err)
	case errors.As(err, &gone):
		return core.NotFound("%s: it does not exist", doing).Hinted("`ctl schedule list` shows them").Because(err)
	}
	return t.Explain(ctx, doing, err)
}

func change(ctx context.Context, a *core.App, doing, name, act, about, done string, do func(context.Context, client.ScheduleHandle) error) error {
	if err := core.CheckName("schedule name", name); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	h, d, err := describe(ctx, t, doing, name)
	if err != nil {
		return err
	}
	if err := onRecord(ctx, t, doing, name, noteOf(t, d.Memo).Zone, act, about); err != nil {
		return err
	}
	bctx, cancel := a.Bounded(ctx, conn.AnswerWait)
	defer cancel()
	if err := scheduleError(bctx, t, doing, do(bctx, h)); err != nil {
		return err
	}
	return a.Print().Show(map[string]string{"name": name}, func(p *core.Printer) { p.Printf("schedule %s %s\n", name, done) })
}

func pauseCommand(a *core.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "pause NAME", Short: "start nothing by the clock until it is resumed", Args: cobra.ExactArgs(1), Example: "  ctl schedule pause nightly --reason 'release week'",
		RunE: func(c *cobra.Command, args []string) error {
			note := "paused by " + core.Person()
			if reason != "" {
				note += ": " + reason
			}
			return change(c.Context(), a, "pause schedule "+args[0], args[0], protocol.SchedulePause, core.OneLine(reason, maxAbout), "is paused", func(ctx context.Context, h client.ScheduleHandle) error {
				return h.Pause(ctx, client.SchedulePauseOptions{Note: note})
			})
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
			return change(c.Context(), a, "resume schedule "+args[0], args[0], protocol.ScheduleResume, "", "goes on", func(ctx context.Context, h client.ScheduleHandle) error {
				return h.Unpause(ctx, client.ScheduleUnpauseOptions{Note: "resumed by " + core.Person()})
			})
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
			doing := "delete schedule " + args[0]
			if err := core.CheckName("schedule name", args[0]); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			h, d, err := describe(c.Context(), t, doing, args[0])
			if err != nil {
				return err
			}
			if err := onRecord(c.Context(), t, doing, args[0], noteOf(t, d.Memo).Zone, protocol.ScheduleDelete, ""); err != nil {
				return err
			}
			ctx, cancel := a.Bounded(c.Context(), conn.AnswerWait)
			defer cancel()
			if err := scheduleError(ctx, t, doing, h.Delete(ctx)); err != nil {
				return err
			}
			running, err := running(ctx, t, doing+": it is deleted; look for what it began", args[0], d)
			if err != nil {
				return err
			}
			closed := 0
			for _, id := range running {
				if !stop {
					break
				}
				err := t.CancelWorkflow(ctx, id, "")
				var gone *serviceerror.NotFound
				if err != nil && !errors.As(err, &gone) {
					return t.Explain(ctx, doing+": close what it began", err)
				}
				closed++
			}
			left := len(running) - closed
			return a.Print().Show(map[string]any{"name": args[0], "closing": closed, "running": left}, func(p *core.Printer) {
				p.Printf("schedule %s is deleted", args[0])
				if closed > 0 {
					p.Printf("; what it began is closing (%d)", closed)
				}
				if left > 0 {
					p.Printf("; what it began goes on (%d): %s", left, begunBy(args[0], noteOf(t, d.Memo)))
				}
				p.Printf("\n")
			})
		},
	}
	c.Flags().BoolVar(&stop, "close", false, "also close what it began and what still runs")
	return c
}

// running lists unfinished workflows of firings. Temporal's own list has only those that
// the overlap policy needs, none with allow-all.
func running(ctx context.Context, t *conn.Conn, doing, name string, d *client.ScheduleDescription) (ids []string, err error) {
	for _, run := range d.Info.RunningWorkflows {
		ids = append(ids, run.WorkflowID)
	}
	found, err := t.List(ctx, doing, fmt.Sprintf("TemporalScheduledById = '%s' AND ExecutionStatus = 'Running'", protocol.ScheduleID(name)), maxRunning)
	for _, info := range found {
		ids = append(ids, info.GetExecution().GetWorkflowId())
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// maxRunning bounds the firings that running lists.
const maxRunning = 10_000

// begunWait bounds trigger's wait for the id of what it started.
const begunWait = 15 * time.Second

func triggerCommand(a *core.App) *cobra.Command {
	var overlap string
	c := &cobra.Command{
		Use: "trigger NAME", Short: "begin one now", Args: cobra.ExactArgs(1),
		Long: `Begins what the schedule is for, now, also while it is paused; its own overlap policy
holds, unless --overlap says otherwise. Prints the id of what was begun.`,
		Example: "  ctl schedule trigger nightly\n  ctl schedule trigger nightly --overlap allow-all",
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
			return trigger(c.Context(), a, t, args[0], policy)
		},
	}
	c.Flags().StringVar(&overlap, "overlap", "", overlapHelp)
	return c
}

func trigger(ctx context.Context, a *core.App, t *conn.Conn, name string, overlap enums.ScheduleOverlapPolicy) error {
	doing := "trigger schedule " + name
	h, before, err := describe(ctx, t, doing, name)
	if err != nil {
		return err
	}
	if overlap == enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED && before.Schedule.Policy != nil {
		overlap = before.Schedule.Policy.Overlap
	}
	if err := onRecord(ctx, t, doing, name, noteOf(t, before.Memo).Zone, protocol.ScheduleTrigger, "overlap "+overlapWord(overlap)); err != nil {
		return err
	}
	ctx, cancel := a.Bounded(ctx, begunWait)
	defer cancel()
	if err := scheduleError(ctx, t, doing, h.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: overlap})); err != nil {
		return err
	}
	began := func(id string) error {
		return a.Print().Show(map[string]any{"name": name, "id": id}, func(p *core.Printer) { p.Printf("%s\n", id) })
	}
	expected := "" // the id of a firing that has not reported it
	tick := time.NewTicker(core.PollEvery)
	defer tick.Stop()
	for {
		now, err := h.Describe(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return scheduleError(ctx, t, doing, err)
		case err != nil && expected != "":
			return began(expected) // its worker does not answer
		case err != nil:
			return core.TimedOut("%s: nothing began within %s", doing, a.Wait(begunWait)).Hinted("`ctl schedule show %s` says what it waits for", name)
		case now.Info.NumActions > before.Info.NumActions && len(now.Info.RecentActions) > 0:
			run := now.Info.RecentActions[len(now.Info.RecentActions)-1].StartWorkflowResult
			f := firingOf(ctx, t, name, run)
			if f.known {
				return began(f.ID)
			}
			expected = f.ID
		case now.Info.NumActionsSkippedOverlap > before.Info.NumActionsSkippedOverlap:
			return core.Refused("%s: its earlier session or batch still runs, so nothing began", doing).
				Hinted("%s shows it; --overlap allow-all starts another one beside it", begunBy(name, noteOf(t, before.Memo)))
		case len(now.Info.RunningWorkflows) > 0 && waits(overlap):
			return a.Print().Show(map[string]any{"name": name, "id": nil}, func(p *core.Printer) {
				p.Printf("schedule %s: it begins when what still runs has ended\n", name)
			})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// begunBy names the command that lists what began.
func begunBy(name string, note protocol.ScheduleNote) string {
	what := "session"
	if note.Batch > 0 {
		what = "batch"
	}
	return fmt.Sprintf("`ctl %s list --schedule %s`", what, name)
}

// waits reports whether a firing waits for the one before.
func waits(p enums.ScheduleOverlapPolicy) bool {
	return p == enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE || p == enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL || p == enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER
}

// parseMoment parses a time; its zone defaults to in.
func parseMoment(flag, text string, in *time.Location) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, in); err == nil {
			return at, nil
		}
	}
	return time.Time{}, core.Usage("%s %q is not a time", flag, text).Hinted("2026-01-31, 2026-01-31T22:30 (in the schedule's time zone) or 2026-01-31T22:30:00Z")
}

func location(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, core.BadTimeZone(name)
	}
	return loc, nil
}

// firedAt returns a firing's due time, which is in its workflow id.
func firedAt(name, workflowID string) time.Time {
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(workflowID, protocol.ScheduleID(name)+"-"))
	if err != nil {
		return time.Time{}
	}
	return at
}

// A firing is one run of a schedule.
type firing struct {
	ID     string    `json:"id"` // of the session or batch
	At     time.Time `json:"at"` // when it was due
	State  string    `json:"state"`
	Status string    `json:"status,omitempty"` // of the turn, or the batch's successes
	Error  string    `json:"error,omitempty"`
	known  bool      // the workflow reported ID
}

// firingOf finds what a run started. If Temporal dropped the run, only the time is known.
func firingOf(ctx context.Context, t *conn.Conn, name string, run *client.ScheduleWorkflowExecution) firing {
	f := firing{At: firedAt(name, run.WorkflowID), State: "unknown"}
	f.ID = protocol.FiredID(name, f.At)
	d, err := t.DescribeWorkflowExecution(ctx, run.WorkflowID, run.FirstExecutionRunID)
	if err != nil {
		return f
	}
	if d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		f.State = "running"
		for _, child := range d.GetPendingChildren() {
			if child.GetRunId() != "" { // otherwise the id may be in use, and the workflow tries the next
				_, f.ID, f.known = strings.Cut(child.GetWorkflowId(), "/")
			}
		}
		return f
	}
	var out protocol.FireResult
	err = t.GetWorkflow(ctx, run.WorkflowID, run.FirstExecutionRunID).Get(ctx, &out)
	schedule.ReadFireResult(&out, err)
	return f.ended(out, d.GetWorkflowExecutionInfo().GetStatus(), err)
}

func (f firing) ended(out protocol.FireResult, status enums.WorkflowExecutionStatus, err error) firing {
	f.known = true // it will report nothing more
	if out.ID != "" {
		f.ID = out.ID
	}
	f.Status = out.Status
	switch status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		f.State = "completed"
	case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		f.State = "cancelled"
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		f.State = "terminated"
	default:
		f.State = "failed"
		f.Error = fmt.Sprint(conn.FirstSentence(err))
	}
	return f
}
