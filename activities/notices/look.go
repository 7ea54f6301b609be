package notices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// again is after how long a session is asked again that looks as before.
	again = 20 * time.Second
	// slowly is how often hosts and seeds are asked.
	slowly   = 15 * time.Second
	maxSeeds = 1000
	// unwell is how long a host is unwell, or a session tries in vain, before people are told.
	unwell = time.Minute
)

// endedSession begins the name of an ended session in deaf.
const endedSession = "ended session "

// A watcher looks. It remembers what it has asked, so that it asks little.
type watcher struct {
	c           client.Client
	queue, zone string
	rules       *notify.Rules
	now, since  time.Time
	looking     func(ctx context.Context, person string) bool // nil means that nobody does

	round  int // of looks
	others time.Time
	tried  map[string]try // what is in deaf

	seen  map[string]bool
	known map[string]*session  // by run
	deaf  map[string]time.Time // since when something does not answer
	asked map[string]time.Time // when hosts and seeds were
	kept  map[string][]found   // what they said
	found []found
}

// A session, as it was when it was asked.
type session struct {
	id       string
	what     string // in deaf
	facts    notify.Facts
	owner    string
	hasFacts bool
	looks    string // its search attributes then
	at       time.Time
	found    []found
	round    time.Time
}

// look looks once. It returns why it could not, or "".
func (w *watcher) look(ctx context.Context) (problem string) {
	w.found = nil
	if w.kept == nil {
		w.kept = map[string][]found{}
	}
	for _, one := range []struct {
		what  string
		kinds []string
		do    func(context.Context) error
	}{
		{"running sessions", []string{protocol.EventApprovalOpened, protocol.EventApprovalExpiring, protocol.EventTurnEnded, protocol.EventTurnFailed, protocol.EventSessionAttention}, w.running},
		{"ended sessions", []string{protocol.EventSessionEnded, protocol.EventSessionFailed, protocol.EventTurnEnded, protocol.EventTurnFailed}, w.ended},
		{"batches", []string{protocol.EventBatchEnded}, w.batches},
		{"hosts", []string{protocol.EventHostUnhealthy}, w.slow("hosts", w.hosts)},
		{"seeds", []string{protocol.EventSeedUnhealthy}, w.slow("seeds", w.seeds)},
	} {
		if !w.rules.Wants(one.kinds...) {
			continue
		}
		err := one.do(ctx)
		if ctx.Err() != nil {
			return ""
		}
		if !w.heard("the list of "+one.what, err) && problem == "" {
			problem = fmt.Sprintf("%s cannot be listed: %v", one.what, err)
		}
	}
	return problem
}

// slow asks only now and then, and goes on with what was said.
func (w *watcher) slow(what string, do func(context.Context) ([]found, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		if w.now.Sub(w.asked[what]) >= slowly {
			all, err := do(ctx)
			if err != nil {
				return err
			}
			w.asked[what], w.kept[what] = w.now, all
		}
		w.found = append(w.found, w.kept[what]...)
		return nil
	}
}

func (w *watcher) list(ctx context.Context, query string, each func(*workflowpb.WorkflowExecutionInfo)) error {
	var page []byte
	for {
		r, err := w.c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1000, NextPageToken: page})
		if err != nil {
			return err
		}
		for _, x := range r.GetExecutions() {
			each(x)
		}
		if page = r.GetNextPageToken(); len(page) == 0 {
			return nil
		}
	}
}

func attr[T any](info *workflowpb.WorkflowExecutionInfo, name string) (v T) {
	var p *commonpb.Payload = info.GetSearchAttributes().GetIndexedFields()[name]
	if p != nil && converter.GetDefaultDataConverter().FromPayload(p, &v) != nil {
		var zero T
		return zero
	}
	return v
}

