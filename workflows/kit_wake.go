package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// wake is a timer for one moment. Setting it to another moment replaces the timer.
type wake struct {
	ctx    workflow.Context
	what   string
	at     time.Time
	timer  workflow.Future
	cancel workflow.CancelFunc
}

func (w *wake) set(at time.Time) {
	if w.timer != nil && w.at.Equal(at) {
		return
	}
	w.off()
	ctx, cancel := workflow.WithCancel(w.ctx)
	d := max(at.Sub(workflow.Now(w.ctx)), time.Millisecond)
	w.at, w.cancel = at, cancel
	w.timer = workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: w.what})
}

func (w *wake) due() bool { return w.timer != nil && w.timer.IsReady() }

func (w *wake) off() {
	if w.timer != nil && !w.timer.IsReady() {
		w.cancel()
	}
	w.timer = nil
}
