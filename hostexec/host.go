package hostexec

import (
	"context"
	"io"
)

// A Host runs POSIX shell scripts on a machine. It is safe for concurrent use.
//
// The error tells how a command ended: *ExitError means that it ran and failed.
// ErrUnreachable means that it never began. ErrOutcomeUnknown means that the connection was
// lost before the end was seen, so it may or may not have run.
type Host interface {
	// Name is the host's name in the inventory, for messages.
	Name() string

	// Run runs a short script to its end and returns its output. If a stream has more than
	// MaxOutput bytes, the error is an *OutputTooLongError. If ctx ends, Run returns, and
	// its error says that the outcome is unknown. Small commands run in shells that are
	// kept on the host.
	Run(ctx context.Context, cmd Command) (Result, error)

	// Start begins a script with open streams on a channel of its own. The script lives as
	// long as the channel and ctx. Use a journaled process (process.Start) for a program
	// that must outlive the channel.
	Start(ctx context.Context, cmd Command) (Stream, error)

	// Close closes every connection. Later calls fail.
	Close() error
}

// A Command is a POSIX sh script with its arguments. Script, arguments and
// environment travel on the channel, never in an argv or an environment
// listing that another user of the host could read.
type Command struct {
	// Script is run by /bin/sh; Args are its "$1", "$2", …
	Script string
	// Args may hold any byte but NUL.
	Args []string
	// Env is exported before the script runs.
	Env map[string]string
	// Stdin is the script's standard input and must be small. It is for Run only, because a
	// Stream has an input of its own.
	Stdin []byte
	// Bulk selects the connections for bulk data. Set it if many bytes will move.
	Bulk bool
	// Fence, if set, runs the script under the session's lock on the host, and only if the
	// host knows no higher epoch (otherwise ErrFenced).
	Fence *Fence
	// FenceAtStart releases the lock before the script runs. It is for a long script that a
	// newer holder can find and end (see process.Reap).
	FenceAtStart bool
	// TellFar sets $FAIRLEAD_FAR for the script if the host is so far away that compression
	// saves time. It is for Start only.
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
	// CloseWrite ends standard input.
	CloseWrite() error
	// Stderr returns the last 64 KiB of standard error so far.
	Stderr() []byte
	// Wait waits for the end of the command. Its errors are those of Host.
	Wait() error
	// Close closes the channel at once. The command sees EOF.
	Close() error
}

// An Epoch ranks the callers that want to change the same session's files on a host. Epochs
// are compared by Generation, then Pump, then Attempt. A host that has seen an epoch for
// the session refuses every lower one.
type Epoch struct {
	Generation int64 `json:"generation"`
	Pump       int64 `json:"pump"`
	Attempt    int64 `json:"attempt"`
}

// A Fence ties a script to the epoch of a session. Dir is the session's folder on the host
// (<root>/sessions/<id>). Dir/epoch holds the highest epoch that the host has seen. It is
// read and written under the lock Dir/lock.
type Fence struct {
	Dir   string
	Epoch Epoch
}
