package httpapi

import (
	"context"
	"net/http"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// OfSchedule names a schedule.
type OfSchedule struct {
	Name string `path:"name" maxLength:"63" doc:"schedule"`
}

// Trigger begins what a schedule is for.
type Trigger struct {
	Overlap string `json:"overlap,omitempty" enum:"skip,buffer-one,buffer-all,cancel-other,terminate-other,allow-all" doc:"when what an earlier time began still runs; as the schedule says by default"`
}

// Triggered names what began.
type Triggered struct {
	Name string  `json:"name"`
	ID   *string `json:"id" doc:"of the session or batch; null if it begins when what still runs has ended"`
}

// Backfill names past times of a schedule.
type Backfill struct {
	From    string `json:"from" maxLength:"64" doc:"the first moment, such as 2026-01-31T22:30, in the schedule's time zone"`
	To      string `json:"to" maxLength:"64" doc:"the last moment"`
	Overlap string `json:"overlap,omitempty" enum:"skip,buffer-one,buffer-all,cancel-other,terminate-other,allow-all" doc:"when what an earlier time began still runs; buffer-all by default"`
}

// Backfilled has the times for which something begins.
type Backfilled struct {
	Name  string      `json:"name"`
	Times []time.Time `json:"times"`
}

const schedulePath = "/v1/schedules/{name}"

func (a *API) addSchedules() {
	spotOf := func(method, path, id, summary string, verb access.Verb) spot {
		return spot{method: method, path: path, id: id, summary: summary, verb: verb, begins: true}
	}
	add(a, spotOf(http.MethodGet, "/v1/schedules", "listSchedules", "List schedules by name", access.SessionRead),
		func(ctx context.Context, in *Paged) (*Body[Page[protocol.ScheduleView]], error) {
			list, err := a.sessions.Schedules(ctx, func(by string) bool { return a.mayWith(ctx, access.SessionRead, by) })
			if err != nil {
				return nil, err
			}
			return answer(pageOf(*in, "schedules", list, func(v protocol.ScheduleView) string { return v.Name }))
		})
	add(a, spotOf(http.MethodGet, schedulePath, "showSchedule", "Show when a schedule begins something, and what came of it", access.SessionRead),
		func(ctx context.Context, in *OfSchedule) (*Body[protocol.ScheduleView], error) {
			return answer(a.schedule(ctx, in.Name, access.SessionRead))
		})
	create := spotOf(http.MethodPost, schedulePath, "createSchedule", "Start sessions or batches by the clock", access.ScheduleWrite)
	create.status, create.body = http.StatusCreated, maxBatch
	add(a, create, func(ctx context.Context, in *struct {
		OfSchedule
		Keyed
		Body NewSchedule
	}) (*Body[protocol.ScheduleView], error) {
		if s := in.Body.Session; s != nil {
			if err := s.Message.check(); err != nil {
				return nil, err
			}
		}
		if err := in.Body.Batch.check(); err != nil {
			return nil, err
		}
		return answer(a.sessions.CreateSchedule(ctx, in.of(ctx), in.Name, in.Body))
	})
	add(a, spotOf(http.MethodPost, schedulePath+"/pause", "pauseSchedule", "Start nothing by the clock until it is resumed", access.ScheduleWrite),
		func(ctx context.Context, in *struct {
			OfSchedule
			Keyed
			Body *Reasoned
		}) (*Body[protocol.ScheduleView], error) {
			why := ""
			if in.Body != nil {
				why = in.Body.Reason
			}
			return a.changed(ctx, in.Name, func() error { return a.sessions.PauseSchedule(ctx, in.of(ctx), in.Name, why) })
		})
	add(a, spotOf(http.MethodPost, schedulePath+"/resume", "resumeSchedule", "Start sessions and batches by the clock again", access.ScheduleWrite),
		func(ctx context.Context, in *struct {
			OfSchedule
			Keyed
		}) (*Body[protocol.ScheduleView], error) {
			return a.changed(ctx, in.Name, func() error { return a.sessions.ResumeSchedule(ctx, in.of(ctx), in.Name) })
		})
	add(a, spotOf(http.MethodPost, schedulePath+"/trigger", "triggerSchedule", "Begin what the schedule is for, now", access.ScheduleWrite),
		func(ctx context.Context, in *struct {
			OfSchedule
			Keyed
			Body *Trigger
		}) (*Body[Triggered], error) {
			if _, err := a.schedule(ctx, in.Name, access.ScheduleWrite); err != nil {
				return nil, err
			}
			overlap := ""
			if in.Body != nil {
				overlap = in.Body.Overlap
			}
			id, err := a.sessions.TriggerSchedule(ctx, in.of(ctx), in.Name, overlap)
			out := Triggered{Name: in.Name}
			if id != "" {
				out.ID = &id
			}
			return answer(out, err)
		})
	add(a, spotOf(http.MethodPost, schedulePath+"/backfill", "backfillSchedule", "Begin, now, what the schedule would have begun at past times", access.ScheduleWrite),
		func(ctx context.Context, in *struct {
			OfSchedule
			Keyed
			Body Backfill
		}) (*Body[Backfilled], error) {
			if _, err := a.schedule(ctx, in.Name, access.ScheduleWrite); err != nil {
				return nil, err
			}
			return answer(a.sessions.BackfillSchedule(ctx, in.of(ctx), in.Name, in.Body))
		})
	add(a, spotOf(http.MethodDelete, schedulePath, "deleteSchedule", "Delete a schedule. What it has begun goes on", access.ScheduleWrite),
		func(ctx context.Context, in *struct {
			OfSchedule
			Close bool `query:"close" doc:"also close what it began and what still runs"`
		}) (*Body[protocol.ScheduleDeleted], error) {
			if _, err := a.schedule(ctx, in.Name, access.ScheduleWrite); err != nil {
				return nil, err
			}
			return answer(a.sessions.DeleteSchedule(ctx, in.Name, in.Close))
		})
}

// mayWith judges what the caller may do to a schedule that somebody made.
func (a *API) mayWith(ctx context.Context, verb access.Verb, by string) bool {
	return a.records.May(ctx, verb, access.Object{Owner: by, HostUnknown: true, SeedUnknown: true})
}

// schedule returns a schedule to which the caller may do something.
func (a *API) schedule(ctx context.Context, name string, verb access.Verb) (protocol.ScheduleView, error) {
	v, err := a.sessions.Schedule(ctx, name)
	if err == nil && !a.mayWith(ctx, verb, v.By) {
		err = forbidden("schedule "+name, verb)
	}
	return v, err
}

func (a *API) changed(ctx context.Context, name string, do func() error) (*Body[protocol.ScheduleView], error) {
	if _, err := a.schedule(ctx, name, access.ScheduleWrite); err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	return answer(a.sessions.Schedule(ctx, name))
}
