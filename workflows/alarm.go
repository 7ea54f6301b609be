package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// alarm is the single timer for all deadlines of a workflow. A deadline that is set while
// the timer runs must not be earlier than the present one. It is never cancelled, so its
// only cost is two events each time it fires.
type alarm struct {
	ctx   workflow.Context
	what  string
	timer workflow.Future
}

func newAlarm(ctx workflow.Context, what string) *alarm { return &alarm{ctx: ctx, what: what} }

func (a *alarm) set(at time.Time) {
	if a.timer == nil {
		wait := max(at.Sub(workflow.Now(a.ctx)), time.Millisecond)
		a.timer = workflow.NewTimerWithOptions(a.ctx, wait, workflow.TimerOptions{Summary: a.what})
	}
}

func (a *alarm) due() bool { return a.timer != nil && a.timer.IsReady() }

// off reports whether the timer fired, and clears it.
func (a *alarm) off() bool {
	if !a.due() {
		return false
	}
	a.timer = nil
	return true
}