// running looks at the sessions that run: their approvals, turns and troubles.
func (w *watcher) running(ctx context.Context) error {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND TaskQueue = '%s'", protocol.TypeSession, w.queue)
	if !w.rules.Wants(protocol.EventTurnEnded, protocol.EventTurnFailed, protocol.EventSessionAttention) {
		query += " AND FairleadApprovals > 0"
	}
	var all []*workflowpb.WorkflowExecutionInfo
	if err := w.list(ctx, query, func(x *workflowpb.WorkflowExecutionInfo) { all = append(all, x) }); err != nil {
		return err
	}
	for _, x := range all {
		w.ask(ctx, x)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for run, s := range w.known { // what is listed no more
		if s.round.Before(w.now) {
			delete(w.known, run)
			delete(w.deaf, s.what)
		}
	}
	return nil
}

// ask asks a session if it looks different, or has what changes by itself.
func (w *watcher) ask(ctx context.Context, x *workflowpb.WorkflowExecutionInfo) {
	run, id := x.GetExecution().GetRunId(), short(x.GetExecution().GetWorkflowId())
	s := w.known[run]
	if s == nil {
		s = &session{id: id, what: "session " + id}
		w.known[run] = s
	}
	s.round = w.now
	approvals := attr[int64](x, "FairleadApprovals")
	waits := attr[string](x, "FairleadWaits")
	looks := fmt.Sprint(attr[string](x, "FairleadState"), " ", approvals, " ", attr[int64](x, "FairleadTurn"), " ", waits)
	if s.looks != looks || approvals > 0 && w.now.Sub(s.at) >= again || waits != "" && waits != "a message" && waits != "codex" && w.now.Sub(s.at) >= again {
		var d protocol.SessionDetail
		if !w.heard(s.what, w.query(ctx, protocol.SessionID(id), protocol.QueryDetail, &d)) {
			return
		}
		s.found, s.looks, s.at = w.of(d), looks, w.now
	}
	w.add(ctx, s)
}

// add adds what a session has for people, with the facts that rules see.
func (w *watcher) add(ctx context.Context, s *session) {
	for _, f := range s.found {
		if f.At.After(w.now) || !f.At.After(w.since) || w.seen[f.Key] {
			continue
		}
		if !s.hasFacts && !w.learn(ctx, s) {
			return
		}
		f.facts, f.Owner = s.facts, s.owner
		w.found = append(w.found, f)
	}
}

// learn asks a session for its owner and labels. They do not change.
func (w *watcher) learn(ctx context.Context, s *session) bool {
	var o struct {
		Owner  string            `json:"owner"`
		Labels map[string]string `json:"labels"`
	}
	if !w.heard(s.what, w.query(ctx, protocol.SessionID(s.id), protocol.QueryObject, &o)) {
		return false
	}
	s.owner, s.facts.Labels, s.hasFacts = o.Owner, o.Labels, true
	return true
}

func (w *watcher) query(ctx context.Context, id, name string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	v, err := w.c.QueryWorkflow(ctx, id, "", name)
	if err != nil {
		return err
	}
	return v.Get(out)
}

// of returns all events that a session's answer tells of, whatever their time.
func (w *watcher) of(d protocol.SessionDetail) (all []found) {
	v := d.View
	add := func(e protocol.NotifyEvent, lead time.Duration) {
		e.Session, e.Name, e.Host, e.Seed = v.ID, v.Name, v.Host, v.Seed
		all = append(all, found{NotifyEvent: e, lead: lead, facts: notify.Facts{Origin: v.Origin}})
	}
	for _, ap := range d.Approvals {
		if ap.State != protocol.ApprovalOpen {
			continue
		}
		add(protocol.NotifyEvent{Key: protocol.EventApprovalOpened + "/" + ap.ID, Kind: protocol.EventApprovalOpened, At: ap.AskedAt, Approval: ap.ID, What: ap.Kind, Turn: ap.Turn, ExpiresAt: ap.ExpiresAt}, 0)
		if ap.ExpiresAt.IsZero() {
			continue
		}
		for _, lead := range w.rules.Leads() {
			at := ap.ExpiresAt.Add(-lead)
			if at.Before(ap.AskedAt) {
				at = ap.AskedAt
			}
			add(protocol.NotifyEvent{Key: fmt.Sprintf("%s/%s/%s", protocol.EventApprovalExpiring, ap.ID, lead), Kind: protocol.EventApprovalExpiring, At: at, Approval: ap.ID, What: ap.Kind, Turn: ap.Turn, ExpiresAt: ap.ExpiresAt}, lead)
		}
	}
	for _, t := range d.Turns {
		if !t.Done() || t.EndedAt.IsZero() {
			continue
		}
		kind := protocol.EventTurnFailed
		if t.Status == "completed" {
			kind = protocol.EventTurnEnded
		}
		add(protocol.NotifyEvent{Key: fmt.Sprintf("%s/%s/%d", kind, v.ID, t.N), Kind: kind, At: t.EndedAt, Turn: t.N, What: turnWord(t)}, 0)
	}
	attention := func(what string, since time.Time) {
		add(protocol.NotifyEvent{Key: fmt.Sprintf("%s/%s/%s/%d", protocol.EventSessionAttention, v.ID, what, since.Unix()), Kind: protocol.EventSessionAttention, At: since, What: what}, 0)
	}
	if n := len(d.Turns); n > 0 && v.State == protocol.Interrupted && !d.Turns[n-1].EndedAt.IsZero() {
		attention("interrupted: it waits for a message", d.Turns[n-1].EndedAt)
	}
	if v.Lost != nil {
		attention("host out of reach", v.Lost.Since)
	}
	if v.Limit != nil {
		attention("limit of the login: "+v.Limit.Kind, v.Limit.Since)
	}
	if t := v.WaitingFor; t != nil {
		attention("attempts fail: "+t.Kind, t.Since.Add(unwell))
	}
	return all
}

func turnWord(t protocol.TurnView) string {
	if t.Error != nil {
		return t.Status + ": " + t.Error.Kind
	}
	return t.Status
}

// ended looks at sessions that ended after w.since.
func (w *watcher) ended(ctx context.Context) error {
	var all []*workflowpb.WorkflowExecutionInfo
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew' AND TaskQueue = '%s' AND CloseTime > '%s'",
		protocol.TypeSession, w.queue, w.since.UTC().Format(time.RFC3339Nano))
	if err := w.list(ctx, query, func(x *workflowpb.WorkflowExecutionInfo) { all = append(all, x) }); err != nil {
		return err
	}
	for _, x := range all {
		w.end(ctx, x)
	}
	return ctx.Err()
}

