package errkind

import (
	"errors"
	"fmt"
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
	ExitInterrupted = 130
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

// New returns an error with an exit code and a word for programs.
func New(code int, kind, format string, args ...any) *Error {
	return &Error{Code: code, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Failed reports work that failed.
func Failed(format string, args ...any) *Error {
	return New(ExitFailed, "failed", format, args...)
}

// Usage reports wrong usage or bad input.
func Usage(format string, args ...any) *Error {
	return New(ExitUsage, "bad_input", format, args...)
}

// NotFound reports something that does not exist.
func NotFound(format string, args ...any) *Error {
	return New(ExitNotFound, "not_found", format, args...)
}

// Unreachable is about Temporal, a worker, a host or the store.
func Unreachable(format string, args ...any) *Error {
	return New(ExitUnreachable, "unreachable", format, args...)
}

// TimedOut reports a wait that ended.
func TimedOut(format string, args ...any) *Error {
	return New(ExitTimeout, "timed_out", format, args...)
}

// Refused reports a request that the state does not permit.
func Refused(format string, args ...any) *Error {
	return New(ExitRefused, "refused", format, args...)
}

// NeedsPerson reports that a person is needed but may not be asked.
func NeedsPerson(format string, args ...any) *Error {
	return New(ExitPerson, "person_needed", format, args...)
}

// ExitStatus ends ctl silently with the status of another program, such as a command on a
// host.
func ExitStatus(code int) *Error {
	return &Error{Code: code, Kind: "exit", Message: fmt.Sprintf("exit status %d", code), Silent: true}
}

// ErrInterrupted is the cause of a context that ^C cancelled.
var ErrInterrupted = errors.New("interrupted by the user")

// ExitCode returns an error's exit code, by default 1.
func ExitCode(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ExitFailed
}
