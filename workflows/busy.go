package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// busyFor is how long an activity that moves a snapshot waits for busy workers if there is
// an alternative.
const busyFor = time.Hour

// inLine runs try, which runs an activity that moves a snapshot. It repeats try while
// the workers are busy, until leave returns true. Busy workers are no failure. Each
// refusal counts as an attempt of the retry policy, but the pause before the next
// attempt comes from the refusal (NextRetryDelay). A refused attempt has done nothing on
// the host that cannot be repeated.
func inLine(leave func() bool, try func() error) error {
	for {
		if err := try(); !wasBusy(err) || leave() {
			return err
		}
	}
}

// forAWhile returns a condition that is true if leave is, or after busyFor.
func forAWhile(ctx workflow.Context, leave func() bool) func() bool {
	since := workflow.Now(ctx)
	return func() bool { return leave() || workflow.Now(ctx).Sub(since) >= busyFor }
}

func never() bool { return false }

// wasBusy reports whether an activity failed only because the workers were busy.
func wasBusy(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == protocol.ErrTypeBusy
}
