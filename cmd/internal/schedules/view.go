package schedules

import (
	"context"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Show describes a schedule, with its firings if recent is set.
func Show(ctx context.Context, t *flows.Conn, name string, recent bool) (protocol.ScheduleView, error) {
	_, d, err := Describe(ctx, t, "show schedule "+name, name)
	if err != nil {
		return protocol.ScheduleView{}, err
	}
	v := viewSchedule(name, d, NoteOf(t, d.Memo))
	ctx, cancel := t.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	running, err := running(ctx, t, "show schedule "+name, name, d)
	v.Running = len(running)
	if err != nil || !recent {
		return v, err
	}
	for _, act := range slices.Backward(d.Info.RecentActions) {
		if act.StartWorkflowResult != nil {
			v.Recent = append(v.Recent, firingOf(ctx, t, name, act.StartWorkflowResult).ScheduleFiring)
		}
	}
	return v, nil
}

func viewSchedule(name string, d *client.ScheduleDescription, note protocol.ScheduleNote) protocol.ScheduleView {
	v := protocol.ScheduleView{
		Name: name, When: note.When, By: note.By, What: note.What, Batch: note.Batch, Zone: protocol.ZoneOf(protocol.TaskQueueOf(note.Zone)),
		Next: d.Info.NextActionTimes, Running: len(d.Info.RunningWorkflows), Recent: []protocol.ScheduleFiring{}, TZ: "UTC", Overlap: OverlapWord(enums.SCHEDULE_OVERLAP_POLICY_SKIP),
		Fired: d.Info.NumActions, Skipped: d.Info.NumActionsSkippedOverlap, Missed: d.Info.NumActionsMissedCatchupWindow,
		CreatedAt: d.Info.CreatedAt, UpdatedAt: d.Info.LastUpdateAt,
	}
	if s := d.Schedule.State; s != nil {
		v.Paused, v.Note = s.Paused, s.Note
	}
	if p := d.Schedule.Policy; p != nil {
		v.Overlap, v.Catchup, v.PauseOnFailure = OverlapWord(p.Overlap), flows.RoundTime(p.CatchupWindow.String()), p.PauseOnFailure
	}
	if s := d.Schedule.Spec; s != nil {
		if s.TimeZoneName != "" {
			v.TZ = s.TimeZoneName
		}
		if s.Jitter > 0 {
			v.Jitter = flows.RoundTime(s.Jitter.String())
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

// NoteOf reads the memo of a schedule, which other programs' schedules lack.
func NoteOf(t *flows.Conn, memo *commonpb.Memo) (note protocol.ScheduleNote) {
	if p := memo.GetFields()[protocol.MemoSchedule]; p != nil {
		if t.Codec.DataConverter().FromPayload(p, &note) != nil {
			return protocol.ScheduleNote{}
		}
	}
	return note
}

// All describes each schedule that may allows, which gets who made it; nil allows each.
// Temporal's list lags behind and has fewer fields.
func All(ctx context.Context, t *flows.Conn, may func(by string) bool) ([]protocol.ScheduleView, error) {
	ctx, cancel := t.Bounded(ctx, 30*time.Second)
	defer cancel()
	it, err := t.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
	if err != nil {
		return nil, Explain(ctx, t, "list schedules", err)
	}
	list := []protocol.ScheduleView{}
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, Explain(ctx, t, "list schedules", err)
		}
		name, ours := protocol.ScheduleName(e.ID)
		if !ours {
			continue
		}
		v, err := Show(ctx, t, name, false)
		if errkind.ExitCode(err) == errkind.ExitNotFound && err != nil {
			continue // just deleted
		}
		if err != nil {
			return nil, err
		}
		if may == nil || may(v.By) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b protocol.ScheduleView) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// TimesOf includes both ends, like Temporal's backfill but unlike its list.
func TimesOf(ctx context.Context, t *flows.Conn, doing, name string, from, to time.Time) ([]time.Time, error) {
	res, err := t.WorkflowService().ListScheduleMatchingTimes(ctx, &workflowservice.ListScheduleMatchingTimesRequest{
		Namespace: t.Namespace, ScheduleId: protocol.ScheduleID(name), StartTime: timestamppb.New(from.Add(-time.Millisecond)), EndTime: timestamppb.New(to),
	})
	if err != nil {
		return nil, Explain(ctx, t, doing, err)
	}
	out := []time.Time{}
	for _, at := range res.GetStartTime() {
		out = append(out, at.AsTime())
	}
	return out, nil
}
