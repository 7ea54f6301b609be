package apiflows

import (
	"context"
	"errors"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/cmd/internal/schedules"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// hand returns what acts on schedules for the caller.
func (b *Backend) hand(ctx context.Context) (schedules.Hand, error) {
	t, err := b.conn()
	return schedules.Hand{Conn: t, By: b.by(ctx), Person: b.by(ctx)}, err
}

// Schedules implements httpapi.Batches.
func (b *Backend) Schedules(ctx context.Context, may func(by string) bool) ([]protocol.ScheduleView, error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	return schedules.All(ctx, t, may)
}

// Schedule implements httpapi.Batches.
func (b *Backend) Schedule(ctx context.Context, name string) (v protocol.ScheduleView, err error) {
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	return schedules.Show(ctx, t, name, true)
}

// TriggerSchedule implements httpapi.Batches. Temporal has no id for a trigger, so a key whose
// first request has no known result is refused.
func (b *Backend) TriggerSchedule(ctx context.Context, key, name, overlap string) (string, error) {
	policy, err := schedules.ParseOverlap(overlap)
	if err != nil {
		return "", asFields(err)
	}
	h, err := b.hand(ctx)
	if err != nil {
		return "", err
	}
	doing := "trigger schedule " + name
	if key != "" {
		_, first, err := b.first(ctx, h.Conn, key, "trigger", name, doing, overlap)
		if err != nil {
			return "", err
		}
		if !first {
			return "", errkind.Refused("%s: a request with this key came before, and a trigger cannot be repeated safely", doing).
				Hinted("GET /v1/schedules/%s shows what it began", name)
		}
	}
	id, err := h.Trigger(ctx, name, policy)
	return id, asFields(err)
}

// DeleteSchedule implements httpapi.Batches.
func (b *Backend) DeleteSchedule(ctx context.Context, name string, stop bool) (v protocol.ScheduleDeleted, err error) {
	h, err := b.hand(ctx)
	if err != nil {
		return v, err
	}
	return h.Delete(ctx, name, stop)
}

// first binds a key to a request, and reports whether it was free.
func (b *Backend) first(ctx context.Context, t *flows.Conn, key, kind, id, doing string, what any) (*flows.Keyed, bool, error) {
	k, err := flows.RequestOf(key, kind, id, doing, what)
	if err != nil {
		return nil, false, err
	}
	k.Doing, k.Called = doing, idempotencyKey
	first, err := k.Bind(ctx, t, b.opts.Zone)
	return k, first, err
}

// asFields makes an error about flags of ctl one about fields of a request.
func asFields(err error) error {
	var e *errkind.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Message, out.Hint = fieldsIn(e.Message), fieldsIn(e.Hint)
	return out.Because(err)
}
