package hostexec

import (
	"errors"
	"fmt"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// Errors that callers test for.
var (
	// ErrUnreachable means that no connection was made; nothing began.
	ErrUnreachable = errors.New("host unreachable")
	// ErrAuth means that the host refused our keys, or that there was no key to offer.
	// Nothing began. Do not retry.
	ErrAuth = errors.New("host refused our keys")
	// ErrHostKeyUnknown means that no key is pinned for this host; nothing was sent.
	ErrHostKeyUnknown = errors.New("host key unknown")
	// ErrHostKeyChanged means that the host's key is not a pinned one.
	ErrHostKeyChanged = errors.New("host key changed")
	// ErrOutcomeUnknown means that the end was not seen; the command may have run.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrProcessGone means that nothing reads the process's input any more.
	ErrProcessGone = errors.New("process is gone")
	// ErrNoSpace means that the host's disk or quota is full.
	ErrNoSpace = errors.New("no space left on host")
	// ErrNotExist means that the file does not exist on the host.
	ErrNotExist = errors.New("no such file on host")
	// ErrUnsupported means that the host lacks a program or kernel feature.
	ErrUnsupported = errors.New("host lacks what is needed")
	// ErrFenced means that the host knows a higher epoch; see FencedError.
	ErrFenced = errors.New("fenced off by a newer holder")
)

// An ExitError means that a command ran and failed.
type ExitError struct {
	Code   int    // exit status; 128+n when killed by signal n
	Stderr []byte // the end of its standard error
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("exit status %d%s", e.Code, script.FirstLine(e.Stderr))
}

// A FencedError holds our epoch and the higher one of the host.
type FencedError struct{ Ours, Host Epoch }

func (e *FencedError) Error() string {
	return fmt.Sprintf("%v: our epoch is %d.%d.%d, the host has %d.%d.%d", ErrFenced,
		e.Ours.Generation, e.Ours.Pump, e.Ours.Attempt, e.Host.Generation, e.Host.Pump, e.Host.Attempt)
}

func (e *FencedError) Unwrap() error { return ErrFenced }

// An OutputTooLongError means that a file has more than Limit bytes.
type OutputTooLongError struct{ Limit int64 }

func (e *OutputTooLongError) Error() string {
	return fmt.Sprintf("file is longer than %d bytes", e.Limit)
}
