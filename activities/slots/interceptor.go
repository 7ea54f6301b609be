package slots

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
)

// Interceptor makes each activity take a slot of its class. It comes before all interceptors
// that do something for an activity.
func (s *Slots) Interceptor() interceptor.WorkerInterceptor { return &divided{slots: s} }

type divided struct {
	interceptor.WorkerInterceptorBase
	slots *Slots
}

func (d *divided) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &start{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, slots: d.slots}
}

// An Urgent input of an activity brings what a person decided.
type Urgent interface{ Urgent() bool }

// A start is one attempt at an activity.
type start struct {
	interceptor.ActivityInboundInterceptorBase
	slots *Slots
	said  *said
}

func (a *start) Init(out interceptor.ActivityOutboundInterceptor) error {
	a.said = &said{ActivityOutboundInterceptorBase: interceptor.ActivityOutboundInterceptorBase{Next: out}}
	return a.Next.Init(a.said)
}

func (a *start) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := a.said.Next.GetInfo(ctx)
	if info.IsLocalActivity { // they have slots of their own
		return a.Next.ExecuteActivity(ctx, in)
	}
	c := ClassOf(info.ActivityType.Name)
	a.said.read(ctx, info)
	done := a.slots.take(c, urgent(in.Args))
	if done == nil {
		var err error
		if done, err = a.inLine(ctx, c, info); err != nil {
			return nil, err
		}
	}
	defer done()
	return a.Next.ExecuteActivity(ctx, in)
}

func urgent(args []any) bool {
	for _, arg := range args {
		if u, ok := arg.(Urgent); ok && u.Urgent() {
			return true
		}
	}
	return false
}

// inLine waits for a slot. It returns an error if the activity is to be sent back.
func (a *start) inLine(ctx context.Context, c Class, info activity.Info) (done func(), err error) {
	wait := patience(c)
	if p := info.RetryPolicy; p != nil && p.MaximumAttempts > 0 {
		wait = info.StartToCloseTimeout / 2
	}
	stops := a.said.Next.GetWorkerStopChannel(ctx)
	if wait > 0 {
		until := time.NewTimer(wait)
		defer until.Stop()
		var ticks <-chan time.Time
		if info.HeartbeatTimeout > 0 {
			tick := time.NewTicker(info.HeartbeatTimeout / 3)
			defer tick.Stop()
			ticks = tick.C
		}
		if done := a.slots.wait(ctx, c, stops, until.C, ticks, func() { a.said.again(ctx) }); done != nil {
			return done, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	delay := a.slots.pause(c)
	select {
	case <-stops:
		delay = kit.HandOver
	default:
	}
	a.said.sentBack(ctx)
	f := kit.Failing{Delay: delay}
	return nil, f.Failure(ctx, "begin "+info.ActivityType.Name, &kit.TypedError{Kind: protocol.ErrTypeBusy, Retry: true,
		Hint: "nothing was done; add a worker, or raise limits." + string(c), Err: fmt.Errorf("all slots for %s of this worker are in use", c)})
}

// passed is behind the heartbeat details of an activity that was sent back.
type passed struct {
	SentBack int32 `json:"sent_back"` // attempts that did not begin
	Newest   int32 `json:"newest"`    // Temporal's number of the attempt that wrote this
}

// said stands between an activity and its heartbeats and number of attempts.
type said struct {
	interceptor.ActivityOutboundInterceptorBase

	own     []any // the details of the attempt before, without ours
	refused int32 // attempts that did not begin
	attempt int32 // Temporal's number of this attempt
}

// read reads the details of the attempt before this one.
func (s *said) read(ctx context.Context, info activity.Info) {
	s.attempt = info.Attempt
	if !s.Next.HasHeartbeatDetails(ctx) {
		return
	}
	var own converter.RawValue
	var p passed
	// An activity has one value, or none; what else cannot be read is not ours.
	if err := s.Next.GetHeartbeatDetails(ctx, &own, &p); err != nil {
		p = passed{}
	}
	if string(own.Payload().GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingNil && own.Payload() != nil {
		s.own = []any{own}
	}
	if p.Newest > 0 && p.Newest == info.Attempt-1 && p.SentBack > 0 && p.SentBack < info.Attempt {
		s.refused = p.SentBack
	}
}

// again repeats the details of the attempt before.
func (s *said) again(ctx context.Context) { s.RecordHeartbeat(ctx, s.own...) }

// sentBack records that this attempt did not begin.
func (s *said) sentBack(ctx context.Context) {
	s.refused++
	s.again(ctx)
}

// GetInfo gives the number of attempts that did begin.
func (s *said) GetInfo(ctx context.Context) activity.Info {
	info := s.Next.GetInfo(ctx)
	info.Attempt = max(1, info.Attempt-s.refused)
	return info
}

func (s *said) RecordHeartbeat(ctx context.Context, details ...any) {
	if s.refused > 0 && len(details) <= 1 {
		if len(details) == 0 {
			details = []any{nil}
		}
		details = append(details[:1:1], passed{SentBack: s.refused, Newest: s.attempt})
	}
	s.Next.RecordHeartbeat(ctx, details...)
}

func (s *said) HasHeartbeatDetails(ctx context.Context) bool {
	return s.Next.HasHeartbeatDetails(ctx) && len(s.own) > 0
}
