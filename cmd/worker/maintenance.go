package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/workflows"
)

// ensureMaintenance makes sure that the namespace has the Schedule, and that it
// is as often as the config says. Seeds belong to the default zone's workers,
// so only these look after it. A worker is of use without it: what Temporal
// refuses is told and no more.
func ensureMaintenance(ctx context.Context, c client.Client, conf *config.Config, log *slog.Logger) error {
	if workflows.TaskQueueOf(conf.Zone) != workflows.TaskQueue {
		return nil
	}
	err := patiently(ctx, log, "the schedule of maintenance", func(ctx context.Context) error {
		return scheduleMaintenance(ctx, c, conf.Seeds.Maintain)
	})
	if err != nil && ctx.Err() == nil {
		log.Error("no maintenance is scheduled: seeds are verified only when somebody asks", "err", err)
		return nil
	}
	return err
}

func scheduleMaintenance(ctx context.Context, c client.Client, every time.Duration) error {
	handle := c.ScheduleClient().GetHandle(ctx, workflows.MaintenanceID)
	if every == 0 {
		err := handle.Delete(ctx)
		var none *serviceerror.NotFound
		if errors.As(err, &none) {
			return nil
		}
		return err
	}
	spec := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}}
	_, err := c.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: workflows.MaintenanceID, Spec: spec,
		Action: &client.ScheduleWorkflowAction{
			ID: workflows.MaintenanceID, Workflow: workflows.TypeMaintenance, Args: []any{workflows.MaintenanceInput{}},
			TaskQueue: workflows.TaskQueue, StaticSummary: "maintenance",
		},
		Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Minute,
		Note: "made by Fairlead's workers; seeds.maintain in their config says how often",
	})
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return err
	}
	d, err := handle.Describe(ctx)
	if err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	if is := d.Schedule.Spec; is != nil && len(is.Intervals) == 1 && is.Intervals[0].Every == every {
		return nil
	}
	return handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			in.Description.Schedule.Spec = &spec
			return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
		},
	})
}
