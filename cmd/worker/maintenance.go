package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/care"
)

// ensureMaintenance creates or updates Schedules by the config: each zone's workers for its
// hosts, those of the default zone also for seeds and the store. A refusal by Temporal is
// only logged, because a worker is useful without Schedules.
func ensureMaintenance(ctx context.Context, c client.Client, codec *payload.Codec, conf *config.Config, log *slog.Logger) error {
	queue := protocol.TaskQueueOf(conf.Zone)
	all := []maintenance{{protocol.MaintainHostsID(conf.Zone), conf.Hosts.Check, queue, care.MaintenanceInput{Hosts: conf.Hosts.Check, Zone: conf.Zone},
		"hosts.check", "hosts are checked only when somebody asks"},
		{protocol.MaintainLeftoversID(conf.Zone), conf.Hosts.Leftovers, queue, care.MaintenanceInput{Leftovers: true, Zone: conf.Zone},
			"hosts.leftovers", "what sessions left on hosts is wiped only where their pool knows of it"}}
	if queue == protocol.TaskQueue {
		all = append(all,
			maintenance{protocol.MaintenanceID, conf.Seeds.Maintain, queue, care.MaintenanceInput{}, "seeds.maintain", "seeds are verified only when somebody asks"},
			maintenance{protocol.MaintainStoreID, conf.Snapshots.Prune, queue, care.MaintenanceInput{Snapshots: true}, "snapshots.prune", "snapshots are pruned only when somebody asks"},
			maintenance{protocol.TidyStoreID, conf.Store.Tidy, queue, care.MaintenanceInput{Store: true}, "store.tidy", "what nobody needs any more stays in the store"})
	}
	for _, m := range all {
		err := patiently(ctx, log, "the schedule "+m.id, func(ctx context.Context) error { return m.schedule(ctx, c, codec) })
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			log.Error("no maintenance is scheduled: "+m.without, "schedule", m.id, "err", err)
		}
	}
	return nil
}

type maintenance struct {
	id      string
	every   time.Duration
	queue   string
	in      care.MaintenanceInput
	key     string // config key of the interval
	without string // what is missing without it
}

func (m maintenance) schedule(ctx context.Context, c client.Client, codec *payload.Codec) error {
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
	action := &client.ScheduleWorkflowAction{
		ID: m.id, Workflow: protocol.TypeMaintenance, Args: []any{payload.Input(protocol.TypeMaintenance, m.in)}, TaskQueue: m.queue, StaticSummary: "maintenance",
	}
	_, err := c.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: m.id, Spec: spec,
		Action:  action,
		Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: time.Minute,
		Note: "made by Fairlead's workers; " + m.key + " in their config says how often",
	})
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return err
	}
	d, err := handle.Describe(ctx)
	if err != nil {
		return fmt.Errorf("read the schedule: %w", err)
	}
	if is := d.Schedule.Spec; is != nil && len(is.Intervals) == 1 && is.Intervals[0].Every == every && m.ours(d, codec) {
		return nil
	}
	return handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			in.Description.Schedule.Spec, in.Description.Schedule.Action = &spec, action
			return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
		},
	})
}

// ours reports whether a worker wrote what the schedule starts. If workers had no key then,
// they would refuse it now.
func (m maintenance) ours(d *client.ScheduleDescription, codec *payload.Codec) bool {
	action, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction)
	if !ok {
		return false
	}
	var in []*commonpb.Payload
	for _, arg := range action.Args {
		if p, ok := arg.(*commonpb.Payload); ok {
			in = append(in, p)
		}
	}
	return codec.ByWorkers(protocol.TypeMaintenance, in)
}
