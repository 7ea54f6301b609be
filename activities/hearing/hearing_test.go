package hearing

import (
	"context"
	"log/slog"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// A server gives the pages of a history by their tokens, and then waits.
type server struct {
	workflowservice.WorkflowServiceClient
	pages map[string]page
	asked []string
	waits chan struct{} // gets a value when somebody waits for an event
}

type page struct {
	events []*historypb.HistoryEvent
	next   string
	err    error
}

func (s *server) GetWorkflowExecutionHistory(ctx context.Context, in *workflowservice.GetWorkflowExecutionHistoryRequest, _ ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	token := string(in.GetNextPageToken())
	s.asked = append(s.asked, token)
	p, ok := s.pages[token]
	if !ok {
		s.waits <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: &historypb.History{Events: p.events}, NextPageToken: []byte(p.next)}, p.err
}

func scheduled(event int64, id, kind string) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{EventId: event, Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
		ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{ActivityId: id, ActivityType: &commonpb.ActivityType{Name: kind}}}}
}

func called(event int64) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCancelRequestedEventAttributes{
		ActivityTaskCancelRequestedEventAttributes: &historypb.ActivityTaskCancelRequestedEventAttributes{ScheduledEventId: event}}}
}

func TestAPumpHearsThatItIsCalledAndNotAnOlderOne(t *testing.T) {
	s := &server{pages: map[string]page{
		"":  {events: []*historypb.HistoryEvent{scheduled(5, "5", "RunPump"), called(5)}, next: "a"},
		"a": {events: []*historypb.HistoryEvent{scheduled(9, "9", "RunPump"), scheduled(10, "10", "TakeSnapshot"), called(10)}, next: "b"},
		"b": {events: []*historypb.HistoryEvent{called(9)}, next: "c"},
	}, waits: make(chan struct{}, 1)}
	h := &Interceptor{Service: s, Logger: slog.New(slog.DiscardHandler)}
	if !h.called(t.Context(), "w", "run", "9") || len(s.asked) != 3 {
		t.Errorf("it was called in the third answer, and the server was asked for %q", s.asked)
	}
	// The next pump of the run begins where the history was read to.
	s.asked, s.pages = nil, map[string]page{"c": {events: []*historypb.HistoryEvent{scheduled(20, "20", "RunPump")}, next: "d"}, "d": {events: []*historypb.HistoryEvent{called(20)}, next: "e"}}
	if !h.called(t.Context(), "w", "run", "20") || s.asked[0] != "c" {
		t.Errorf("the server was asked for %q", s.asked)
	}
	// It ends with its pump, and keeps its place.
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan bool)
	go func() { heard <- h.called(ctx, "w", "run", "30") }()
	<-s.waits
	cancel()
	if <-heard || string(h.take("run").token) != "e" {
		t.Errorf("nobody called, and the place is %q", h.take("run").token)
	}
}

func TestWhatCannotBeFollowedIsLeftToHeartbeats(t *testing.T) {
	for name, p := range map[string]page{
		"the workflow is gone": {err: serviceerror.NewNotFound("gone")},
		"the run has ended":    {events: []*historypb.HistoryEvent{scheduled(5, "5", "RunPump")}},
	} {
		h := &Interceptor{Service: &server{pages: map[string]page{"": p}}, Logger: slog.New(slog.DiscardHandler)}
		if h.called(t.Context(), "w", "run", "5") || len(h.read) != 0 {
			t.Errorf("%s: it was called, or %v is kept", name, h.read)
		}
	}
	// A token that is no longer taken makes it begin again.
	s := &server{pages: map[string]page{"old": {err: serviceerror.NewInvalidArgument("token")}, "": {events: []*historypb.HistoryEvent{scheduled(5, "5", "RunPump"), called(5)}, next: "a"}}}
	h := &Interceptor{Service: s, Logger: slog.New(slog.DiscardHandler), read: map[string]place{"run": {token: []byte("old")}}}
	if !h.called(t.Context(), "w", "run", "5") {
		t.Errorf("the server was asked for %q", s.asked)
	}
}

// More pumps may run than histories are followed: one without a seat waits, and takes the next one.
func TestAPumpWithoutASeatFollowsOnceThereIsOne(t *testing.T) {
	s := &server{pages: map[string]page{"": {events: []*historypb.HistoryEvent{scheduled(5, "5", "RunPump"), called(5)}, next: "a"}}}
	h := &Interceptor{Service: s, Logger: slog.New(slog.DiscardHandler), Seats: make(chan struct{}, 1)}
	h.Seats <- struct{}{}
	ends, end := context.WithCancel(t.Context())
	end()
	if h.called(ends, "w", "run", "5") || len(s.asked) != 0 {
		t.Errorf("without a seat, the server was asked %d times", len(s.asked))
	}
	<-h.Seats
	if !h.called(t.Context(), "w", "run", "5") || len(h.Seats) != 0 {
		t.Errorf("with a seat it does not hear, or keeps it: %d", len(h.Seats))
	}
}
