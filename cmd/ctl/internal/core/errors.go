package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The exit codes are part of the documented command line.
const (
	ExitFailed      = 1 // the work failed: a turn, a check
	ExitUsage       = 2 // usage or bad input
	ExitNotFound    = 3
	ExitUnreachable = 4 // Temporal, worker, host or store
	ExitTimeout     = 5
	ExitRefused     = 6 // stale or duplicate decision, id in use, policy
	ExitPerson      = 7 // a person is needed, but ctl may not ask
	exitInterrupted = 130
)

// An Error has an exit code, a word for programs and a hint for people.
type Error struct {
	Code    int
	Kind    string
	Message string // what failed: why
	Hint    string // what to do; may be empty
	Silent  bool   // the command has already printed the result
	cause   error
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.cause }

// Hinted sets the hint.
func (e *Error) Hinted(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Because sets the underlying error.
func (e *Error) Because(err error) *Error {
	e.cause = err
	return e
}

// NewError returns an error with an exit code and a word for programs.
func NewError(code int, kind, format string, args ...any) *Error {
	return &Error{Code: code, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Failed reports work that failed.
func Failed(format string, args ...any) *Error {
	return NewError(ExitFailed, "failed", format, args...)
}

// Usage reports wrong usage or bad input.
func Usage(format string, args ...any) *Error {
	return NewError(ExitUsage, "bad_input", format, args...)
}

// NotFound reports something that does not exist.
func NotFound(format string, args ...any) *Error {
	return NewError(ExitNotFound, "not_found", format, args...)
}

// Unreachable is about Temporal, a worker, a host or the store.
func Unreachable(format string, args ...any) *Error {
	return NewError(ExitUnreachable, "unreachable", format, args...)
}

// TimedOut reports a wait that ended.
func TimedOut(format string, args ...any) *Error {
	return NewError(ExitTimeout, "timed_out", format, args...)
}

// Refused reports a request that the state does not permit.
func Refused(format string, args ...any) *Error {
	return NewError(ExitRefused, "refused", format, args...)
}

// NeedsPerson reports that a person is needed but may not be asked.
func NeedsPerson(format string, args ...any) *Error {
	return NewError(ExitPerson, "person_needed", format, args...)
}

// ExitStatus ends ctl silently with the status of another program, such as a command on a
// host.
func ExitStatus(code int) *Error {
	return &Error{Code: code, Kind: "exit", Message: fmt.Sprintf("exit status %d", code), Silent: true}
}

// ErrInterrupted is the cause of a context that ^C cancelled.
var ErrInterrupted = errors.New("interrupted by the user")

// AsError gives every error an exit code. Until the command line was accepted (began),
// every error is a usage error of the named command.
func AsError(ctx context.Context, err error, began bool, command string) *Error {
	var e *Error
	switch {
	case errors.Is(context.Cause(ctx), ErrInterrupted):
		return &Error{Code: exitInterrupted, Kind: "interrupted", Message: ErrInterrupted.Error(),
			Hint: "what was begun goes on; look with `ctl session list`", cause: err}
	case errors.As(err, &e):
		return e
	case !began, strings.HasPrefix(err.Error(), "required flag(s) "): // cobra checks these late, and has no error type for them
		return Usage("%v", err).Hinted("see `%s --help`", command).Because(err)
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut("%v", err).Because(err)
	}
	return Failed("%v", err).Because(err)
}

// UnwrapAll returns the innermost error.
func UnwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		err = u.Unwrap()
	}
}

// ExitCode returns an error's exit code, by default 1.
func ExitCode(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ExitFailed
}
