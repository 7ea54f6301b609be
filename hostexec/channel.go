package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// A channel is a /bin/sh, on this machine or at the end of an SSH channel, that runs
// bootstrap. It has three pipes and an exit status.
type channel interface {
	// Write and CloseWrite feed its standard input.
	io.Writer
	CloseWrite() error
	Stdout() io.Reader
	Stderr() io.Reader
	// Done is closed when the ending is known. End is valid from then on.
	Done() <-chan struct{}
	End() ending
	// Close closes the channel: pending reads and writes return. It does not wait for the
	// shell to end. It may be called more than once.
	Close() error
}

// An ending is how a channel's shell ended.
type ending struct {
	// lost is the reason why the end was not seen. If it is nil, status is valid.
	lost error
	// status is the exit status, 128+n for signal n.
	status int
}

// err returns the error for callers. stderr is the end of the command's standard error.
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

// neverBegan returns the error for a shell that ended without running our line.
func neverBegan(e ending, noise []byte) error {
	said := "it said nothing"
	if line := script.FirstLine(noise); line != "" {
		said = "it said" + line
	}
	return fmt.Errorf("%w: the login shell ended with status %d before it ran anything of ours; %s",
		ErrUnreachable, e.status, said)
}

// outcomeUnknown returns the error for a wait that ctx ended.
func outcomeUnknown(ctx context.Context) error {
	return fmt.Errorf("%w: stopped waiting: %w", ErrOutcomeUnknown, context.Cause(ctx))
}

// errNotSent marks a request that provably did not reach the shell in full.
var errNotSent = errors.New("request was not sent")

// stderrTail is the number of bytes that are kept of the end of standard error.
const stderrTail = 64 << 10
