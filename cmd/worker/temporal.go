package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/hearing"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/cluster"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
)

func hasNamespace(ctx context.Context, c client.Client, name string) error {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	return err
}

// hasAttributes returns an error if workflow tasks would fail in the namespace.
func hasAttributes(ctx context.Context, c client.Client, namespace string, log *slog.Logger) error {
	return patiently(ctx, log, "the search attributes of namespace "+namespace, func(ctx context.Context) error {
		err := cluster.Lacking(ctx, c, namespace)
		var lack *cluster.LackError
		if errors.As(err, &lack) {
			return final(err)
		}
		return err
	})
}

// hearingSeats is below the number of streams that proxies permit on one connection, often 100.
const hearingSeats = 64

// listens returns what a worker needs on a server that sends it no commands, or nil.
func listens(ctx context.Context, c client.Client, namespace string, log *slog.Logger) (all []interceptor.WorkerInterceptor, err error) {
	err = patiently(ctx, log, "what namespace "+namespace+" can do", func(ctx context.Context) error {
		ns, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		if err != nil {
			return err
		}
		if !ns.GetNamespaceInfo().GetCapabilities().GetWorkerCommands() {
			all = append(all, &hearing.Interceptor{Service: c.WorkflowService(), Namespace: namespace, Logger: log, Seats: make(chan struct{}, hearingSeats)})
		}
		return nil
	})
	return all, err
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

// A lateClient answers the API's questions about sessions and seeds once there is a connection to
// Temporal.
type lateClient struct {
	zone string
	c    atomic.Pointer[client.Client]
}

var (
	_ api.Sessions = (*lateClient)(nil)
	_ api.Seeds    = (*lateClient)(nil)
	_ api.Objects  = (*lateClient)(nil)
)

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

// Session implements api.Objects.
func (l *lateClient) Session(ctx context.Context, id string) (o access.Object, known bool, err error) {
	known, err = l.ask(ctx, protocol.SessionID(id), protocol.QueryObject, &o)
	return o, known, err
}

// Batch implements api.Objects.
func (l *lateClient) Batch(ctx context.Context, id string) (access.Object, bool, error) {
	var v protocol.BatchView
	known, err := l.ask(ctx, protocol.BatchID(id), protocol.QueryBatch, &v)
	return access.Object{Owner: v.By}, known, err
}

// Login implements api.Objects. A login that was just started cannot answer yet.
func (l *lateClient) Login(ctx context.Context, host, id string) (o access.Object, known bool, err error) {
	for {
		known, err = l.ask(ctx, protocol.HostTaskID(host, id), protocol.QueryObject, &o)
		if err == nil || errors.Is(err, errNotConnected) {
			return o, known, err
		}
		select {
		case <-ctx.Done():
			return o, false, err
		case <-time.After(askAgain):
		}
	}
}

const askAgain = 200 * time.Millisecond

// ask queries a workflow. known is false if Temporal has no such workflow.
func (l *lateClient) ask(ctx context.Context, workflow, query string, to any) (known bool, err error) {
	c := l.c.Load()
	if c == nil {
		return false, errNotConnected
	}
	v, err := (*c).QueryWorkflow(ctx, workflow, "", query)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, v.Get(to)
}

// exportWait bounds the wait for a seed's permission.
const exportWait = 10 * time.Second

// Export implements api.Seeds.
func (l *lateClient) Export(ctx context.Context, seed string, in protocol.ExportSeed) (v protocol.SeedView, err error) {
	c := l.c.Load()
	if c == nil {
		return v, errNotConnected
	}
	ctx, cancel := context.WithTimeout(command.WithPrincipal(ctx, in.By), exportWait) // whom the API knows
	defer cancel()
	h, err := (*c).UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: protocol.SeedID(seed), UpdateName: protocol.UpdateExportSeed, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, &v)
	}
	return v, exportProblem(seed, err)
}

// exportProblem turns what a seed's workflow or Temporal says into an error of the API.
func exportProblem(seed string, err error) error {
	var refused *temporal.ApplicationError
	var gone *serviceerror.NotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gone):
		return &api.Error{Status: http.StatusNotFound, Kind: api.ErrNotFound, Message: "there is no seed " + seed, Hint: "`ctl seed list` shows them"}
	case !errors.As(err, &refused):
		return &api.Error{Status: http.StatusServiceUnavailable, Kind: api.ErrStore, Message: "ask seed " + seed + " for its permission: " + err.Error(),
			Hint: "look with `ctl seed show " + seed + "` whether the export is on record, before you repeat it"}
	}
	e := &api.Error{Status: http.StatusConflict, Kind: api.ErrRefused, Message: refused.Message()}
	switch refused.Type() {
	case protocol.RefusedBadInput:
		e.Status, e.Kind = http.StatusBadRequest, api.ErrBadInput
	case protocol.RefusedNotFound:
		e.Status, e.Kind, e.Hint = http.StatusNotFound, api.ErrNotFound, "`ctl seed list` shows them"
	}
	return e
}
