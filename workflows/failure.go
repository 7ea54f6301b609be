package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities"
)

// maxFailure bounds the words of a failure: they are carried and shown.
const maxFailure = 4 << 10

// kindTimeout is of what no worker finished.
const kindTimeout = "timeout"

// failureOf puts an activity's error into the words that people see.
func failureOf(what string, err error) *Failure {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		f := &Failure{Kind: app.Type(), Message: what + ": " + app.Message()}
		var p activities.Problem
		if app.HasDetails() && app.Details(&p) == nil && p.Kind != "" {
			f.Kind, f.Hint, f.ResetAt = p.Kind, p.Hint, p.ResetAt
			if p.Message != "" {
				f.Message = what + ": " + p.Message
			}
		}
		if f.Kind == "" {
			f.Kind = activities.ErrTypeInternal
		}
		f.Message, f.Hint = excerpt(f.Message, maxFailure), excerpt(f.Hint, maxFailure)
		return f
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return &Failure{Kind: kindTimeout, Message: fmt.Sprintf("%s: no worker finished it in time", what),
			Hint: "see `ctl status` for workers, then try again"}
	}
	return &Failure{Kind: activities.ErrTypeInternal, Message: excerpt(fmt.Sprintf("%s: %v", what, err), maxFailure)}
}

func failureOfProblem(p *activities.Problem) *Failure {
	if p == nil {
		return nil
	}
	return &Failure{Kind: p.Kind, Message: excerpt(p.Message, maxFailure), Hint: excerpt(p.Hint, maxFailure), ResetAt: p.ResetAt}
}

// refuse makes the error with which an update is refused.
func refuse(kind, format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(excerpt(fmt.Sprintf(format, args...), 1<<10), kind, nil)
}
