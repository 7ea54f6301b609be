package flows

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/internal/access"
	gate "fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows"
)

func (t *Conn) recall(ctx context.Context, doing, workflowID, name string, out any, args ...any) error {
	history, err := t.history(ctx, doing, workflowID)
	if err != nil {
		return err
	}
	return answer(t.query(doing, name, args...), history, time.Now(), out)
}

// query returns a query whose kept commands are judged by the keeper of our program's side.
func (t *Conn) query(doing, name string, args ...any) *query {
	return &query{codec: t.Codec, register: workflows.Register, keeper: t.Side.Keeper(), doing: doing, name: name, args: args}
}

// answer replays a workflow as a worker would that takes it over at that time, and then
// runs the query. If this ctl cannot replay the history, the query counts as unanswered. A
// decision that no worker has judged is shown as unjudged, unless the query has a keeper.
func answer(q *query, history *historypb.History, at time.Time, out any) error {
	if len(history.Events) == 0 {
		return errkind.NotFound("%s: it does not exist", q.doing)
	}
	answered, err := replay(q, history, false)
	if err != nil && worked(history) {
		return errkind.Unreachable("%s: no worker answers, and this ctl cannot follow the history itself: %s", q.doing, escape.OneLine(FirstSentence(err), 200)).
			Hinted("is a worker running? `ctl status` shows them; is ctl of the same version?").Because(err)
	}
	// Replay again with the signals that no worker has seen yet. An error now only means
	// that the last task is not in the history. In a run that has just continued as new, no
	// worker has seen any event.
	seen, ahead := answered, asOf(history, at)
	if now, _ := replay(q, ahead, len(ahead.Events) > len(history.Events)); now != nil {
		answered = now
	}
	if answered == nil {
		return errkind.Unreachable("%s: no worker answers, and the history has no answer yet", q.doing).
			Hinted("is a worker running? `ctl status` shows them")
	}
	if answered.err != nil {
		return answered.err
	}
	if err := json.Unmarshal(answered.data, out); err != nil {
		return errkind.Failed("%s: read the answer: %v", q.doing, err)
	}
	if answered.unjudged {
		markUnjudged(seen, out)
	}
	return nil
}

// markUnjudged sets the state of decisions to unjudged, except of those that are also in
// before: the answer without the commands that no worker has seen.
func markUnjudged(before *reply, out any) {
	var now, was []protocol.Approval
	switch out := out.(type) {
	case *protocol.SessionDetail:
		now = out.Approvals
		var d protocol.SessionDetail
		if before != nil && before.err == nil && json.Unmarshal(before.data, &d) == nil {
			was = d.Approvals
		}
	case *[]protocol.Approval:
		now = *out
		if before != nil && before.err == nil && json.Unmarshal(before.data, &was) != nil {
			was = nil
		}
	}
	for i := range now {
		decided := slices.ContainsFunc(was, func(ap protocol.Approval) bool { return ap.ID == now[i].ID && ap.Decision != nil })
		if now[i].Decision != nil && !decided {
			now[i].State = protocol.ApprovalUnjudged
		}
	}
}

func worked(h *historypb.History) bool {
	return slices.ContainsFunc(h.Events, func(ev *historypb.HistoryEvent) bool {
		return ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	})
}

// replay replays a workflow up to its last completed task, and returns the query's answer
// there. It returns nil if the workflow has no handler for the query then. ahead says that
// no worker has run the last task; then replay judges the commands of that task.
func replay(q *query, history *historypb.History, ahead bool) (*reply, error) {
	o := &observer{query: q, from: lastTask(history), ahead: ahead, handlers: map[string]any{}}
	// In the order of a worker: payloads are opened before commands are judged. The observer
	// comes last, so that it sees what the workflow itself asks for.
	var interceptors []interceptor.WorkerInterceptor
	if in := q.codec.Interceptor(); in != nil {
		interceptors = append(interceptors, in)
	}
	keeper := q.keeper
	if !ahead {
		keeper = nil // workers recorded their verdicts
	}
	interceptors = append(interceptors, gate.Interceptor(keeper, gate.Options{}), o)
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: q.codec.DataConverter(), FailureConverter: q.codec.FailureConverter(),
		Interceptors: interceptors, DisableDeadlockDetection: true, // a busy machine is no deadlock
	})
	if err != nil {
		return nil, err
	}
	q.register(replayer)
	begun := history.Events[0].GetWorkflowExecutionStartedEventAttributes()
	q.codec.ReadNotes(begun.GetWorkflowId(), history.Events)
	err = replayer.ReplayWorkflowHistoryWithOptions(
		temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler)), history, worker.ReplayWorkflowHistoryOptions{
			OriginalExecution: workflow.Execution{ID: begun.GetWorkflowId(), RunID: begun.GetOriginalExecutionRunId()},
		})
	return o.reply, err
}

// lastTask returns the event that started the last completed task, or 0.
func lastTask(h *historypb.History) (started int64) {
	for _, ev := range h.Events {
		if done := ev.GetWorkflowTaskCompletedEventAttributes(); done != nil {
			started = done.GetStartedEventId()
		}
	}
	return started
}

func (t *Conn) history(ctx context.Context, doing, workflowID string) (*historypb.History, error) {
	ctx, cancel := t.Bounded(ctx, AnswerWait)
	defer cancel()
	h := &historypb.History{}
	it := t.GetWorkflowHistory(ctx, workflowID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			return nil, t.Explain(ctx, doing, err)
		}
		h.Events = append(h.Events, ev)
	}
	return h, nil
}

