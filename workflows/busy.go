package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// busyFor is how long somebody stands in line for workers that move as many
// snapshots as they can, where something else does as well.
const busyFor = time.Hour

// inLine tries an activity that moves a snapshot, and again as long as there was
// no room for it: that is no failure of its own, though the policy of retries
// counts it, which says in what pauses to come again. Nothing that cannot be
// done again has been done on the host then by the attempt that was sent away.
func inLine(leave func() bool, try func() error) error {
	for {
		if err := try(); !wasBusy(err) || leave() {
			return err
		}
	}
}

// inLine is the same for a session, which says so where somebody waits for it.
func (s *session) inLine(leave func() bool, try func() error) error {
	defer func() { s.crowded = false }()
	return inLine(leave, func() error {
		err := try()
		if was := s.crowded; wasBusy(err) && !leave() {
			if s.crowded = true; !was {
				s.publish()
			}
		}
		return err
	})
}

// forAWhile is leave, or that one has stood in line for as long as makes sense.
func forAWhile(ctx workflow.Context, leave func() bool) func() bool {
	since := workflow.Now(ctx)
	return func() bool { return leave() || workflow.Now(ctx).Sub(since) >= busyFor }
}

func never() bool { return false }

// wasBusy says that there was no room, and nothing else was wrong.
func wasBusy(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == activities.ErrTypeBusy
}
