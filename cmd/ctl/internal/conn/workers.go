package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	for _, c := range Attached(a, t, d.GetPendingActivities()) {
		_, err := askWorker(ctx, c)
		if err == nil {
			return c, nil
		}
		if distrusts(err) {
			t.warn(c.Endpoint(), err)
		}
	}
	return WorkerOf(ctx, a, t, d.GetExecutionConfig().GetTaskQueue().GetName())
}

// Attached returns the workers that run a workflow's activities and that ctl may ask.
func Attached(a *core.App, t *Conn, pending []*workflowpb.PendingActivityInfo) []*api.Client {
	var out []*api.Client
	for _, p := range pending {
		id, ok := api.ParseIdentity(p.GetLastWorkerIdentity())
		if !ok {
			continue
		}
		c, err := hinted(a, id.API)
		if err != nil {
			t.warn(id.API, err)
			continue
		}
		out = append(out, c)
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

// A search looks for a worker of a task queue.
type search struct {
	app     *core.App
	queue   string
	tried   []string // addresses
	refused []string // addresses, and why nothing was sent there
	other   *api.Client
}

// try asks the worker at an address. It returns nil unless the worker serves the queue, and
// keeps the first other worker. open makes the client.
func (s *search) try(ctx context.Context, endpoint string, open func(*core.App, string) (*api.Client, error)) *api.Client {
	if slices.Contains(s.tried, endpoint) {
		return nil
	}
	s.tried = append(s.tried, endpoint)
	c, err := open(s.app, endpoint)
	var st api.Status
	if err == nil {
		st, err = askWorker(ctx, c) // a stopped process accepts connections, but does not answer
	}
	switch {
	case distrusts(err) || err != nil && c == nil:
		s.refused = append(s.refused, endpoint+": "+err.Error())
	case err != nil:
	case slices.Contains(st.TaskQueues, s.queue):
		return c
	case s.other == nil:
		s.other = c
	}
	return nil
}

// failure says why no worker was found.
func (s *search) failure() error {
	switch {
	case len(s.tried) == 0:
		return core.Unreachable("reach a worker: none is known").Hinted("`ctl up` starts one (after `ctl down`, where a stack without workers is up); api.address in the config names another")
	case len(s.refused) > 0:
		return core.Unreachable("reach a worker: none answers at %s; %s", some(s.tried, ", "), some(s.refused, "; ")).
			Hinted("`ctl doctor` names each such address; \"Whom ctl asks\" in docs/explanation/security.md says what ctl trusts")
	}
	return core.Unreachable("reach a worker: none answers at %s", some(s.tried, ", ")).Hinted("`ctl status` shows what is up")
}

// some joins what is shown of a list that a stranger may have made long.
func some(list []string, sep string) string {
	const most = 8
	if n := len(list) - most; n > 0 {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", n))
	}
	return core.Clean(strings.Join(list, sep))
}

// maxHints bounds the addresses of one task queue that ctl tries.
const maxHints = 64

// WorkerOf returns a worker of a task queue: a configured one, the local stack's, or one
// that polls the queue and that ctl may ask. If none answers, it returns any other worker,
// because all share the store.
func WorkerOf(ctx context.Context, a *core.App, t *Conn, queue string) (*api.Client, error) {
	s := &search{app: a, queue: queue}
	c, err := s.find(ctx, t)
	if c == nil && s.other != nil {
		return s.other, nil
	}
	return c, err
}

// WorkerServing is WorkerOf, but returns no other worker.
func WorkerServing(ctx context.Context, a *core.App, t *Conn, queue string) (*api.Client, error) {
	s := &search{app: a, queue: queue}
	c, err := s.find(ctx, t)
	if c == nil && s.other != nil {
		return nil, core.NewError(core.ExitUnreachable, api.ErrElsewhere, "reach a worker of zone %s: only others answer", protocol.ZoneOf(queue)).Hinted("`ctl status` shows the workers of a zone")
	}
	return c, err
}

// find returns a worker of the queue. Without one it returns an error, and other may be set.
func (s *search) find(ctx context.Context, t *Conn) (*api.Client, error) {
	a, queue := s.app, s.queue
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	endpoints := configured(conf.API)
	info, err := Stack(a)
	switch {
	case err == nil && (t == nil || t.From == "stack"):
		for _, w := range info.Workers {
			if w.API != "" {
				endpoints = append(endpoints, w.API)
			}
		}
	case err != nil && !errors.Is(err, stack.ErrNone):
		return nil, stackFailure(err)
	}
	for _, endpoint := range endpoints {
		if c := s.try(ctx, endpoint, apiClient); c != nil {
			return c, nil
		}
	}
	for _, endpoint := range t.apisOf(ctx, queue) {
		if c := s.try(ctx, endpoint, hinted); c != nil {
			return c, nil
		}
	}
	if s.other != nil {
		return nil, s.failure()
	}
	for _, endpoint := range t.apisOf(ctx, protocol.TaskQueueOf(conf.Zone)) {
		if c := s.try(ctx, endpoint, hinted); c != nil {
			return c, nil
		}
		if s.other != nil {
			break
		}
	}
	return nil, s.failure()
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
		if id, ok := api.ParseIdentity(p.GetIdentity()); ok && len(out) < maxHints {
			out = append(out, id.API)
		}
	}
	return out
}

// APIFailure converts an error of a worker's API, with its exit code.
func APIFailure(doing string, err error) error {
	var e *api.Error
	var own *core.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, core.ErrInterrupted), errors.As(err, &own):
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
	case api.ErrUnauthorized, api.ErrStore, api.ErrIssuer, api.ErrUnreachableHost, api.ErrElsewhere, api.ErrBusy:
		code = core.ExitUnreachable
	case api.ErrRefused, api.ErrForbidden:
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
	Refused    bool     `json:"refused,omitempty"` // ctl sends nothing there; Problem says why
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
	return workersOf(ctx, a, t, conf.Zone)
}

