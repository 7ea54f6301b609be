package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// Beats sends heartbeats for every activity with a heartbeat timeout, except the activities
// in reports.
type Beats struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*Beats) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &beating{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}}
}

// reports are the activities that send heartbeats with details themselves.
var reports = map[string]bool{"RunPump": true, "SendNotice": true, "RotateKeys": true, "TakeSnapshot": true, "ParkSession": true, "PrepareSession": true,
	"PruneSnapshots": true, "CheckSnapshots": true}

type beating struct {
	interceptor.ActivityInboundInterceptorBase
}

func (b *beating) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if info.HeartbeatTimeout <= 0 || reports[info.ActivityType.Name] {
		return b.Next.ExecuteActivity(ctx, in)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(info.HeartbeatTimeout / 3)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	return b.Next.ExecuteActivity(ctx, in)
}
