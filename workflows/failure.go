package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities"
)

// failureOf puts an activity's error into the words that people see.
func failureOf(what string, err error) *Failure {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		f := &Failure{Kind: app.Type(), Message: what + ": " + app.Message()}
		var p activities.Problem
		if app.HasDetails() && app.Details(&p) == nil && p.Kind != "" {
			f.Kind, f.Hint = p.Kind, p.Hint
			if p.Message != "" {
				f.Message = what + ": " + p.Message
			}
		}
		if f.Kind == "" {
			f.Kind = activities.ErrTypeInternal
		}
		return f
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return &Failure{Kind: "timeout", Message: fmt.Sprintf("%s: no worker finished it in time", what),
			Hint: "see `ctl status` for workers, then try again"}
	}
	return &Failure{Kind: activities.ErrTypeInternal, Message: fmt.Sprintf("%s: %v", what, err)}
}

func failureOfProblem(p *activities.Problem) *Failure {
	if p == nil {
		return nil
	}
	return &Failure{Kind: p.Kind, Message: p.Message, Hint: p.Hint}
}

// refuse makes the error with which an update is refused.
func refuse(kind, format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), kind, nil)
}
