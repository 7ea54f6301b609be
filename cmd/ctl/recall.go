package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/interceptor"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/workflows"
)

// probeWait is how long ctl waits for a worker if it can also answer without one.
const probeWait = 3 * time.Second

// silenceLasts is how long ctl asks no worker after one did not answer.
const silenceLasts = 5 * time.Second

// silence records that workers do not answer.
type silence struct {
	sync.Mutex
	asked time.Time // the last time that nobody answered
	since time.Time // since when nobody has answered; zero if somebody does
	told  bool
}

// again reports whether to ask a worker again.
func (s *silence) again() bool {
	s.Lock()
	defer s.Unlock()
	return time.Since(s.asked) > silenceLasts
}

func (s *silence) heard(answered bool) {
	s.Lock()
	defer s.Unlock()
	if answered {
		s.asked, s.since = time.Time{}, time.Time{}
		return
	}
	s.asked = time.Now()
	if s.since.IsZero() {
		s.since = s.asked
	}
}

// lasted returns for how long no worker has answered.
func (s *silence) lasted() time.Duration {
	s.Lock()
	defer s.Unlock()
	if s.since.IsZero() {
		return 0
	}
	return time.Since(s.since)
}

// once reports true at its first call only.
func (s *silence) once() bool {
	s.Lock()
	defer s.Unlock()
	was := s.told
	s.told = true
	return !was
}

// ask queries a workflow. With no worker up, ctl runs the workflow's code over the history
// that Temporal keeps, and tells the user so.
func (t *temporal) ask(ctx context.Context, doing, workflowID, name string, out any, args ...any) error {
	live, err := t.askEither(ctx, doing, workflowID, name, out, args...)
	if err == nil && !live && !t.app.begins && t.silence.once() {
		t.app.note("no worker answers: this is what Temporal keeps")
	}
	return err
}

// askEither is like ask, but does not tell the user. live reports whether a worker
// answered.
func (t *temporal) askEither(ctx context.Context, doing, workflowID, name string, out any, args ...any) (live bool, err error) {
	if t.silence.again() {
		pctx, cancel := context.WithTimeout(ctx, min(probeWait, t.app.wait(probeWait)))
		err = t.query(pctx, doing, workflowID, name, out, args...)
		cancel()
		if unknownQuery(err) && t.recall(ctx, doing, workflowID, name, out, args...) == nil {
			return true, nil // a worker of an earlier version cannot query a session that refused its input
		}
		if outOfTime(ctx, err) { // the worker had no time to answer
			return true, err
		}
		if err == nil || exitOf(err) != exitUnreachable || ctx.Err() != nil {
			t.silence.heard(err == nil)
			return true, err
		}
		t.silence.heard(false)
	}
	rerr := t.recall(ctx, doing, workflowID, name, out, args...)
	if rerr != nil && err != nil && exitOf(rerr) == exitFailed {
		return false, err
	}
	return false, rerr
}

// unknownQuery reports whether the workflow has no handler for the query. That is so for a
// session that refused its options, with a worker of an earlier version.
func unknownQuery(err error) bool {
	var fail *serviceerror.QueryFailed
	return errors.As(err, &fail) && strings.HasPrefix(fail.Message, "unknown queryType ")
}

// recall answers a query from the history alone.
func (t *temporal) recall(ctx context.Context, doing, workflowID, name string, out any, args ...any) error {
	history, err := t.history(ctx, doing, workflowID)
	if err != nil {
		return err
	}
	return answer(t.codec, history, time.Now(), doing, name, out, args...)
}

// answer replays the workflow's code over its history, as a worker that takes the workflow
// over at that time would, and then runs the query. It changes nothing. If this version of
// ctl cannot replay the history, the query counts as unanswered.
func answer(codec *payload.Codec, history *historypb.History, at time.Time, doing, name string, out any, args ...any) error {
	if len(history.Events) == 0 {
		return notFound("%s: there is none", doing)
	}
	q := &query{codec: codec, doing: doing, name: name, args: args}
	answered, err := replay(q, history)
	if err != nil && worked(history) {
		return unreachable("%s: no worker answers, and this ctl cannot follow the history itself: %s", doing, oneLine(firstSentence(err), 200)).
			hinted("is a worker running? `ctl status` shows them; is ctl of the same version?").because(err)
	}
	// Count in signals that no worker has seen yet. The first replay was valid, so an error
	// of this one only means that the last task is not in the history. In a run that has
	// just continued as new, no worker has seen anything.
	if now, _ := replay(q, asOf(history, at)); now != nil {
		answered = now
	}
	if answered == nil {
		return unreachable("%s: no worker answers, and the history does not tell yet", doing).
			hinted("is a worker running? `ctl status` shows them")
	}
	if answered.err != nil {
		return answered.err
	}
	if err := json.Unmarshal(answered.data, out); err != nil {
		return failed("%s: read the answer: %v", doing, err)
	}
	return nil
}

