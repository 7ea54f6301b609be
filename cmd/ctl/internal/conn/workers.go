package conn

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/stack"
)

// WorkerFor returns the API of the worker that is attached to a session, which alone has
// the live text. Otherwise it returns any worker of the session's zone, which can read the
// store.
func WorkerFor(ctx context.Context, a *core.App, t *Conn, session string) (*api.Client, error) {
	d, err := t.DescribeWorkflowExecution(ctx, protocol.SessionID(session), "")
	if err != nil { // Temporal may have deleted the session; the store keeps its data
		return AnyWorker(ctx, a, t)
	}
	for _, c := range Attached(a, d.GetPendingActivities()) {
		if _, err := askWorker(ctx, c); err == nil {
			return c, nil
		}
	}
	return WorkerOf(ctx, a, t, d.GetExecutionConfig().GetTaskQueue().GetName())
}

// Attached returns the workers that run a workflow's activities.
func Attached(a *core.App, pending []*workflowpb.PendingActivityInfo) []*api.Client {
	var out []*api.Client
	for _, p := range pending {
		if id, ok := api.ParseIdentity(p.GetLastWorkerIdentity()); ok {
			if c, err := apiClient(a, id.API); err == nil {
				out = append(out, c)
			}
		}
	}
	return out
}

// AnyWorker returns a worker that answers, preferably of the config's zone.
func AnyWorker(ctx context.Context, a *core.App, t *Conn) (*api.Client, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	return WorkerOf(ctx, a, t, protocol.TaskQueueOf(conf.Zone))
}

// WorkerOf returns a worker of a task queue: the configured one, the local stack's, or one
// that polls the queue. If none answers, it returns any other worker, because all share the
// store.
func WorkerOf(ctx context.Context, a *core.App, t *Conn, queue string) (*api.Client, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	endpoints := []string{conf.API.Address}
	info, err := Stack(a)
	switch {
	case err == nil && (t == nil || t.From == "stack"):
		for _, w := range info.Workers {
			endpoints = append(endpoints, w.API)
		}
	case err != nil && !errors.Is(err, stack.ErrNone):
		return nil, core.Failed("%v", err)
	}
	var tried []string
	var other *api.Client
	try := func(endpoint string) *api.Client {
		if endpoint == "" || slices.Contains(tried, endpoint) {
			return nil
		}
		tried = append(tried, endpoint)
		c, err := apiClient(a, endpoint)
		if err != nil {
			return nil
		}
		st, err := askWorker(ctx, c) // a stopped process accepts connections, but does not answer
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
	for _, endpoint := range t.apisOf(ctx, protocol.TaskQueueOf(conf.Zone)) {
		if try(endpoint) != nil || other != nil {
			return apiClient(a, endpoint)
		}
	}
	if len(tried) == 0 {
		return nil, core.Unreachable("reach a worker: none is known").Hinted("`ctl up` starts one (after `ctl down`, where a stack without workers is up); api.address in the config names another")
	}
	return nil, core.Unreachable("reach a worker: none answers at %s", strings.Join(tried, ", ")).Hinted("`ctl status` shows what is up")
}

func (t *Conn) apisOf(ctx context.Context, queue string) []string {
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

func apiClient(a *core.App, endpoint string) (*api.Client, error) {
	conf, err := a.Config()
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
			return nil, core.Usage("read the API's token: %v", err).Hinted("check api.token_file")
		}
		opts.Token = strings.TrimSpace(string(token))
	}
	c, err := api.NewClient(endpoint, opts)
	if err != nil {
		return nil, core.Failed("%v", err)
	}
	a.OnClose(c)
	return c, nil
}

// APIFailure converts an error of a worker's API, with its exit code.
func APIFailure(doing string, err error) error {
	var e *api.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, core.ErrInterrupted):
		return err
	case errors.Is(err, api.ErrUnreachable):
		return core.Unreachable("%s: %v", doing, err).Hinted("`ctl status` shows which workers are up").Because(err)
	case !errors.As(err, &e):
		return core.Failed("%s: %v", doing, err).Because(err)
	}
	code := core.ExitFailed
	switch e.Kind {
	case api.ErrBadInput:
		code = core.ExitUsage
	case api.ErrNotFound:
		code = core.ExitNotFound
	case api.ErrUnauthorized, api.ErrStore:
		code = core.ExitUnreachable
	case api.ErrRefused:
		code = core.ExitRefused
	}
	// A worker's message may begin with doing, too.
	return core.NewError(code, e.Kind, "%s: %s", doing, strings.TrimPrefix(e.Message, doing+": ")).Hinted("%s", e.Hint).Because(err)
}

// StoreWorker connects to a worker, which can read the store.
func StoreWorker(ctx context.Context, a *core.App) (*Conn, *api.Client, error) {
	t, err := Open(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	worker, err := AnyWorker(ctx, a, t)
	return t, worker, err
}

// ExportFailure distinguishes a damaged snapshot from a lost worker.
func ExportFailure(doing string, err error) error {
	var e *api.Error
	if err != nil && !errors.As(err, &e) && errors.Is(err, io.ErrUnexpectedEOF) {
		return core.Unreachable("%s: %v", doing, err).Hinted("the worker went away: do it again").Because(err)
	}
	return APIFailure(doing, err)
}

// A WorkerView is one worker. Reachable says whether its API answers.
type WorkerView struct {
	Identity   string   `json:"identity"`
	PID        int      `json:"pid"`
	TaskQueues []string `json:"task_queues"`
	API        string   `json:"api"`
	Reachable  bool     `json:"reachable"`
	Ready      bool     `json:"ready"`
	Zone       string   `json:"zone"`
	Version    string   `json:"version"`
	StoreID    string   `json:"store_id"`
	PayloadKey string   `json:"payload_key"` // id of the key that encrypts, or empty
	Problem    string   `json:"problem,omitempty"`
}

// Workers asks every known worker for its status. A silent one is listed as the task queue
// knows it, unless it was replaced.
func Workers(ctx context.Context, a *core.App, t *Conn) (views []WorkerView, statuses []api.Status, err error) {
	conf, err := a.Config()
	if err != nil {
		return nil, nil, err
	}
	polls, err := t.Pollers(ctx, conf.Zone)
	if err != nil {
		return nil, nil, err
	}
	if own, err := Stack(a); err == nil && own.Temporal.Address == t.Address {
		for _, w := range own.Workers {
			if id, ok := api.ParseIdentity(w.Identity); ok {
				polls = append(polls, poller{Identity: id, text: w.Identity})
			}
		}
	}
	answered := map[string]bool{}
	var silent []WorkerView
	for _, p := range polls {
		if _, done := answered[p.API]; done {
			continue
		}
		st, err := func() (api.Status, error) {
			c, err := api.Connect(p.API, conf.API)
			if err != nil {
				return api.Status{}, err
			}
			defer c.Close()
			return askWorker(ctx, c)
		}()
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		answered[p.API] = err == nil
		if err != nil {
			silent = append(silent, WorkerView{Identity: p.text, PID: p.PID, API: p.API, TaskQueues: []string{}, Problem: core.Clean(err.Error())})
			continue
		}
		statuses = append(statuses, st)
		views = append(views, WorkerView{
			Identity: st.Identity, PID: st.PID, TaskQueues: st.TaskQueues, API: st.API, Reachable: true,
			Ready: st.Ready, Zone: st.Zone, Version: st.Version, StoreID: st.Store.ID, PayloadKey: st.PayloadKey, Problem: st.Waits,
		})
	}
	return append(views, silent...), statuses, nil
}
