package pumps

import (
	"context"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	soonestReport = 45 * time.Second
	seldomReport  = 10 * time.Minute
)

func reportPause(attached time.Duration) time.Duration {
	return min(max(attached/10, soonestReport), seldomReport)
}

// A reporter signals the model's progress to the workflow.
type reporter struct {
	soonest time.Duration
	tell    func(ctx context.Context, p protocol.Progress) error

	mu   sync.Mutex
	last *protocol.Progress // guarded by mu
}

// reporterOf returns a reporter. Without Temporal it signals nobody.
func reporterOf(s *site.Site, in RunPumpInput) *reporter {
	r := &reporter{soonest: soonestReport, last: in.Pump.State.Progress}
	if s.Temporal != nil && in.Workflow != "" {
		r.tell = func(ctx context.Context, p protocol.Progress) error {
			return s.Temporal.SignalWorkflow(ctx, in.Workflow, "", protocol.SignalProgress, p)
		}
	}
	return r
}

func (r *reporter) moved(p *protocol.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = p
}

func (r *reporter) now() *protocol.Progress {
	if r == nil { // not attached yet
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// begin reports until ctx ends, then closes the returned channel.
func (r *reporter) begin(ctx context.Context) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.run(ctx)
	}()
	return over
}

func (r *reporter) run(ctx context.Context) {
	if r.tell == nil {
		return
	}
	told, begun := r.now(), time.Now()
	for {
		pause := reportPause(time.Since(begun))
		if r.soonest < soonestReport {
			pause = r.soonest
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if p := r.now(); p != nil && p != told && r.tell(ctx, *p) == nil {
			told = p // the next tick retries; the pump's result has the report too
		}
	}
}