func (w *watcher) end(ctx context.Context, x *workflowpb.WorkflowExecutionInfo) {
	run, id := x.GetExecution().GetRunId(), short(x.GetExecution().GetWorkflowId())
	kind, what := protocol.EventSessionEnded, attr[string](x, "FairleadState")
	switch x.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED:
		kind, what = protocol.EventSessionFailed, "failed"
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		kind, what = protocol.EventSessionFailed, "ended from outside"
	}
	if what == string(protocol.Failed) {
		kind = protocol.EventSessionFailed
	}
	// The run tells sessions of one id apart.
	f := found{NotifyEvent: protocol.NotifyEvent{Key: kind + "/" + id + "/" + run, Kind: kind, At: x.GetCloseTime().AsTime(), Session: id, Name: attr[string](x, "FairleadName"),
		Host: attr[string](x, "FairleadHost"), Seed: attr[string](x, "FairleadSeed"), Turn: int(attr[int64](x, "FairleadTurn")), What: what},
		facts: notify.Facts{Origin: attr[string](x, "FairleadOrigin")}}
	s := w.known["ended/"+run]
	if s == nil {
		s = &session{id: id, what: endedSession + id, facts: f.facts, found: []found{f}}
		var d protocol.SessionDetail
		// Its last turns ended perhaps after it was asked for the last time.
		if w.heard(s.what, w.query(ctx, x.GetExecution().GetWorkflowId(), protocol.QueryDetail, &d)) {
			if e := d.View.Error; e != nil && kind == protocol.EventSessionFailed {
				s.found[0].What = what + ": " + e.Kind
			}
			s.found = append(s.found, slices.DeleteFunc(w.of(d), func(f found) bool { return f.Kind != protocol.EventTurnEnded && f.Kind != protocol.EventTurnFailed })...)
		} else if !w.gaveUp(s.what) {
			return // it is asked again
		}
		w.known["ended/"+run] = s
	}
	// A session that was refused answers nothing: it has no owner that is known.
	if !s.hasFacts && !w.learn(ctx, s) && w.gaveUp(s.what) {
		s.hasFacts = true
	}
	s.round = w.now.Add(Overlap) // it stays listed that long
	if s.hasFacts {
		w.add(ctx, s)
	}
}

