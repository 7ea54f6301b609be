package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
)

func hasNamespace(ctx context.Context, c client.Client, name string) error {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	return err
}

// ensurePool starts the zone's host pool, which never ends.
func ensurePool(ctx context.Context, c client.Client, zone string, log *slog.Logger) error {
	return patiently(ctx, log, "the pool of zone "+zone, func(ctx context.Context) error {
		_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID:                       protocol.PoolID(zone),
			TaskQueue:                protocol.TaskQueueOf(zone),
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			StaticSummary:            "hosts of zone " + zone,
		}, protocol.TypeHostPool, hostpool.Input{Zone: zone})
		return err
	})
}

// A lateClient answers the API's questions about sessions once there is a connection to
// Temporal.
type lateClient struct {
	c atomic.Pointer[client.Client]
}

var _ api.Sessions = (*lateClient)(nil)

func (l *lateClient) set(c client.Client) { l.c.Store(&c) }

var errNotConnected = errors.New("not connected to Temporal yet")

// Now implements api.Sessions.
func (l *lateClient) Now(ctx context.Context, session string) (inquiry.SessionNow, error) {
	c := l.c.Load()
	if c == nil {
		return inquiry.SessionNow{}, errNotConnected
	}
	return inquiry.AskSession(ctx, *c, session)
}

// Running implements api.Sessions.
func (l *lateClient) Running(ctx context.Context, session string) (bool, error) {
	c := l.c.Load()
	if c == nil {
		return false, errNotConnected
	}
	d, err := (*c).DescribeWorkflowExecution(ctx, protocol.SessionID(session), "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return false, api.ErrNoSession
	case err != nil:
		return false, err
	}
	return d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}