// asOf appends a completed workflow task, because a replay ignores the events after the
// last completed task. It does not change the history of a workflow that has ended.
func asOf(h *historypb.History, at time.Time) *historypb.History {
	begun := false
	for _, ev := range h.Events {
		switch ev.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_TASK_STARTED:
			begun = true
		case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
			begun = false
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
			enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
			enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
			return h
		}
	}
	last := h.Events[len(h.Events)-1].GetEventId()
	h = &historypb.History{Events: slices.Clone(h.Events)}
	if !begun {
		h.Events = append(h.Events, &historypb.HistoryEvent{
			EventId: last + 1, EventTime: timestamppb.New(at), EventType: enums.EVENT_TYPE_WORKFLOW_TASK_STARTED,
			Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
				WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: last},
			},
		})
		last++
	}
	h.Events = append(h.Events, &historypb.HistoryEvent{
		EventId: last + 1, EventTime: timestamppb.New(at), EventType: enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
		Attributes: &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
			WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: last - 1, StartedEventId: last},
		},
	})
	return h
}

type query struct {
	codec       *payload.Codec
	register    func(worker.WorkflowRegistry)
	keeper      *gate.Keeper // nil without an access file
	doing, name string
	args        []any
}

type reply struct {
	data     []byte
	err      error
	unjudged bool // the answer depends on a command that nobody has judged
}

// observer runs the query during the replay. After it, the SDK ends the workflow's
// goroutines without waiting for them, and their deferred functions change the values that
// a query handler reads.
type observer struct {
	interceptor.WorkerInterceptorBase
	query    *query
	from     int64 // the event that starts the last task
	ahead    bool  // no worker has run that task
	unjudged bool
	handlers map[string]any
	reply    *reply
}

func (o *observer) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &observedInbound{o: o}
	in.Next = next
	return in
}

type observedInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	o *observer
}

func (i *observedInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &observedOutbound{o: i.o}
	out.Next = next
	return i.Next.Init(out)
}

// ExecuteWorkflow runs the workflow beside a coroutine that waits for a condition that is
// never true. The condition runs the query. The SDK evaluates it until no coroutine can go
// on, so the last reply shows the state after the task.
func (i *observedInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	untilEvicted, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(untilEvicted, func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool {
			if i.o.atLast(ctx) {
				i.o.ask()
			}
			return false
		})
	})
	return i.Next.ExecuteWorkflow(ctx, in)
}

// atLast reports whether the workflow runs its last task.
func (o *observer) atLast(ctx workflow.Context) bool {
	return int64(workflow.GetInfo(ctx).GetCurrentHistoryLength()) >= o.from
}

type observedOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	o *observer
}

func (c *observedOutbound) SetQueryHandler(ctx workflow.Context, name string, handler any) error {
	c.o.handlers[name] = handler
	return c.Next.SetQueryHandler(ctx, name, handler)
}

func (c *observedOutbound) SetQueryHandlerWithOptions(ctx workflow.Context, name string, handler any, opts workflow.QueryHandlerOptions) error {
	c.o.handlers[name] = handler
	return c.Next.SetQueryHandlerWithOptions(ctx, name, handler, opts)
}

// SideEffect judges a command that no worker has judged. The history has no verdict on it, and
// without one the replay would end there.
func (c *observedOutbound) SideEffect(ctx workflow.Context, f func(workflow.Context) any) converter.EncodedValue {
	if !c.o.ahead || !c.o.atLast(ctx) {
		return c.Next.SideEffect(ctx, f)
	}
	v, is := f(ctx).(gate.Verdict)
	if !is {
		return c.Next.SideEffect(ctx, f)
	}
	if _, token := access.TokenName(v.Principal); token && v.Refused != "" {
		v = gate.Verdict{Of: v.Of} // only workers know the tokens
	}
	if v.Access == "" {
		c.o.unjudged = true
	}
	return verdict{v}
}

// A verdict is a verdict of this ctl, in place of the one that a worker would record.
type verdict struct{ is gate.Verdict }

func (v verdict) HasValue() bool { return true }

func (v verdict) Get(to any) error { return throughJSON(v.is, to) }

// ask calls the query handler, with arguments and results as JSON, as a worker does.
func (o *observer) ask() {
	q := o.query
	f := reflect.ValueOf(o.handlers[q.name])
	if !f.IsValid() || f.Type().NumIn() != len(q.args) || f.Type().NumOut() != 2 {
		return
	}
	var in []reflect.Value
	for i, arg := range q.args {
		v := reflect.New(f.Type().In(i))
		if err := throughJSON(arg, v.Interface()); err != nil {
			o.reply = &reply{err: errkind.Failed("%s: %v", q.doing, err)}
			return
		}
		in = append(in, v.Elem())
	}
	res := f.Call(in)
	if err, ok := res[1].Interface().(error); ok {
		o.reply = &reply{err: q.refused(err)}
		return
	}
	data, err := json.Marshal(res[0].Interface())
	if err != nil {
		err = errkind.Failed("%s: %v", q.doing, err)
	}
	o.reply = &reply{data: data, err: err, unjudged: o.unjudged}
}

func (q *query) refused(err error) error {
	if e := refusal(q.codec, err); e != nil {
		e.Message = q.doing + ": " + unsaid(q.doing, e.Message)
		return e.Because(err)
	}
	return errkind.Failed("%s: %v", q.doing, err)
}

func throughJSON(from, to any) error {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("pass on %T: %w", from, err)
	}
	return nil
}
