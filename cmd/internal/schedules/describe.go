package schedules

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// handle asks no server.
func handle(ctx context.Context, t *flows.Conn, name string) (client.ScheduleHandle, error) {
	if err := errkind.CheckName("schedule name", name); err != nil {
		return nil, err
	}
	return t.ScheduleClient().GetHandle(ctx, protocol.ScheduleID(name)), nil
}

// Describe returns a schedule.
func Describe(ctx context.Context, t *flows.Conn, doing, name string) (client.ScheduleHandle, *client.ScheduleDescription, error) {
	h, err := handle(ctx, t, name)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := t.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	d, err := h.Describe(ctx)
	return h, d, Explain(ctx, t, doing, err)
}

// Explain is flows.Conn.Explain for schedules.
func Explain(ctx context.Context, t *flows.Conn, doing string, err error) error {
	var bad *serviceerror.InvalidArgument
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &bad):
		return errkind.Usage("%s: %s", doing, flows.FirstSentence(err)).Because(err)
	case errors.As(err, &gone):
		return errkind.NotFound("%s: it does not exist", doing).Hinted("`ctl schedule list` shows them").Because(err)
	}
	return t.Explain(ctx, doing, err)
}
