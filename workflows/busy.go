package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// busyFor is how long a session stands in line for workers that move as many
// snapshots as they can.
const busyFor = time.Hour

// inLine tries an activity that moves a snapshot, and again as long as there was
// no room for it: that is no failure of its own, though the policy of retries
// counts it, which says in what pauses to come again. Nothing has been done on
// the host then by the attempt that was sent away.
func (s *session) inLine(leave func() bool, try func() error) error {
	since := workflow.Now(s.ctx)
	for {
		err := try()
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != activities.ErrTypeBusy || leave() || workflow.Now(s.ctx).Sub(since) >= busyFor {
			return err
		}
	}
}
