package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/protocol"
)

// maxFailure bounds a failure's texts, in bytes; the state carries them.
const maxFailure = 4 << 10

// kindTimeout is the kind of the failure if no worker finished an activity.
const kindTimeout = "timeout"

// failureOf converts an activity's error into the failure that people see.
func failureOf(what string, err error) *protocol.Failure {
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == protocol.ErrTypeWorkerDied {
		return unfinished(what)
	}
	if errors.As(err, &app) {
		f := &protocol.Failure{Kind: app.Type(), Message: what + ": " + app.Message()}
		var p protocol.Problem
		if app.HasDetails() && app.Details(&p) == nil && p.Kind != "" {
			f.Kind, f.Hint, f.ResetAt = p.Kind, p.Hint, p.ResetAt
			if p.Message != "" {
				f.Message = what + ": " + p.Message
			}
		}
		f.Final = app.NonRetryable() && !p.Passing
		if f.Kind == "" {
			f.Kind = protocol.ErrTypeInternal
		}
		f.Message, f.Hint = excerpt(f.Message, maxFailure), excerpt(f.Hint, maxFailure)
		return f
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return unfinished(what)
	}
	return &protocol.Failure{Kind: protocol.ErrTypeInternal, Message: excerpt(fmt.Sprintf("%s: %v", what, err), maxFailure)}
}

func unfinished(what string) *protocol.Failure {
	return &protocol.Failure{Kind: kindTimeout, Message: fmt.Sprintf("%s: no worker finished it in time", what),
		Hint: "see `ctl status` for workers, then try again"}
}

func failureOfProblem(p *protocol.Problem) *protocol.Failure {
	if p == nil {
		return nil
	}
	return &protocol.Failure{Kind: p.Kind, Message: excerpt(p.Message, maxFailure), Hint: excerpt(p.Hint, maxFailure), ResetAt: p.ResetAt}
}

func refuse(kind, format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(excerpt(fmt.Sprintf(format, args...), 1<<10), kind, nil)
}