// worked reports whether a worker has completed any workflow task of a run.
func worked(h *historypb.History) bool {
	return slices.ContainsFunc(h.Events, func(ev *historypb.HistoryEvent) bool {
		return ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	})
}

// replay replays a workflow up to its last completed task, and returns the query's answer
// at that point. It returns nil if the workflow has no handler for the query then.
func replay(q *query, history *historypb.History) (*reply, error) {
	o := &observer{query: q, from: lastTask(history), handlers: map[string]any{}}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: q.codec.DataConverter(), FailureConverter: q.codec.FailureConverter(),
		Interceptors: []interceptor.WorkerInterceptor{o},
	})
	if err != nil {
		return nil, err
	}
	workflows.Register(replayer)
	begun := history.Events[0].GetWorkflowExecutionStartedEventAttributes()
	err = replayer.ReplayWorkflowHistoryWithOptions(
		temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler)), history, worker.ReplayWorkflowHistoryOptions{
			OriginalExecution: workflow.Execution{ID: begun.GetWorkflowId(), RunID: begun.GetOriginalExecutionRunId()},
		})
	return o.reply, err
}

// lastTask returns the id of the event that started the last completed task, or 0.
func lastTask(h *historypb.History) (started int64) {
	for _, ev := range h.Events {
		if done := ev.GetWorkflowTaskCompletedEventAttributes(); done != nil {
			started = done.GetStartedEventId()
		}
	}
	return started
}

// history reads the history of a workflow's newest run.
func (t *temporal) history(ctx context.Context, doing, workflowID string) (*historypb.History, error) {
	ctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	h := &historypb.History{}
	it := t.GetWorkflowHistory(ctx, workflowID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			return nil, t.explain(ctx, doing, err)
		}
		h.Events = append(h.Events, ev)
	}
	return h, nil
}

// asOf appends a workflow task to the history, as if a worker had handled the newest events
// at that time. A replay ignores the events after the last completed task. The history of a
// workflow that has ended is left as it is.
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

// A query has the name and the arguments of a workflow's query. doing is for error
// messages.
type query struct {
	codec       *payload.Codec
	doing, name string
	args        []any
}

// A reply is the JSON of an answer, or the error that ctl reports.
type reply struct {
	data []byte
	err  error
}

// observer runs the query while the workflow is being replayed. After the replay it is too
// late: the SDK then ends the workflow's goroutines without waiting for them, and their
// deferred functions change what a query handler reads.
type observer struct {
	interceptor.WorkerInterceptorBase
	query    *query
	from     int64 // the event that starts the last task
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

// ExecuteWorkflow runs the workflow beside a coroutine whose condition is never true. The
// SDK evaluates the condition until no coroutine can go on. So the last reply shows the
// state after the task.
func (i *observedInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	untilEvicted, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(untilEvicted, func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool {
			if int64(workflow.GetInfo(ctx).GetCurrentHistoryLength()) >= i.o.from {
				i.o.ask()
			}
			return false
		})
	})
	return i.Next.ExecuteWorkflow(ctx, in)
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

// ask calls the query handler as a worker does: it passes arguments and results as JSON.
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
			o.reply = &reply{err: failed("%s: %v", q.doing, err)}
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
		err = failed("%s: %v", q.doing, err)
	}
	o.reply = &reply{data: data, err: err}
}

// refused returns the error of a query handler as ctl reports it.
func (q *query) refused(err error) error {
	if e := refusal(q.codec, err); e != nil {
		e.message = q.doing + ": " + unsaid(q.doing, e.message)
		return e.because(err)
	}
	return failed("%s: %v", q.doing, err)
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
