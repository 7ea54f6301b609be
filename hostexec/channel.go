package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// A channel is a /bin/sh, here or at the end of an SSH channel, that runs bootstrap.
type channel interface {
	io.Writer
	CloseWrite() error
	Stdout() io.Reader
	Stderr() io.Reader
	// Done is closed when the ending is known. End is valid from then on.
	Done() <-chan struct{}
	End() ending
	// Close makes pending reads and writes return. It does not wait for the shell. It may
	// be called more than once.
	Close() error
}

type ending struct {
	// lost is why the end was not seen. If it is nil, status is valid.
	lost error
	// status is the exit status, 128+n for signal n.
	status int
}

func (e ending) err(stderr []byte) error {
	if e.lost != nil {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, e.lost)
	}
	return exitError(e.status, stderr)
}

func exitError(status int, stderr []byte) error {
	if status == 0 {
		return nil
	}
	if err := fenceError(status, stderr); err != nil {
		return err
	}
	err := &ExitError{Code: status, Stderr: script.LastBytes(stderr, stderrTail)}
	if script.SaysNoSpace(stderr) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// neverBegan is the error for a shell that ended before bootstrap.
func neverBegan(e ending, noise []byte) error {
	said := "it said nothing"
	if line := script.FirstLine(noise); line != "" {
		said = "it said" + line
	}
	return fmt.Errorf("%w: the login shell ended with status %d before it ran anything of ours; %s",
		ErrUnreachable, e.status, said)
}

func outcomeUnknown(ctx context.Context) error {
	return fmt.Errorf("%w: stopped waiting: %w", ErrOutcomeUnknown, context.Cause(ctx))
}

// errNotSent marks a request that provably did not reach the shell in full.
var errNotSent = errors.New("request was not sent")

const stderrTail = 64 << 10
