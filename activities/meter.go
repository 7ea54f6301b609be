package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// A Meter is told when activities begin and end, for metrics.
type Meter struct {
	interceptor.WorkerInterceptorBase
	// Begin is called when an activity of a type begins. The function that it returns is called when
	// the activity ends, with the kind of its error, or with "". A kind is one of ours, a word of at
	// most 40 letters and underscores; every other error is of the kind "other".
	Begin func(activity string) (end func(kind string))
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (m *Meter) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &metered{interceptor.ActivityInboundInterceptorBase{Next: next}, m.Begin}
}

type metered struct {
	interceptor.ActivityInboundInterceptorBase
	begin func(string) func(string)
}

func (m *metered) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (out any, err error) {
	kind := "panic"
	end := m.begin(activity.GetInfo(ctx).ActivityType.Name)
	defer func() { end(kind) }()
	out, err = m.Next.ExecuteActivity(ctx, in)
	kind = kindOf(err)
	return out, err
}

func kindOf(err error) string {
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled), temporal.IsCanceledError(err):
		return "canceled"
	case errors.As(err, &app) && isWord(app.Type()):
		return app.Type()
	}
	return "other"
}

func isWord(s string) bool {
	for _, r := range s {
		if r != '_' && (r < 'a' || r > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 40
}
