package slots

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"
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
}

func (a *start) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if info.IsLocalActivity { // they have slots of their own
		return a.Next.ExecuteActivity(ctx, in)
	}
	c := ClassOf(info.ActivityType.Name)
	done := a.slots.take(c, urgent(in.Args), returnable(c, info))
	if done == nil {
		f := kit.Failing{Delay: a.slots.pause(c)}
		return nil, f.Failure(ctx, "begin "+info.ActivityType.Name, &kit.TypedError{Kind: protocol.ErrTypeBusy, Retry: true,
			Hint: "nothing was done; add a worker, or raise limits." + string(c), Err: fmt.Errorf("all slots for %s of this worker are in use", c)})
	}
	defer done()
	return a.Next.ExecuteActivity(ctx, in)
}

// returnable says whether an activity may be sent back: each time costs an attempt, of which
// it must have any number.
func returnable(c Class, info activity.Info) bool {
	return (c == Pumps || c == Watches) && (info.RetryPolicy == nil || info.RetryPolicy.MaximumAttempts == 0)
}

func urgent(args []any) bool {
	for _, arg := range args {
		if u, ok := arg.(Urgent); ok && u.Urgent() {
			return true
		}
	}
	return false
}
