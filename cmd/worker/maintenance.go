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

// ensureMaintenance makes sure that the namespace has the Schedules, and that they
// are as often as the config says. Seeds and the store belong to the default zone's
// workers, so only these look after them. A worker is of use without: what Temporal
// refuses is told and no more.
func ensureMaintenance(ctx context.Context, c client.Client, conf *config.Config, log *slog.Logger) error {
	if workflows.TaskQueueOf(conf.Zone) != workflows.TaskQueue {
		return nil
	}
	for _, m := range []maintenance{
		{workflows.MaintenanceID, conf.Seeds.Maintain, workflows.MaintenanceInput{}, "seeds.maintain", "seeds are verified only when somebody asks"},
		{workflows.MaintainStoreID, conf.Snapshots.Prune, workflows.MaintenanceInput{Snapshots: true}, "snapshots.prune", "snapshots are pruned only when somebody asks"},
	} {
		err := patiently(ctx, log, "the schedule "+m.id, func(ctx context.Context) error { return m.schedule(ctx, c) })
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			log.Error("no maintenance is scheduled: "+m.without, "schedule", m.id, "err", err)
		}
	}
	return nil
}

// maintenance is one Schedule of it.
type maintenance struct {
	id      string
	every   time.Duration
	in      workflows.MaintenanceInput
	key     string // of the config, that says how often
	without string // what it is like without
}

func (m maintenance) schedule(ctx context.Context, c client.Client) error {
	handle, every := c.ScheduleClient().GetHandle(ctx, m.id), m.every
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
		ID: m.id, Spec: spec,
		Action: &client.ScheduleWorkflowAction{
			ID: m.id, Workflow: workflows.TypeMaintenance, Args: []any{m.in},
			TaskQueue: workflows.TaskQueue, StaticSummary: "maintenance",
		},
		Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Minute,
		Note: "made by Fairlead's workers; " + m.key + " in their config says how often",
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
