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

// reportPause returns the wait before the next report of a pump that has been attached
// for the time attached.
func reportPause(attached time.Duration) time.Duration {
	return min(max(attached/10, soonestReport), seldomReport)
}

// A reporter signals to the workflow the progress that the model reports.
type reporter struct {
	soonest time.Duration
	tell    func(ctx context.Context, p protocol.Progress) error

	mu   sync.Mutex
	last *protocol.Progress // guarded by mu
}

// reporterOf returns a reporter that signals the session's workflow. Without Temporal,
// it signals nobody.
func reporterOf(s *site.Site, in RunPumpInput) *reporter {
	r := &reporter{soonest: soonestReport, last: in.Pump.State.Progress}
	if s.Temporal != nil && in.Workflow != "" {
		r.tell = func(ctx context.Context, p protocol.Progress) error {
			return s.Temporal.SignalWorkflow(ctx, in.Workflow, "", protocol.SignalProgress, p)
		}
	}
	return r
}

// moved records the newest report.
func (r *reporter) moved(p *protocol.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = p
}

func (r *reporter) now() *protocol.Progress {
	if r == nil { // nobody talks to codex yet
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// begin reports until ctx ends, and then closes the channel that it returns.
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
			told = p // after a failure, the next tick tries again; the pump's result has the report in any case
		}
	}
}