// batches looks at batches that ended after w.since.
func (w *watcher) batches(ctx context.Context) error {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew' AND TaskQueue = '%s' AND CloseTime > '%s'",
		protocol.TypeBatch, w.queue, w.since.UTC().Format(time.RFC3339Nano))
	return w.list(ctx, query, func(x *workflowpb.WorkflowExecutionInfo) {
		id := x.GetExecution().GetWorkflowId()
		w.found = append(w.found, found{NotifyEvent: protocol.NotifyEvent{Key: protocol.EventBatchEnded + "/" + id + "/" + x.GetExecution().GetRunId(), Kind: protocol.EventBatchEnded,
			At: x.GetCloseTime().AsTime(), Batch: strings.TrimPrefix(id, "batch/"), What: strings.ToLower(x.GetStatus().String())}, facts: notify.Facts{Origin: id}})
	})
}

// hosts asks the zone's pool.
func (w *watcher) hosts(ctx context.Context) (all []found, err error) {
	var hosts []protocol.HostView
	err = w.query(ctx, protocol.PoolID(w.zone), protocol.QueryHosts, &hosts)
	var none *serviceerror.NotFound
	if errors.As(err, &none) {
		return nil, nil
	}
	for _, h := range hosts {
		if h.Health == nil || h.Health.State == protocol.HealthOK || h.Health.Since.IsZero() {
			continue
		}
		at := h.Health.Since.Add(unwell)
		if at.After(w.now) {
			continue
		}
		all = append(all, found{NotifyEvent: protocol.NotifyEvent{Key: fmt.Sprintf("%s/%s/%d", protocol.EventHostUnhealthy, h.Name, h.Health.Since.Unix()), Kind: protocol.EventHostUnhealthy,
			At: at, Host: h.Name, What: strings.TrimSuffix(h.Health.State+": "+h.Health.Kind, ": ")}})
	}
	return all, err
}

// seeds asks each seed of this queue.
func (w *watcher) seeds(ctx context.Context) (all []found, err error) {
	var names []string
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND TaskQueue = '%s'", protocol.TypeSeed, w.queue)
	if err := w.list(ctx, query, func(x *workflowpb.WorkflowExecutionInfo) {
		names = append(names, x.GetExecution().GetWorkflowId())
	}); err != nil {
		return nil, err
	}
	for _, id := range names[:min(len(names), maxSeeds)] {
		var v protocol.SeedView
		if !w.heard(id, w.query(ctx, id, protocol.QuerySeed, &v)) || v.Deleted || v.Since == nil || v.Health != "suspect" && v.Health != "dead" {
			continue
		}
		all = append(all, found{NotifyEvent: protocol.NotifyEvent{Key: fmt.Sprintf("%s/%s/%s/%d", protocol.EventSeedUnhealthy, v.Name, v.Health, v.Since.Unix()), Kind: protocol.EventSeedUnhealthy,
			At: *v.Since, Seed: v.Name, What: v.Health}})
	}
	return all, nil
}
