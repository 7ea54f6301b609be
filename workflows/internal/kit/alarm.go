package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Alarm is the single timer for all deadlines of a workflow. It is never cancelled, so it
// costs two events each time it fires. No deadline may be set that is earlier than the
// present one.
type Alarm struct {
	ctx   workflow.Context
	what  string
	timer workflow.Future
}

// NewAlarm returns an alarm that is not set. what is the timer's summary.
func NewAlarm(ctx workflow.Context, what string) *Alarm { return &Alarm{ctx: ctx, what: what} }

// Set starts the timer, unless it runs.
func (a *Alarm) Set(at time.Time) {
	if a.timer == nil {
		wait := max(at.Sub(workflow.Now(a.ctx)), time.Millisecond)
		a.timer = workflow.NewTimerWithOptions(a.ctx, wait, workflow.TimerOptions{Summary: a.what})
	}
}

// Due reports whether the timer has fired.
func (a *Alarm) Due() bool { return a.timer != nil && a.timer.IsReady() }

// Off reports whether the timer fired, and clears it.
func (a *Alarm) Off() bool {
	if !a.Due() {
		return false
	}
	a.timer = nil
	return true
}
