package core

import (
	"context"
	"errors"
	"strings"

	"fairlead.dev/fairlead/internal/errkind"
)

// The exit codes are part of the documented command line.
const (
	ExitFailed      = errkind.ExitFailed
	ExitUsage       = errkind.ExitUsage
	ExitNotFound    = errkind.ExitNotFound
	ExitUnreachable = errkind.ExitUnreachable
	ExitTimeout     = errkind.ExitTimeout
	ExitRefused     = errkind.ExitRefused
	ExitPerson      = errkind.ExitPerson
	ExitInterrupted = errkind.ExitInterrupted
)

// An Error has an exit code, a word for programs and a hint for people.
type Error = errkind.Error

// NewError returns an error with an exit code and a word for programs.
func NewError(code int, kind, format string, args ...any) *Error {
	return errkind.New(code, kind, format, args...)
}

// Failed reports work that failed.
func Failed(format string, args ...any) *Error { return errkind.Failed(format, args...) }

// Usage reports wrong usage or bad input.
func Usage(format string, args ...any) *Error { return errkind.Usage(format, args...) }

// NotFound reports something that does not exist.
func NotFound(format string, args ...any) *Error { return errkind.NotFound(format, args...) }

// Unreachable is about Temporal, a worker, a host or the store.
func Unreachable(format string, args ...any) *Error { return errkind.Unreachable(format, args...) }

// TimedOut reports a wait that ended.
func TimedOut(format string, args ...any) *Error { return errkind.TimedOut(format, args...) }

// Refused reports a request that the state does not permit.
func Refused(format string, args ...any) *Error { return errkind.Refused(format, args...) }

// NeedsPerson reports that a person is needed but may not be asked.
func NeedsPerson(format string, args ...any) *Error { return errkind.NeedsPerson(format, args...) }

// ExitStatus ends ctl silently with the status of another program, such as a command on a
// host.
func ExitStatus(code int) *Error { return errkind.ExitStatus(code) }

// ErrInterrupted is the cause of a context that ^C cancelled.
var ErrInterrupted = errkind.ErrInterrupted

// AsError gives every error an exit code. Until the command line was accepted (began),
// every error is a usage error of the named command.
func AsError(ctx context.Context, err error, began bool, command string) *Error {
	var e *Error
	switch {
	case errors.Is(context.Cause(ctx), ErrInterrupted):
		return errkind.New(errkind.ExitInterrupted, "interrupted", "%v", ErrInterrupted).
			Hinted("what was begun goes on; look with `ctl session list`").Because(err)
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
func ExitCode(err error) int { return errkind.ExitCode(err) }

// CheckName refuses a text that cannot be the name or id of a host, seed, pool, session or
// batch. kind, such as "host name", is for the message.
func CheckName(kind, name string) error { return errkind.CheckName(kind, name) }
