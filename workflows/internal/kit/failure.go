package kit

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/protocol"
)

// MaxFailure bounds a failure's texts, in bytes; the state carries them.
const MaxFailure = 4 << 10

// KindTimeout says that no worker finished an activity.
const KindTimeout = "timeout"

// FailureOf converts an activity's error for people.
func FailureOf(what string, err error) *protocol.Failure {
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
		f.Message, f.Hint = Cut(f.Message, MaxFailure), Cut(f.Hint, MaxFailure)
		return f
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return unfinished(what)
	}
	return &protocol.Failure{Kind: protocol.ErrTypeInternal, Message: Cut(fmt.Sprintf("%s: %v", what, err), MaxFailure)}
}

func unfinished(what string) *protocol.Failure {
	return &protocol.Failure{Kind: KindTimeout, Message: fmt.Sprintf("%s: no worker finished it in time", what),
		Hint: "see `ctl status` for workers, then try again"}
}

// FailureOfProblem returns a problem as a failure, nil for nil.
func FailureOfProblem(p *protocol.Problem) *protocol.Failure {
	if p == nil {
		return nil
	}
	return &protocol.Failure{Kind: p.Kind, Message: Cut(p.Message, MaxFailure), Hint: Cut(p.Hint, MaxFailure), ResetAt: p.ResetAt}
}

// Refuse returns an error of type kind.
func Refuse(kind, format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(Cut(fmt.Sprintf(format, args...), 1<<10), kind, nil)
}
