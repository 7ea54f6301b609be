package main

import (
	"context"
	"log/slog"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/outbox"
)

// notifyOf returns the keeper of the rules by which people are told of events, or nil if the
// config names none.
func notifyOf(conf *config.Config, metrics *metrics, log *slog.Logger) (*notify.Keeper, error) {
	if conf.Notifications == "" {
		return nil, nil
	}
	k, err := notify.Open(conf.Notifications, log)
	if err != nil {
		return nil, err
	}
	for _, problem := range k.Current().CheckFiles() {
		log.Error("a channel of the notification rules cannot be used: its messages wait", "problem", problem)
	}
	metrics.watch("fairlead_notification_rules_broken", func() float64 {
		if k.Standing().Broken != "" {
			return 1
		}
		return 0
	})
	return k, nil
}

// ensureOutbox starts the zone's outbox, which never ends, if there are rules.
func ensureOutbox(ctx context.Context, c client.Client, conf *config.Config, log *slog.Logger) error {
	if conf.Notifications == "" {
		return nil
	}
	return patiently(ctx, log, "the outbox of zone "+conf.Zone, func(ctx context.Context) error {
		_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID:                       protocol.OutboxID(conf.Zone),
			TaskQueue:                protocol.TaskQueueOf(conf.Zone),
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			StaticSummary:            "notifications of zone " + conf.Zone,
		}, protocol.TypeOutbox, outbox.Input{Zone: conf.Zone})
		return err
	})
}
