package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// InProgress calls Begin with the task token when an activity begins, and calls the
// returned function when it ends.
type InProgress struct {
	interceptor.WorkerInterceptorBase
	Begin func(task []byte) (end func())
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (p *InProgress) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &inProgress{interceptor.ActivityInboundInterceptorBase{Next: next}, p.Begin}
}

type inProgress struct {
	interceptor.ActivityInboundInterceptorBase
	begin func([]byte) func()
}

// ExecuteActivity does not report local activities: the server knows no attempt of them.
func (p *inProgress) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if info := activity.GetInfo(ctx); !info.IsLocalActivity {
		defer p.begin(info.TaskToken)()
	}
	return p.Next.ExecuteActivity(ctx, in)
}
