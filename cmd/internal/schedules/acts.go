package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Hand acts on schedules for somebody.
type Hand struct {
	*flows.Conn
	By     string // the principal, for the record
	Person string // for notes that people read
	// Begin, unless it is nil, is called when a pause or its end is on record, immediately before it is
	// carried out. If it returns an error, the act is not carried out. Otherwise the act counts only if
	// the schedule is still in the state that Begin returns.
	Begin func(context.Context) (State, error)
}

// turn pauses a schedule, or ends its pause.
func (h Hand) turn(ctx context.Context, doing, name, act, about string, paused bool, note string, do func(context.Context, client.ScheduleHandle) error) error {
	s, d, err := Describe(ctx, h.Conn, doing, name)
	if err != nil {
		return err
	}
	if err := OnRecord(ctx, h.Conn, h.By, doing, name, NoteOf(h.Conn, d.Memo).Zone, act, about); err != nil {
		return err
	}
	if h.Begin != nil {
		at, err := h.Begin(ctx)
		if err != nil {
			return err
		}
		return at.turn(ctx, h.Conn, doing, name, paused, note)
	}
	bctx, cancel := h.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	return Explain(bctx, h.Conn, doing, do(bctx, s))
}

// Pause lets a schedule begin nothing by the clock.
func (h Hand) Pause(ctx context.Context, name, reason string) error {
	note := "paused by " + h.Person
	if reason != "" {
		note += ": " + reason
	}
	return h.turn(ctx, "pause schedule "+name, name, protocol.SchedulePause, escape.OneLine(reason, MaxAbout), true, note, func(ctx context.Context, s client.ScheduleHandle) error {
		return s.Pause(ctx, client.SchedulePauseOptions{Note: note})
	})
}

// Resume ends a pause.
func (h Hand) Resume(ctx context.Context, name string) error {
	note := "resumed by " + h.Person
	return h.turn(ctx, "resume schedule "+name, name, protocol.ScheduleResume, "", false, note, func(ctx context.Context, s client.ScheduleHandle) error {
		return s.Unpause(ctx, client.ScheduleUnpauseOptions{Note: note})
	})
}

// Delete deletes a schedule, and closes what it began if stop is set.
func (h Hand) Delete(ctx context.Context, name string, stop bool) (out protocol.ScheduleDeleted, err error) {
	doing := "delete schedule " + name
	s, d, err := Describe(ctx, h.Conn, doing, name)
	if err != nil {
		return out, err
	}
	note := NoteOf(h.Conn, d.Memo)
	if err := OnRecord(ctx, h.Conn, h.By, doing, name, note.Zone, protocol.ScheduleDelete, ""); err != nil {
		return out, err
	}
	if note.Request != "" { // so that the request does not create it again
		if err := WasMade(ctx, h.Conn, doing, name, note.Request, note.Zone); err != nil {
			return out, err
		}
	}
	ctx, cancel := h.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	if err := Explain(ctx, h.Conn, doing, s.Delete(ctx)); err != nil {
		return out, err
	}
	out.Name, out.Batch = name, note.Batch > 0
	running, err := running(ctx, h.Conn, doing+": it is deleted; look for what it began", name, d)
	if err != nil {
		return out, err
	}
	for _, id := range running {
		if !stop {
			break
		}
		err := h.CancelWorkflow(ctx, id, "")
		var gone *serviceerror.NotFound
		if err != nil && !errors.As(err, &gone) {
			return out, h.Explain(ctx, doing+": close what it began", err)
		}
		out.Closing++
	}
	out.Running = len(running) - out.Closing
	return out, nil
}

// begunWait bounds Trigger's wait for the id of what it started.
const begunWait = 15 * time.Second

const pollEvery = 200 * time.Millisecond

// Trigger begins what a schedule is for, now. It returns the id of what began, or "" if it
// begins when what still runs has ended.
func (h Hand) Trigger(ctx context.Context, name string, overlap enums.ScheduleOverlapPolicy) (string, error) {
	doing := "trigger schedule " + name
	s, before, err := Describe(ctx, h.Conn, doing, name)
	if err != nil {
		return "", err
	}
	if overlap == enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED && before.Schedule.Policy != nil {
		overlap = before.Schedule.Policy.Overlap
	}
	if err := OnRecord(ctx, h.Conn, h.By, doing, name, NoteOf(h.Conn, before.Memo).Zone, protocol.ScheduleTrigger, "overlap "+OverlapWord(overlap)); err != nil {
		return "", err
	}
	ctx, cancel := h.Bounded(ctx, begunWait)
	defer cancel()
	if err := Explain(ctx, h.Conn, doing, s.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: overlap})); err != nil {
		return "", err
	}
	expected := "" // the id of a firing that has not reported it
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		now, err := s.Describe(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return "", Explain(ctx, h.Conn, doing, err)
		case err != nil && expected != "":
			return expected, nil // its worker does not answer
		case err != nil:
			return "", errkind.TimedOut("%s: nothing began within %s", doing, h.Side.Wait(begunWait)).Hinted("`ctl schedule show %s` says what it waits for", name)
		case now.Info.NumActions > before.Info.NumActions && len(now.Info.RecentActions) > 0:
			run := now.Info.RecentActions[len(now.Info.RecentActions)-1].StartWorkflowResult
			f := firingOf(ctx, h.Conn, name, run)
			if f.known {
				return f.ID, nil
			}
			expected = f.ID
		case now.Info.NumActionsSkippedOverlap > before.Info.NumActionsSkippedOverlap:
			return "", errkind.Refused("%s: its earlier session or batch still runs, so nothing began", doing).
				Hinted("%s shows it; --overlap allow-all starts another one beside it", BegunBy(name, NoteOf(h.Conn, before.Memo).Batch > 0))
		case len(now.Info.RunningWorkflows) > 0 && waits(overlap):
			return "", nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// BegunBy names the command that lists what a schedule began.
func BegunBy(name string, batches bool) string {
	what := "session"
	if batches {
		what = "batch"
	}
	return fmt.Sprintf("`ctl %s list --schedule %s`", what, name)
}

// waits reports whether a firing waits for the one before.
func waits(p enums.ScheduleOverlapPolicy) bool {
	return p == enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE || p == enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL || p == enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER
}

// running lists unfinished workflows of firings. Temporal's own list has only those that
// the overlap policy needs, none with allow-all.
func running(ctx context.Context, t *flows.Conn, doing, name string, d *client.ScheduleDescription) (ids []string, err error) {
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
