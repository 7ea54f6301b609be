package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Wake is a timer for one moment. Setting it to another moment replaces the timer.
type Wake struct {
	Ctx    workflow.Context
	What   string
	at     time.Time
	Timer  workflow.Future
	cancel workflow.CancelFunc
}

// Set starts the timer, or starts it anew if it runs for another time.
func (w *Wake) Set(at time.Time) {
	if w.Timer != nil && w.at.Equal(at) {
		return
	}
	w.Off()
	ctx, cancel := workflow.WithCancel(w.Ctx)
	d := max(at.Sub(workflow.Now(w.Ctx)), time.Millisecond)
	w.at, w.cancel = at, cancel
	w.Timer = workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: w.What})
}

// Due reports whether the timer has fired.
func (w *Wake) Due() bool { return w.Timer != nil && w.Timer.IsReady() }

// Off cancels the timer.
func (w *Wake) Off() {
	if w.Timer != nil && !w.Timer.IsReady() {
		w.cancel()
	}
	w.Timer = nil
}
