package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/workflows"
)

// probeWait is how long ctl waits for a worker where it can do without one.
const probeWait = 3 * time.Second

// silenceLasts is how long a worker that did not answer is not asked again.
const silenceLasts = 5 * time.Second

// silence is what ctl remembers of a worker that does not answer.
type silence struct {
	sync.Mutex
	asked time.Time // last, in vain
	since time.Time // zero where one answers
	told  bool
}

// again says whether a worker is worth asking.
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

// lasted is for how long no worker has answered by now.
func (s *silence) lasted() time.Duration {
	s.Lock()
	defer s.Unlock()
	if s.since.IsZero() {
		return 0
	}
	return time.Since(s.since)
}

// once is true the first time.
func (s *silence) once() bool {
	s.Lock()
	defer s.Unlock()
	was := s.told
	s.told = true
	return !was
}

// ask is query where it need not be a worker that answers: with none up, the
// workflow's own code answers from the history that Temporal keeps. A person
// is told.
func (t *temporal) ask(ctx context.Context, doing, workflowID, name string, out any, args ...any) error {
	live, err := t.askEither(ctx, doing, workflowID, name, out, args...)
	if err == nil && !live && t.silence.once() {
		t.app.note("no worker answers: this is what Temporal keeps")
	}
	return err
}

// askEither is ask, and leaves it to the caller to say that no worker answered.
func (t *temporal) askEither(ctx context.Context, doing, workflowID, name string, out any, args ...any) (live bool, err error) {
	if t.silence.again() {
		pctx, cancel := context.WithTimeout(ctx, min(probeWait, t.app.wait(probeWait)))
		err = t.query(pctx, doing, workflowID, name, out, args...)
		cancel()
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

// recall answers a query from the history alone.
func (t *temporal) recall(ctx context.Context, doing, workflowID, name string, out any, args ...any) error {
	history, err := t.history(ctx, doing, workflowID)
	if err != nil {
		return err
	}
	return answer(t.codec, history, time.Now(), doing, name, out, args...)
}

// answer runs the workflow's own code over what is on record, as a worker that
// takes a workflow over at that time does, and then asks it. Nothing is changed. A history
// that this version of ctl cannot follow is like no answer at all.
func answer(codec *payload.Codec, history *historypb.History, at time.Time, doing, name string, out any, args ...any) error {
	if len(history.Events) == 0 {
		return notFound("%s: there is none", doing)
	}
	handlers, err := replay(codec, history)
	if err != nil && worked(history) {
		return unreachable("%s: no worker answers, and this ctl cannot follow the history itself: %s", doing, oneLine(firstSentence(err), 200)).
			hinted("is a worker running? `ctl status` shows them; is ctl of the same version?").because(err)
	}
	// Signals that no worker has seen yet are counted in. The replay was right
	// up to here; what it says now is only that the last task left no trace. A
	// run that no worker has seen, as one that was just continued, is all of it unread.
	if now, _ := replay(codec, asOf(history, at)); now.byName[name] != nil {
		handlers = now
	}
	return handlers.call(codec, doing, name, out, args)
}

// worked says whether a worker has done any task of a run.
func worked(h *historypb.History) bool {
	return slices.ContainsFunc(h.Events, func(ev *historypb.HistoryEvent) bool {
		return ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	})
}

// replay runs a workflow up to the last task that was completed.
func replay(codec *payload.Codec, history *historypb.History) (*queryHandlers, error) {
	handlers := &queryHandlers{byName: map[string]any{}}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: codec.DataConverter(), FailureConverter: codec.FailureConverter(),
		Interceptors: []interceptor.WorkerInterceptor{handlers},
	})
	if err != nil {
		return handlers, err
	}
	workflows.Register(replayer)
	begun := history.Events[0].GetWorkflowExecutionStartedEventAttributes()
	return handlers, replayer.ReplayWorkflowHistoryWithOptions(
		temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler)), history, worker.ReplayWorkflowHistoryOptions{
			OriginalExecution: workflow.Execution{ID: begun.GetWorkflowId(), RunID: begun.GetOriginalExecutionRunId()},
		})
}

// history is all that Temporal keeps of a workflow's newest run.
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

// asOf ends a history as if a worker had then dealt with what came last: a
// replay leaves out what stands behind the last workflow task that was completed.
// What ended stays as it ended.
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

// queryHandlers catches what a workflow answers queries with.
type queryHandlers struct {
	interceptor.WorkerInterceptorBase
	byName map[string]any
}

func (q *queryHandlers) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &caughtInbound{q: q}
	in.Next = next
	return in
}

type caughtInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	q *queryHandlers
}

func (c *caughtInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &caughtOutbound{q: c.q}
	out.Next = next
	return c.Next.Init(out)
}

type caughtOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	q *queryHandlers
}

func (c *caughtOutbound) SetQueryHandler(ctx workflow.Context, name string, handler any) error {
	c.q.byName[name] = handler
	return c.Next.SetQueryHandler(ctx, name, handler)
}

func (c *caughtOutbound) SetQueryHandlerWithOptions(ctx workflow.Context, name string, handler any, opts workflow.QueryHandlerOptions) error {
	c.q.byName[name] = handler
	return c.Next.SetQueryHandlerWithOptions(ctx, name, handler, opts)
}

// call does what a worker does with a query: it hands over and brings back JSON.
func (q *queryHandlers) call(codec *payload.Codec, doing, name string, out any, args []any) error {
	f := reflect.ValueOf(q.byName[name])
	if !f.IsValid() || f.Type().NumIn() != len(args) || f.Type().NumOut() != 2 {
		return unreachable("%s: no worker answers, and the history does not tell yet", doing).
			hinted("is a worker running? `ctl status` shows them")
	}
	var in []reflect.Value
	for i, arg := range args {
		v := reflect.New(f.Type().In(i))
		if err := throughJSON(arg, v.Interface()); err != nil {
			return failed("%s: %v", doing, err)
		}
		in = append(in, v.Elem())
	}
	res := f.Call(in)
	if err, ok := res[1].Interface().(error); ok {
		if e := refusal(codec, err); e != nil {
			e.message = doing + ": " + e.message
			return e.because(err)
		}
		return failed("%s: %v", doing, err)
	}
	return throughJSON(res[0].Interface(), out)
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
