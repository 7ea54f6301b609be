package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Exit codes, part of the documented command line.
const (
	exitFailed      = 1 // the work failed: a turn, a check
	exitUsage       = 2 // usage or bad input
	exitNotFound    = 3
	exitUnreachable = 4 // Temporal, worker, host or store
	exitTimeout     = 5 // timed out waiting
	exitRefused     = 6 // stale or duplicate decision, id in use, policy
	exitPerson      = 7 // a person is needed and may not be asked
	exitInterrupted = 130
)

// An exitError has an exit code, a word for programs and a sentence that says what to do.
type exitError struct {
	code    int
	kind    string
	message string // what failed: why
	hint    string // what to do; may be empty
	silent  bool   // the command has already printed the result
	cause   error
}

func (e *exitError) Error() string { return e.message }
func (e *exitError) Unwrap() error { return e.cause }

// hinted sets the hint: what to do.
func (e *exitError) hinted(format string, args ...any) *exitError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// because sets the underlying error, for errors.Is and errors.As.
func (e *exitError) because(err error) *exitError {
	e.cause = err
	return e
}

func newExit(code int, kind, format string, args ...any) *exitError {
	return &exitError{code: code, kind: kind, message: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) *exitError {
	return newExit(exitFailed, "failed", format, args...)
}
func usage(format string, args ...any) *exitError {
	return newExit(exitUsage, "bad_input", format, args...)
}
func notFound(format string, args ...any) *exitError {
	return newExit(exitNotFound, "not_found", format, args...)
}
func unreachable(format string, args ...any) *exitError {
	return newExit(exitUnreachable, "unreachable", format, args...)
}
func timedOut(format string, args ...any) *exitError {
	return newExit(exitTimeout, "timed_out", format, args...)
}
func refused(format string, args ...any) *exitError {
	return newExit(exitRefused, "refused", format, args...)
}
func needsPerson(format string, args ...any) *exitError {
	return newExit(exitPerson, "person_needed", format, args...)
}

// exitStatus ends ctl with a status that is not ctl's own, such as that of a command on a
// host. ctl prints nothing.
func exitStatus(code int) *exitError {
	return &exitError{code: code, kind: "exit", message: fmt.Sprintf("exit status %d", code), silent: true}
}

// errInterrupted is the cancellation cause after ^C.
var errInterrupted = errors.New("interrupted by the user")

// asExit gives every error an exit code. began says that the command line was accepted.
// Before that, every error is a usage error of the named command.
func asExit(ctx context.Context, err error, began bool, command string) *exitError {
	var e *exitError
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted):
		return &exitError{code: exitInterrupted, kind: "interrupted", message: errInterrupted.Error(),
			hint: "what was begun goes on; look with `ctl session list`", cause: err}
	case errors.As(err, &e):
		return e
	case !began, strings.HasPrefix(err.Error(), "required flag(s) "): // cobra checks required flags late, and has no error type for them
		return usage("%v", err).hinted("see `%s --help`", command).because(err)
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut("%v", err).because(err)
	}
	return failed("%v", err).because(err)
}