func workersOf(ctx context.Context, a *core.App, t *Conn, zone string) (views []WorkerView, statuses []api.Status, err error) {
	conf, err := a.Config()
	if err != nil {
		return nil, nil, err
	}
	polls, err := t.Pollers(ctx, zone)
	if err != nil {
		return nil, nil, err
	}
	if own, err := Stack(a); err == nil && own.Temporal.Address == t.Address {
		for _, w := range own.Workers {
			if id, ok := api.ParseIdentity(w.Identity); ok {
				polls = append(polls, poller{Identity: id, Text: w.Identity})
			}
		}
	}
	proof, err := proofOf(a, conf)
	if err != nil {
		return nil, nil, err
	}
	known, answered := knownAddresses(a, conf.API), map[string]bool{}
	var silent []WorkerView
	for _, p := range polls {
		if _, done := answered[p.API]; done {
			continue
		}
		st, err := func() (api.Status, error) {
			if err := checkHint(p.API, conf.API, known); err != nil {
				return api.Status{}, err
			}
			c, err := api.Connect(p.API, conf.API, proof)
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
			silent = append(silent, WorkerView{Identity: p.Text, PID: p.PID, API: p.API, TaskQueues: []string{}, Refused: distrusts(err), Problem: core.Clean(err.Error())})
			continue
		}
		statuses = append(statuses, st)
		views = append(views, WorkerView{
			Identity: st.Identity, PID: st.PID, TaskQueues: st.TaskQueues, API: st.API, Reachable: true,
			Ready: st.Ready, Zone: st.Zone, Version: st.Version, StoreID: st.Store.ID, PayloadKey: st.PayloadKey, Problem: problemOf(st),
		})
	}
	return append(views, silent...), statuses, nil
}

// problemOf says what a worker waits for, or what is wrong though it works.
func problemOf(st api.Status) string {
	if st.Waits == "" && st.Access != nil && st.Access.Broken != "" {
		return core.Clean(st.Access.Problem())
	}
	return st.Waits
}
