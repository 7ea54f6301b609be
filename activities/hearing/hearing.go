package hearing

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// An Interceptor listens for the pumps of a worker.
type Interceptor struct {
	interceptor.WorkerInterceptorBase
	Service   workflowservice.WorkflowServiceClient
	Namespace string
	Logger    *slog.Logger
	// Seats bounds how many histories are followed at once, if it is not nil: each is a request that
	// waits, on one connection with the heartbeats. A pump without a seat learns of a request from
	// the answer to a heartbeat.
	Seats chan struct{}

	mu   sync.Mutex
	read map[string]place // by run
}

// heard has the types of activities for which the history is read.
var heard = map[string]bool{"RunPump": true}

const (
	// hearingWait bounds one wait; a server answers after about 20 s.
	hearingWait = 70 * time.Second
	// deafFor is the pause after an answer that failed.
	deafFor = 5 * time.Second
	// mostPlaces bounds the places that are kept. A history without a place is read from its beginning.
	mostPlaces = 10_000
)

// A place is how far a history was read.
type place struct {
	token []byte
	pumps map[string]int64 // the event that scheduled an activity, by the activity's id
}

// mostPumps bounds the ids in a place. Only the newest is needed.
const mostPumps = 8

// InterceptActivity implements interceptor.WorkerInterceptor.
func (h *Interceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activities{interceptor.ActivityInboundInterceptorBase{Next: next}, h}
}

type activities struct {
	interceptor.ActivityInboundInterceptorBase
	h *Interceptor
}

func (x *activities) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if !heard[info.ActivityType.Name] {
		return x.Next.ExecuteActivity(ctx, in)
	}
	called, call := context.WithCancel(ctx)
	listening, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if x.h.called(listening, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID) {
			call()
		}
	}()
	defer func() { stop(); <-done; call() }()
	return x.Next.ExecuteActivity(called, in)
}

// called waits until the workflow requests the cancellation of an activity, and then returns true.
// It returns false if ctx or the run of the workflow ends first.
func (h *Interceptor) called(ctx context.Context, workflow, run, id string) bool {
	if h.Seats != nil {
		select {
		case h.Seats <- struct{}{}:
			defer func() { <-h.Seats }()
		case <-ctx.Done():
			return false
		}
	}
	at := h.take(run)
	defer func() { h.keep(run, at) }()
	for ctx.Err() == nil {
		out, err := h.next(ctx, workflow, run, at.token)
		var gone *serviceerror.NotFound
		var bad *serviceerror.InvalidArgument
		switch {
		case errors.As(err, &gone):
			return false
		case errors.As(err, &bad) && at.token != nil:
			at = place{} // the server takes the token no longer
			continue
		case err != nil:
			if ctx.Err() == nil {
				h.Logger.Debug("the history of a workflow cannot be followed: its pump hears of a call with its next heartbeat", "workflow", workflow, "error", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(deafFor + rand.N(deafFor)):
			}
			continue
		}
		at.token = out.GetNextPageToken()
		if at.apply(out.GetHistory().GetEvents(), id) {
			return true
		}
		if len(at.token) == 0 {
			return false // the run has ended
		}
	}
	return false
}

func (h *Interceptor) next(ctx context.Context, workflow, run string, token []byte) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, hearingWait)
	defer cancel()
	return h.Service.GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: h.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: run},
		WaitNewEvent: true, HistoryEventFilterType: enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT, NextPageToken: token, SkipArchival: true,
	})
}

// apply takes events, and reports whether one asks for the cancellation of an activity.
func (p *place) apply(events []*historypb.HistoryEvent, id string) bool {
	called := false
	for _, e := range events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil && heard[a.GetActivityType().GetName()] {
			if p.pumps == nil || len(p.pumps) >= mostPumps {
				p.pumps = map[string]int64{}
			}
			p.pumps[a.GetActivityId()] = e.GetEventId()
		}
		if a := e.GetActivityTaskCancelRequestedEventAttributes(); a != nil && a.GetScheduledEventId() == p.pumps[id] {
			called = true
		}
	}
	return called
}

func (h *Interceptor) take(run string) place {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.read[run]
	at.pumps = maps.Clone(at.pumps) // an older attempt may still listen
	return at
}

func (h *Interceptor) keep(run string, at place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(at.token) == 0 {
		delete(h.read, run)
		return
	}
	if h.read == nil || len(h.read) >= mostPlaces {
		h.read = map[string]place{}
	}
	h.read[run] = at
}
