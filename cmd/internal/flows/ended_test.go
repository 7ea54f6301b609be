package flows

import (
	"errors"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows"
	"fairlead.dev/fairlead/workflows/session"
)

// refusedHistory is the history of a session whose workflow refused its options.
func refusedHistory(t *testing.T, codec *payload.Codec) *historypb.History {
	t.Helper()
	in, err := codec.DataConverter().ToPayloads(session.Input{ID: "bad", Options: session.Options{Model: strings.Repeat("m", 201)}})
	if err != nil {
		t.Fatal(err)
	}
	h := &historypb.History{}
	add := func(kind enums.EventType, ev *historypb.HistoryEvent) {
		ev.EventId, ev.EventType, ev.EventTime = int64(len(h.Events)+1), kind, timestamppb.New(time.Unix(1_800_000_000, 0))
		h.Events = append(h.Events, ev)
	}
	add(enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
			WorkflowType: &commonpb.WorkflowType{Name: protocol.TypeSession}, WorkflowId: "session/bad", Input: in, Attempt: 1,
			TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}, OriginalExecutionRunId: "run", WorkflowTaskTimeout: durationpb.New(10 * time.Second),
		}}})
	add(enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{
		WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}}}})
	add(enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
		WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: 2}}})
	add(enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
		WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: 2, StartedEventId: 3}}})
	add(enums.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_UpsertWorkflowSearchAttributesEventAttributes{
		UpsertWorkflowSearchAttributesEventAttributes: &historypb.UpsertWorkflowSearchAttributesEventAttributes{WorkflowTaskCompletedEventId: 4, SearchAttributes: &commonpb.SearchAttributes{}}}})
	add(enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
		WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{WorkflowTaskCompletedEventId: 4}}})
	return h
}

// A session that refused its options is explained from its history alone.
func TestASessionThatRefusedItsOptionsIsExplained(t *testing.T) {
	codec := payload.NewCodec("default")
	var d protocol.SessionDetail
	q := &query{codec: codec, register: workflows.Register, doing: "show session bad", name: protocol.QueryDetail}
	if err := answer(q, refusedHistory(t, codec), time.Now(), &d); err != nil {
		t.Fatal(err)
	}
	v := d.View
	if v.State != protocol.Failed || v.Error == nil || v.Error.Kind != protocol.RefusedBadInput || !strings.Contains(v.Error.Message, "its model is 201 bytes long") {
		t.Fatalf("it is %s: %+v", v.State, v.Error)
	}
	err := RefuseEnded("send to session bad", v)
	if errkind.ExitCode(err) != errkind.ExitRefused || !strings.Contains(err.Error(), "it has failed: ") || !strings.Contains(err.Error(), "its model is 201 bytes long") {
		t.Errorf("a message to it: %v", err)
	}
}

func TestWhatHasEndedSaysHowToGoOn(t *testing.T) {
	for name, c := range map[string]struct {
		v    protocol.SessionView
		want string
		hint string
	}{
		"closed": {protocol.SessionView{ID: "s1", State: protocol.Closed}, "it is closed", "ctl session fork s1"},
		"failed": {protocol.SessionView{ID: "s1", State: protocol.Failed, ThreadID: "th", Error: &protocol.Failure{Kind: "store", Message: "no room"}}, "it has failed: store: no room", "ctl session fork s1"},
		"failed, with a hint": {protocol.SessionView{ID: "s1", State: protocol.Failed, Error: &protocol.Failure{Kind: "x", Message: "y", Hint: "do z"}},
			"it has failed: x: y", "do z"},
	} {
		err := RefuseEnded("send to session s1", c.v)
		var e *errkind.Error
		if !errors.As(err, &e) || e.Code != errkind.ExitRefused || !strings.Contains(e.Message, c.want) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %v", name, err)
		}
		if err := TakesMore("send to session s1")(protocol.SessionDetail{View: c.v}); errkind.ExitCode(err) != errkind.ExitRefused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, with no worker up: %v", name, err)
		}
	}
	if err := TakesMore("x")(protocol.SessionDetail{View: protocol.SessionView{State: protocol.Idle}}); err != nil {
		t.Errorf("an idle one: %v", err)
	}
}
