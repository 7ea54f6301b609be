package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
)

// Floods tells the pool of each host that sent more than it may, when the activity that read
// it has failed.
type Floods struct {
	interceptor.WorkerInterceptorBase
	site *site.Site
}

// Floods returns the interceptor for the worker of these activities.
func (s *Set) Floods() *Floods { return &Floods{site: s.site} }

// InterceptActivity implements interceptor.WorkerInterceptor.
func (f *Floods) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &flooded{interceptor.ActivityInboundInterceptorBase{Next: next}, f.site}
}

type flooded struct {
	interceptor.ActivityInboundInterceptorBase
	site *site.Site
}

func (f *flooded) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := f.Next.ExecuteActivity(ctx, in)
	var app *temporal.ApplicationError
	var p protocol.Problem
	var host string
	if errors.As(err, &app) && app.Details(&p, &host) == nil && host != "" {
		p.Kind = protocol.ErrTypeHostFlood
		f.site.TellFlood(ctx, host, p)
	}
	return out, err
}
