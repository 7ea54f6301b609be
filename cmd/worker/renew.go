package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// renewOlder asks the workflows that began before since to continue as new. At that time, all
// workers had a key and had authority: required. Older workflows take messages without a mark,
// or signals without a signature. since is zero if there are no older workflows.
func renewOlder(ctx context.Context, c client.Client, since time.Time, log *slog.Logger) error {
	if since.IsZero() {
		return nil
	}
	var ids []string
	err := patiently(ctx, log, "the workflows that began before authority was required", func(ctx context.Context) error {
		ids = nil
		for page := []byte(nil); ; {
			r, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
				Query: fmt.Sprintf("ExecutionStatus = 'Running' AND StartTime < '%s' AND WorkflowType IN ('%s', '%s', '%s', '%s', '%s')", since.UTC().Format(time.RFC3339),
					protocol.TypeSession, protocol.TypeBatch, protocol.TypeHostPool, protocol.TypeSeed, protocol.TypeSeedPool),
				PageSize: 1000, NextPageToken: page,
			})
			if err != nil {
				return err
			}
			for _, x := range r.GetExecutions() {
				ids = append(ids, x.GetExecution().GetWorkflowId())
			}
			if page = r.GetNextPageToken(); len(page) == 0 {
				return nil
			}
		}
	})
	if err != nil {
		return fmt.Errorf("list the workflows that began before authority was required: %w", err)
	}
	for _, id := range ids {
		err := patiently(ctx, log, id, func(ctx context.Context) error {
			err := c.SignalWorkflow(ctx, id, "", protocol.SignalRenew, protocol.Renew{})
			if gone := (*serviceerror.NotFound)(nil); errors.As(err, &gone) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("ask %s to continue as new: %w", id, err)
		}
	}
	if len(ids) > 0 {
		log.Info("workflows that began under older rules are asked to continue as new", "workflows", len(ids), "since", since)
	}
	return nil
}
