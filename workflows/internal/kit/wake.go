package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Wake is a timer that can be moved.
type Wake struct {
	ctx    workflow.Context
	what   string
	at     time.Time
	timer  workflow.Future
	cancel workflow.CancelFunc
}

// NewWake returns a wake that is not set. what is the timer's summary.
func NewWake(ctx workflow.Context, what string) *Wake { return &Wake{ctx: ctx, what: what} }

// Set starts the timer, or moves it.
func (w *Wake) Set(at time.Time) {
	if w.timer != nil && w.at.Equal(at) {
		return
	}
	w.Off()
	ctx, cancel := workflow.WithCancel(w.ctx)
	d := max(at.Sub(workflow.Now(w.ctx)), time.Millisecond)
	w.at, w.cancel = at, cancel
	w.timer = workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: w.what})
}

// IsSet reports whether a timer runs, or has fired and was not cleared.
func (w *Wake) IsSet() bool { return w.timer != nil }

// Due reports whether the timer has fired.
func (w *Wake) Due() bool { return w.timer != nil && w.timer.IsReady() }

// Off cancels the timer, or clears one that has fired.
func (w *Wake) Off() {
	if w.timer != nil && !w.timer.IsReady() {
		w.cancel()
	}
	w.timer = nil
}
