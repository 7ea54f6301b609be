package hostexec

import (
	"context"
	"io"
)

// A Host runs POSIX shell scripts on a machine. It is safe for concurrent use. *ExitError
// means that a command ran and failed, ErrUnreachable that it never began, and
// ErrOutcomeUnknown that its end was not seen, so that it may have run. A *FloodError means
// that the host sent more than it may; the command may have run, too.
type Host interface {
	// Name is the host's name in the inventory.
	Name() string

	// Run runs a short script to its end. If a stream has more than MaxOutput bytes, the
	// error is a *FloodError. If ctx ends after the command was sent, the error is
	// ErrOutcomeUnknown.
	Run(ctx context.Context, cmd Command) (Result, error)

	// Start begins a script with open streams on a channel of its own. The script lives as
	// long as the channel and ctx.
	Start(ctx context.Context, cmd Command) (Stream, error)

	// Close closes every connection. Later calls fail.
	Close() error
}

// A Command is a POSIX sh script with its arguments. All of it travels on the channel,
// never in an argv or environment that other users of the host could read.
type Command struct {
	// Script is run by /bin/sh.
	Script string
	// Args are "$1", "$2", … and may hold any byte but NUL.
	Args []string
	Env  map[string]string
	// Stdin must be small. It is for Run only.
	Stdin []byte
	// Bulk selects the connections for bulk data.
	Bulk bool
	// Fence, if set, runs the script under the session's lock on the host. If the host
	// knows a higher epoch, the command fails with ErrFenced.
	Fence *Fence
	// FenceAtStart releases the lock before the script runs, for a long script that a newer
	// holder can find and end (see process.Reap).
	FenceAtStart bool
	// TellFar sets $FAIRLEAD_FAR if the host is so far away that compression saves time. It
	// is for Start only.
	TellFar bool
}

// Result is the output of a finished command.
type Result struct {
	Stdout []byte
	Stderr []byte
}

// MaxOutput bounds each output stream of Run, in bytes.
const MaxOutput = 4 << 20

// A Stream is a running command with open streams.
type Stream interface {
	io.Reader // standard output
	io.Writer // standard input
	// CloseWrite ends standard input. It returns nil if the command has ended: Wait tells how.
	CloseWrite() error
	// Stderr returns the last 64 KiB of standard error so far.
	Stderr() []byte
	// Wait waits for the end of the command. Its errors are those of Host.
	Wait() error
	// Close closes the channel at once. The command sees EOF.
	Close() error
}

// An Epoch ranks the callers that want to change a session's files on a host, by
// Generation, then Pump, then Attempt. A host refuses every epoch lower than the highest it
// has seen.
type Epoch struct {
	Generation int64 `json:"generation"`
	Pump       int64 `json:"pump"`
	Attempt    int64 `json:"attempt"`
}

// A Fence ties a script to the epoch of a session. Dir is the session's folder on the host
// (<root>/sessions/<id>). Dir/epoch holds the highest epoch seen, guarded by the lock
// Dir/lock.
type Fence struct {
	Dir   string
	Epoch Epoch
}
