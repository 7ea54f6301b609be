package apiflows

import (
	"context"
	"errors"
	"time"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/cmd/internal/schedules"
	"fairlead.dev/fairlead/internal/errkind"
)

// PauseSchedule implements httpapi.Batches.
func (b *Backend) PauseSchedule(ctx context.Context, key, name, reason string) error {
	return b.switchOnce(ctx, key, "pause", name, reason, true, func(h schedules.Hand) error { return h.Pause(ctx, name, reason) })
}

// ResumeSchedule implements httpapi.Batches.
func (b *Backend) ResumeSchedule(ctx context.Context, key, name string) error {
	return b.switchOnce(ctx, key, "resume", name, "", false, func(h schedules.Hand) error { return h.Resume(ctx, name) })
}

// changePoll is how often a request with a key looks whether Temporal has changed a schedule.
const changePoll = 200 * time.Millisecond

// switchOnce pauses or resumes a schedule, once for a key, whatever others do to the schedule later.
//
// Temporal has no id for such an act. So a request claims that it begins, with the version of the
// schedule, then acts on that version alone, and then claims that it is done. However often the act is
// repeated, and however late a call comes, Temporal carries it out at most once: it changes the version.
// If somebody else changed the schedule since the request began, and it is not as the request asks, then
// it is not known whether the request was carried out, and a repetition is refused.
func (b *Backend) switchOnce(ctx context.Context, key, act, name, reason string, paused bool, do func(schedules.Hand) error) error {
	h, err := b.hand(ctx)
	if err != nil {
		return err
	}
	if key == "" {
		return do(h)
	}
	doing := act + " schedule " + name
	k, _, err := b.first(ctx, h.Conn, key, act, name, doing, reason)
	if err != nil {
		return err
	}
	done, err := schedules.Done(doing, name, k.Request)
	if err != nil {
		return err
	}
	turn := turning{Backend: b, Conn: h.Conn, doing: doing, name: name, request: k.Request, paused: paused}
	h.Begin = turn.begin
	for {
		if was, err := done.Claimed(ctx, h.Conn); err != nil || was != nil {
			return err
		}
		if settled, err := turn.look(ctx); err != nil {
			return err
		} else if settled {
			return done.Take(ctx, h.Conn, b.opts.Zone)
		}
		if err := do(h); err != nil && !errors.Is(err, errBegun) {
			return err
		}
		if err := turn.changed(ctx); err != nil {
			return err
		}
	}
}

// turning is one request to pause or resume a schedule.
type turning struct {
	*Backend
	*flows.Conn
	doing, name, request string
	paused               bool
}

// errBegun means that another call for the same request began with another version.
var errBegun = errors.New("it has begun")

// begin claims the version on which the request acts. It returns the state with that version.
func (r turning) begin(ctx context.Context) (schedules.State, error) {
	now, err := schedules.StateOf(ctx, r.Conn, r.doing, r.name)
	if err != nil {
		return now, err
	}
	begun, err := schedules.Begun(r.doing, r.name, r.request, now.Version)
	if err != nil {
		return now, err
	}
	_, err = begun.Bind(ctx, r.Conn, r.opts.Zone)
	var other *errkind.Error
	if errors.As(err, &other) && other.Kind == errkind.KeyReused {
		return now, errBegun
	}
	return now, err
}

// begunAt reports whether the request has begun, and whether the schedule still has the version with
// which it did.
func (r turning) begunAt(ctx context.Context) (begun, same bool, now schedules.State, err error) {
	if now, err = schedules.StateOf(ctx, r.Conn, r.doing, r.name); err != nil {
		return false, false, now, err
	}
	k, err := schedules.Begun(r.doing, r.name, r.request, now.Version)
	if err != nil {
		return false, false, now, err
	}
	was, err := k.Claimed(ctx, r.Conn)
	return was != nil, was != nil && *was == k.KeyClaim, now, err
}

// look reports whether the request was carried out. It fails if that cannot be known.
func (r turning) look(ctx context.Context) (settled bool, err error) {
	begun, same, now, err := r.begunAt(ctx)
	switch {
	case err != nil || !begun || same:
		return false, err
	case now.Paused == r.paused:
		return true, nil
	}
	return false, errkind.Refused("%s: a request with this key came before, and the schedule was changed since, so it is not known whether that request was carried out", r.doing).
		Hinted("GET /v1/schedules/%s shows how the schedule is; send the request with a new key to carry it out now", r.name)
}

// changed waits until the schedule has another version than that with which the request began. Temporal
// may answer before it has changed a schedule.
func (r turning) changed(ctx context.Context) error {
	ctx, cancel := r.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	for {
		begun, same, _, err := r.begunAt(ctx)
		if err != nil || begun && !same {
			return err
		}
		select {
		case <-ctx.Done():
			return errkind.TimedOut("%s: Temporal did not change it in time", r.doing).Hinted("send the request again with the same key").Because(context.Cause(ctx))
		case <-time.After(changePoll):
		}
	}
}
