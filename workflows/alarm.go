package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// An alarm is the one timer for all deadlines of a workflow. Those that are
// set while it runs must not be earlier; what is no deadline any more does not
// stop it, so that it costs two events each time it goes off and none else.
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

// off says whether it went off, and makes room for the next.
func (a *alarm) off() bool {
	if !a.due() {
		return false
	}
	a.timer = nil
	return true
}
