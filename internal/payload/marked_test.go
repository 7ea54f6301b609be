package payload

import (
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// records returns what a worker records.
func records(ctx workflow.Context, in string) (got string, err error) {
	err = workflow.SideEffect(ctx, func(workflow.Context) any { return in + " recorded" }).Get(&got)
	return got, err
}

// recordedBy is the history of records on a worker with a codec.
func recordedBy(t *testing.T, c *Codec, began time.Time) *historypb.History {
	t.Helper()
	sealed := func(v any) *commonpb.Payloads {
		t.Helper()
		p, err := c.Of("w", began).ToPayloads(v)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	h := &historypb.History{Events: []*historypb.HistoryEvent{
		{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{WorkflowId: "w", OriginalExecutionRunId: "r",
				WorkflowType: &commonpb.WorkflowType{Name: "records"}, TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}, Input: sealed(Input("records", "input"))}}},
		{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, Attributes: &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{
			WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{}}},
		{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
			WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: 2}}},
		{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, Attributes: &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
			WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: 2, StartedEventId: 3}}},
		{EventType: enums.EVENT_TYPE_MARKER_RECORDED, Attributes: &historypb.HistoryEvent_MarkerRecordedEventAttributes{
			MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{MarkerName: "SideEffect", WorkflowTaskCompletedEventId: 4,
				Details: map[string]*commonpb.Payloads{"side-effect-id": sealed(int64(1)), "data": sealed(purposed{purpose: forRecorded("r", 0), value: "input recorded"})}}}},
		{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
			WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{WorkflowTaskCompletedEventId: 4, Result: sealed("input recorded")}}},
	}}
	for i, ev := range h.Events {
		ev.EventId, ev.EventTime = int64(i+1), timestamppb.New(began)
	}
	return h
}

// A worker that requires nothing marks what it writes all the same. So a run goes on when
// its worker comes to require marks, and comes back to requiring none.
func TestARunOfAWorkerThatRequiredNoMarksGoesOnWhenTheyAreRequired(t *testing.T) {
	codec, of, began := NewCodec("default", key(t)), key(t), time.Now()
	with := func(required bool, since time.Time) *Codec {
		return codec.ForWorkers(Workers{Keys: []Key{of}, Required: required, Since: since, Internal: func(Message) bool { return true }})
	}
	replay := func(c *Codec, h *historypb.History) error {
		t.Helper()
		r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
			DataConverter: c.DataConverter(), FailureConverter: c.FailureConverter(), Interceptors: []interceptor.WorkerInterceptor{c.Interceptor()}, DisableDeadlockDetection: true})
		if err != nil {
			t.Fatal(err)
		}
		r.RegisterWorkflowWithOptions(records, workflow.RegisterOptions{Name: "records"})
		return r.ReplayWorkflowHistoryWithOptions(quiet, h, worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: "w", RunID: "r"}})
	}
	local, required := with(false, time.Time{}), with(true, time.Time{})
	for _, h := range []*historypb.History{recordedBy(t, local, began), recordedBy(t, required, began)} {
		for _, c := range []*Codec{required, local, required} {
			if err := replay(c, h); err != nil {
				t.Errorf("it does not go on: %v", err)
			}
		}
	}
	// Without the key under local, it goes on only where the time of the change is named.
	unmarked := recordedBy(t, codec, began)
	if err := replay(required, unmarked); err == nil {
		t.Error("what no worker marked was taken")
	}
	if err := replay(with(true, began.Add(time.Second)), unmarked); err != nil {
		t.Errorf("it does not go on though it began before all workers had the key: %v", err)
	}
	// The key of the marks may be lost.
	of = key(t)
	for name, c := range map[string]*Codec{"none are required": with(false, time.Time{}), "it began before": with(true, began.Add(time.Second))} {
		if err := replay(c, recordedBy(t, local, began)); err != nil {
			t.Errorf("with another key, it does not go on though %s: %v", name, err)
		}
	}
	if err := replay(with(true, time.Time{}), recordedBy(t, local, began)); err == nil {
		t.Error("a mark was taken that cannot be verified")
	}
}
