package kit

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// busyFor bounds the wait for busy workers if there is an alternative.
const busyFor = time.Hour

// InLine repeats try, which runs an activity that moves a snapshot, while the workers are
// busy and leave returns false. Each refusal counts as an attempt of the retry policy and
// sets the pause (NextRetryDelay). A refused attempt has done nothing on the host that
// cannot be repeated.
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

// Never is always false.
func Never() bool { return false }

// WasBusy reports whether err only says that the workers were busy.
func WasBusy(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == protocol.ErrTypeBusy
}
