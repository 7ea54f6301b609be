package apiflows

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// batchServer is a Temporal with one batch, of which an item has failed. It keeps the claims of keys.
type batchServer struct {
	client.Client
	claims  map[string]*commonpb.Memo
	retries int
	lose    bool // the answers to signals
	window  int
	sets    int
}

var errLost = errors.New("the answer was lost")

func (s *batchServer) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	if s.claims[o.ID] != nil {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("started", "", "")
	}
	p, err := converter.GetDefaultDataConverter().ToPayload(o.Memo[protocol.MemoClaim])
	s.claims[o.ID] = &commonpb.Memo{Fields: map[string]*commonpb.Payload{protocol.MemoClaim: p}}
	return nil, err
}

func (s *batchServer) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	memo := s.claims[id]
	if memo == nil {
		return nil, serviceerror.NewNotFound("none")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Memo: memo}}, nil
}

func (s *batchServer) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	p, err := converter.GetDefaultDataConverter().ToPayloads(protocol.BatchView{ID: "b1", State: "running", Failed: 1, Window: s.window})
	return client.NewValue(p), err
}

func (s *batchServer) SignalWorkflow(_ context.Context, _, _, name string, arg any) error {
	if set, ok := arg.(protocol.SetBatch); ok {
		s.window = set.Window
		s.sets++
	} else {
		s.retries++
	}
	if s.lose {
		return errLost
	}
	return nil
}

// A retry has effects each time, so that a repetition with the same key never begins another one, also
// if nobody knows whether the first was carried out.
func TestARetryOfABatchThatMayHaveBegunIsNotRepeated(t *testing.T) {
	s := &batchServer{claims: map[string]*commonpb.Memo{}}
	b := New(Options{Owner: "ann", Zone: "default", Logger: slog.New(slog.DiscardHandler)})
	b.Connect(s, payload.NewCodec("default"), "", "default")
	retry := func(key string) error {
		_, err := changes{Backend: b}.RetryBatch(t.Context(), key, "b1", httpapi.RetryingBatch{})
		return err
	}
	if err := retry("k1"); err != nil || s.retries != 1 {
		t.Fatalf("%v, %d retries", err, s.retries)
	}
	if err := retry("k1"); err != nil || s.retries != 1 {
		t.Errorf("repeated: %v, %d retries", err, s.retries)
	}

	s.lose = true
	if err := retry("k2"); err == nil || s.retries != 2 {
		t.Errorf("with a lost answer: %v, %d retries", err, s.retries)
	}
	s.lose = false
	var refused *errkind.Error
	if err := retry("k2"); !errors.As(err, &refused) || errkind.ExitCode(err) != errkind.ExitRefused || s.retries != 2 {
		t.Errorf("repeated after a lost answer: %v, %d retries", err, s.retries)
	}
	if err := retry("k3"); err != nil || s.retries != 3 {
		t.Errorf("with a new key: %v, %d retries", err, s.retries)
	}
}

// A change of a batch's window is made once, however often it is asked for with one key: a late
// repetition undoes nothing that others set since.
func TestALateRepetitionOfAChangedWindowChangesNothing(t *testing.T) {
	s := &batchServer{claims: map[string]*commonpb.Memo{}, window: 1}
	b := New(Options{Owner: "ann", Zone: "default", Logger: slog.New(slog.DiscardHandler)})
	b.Connect(s, payload.NewCodec("default"), "", "default")
	set := func(key string, window int) error {
		_, err := changes{Backend: b}.SetBatch(t.Context(), key, "b1", httpapi.BatchSettings{Window: window})
		return err
	}
	is := func(window, sets int) {
		t.Helper()
		if s.window != window || s.sets != sets {
			t.Errorf("the window is %d after %d changes, want %d after %d", s.window, s.sets, window, sets)
		}
	}
	for range 2 {
		if err := set("k1", 2); err != nil {
			t.Error(err)
		}
		is(2, 1)
	}
	s.lose = true
	if err := set("k2", 3); err == nil {
		t.Error("with a lost answer it was taken")
	}
	s.lose = false
	is(3, 2)
	if err := set("k3", 4); err != nil {
		t.Error(err)
	}
	var refused *errkind.Error
	if err := set("k2", 3); !errors.As(err, &refused) || errkind.ExitCode(err) != errkind.ExitRefused {
		t.Errorf("repeated after a lost answer and another change: %v", err)
	}
	is(4, 3)
	if err := set("k1", 2); err != nil {
		t.Errorf("repeated late: %v", err)
	}
	is(4, 3)

	s.lose = true
	if err := set("k4", 5); err == nil {
		t.Error("with a lost answer it was taken")
	}
	s.lose = false
	if err := set("k4", 5); err != nil {
		t.Errorf("repeated after a lost answer, where it was carried out: %v", err)
	}
	is(5, 4)
}
