package apiflows

import (
	"context"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/cmd/internal/schedules"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

// whatWidth bounds what a list shows of a schedule's message.
const whatWidth = 200

// CreateSchedule implements httpapi.Batches.
func (b *Backend) CreateSchedule(ctx context.Context, key, name string, in httpapi.NewSchedule) (v protocol.ScheduleView, err error) {
	opts, when, err := clock(name, in)
	if err != nil {
		return v, err
	}
	n := schedules.New{Name: name, Options: opts, When: when}
	h, err := b.hand(ctx)
	if err != nil {
		return v, err
	}
	owner, request := owned.Owner{Kind: owned.Schedule, ID: name}, requestOr(key)
	k, err := flows.RequestOf(key, protocol.ClaimSchedule, name, "create a schedule over HTTP", in)
	if err != nil {
		return v, err
	}
	create := func(n schedules.New) (v protocol.ScheduleView, err error) {
		if k != nil {
			k.Doing, k.Called, n.Note.Request = "create schedule "+name, idempotencyKey, k.Request
			if err := k.Take(ctx, h.Conn, b.opts.Zone); err != nil {
				return v, err
			}
			if v, there, err := b.madeBy(ctx, h.Conn, k, n.Zone); err != nil || there {
				return v, err
			}
		}
		v, err = h.Create(ctx, n)
		if k == nil {
			return v, asFields(err)
		}
		if err == nil {
			return v, schedules.WasMade(ctx, h.Conn, k.Doing, name, k.Request, n.Zone)
		}
		if v, there, _ := b.madeBy(ctx, h.Conn, k, n.Zone); there { // by the same request, at the same time
			return v, nil
		}
		return v, asFields(err)
	}
	if in.Batch != nil {
		m, err := manyOf(*in.Batch, "the batches of schedule "+name, len(protocol.LongestFiredID(name)))
		if err != nil {
			return v, within("batch", err)
		}
		n.Note = protocol.ScheduleNote{What: "a batch given over HTTP", Batch: len(m.items)}
		n.Check = func(ctx context.Context) error { return within("batch", m.checkNames(ctx, h.Conn)) }
		n.Pack = func(ctx context.Context, fire *schedule.FireInput) error {
			spec, err := m.pack(ctx, b, owner, request)
			fire.Batch, fire.By = &spec, b.by(ctx)
			return err
		}
		return create(n)
	}
	first := in.Session.Message
	of := *in.Session
	of.Message = nil
	opt, err := unattended(of)
	if err != nil {
		return v, err
	}
	opt.By, opt.Origin = b.by(ctx), protocol.OriginSchedule(name)
	n.Zone, n.Note = opt.Zone, protocol.ScheduleNote{What: escape.OneLine(first.Text, whatWidth), Zone: opt.Zone}
	n.Check = func(ctx context.Context) error { return h.CheckNames(ctx, &opt) }
	n.Pack = func(ctx context.Context, fire *schedule.FireInput) error {
		m, err := b.messageOf(ctx, owner, request, "first", *first)
		if err == nil {
			err = b.keepAllGiven(ctx, owner, request, &opt)
		}
		start := session.NewInput("", opt, &m) // each firing has an id of its own
		fire.Session = &start
		return err
	}
	return create(n)
}

// madeBy returns the schedule that an earlier request with a key created. If that schedule was deleted
// since, the request is refused, whoever has the name now.
func (b *Backend) madeBy(ctx context.Context, t *flows.Conn, k *flows.Keyed, zone string) (v protocol.ScheduleView, there bool, err error) {
	_, d, err := schedules.Describe(ctx, t, k.Doing, k.ID)
	if err == nil && schedules.NoteOf(t, d.Memo).Request == k.Request {
		if err := schedules.WasMade(ctx, t, k.Doing, k.ID, k.Request, zone); err != nil {
			return v, false, err
		}
		v, err = schedules.Show(ctx, t, k.ID, true)
		return v, err == nil, err
	}
	if err != nil && errkind.ExitCode(err) != errkind.ExitNotFound {
		return v, false, err
	}
	made, err := schedules.Made(k.Doing, k.ID, k.Request)
	if err != nil {
		return v, false, err
	}
	was, err := made.Claimed(ctx, t)
	if err == nil && was != nil {
		err = errkind.Refused("%s: an earlier request with this key created it, and it was deleted since", k.Doing).Hinted("send the request with a new key to create it again")
	}
	return v, false, err
}

// clock checks when a schedule begins something.
func clock(name string, in httpapi.NewSchedule) (opts client.ScheduleOptions, words []string, err error) {
	if err := schedules.CheckName(name); err != nil {
		return opts, nil, err
	}
	switch {
	case (in.Session == nil) == (in.Batch == nil):
		return opts, nil, errkind.Usage("create schedule %s: give one of session and batch", name)
	case in.Session != nil && in.Session.Message == nil:
		return opts, nil, errkind.Usage("create schedule %s: session.message says what codex is to do each time", name)
	}
	w := schedules.When{Cron: in.Cron, Calendar: in.Calendar, Except: in.Except, TZ: in.TZ, From: in.From, Until: in.Until}
	if w.TZ == "" {
		w.TZ = "UTC"
	}
	for _, text := range in.Every {
		var d time.Duration
		if err := duration("every", text, &d); err != nil {
			return opts, nil, err
		}
		w.Every = append(w.Every, d)
	}
	if err := duration("jitter", in.Jitter, &w.Jitter); err != nil {
		return opts, nil, err
	}
	if w.Catchup, err = wait("catchup", in.Catchup, schedules.Catchup); err != nil {
		return opts, nil, err
	}
	spec, err := w.Spec()
	if err != nil {
		return opts, nil, asFields(err)
	}
	policy, err := schedules.ParseOverlap(in.Overlap)
	if err != nil {
		return opts, nil, asFields(err)
	}
	return client.ScheduleOptions{ID: protocol.ScheduleID(name), Spec: spec, Overlap: policy, CatchupWindow: w.Catchup,
		Paused: in.Paused, PauseOnFailure: in.PauseOnFailure, Note: in.Note}, w.Words(), nil
}
