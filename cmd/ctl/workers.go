package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/stack"
	"fairlead.dev/fairlead/workflows"
)

// workerFor returns the API of the worker that is attached to a session, because only that
// worker has the live text. If there is none, it returns the API of any worker of the
// session's zone, which can read the store.
func (a *app) workerFor(ctx context.Context, t *temporal, session string) (*api.Client, error) {
	d, err := t.DescribeWorkflowExecution(ctx, workflows.SessionID(session), "")
	if err != nil { // Temporal may have deleted the session; the store keeps it
		return a.anyWorker(ctx, t)
	}
	for _, c := range a.attached(d.GetPendingActivities()) {
		if _, err := a.askWorker(ctx, c); err == nil {
			return c, nil
		}
	}
	return a.workerOf(ctx, t, d.GetExecutionConfig().GetTaskQueue().GetName())
}

// attached returns the workers that run activities of a workflow.
func (a *app) attached(pending []*workflowpb.PendingActivityInfo) []*api.Client {
	var out []*api.Client
	for _, p := range pending {
		if id, ok := api.ParseIdentity(p.GetLastWorkerIdentity()); ok {
			if c, err := a.apiClient(id.API); err == nil {
				out = append(out, c)
			}
		}
	}
	return out
}

// anyWorker returns the API of a worker that answers, preferably of the config's zone.
func (a *app) anyWorker(ctx context.Context, t *temporal) (*api.Client, error) {
	conf, err := a.config()
	if err != nil {
		return nil, err
	}
	return a.workerOf(ctx, t, workflows.TaskQueueOf(conf.Zone))
}

// workerOf returns the API of a worker of a task queue: the configured one, the local
// stack's, or one that polls the queue. If none answers, it returns any other worker,
// because all share the store.
func (a *app) workerOf(ctx context.Context, t *temporal, queue string) (*api.Client, error) {
	conf, err := a.config()
	if err != nil {
		return nil, err
	}
	endpoints := []string{conf.API.Address}
	info, err := a.stack()
	switch {
	case err == nil && (t == nil || t.from == "stack"):
		for _, w := range info.Workers {
			endpoints = append(endpoints, w.API)
		}
	case err != nil && !errors.Is(err, stack.ErrNone):
		return nil, failed("%v", err)
	}
	var tried []string
	var other *api.Client
	try := func(endpoint string) *api.Client {
		if endpoint == "" || slices.Contains(tried, endpoint) {
			return nil
		}
		tried = append(tried, endpoint)
		c, err := a.apiClient(endpoint)
		if err != nil {
			return nil
		}
		st, err := a.askWorker(ctx, c) // a stopped process still accepts connections, but does not answer
		if err != nil {
			return nil
		}
		if slices.Contains(st.TaskQueues, queue) {
			return c
		}
		if other == nil {
			other = c
		}
		return nil
	}
	for _, endpoint := range endpoints {
		if c := try(endpoint); c != nil {
			return c, nil
		}
	}
	for _, endpoint := range t.apisOf(ctx, queue) {
		if c := try(endpoint); c != nil {
			return c, nil
		}
	}
	if other != nil {
		return other, nil
	}
	for _, endpoint := range t.apisOf(ctx, workflows.TaskQueueOf(conf.Zone)) {
		if try(endpoint) != nil || other != nil {
			return a.apiClient(endpoint)
		}
	}
	if len(tried) == 0 {
		return nil, unreachable("reach a worker: none is known").hinted("`ctl up` starts one (after `ctl down`, where a stack without workers is up); api.address in the config names another")
	}
	return nil, unreachable("reach a worker: none answers at %s", strings.Join(tried, ", ")).hinted("`ctl status` shows what is up")
}

// apisOf returns the API addresses of the workers that poll a task queue.
func (t *temporal) apisOf(ctx context.Context, queue string) []string {
	if t == nil {
		return nil
	}
	q, err := t.DescribeTaskQueue(ctx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range q.GetPollers() {
		if id, ok := api.ParseIdentity(p.GetIdentity()); ok {
			out = append(out, id.API)
		}
	}
	return out
}

func (a *app) apiClient(endpoint string) (*api.Client, error) {
	conf, err := a.config()
	if err != nil {
		return nil, err
	}
	opts := api.ClientOptions{}
	if conf.API.TLS != nil {
		opts.CA, opts.ServerName = conf.API.TLS.CA, conf.API.TLS.ServerName
	}
	if f := conf.API.TokenFile; f != "" && !strings.HasPrefix(endpoint, "unix:") {
		token, err := os.ReadFile(f)
		if err != nil {
			return nil, usage("read the API's token: %v", err).hinted("check api.token_file")
		}
		opts.Token = strings.TrimSpace(string(token))
	}
	c, err := api.NewClient(endpoint, opts)
	if err != nil {
		return nil, failed("%v", err)
	}
	a.onClose(c)
	return c, nil
}

// apiFailure converts an error of a worker's API, with its exit code.
func apiFailure(doing string, err error) error {
	var e *api.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errInterrupted):
		return err
	case errors.Is(err, api.ErrUnreachable):
		return unreachable("%s: %v", doing, err).hinted("`ctl status` shows which workers are up").because(err)
	case !errors.As(err, &e):
		return failed("%s: %v", doing, err).because(err)
	}
	code := exitFailed
	switch e.Kind {
	case api.ErrBadInput:
		code = exitUsage
	case api.ErrNotFound:
		code = exitNotFound
	case api.ErrUnauthorized, api.ErrStore:
		code = exitUnreachable
	case api.ErrRefused:
		code = exitRefused
	}
	// Workers often repeat what they were doing, which ctl says already.
	return newExit(code, e.Kind, "%s: %s", doing, strings.TrimPrefix(e.Message, doing+": ")).hinted("%s", e.Hint).because(err)
}
