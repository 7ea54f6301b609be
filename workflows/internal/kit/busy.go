package kit

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

// InLine runs try, which runs an activity that moves a snapshot. It repeats try while
// the workers are busy, until leave returns true. Busy workers are no failure. Each
// refusal counts as an attempt of the retry policy, but the pause before the next
// attempt comes from the refusal (NextRetryDelay). A refused attempt has done nothing on
// the host that cannot be repeated.
func InLine(leave func() bool, try func() error) error {
	for {
		if err := try(); !WasBusy(err) || leave() {
			return err
		}
	}
}

// ForAWhile returns a condition that is true if leave is, or after busyFor.
func ForAWhile(ctx workflow.Context, leave func() bool) func() bool {
	since := workflow.Now(ctx)
	return func() bool { return leave() || workflow.Now(ctx).Sub(since) >= busyFor }
}

// Never is a condition that is never true.
func Never() bool { return false }

// WasBusy reports whether an activity failed only because the workers were busy.
func WasBusy(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == protocol.ErrTypeBusy
}
