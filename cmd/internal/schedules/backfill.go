package schedules

import (
	"context"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// mostFilledIn bounds what one backfill starts.
const mostFilledIn = 500

// A BackfillPlan is what a schedule would have started at past times.
type BackfillPlan struct {
	Times    []time.Time
	Location *time.Location // of the schedule

	name, zone string
	start, end time.Time
	overlap    enums.ScheduleOverlapPolicy
}

// PlanBackfill finds the times of a schedule between two moments, which are texts in the schedule's
// time zone. It starts nothing.
func (h Hand) PlanBackfill(ctx context.Context, name, from, to string, overlap enums.ScheduleOverlapPolicy) (plan BackfillPlan, err error) {
	doing := "backfill schedule " + name
	_, d, err := Describe(ctx, h.Conn, doing, name)
	if err != nil {
		return plan, err
	}
	tz := "UTC"
	if d.Schedule.Spec != nil && d.Schedule.Spec.TimeZoneName != "" {
		tz = d.Schedule.Spec.TimeZoneName
	}
	plan = BackfillPlan{name: name, zone: NoteOf(h.Conn, d.Memo).Zone, overlap: overlap}
	if plan.Location, err = Location(tz); err != nil {
		return plan, err
	}
	if plan.start, err = ParseMoment("--from", from, plan.Location); err != nil {
		return plan, err
	}
	plan.end, err = ParseMoment("--to", to, plan.Location)
	switch {
	case err != nil:
		return plan, err
	case plan.end.Before(plan.start):
		return plan, errkind.Usage("--to %s is before --from %s", to, from)
	case plan.end.After(time.Now()):
		return plan, errkind.Usage("--to %s is in the future", to).Hinted("future times need no backfill: the schedule begins them itself")
	}
	ctx, cancel := h.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	if plan.Times, err = TimesOf(ctx, h.Conn, doing, name, plan.start, plan.end); err != nil {
		return plan, err
	}
	switch n := len(plan.Times); {
	case n == 0:
		return plan, errkind.Usage("%s: none of its times is between %s and %s", doing, plan.start.Format(time.RFC3339), plan.end.Format(time.RFC3339))
	case n > mostFilledIn:
		return plan, errkind.Usage("%s: %d of its times are between --from and --to; at most %d are filled in at once", doing, n, mostFilledIn)
	}
	return plan, nil
}

// Backfill begins, now, what a plan has found.
func (h Hand) Backfill(ctx context.Context, plan BackfillPlan) error {
	doing := "backfill schedule " + plan.name
	s, err := handle(ctx, h.Conn, plan.name)
	if err != nil {
		return err
	}
	about := fmt.Sprintf("from %s to %s, %d times, overlap %s", plan.start.Format(time.RFC3339), plan.end.Format(time.RFC3339), len(plan.Times), OverlapWord(plan.overlap))
	if err := OnRecord(ctx, h.Conn, h.By, doing, plan.name, plan.zone, protocol.ScheduleBackfill, about); err != nil {
		return err
	}
	ctx, cancel := h.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	return Explain(ctx, h.Conn, doing, s.Backfill(ctx, client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{{Start: plan.start, End: plan.end, Overlap: plan.overlap}}}))
}
