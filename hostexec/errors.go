package hostexec

import (
	"errors"
	"fmt"
)

// What callers branch on. Each is wrapped with what was being done and to what.
var (
	// ErrUnreachable: no connection could be made; nothing began.
	ErrUnreachable = errors.New("host unreachable")
	// ErrAuth: the host refused our keys; nothing began. Not worth a retry.
	ErrAuth = errors.New("host refused our keys")
	// ErrHostKeyUnknown: no pin for this host; nothing was sent.
	ErrHostKeyUnknown = errors.New("host key unknown")
	// ErrHostKeyChanged: the host shows another key than the pinned one.
	ErrHostKeyChanged = errors.New("host key changed")
	// ErrOutcomeUnknown: the connection went away before the end was seen.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrProcessGone: nobody reads the process's input any more.
	ErrProcessGone = errors.New("process is gone")
	// ErrNoSpace: the host's disk (or quota) is full.
	ErrNoSpace = errors.New("no space left on host")
	// ErrNotExist: no such file on the host.
	ErrNotExist = errors.New("no such file on host")
	// ErrFenced: the host knows a higher epoch; see *FencedError.
	ErrFenced = errors.New("fenced off by a newer holder")
)

// An ExitError is a command that ran and failed.
type ExitError struct {
	Code   int    // exit status; 128+n when killed by signal n
	Stderr []byte // the end of its standard error
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("exit status %d%s", e.Code, firstLine(e.Stderr))
}

// A FencedError says which epoch the host knows. It wraps ErrFenced.
type FencedError struct{ Ours, Host Epoch }

func (e *FencedError) Error() string {
	return fmt.Sprintf("%v: ours is %d.%d.%d, the host knows %d.%d.%d", ErrFenced,
		e.Ours.Generation, e.Ours.Pump, e.Ours.Attempt, e.Host.Generation, e.Host.Pump, e.Host.Attempt)
}

func (e *FencedError) Unwrap() error { return ErrFenced }

// An OutputTooLongError is a command that printed more than MaxOutput.
type OutputTooLongError struct{ Limit int64 }

func (e *OutputTooLongError) Error() string {
	return fmt.Sprintf("output is longer than %d bytes", e.Limit)
}

func firstLine(b []byte) string {
	for i, c := range b {
		if c == '\n' {
			b = b[:i]
			break
		}
	}
	if len(b) == 0 {
		return ""
	}
	if len(b) > 200 {
		b = b[:200]
	}
	return ": " + string(b)
}
