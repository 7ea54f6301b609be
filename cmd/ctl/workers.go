package main

import (
	"context"
	"errors"
	"os"
	"strings"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/stack"
	"fairlead.dev/fairlead/workflows"
)

// workerFor is the API of the worker that is attached to a session, so that
// deltas are seen; of any other worker where none is, for what is in the store.
func (a *app) workerFor(ctx context.Context, t *temporal, session string) (*api.Client, error) {
	d, err := t.DescribeWorkflowExecution(ctx, workflows.SessionID(session), "")
	if err == nil {
		for _, p := range d.GetPendingActivities() {
			if id, ok := api.ParseIdentity(p.GetLastWorkerIdentity()); ok {
				if c, err := a.apiClient(id.API); err == nil {
					if _, err := a.askWorker(ctx, c); err == nil {
						return c, nil
					}
				}
			}
		}
	}
	return a.anyWorker(ctx, t)
}

// anyWorker is the API of a worker that answers: the configured one, the local
// stack's, or one that polls the task queue.
func (a *app) anyWorker(ctx context.Context, t *temporal) (*api.Client, error) {
	var tried []string
	try := func(endpoint string) *api.Client {
		if endpoint == "" {
			return nil
		}
		c, err := a.apiClient(endpoint)
		if err == nil {
			_, err = a.askWorker(ctx, c) // one that was stopped takes connections, and says nothing
		}
		if err != nil {
			tried = append(tried, endpoint)
			return nil
		}
		return c
	}
	conf, err := a.config()
	if err != nil {
		return nil, err
	}
	if c := try(conf.API.Address); c != nil {
		return c, nil
	}
	info, err := a.stack()
	switch {
	case err == nil && (t == nil || t.from == "stack"):
		for _, w := range info.Workers {
			if c := try(w.API); c != nil {
				return c, nil
			}
		}
	case err != nil && !errors.Is(err, stack.ErrNone):
		return nil, failed("%v", err)
	}
	if t != nil {
		q, err := t.DescribeTaskQueue(ctx, workflows.TaskQueueOf(conf.Zone), enums.TASK_QUEUE_TYPE_ACTIVITY)
		if err == nil {
			for _, p := range q.GetPollers() {
				if id, ok := api.ParseIdentity(p.GetIdentity()); ok {
					if c := try(id.API); c != nil {
						return c, nil
					}
				}
			}
		}
	}
	if len(tried) == 0 {
		return nil, unreachable("reach a worker: none is known").hinted("`ctl up` starts one; api.address in the config names another")
	}
	return nil, unreachable("reach a worker: none answers at %s", strings.Join(tried, ", ")).hinted("`ctl status` shows what is up")
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

// apiFailure gives an error of the API's its exit code.
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
	return newExit(code, e.Kind, "%s: %s", doing, e.Message).hinted("%s", e.Hint).because(err)
}
