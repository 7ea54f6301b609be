package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sethvargo/go-retry"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/payload"
)

// rebindSchedules encrypts the inputs that an older version put into schedules for the
// workflows that these start: such workflows begin after the upgrade, so they would refuse
// them. Schedules that were made or changed after the upgrade are left alone, because
// anybody who may write to Temporal can put something into them.
func rebindSchedules(ctx context.Context, c client.Client, codec *payload.Codec, log *slog.Logger) error {
	since := codec.ReadsOlder()
	if _, encrypts := codec.Encrypts(); !encrypts || since.IsZero() {
		return nil
	}
	var ids []string
	err := patiently(ctx, log, "the schedules of an older version", func(ctx context.Context) error {
		ids = nil
		it, err := c.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
		if err != nil {
			return err
		}
		for it.HasNext() {
			s, err := it.Next()
			if err != nil {
				return err
			}
			ids = append(ids, s.ID)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the schedules, to encrypt what an older version put into them: %w", err)
	}
	for _, id := range ids {
		if err := rebindOne(ctx, c.ScheduleClient().GetHandle(ctx, id), codec, since); err != nil {
			log.Error("the input of a schedule remains as an older version encrypted it: what it starts waits", "schedule", id, "err", err)
		}
	}
	return ctx.Err()
}

// rebindOne tries a schedule three times. What remains is tried again when a worker starts.
func rebindOne(ctx context.Context, h client.ScheduleHandle, codec *payload.Codec, since time.Time) error {
	return retry.Do(ctx, retry.WithMaxRetries(2, retry.NewExponential(200*time.Millisecond)), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, tryFor)
		defer cancel()
		return retry.RetryableError(rebindSchedule(ctx, h, codec, since))
	})
}

func rebindSchedule(ctx context.Context, h client.ScheduleHandle, codec *payload.Codec, since time.Time) error {
	d, err := h.Describe(ctx)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return err
	}
	if args, err := rebound(d, codec, since); err != nil || args == nil {
		return err
	}
	return h.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
		args, err := rebound(&in.Description, codec, since)
		if err != nil {
			return nil, err
		}
		if args == nil {
			return nil, temporal.ErrSkipScheduleUpdate
		}
		in.Description.Schedule.Action.(*client.ScheduleWorkflowAction).Args = args
		return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
	}})
}

// rebound returns the new arguments, or nil if the schedule keeps its own.
func rebound(d *client.ScheduleDescription, codec *payload.Codec, since time.Time) ([]any, error) {
	action, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction)
	if !ok || !d.Info.CreatedAt.Before(since) || !d.Info.LastUpdateAt.Before(since) {
		return nil, nil
	}
	var had []*commonpb.Payload
	for _, arg := range action.Args {
		p, ok := arg.(*commonpb.Payload)
		if !ok {
			return nil, fmt.Errorf("read the input of the schedule: it is a %T", arg)
		}
		had = append(had, p)
	}
	now, changed, err := codec.Rebind(action.ID, had)
	if err != nil || !changed {
		return nil, err
	}
	var args []any
	for _, p := range now {
		args = append(args, p)
	}
	return args, nil
}
