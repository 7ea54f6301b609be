package hostexec

import (
	"context"
	"io"
)

// Spec says how a host is reached. It is plain data: it is kept in workflow
// state and travels through Temporal, so it never holds a secret. Paths in it
// are paths on the worker, Root is a path on the host.
type Spec struct {
	// Name is the host's name in the inventory; "local" is this machine.
	Name string `json:"name"`
	// Address is a DNS name or an IP address, without brackets or port.
	Address string `json:"address,omitempty"`
	// Port is the SSH port; 0 means 22.
	Port int `json:"port,omitempty"`
	// User is the login name; empty means the worker's own.
	User string `json:"user,omitempty"`
	// Identity is a private key file on the worker; empty means the agent
	// and the usual files in ~/.ssh.
	Identity string `json:"identity,omitempty"`
	// HostKeys pin the host: "type base64" as in known_hosts, or "SHA256:…".
	HostKeys []string `json:"host_keys,omitempty"`
	// KnownHosts is a known_hosts file on the worker, used where HostKeys is empty.
	KnownHosts string `json:"known_hosts,omitempty"`
	// Jump is the host to go through, itself pinned; nil means directly.
	Jump *Spec `json:"jump,omitempty"`
	// Root is the folder on the host that holds all that is ours. Empty
	// means ".fairlead" below the user's home.
	Root string `json:"root,omitempty"`
}

// Local is the name of the host that is this machine itself.
const Local = "local"

// A Host runs POSIX shell scripts on a machine. It is safe for concurrent use.
//
// How a command ends is told apart by the error (see errors.go): *ExitError
// means that it ran and failed; ErrUnreachable (or an error that wraps it)
// means that it never began; ErrOutcomeUnknown means that the connection went
// away before the end was seen, so that it may or may not have happened.
type Host interface {
	// Name is the host's name in the inventory, for messages.
	Name() string

	// Run runs a short script to its end and returns its output, each stream
	// bounded to MaxOutput bytes (*OutputTooLongError beyond it). Ending ctx
	// ends the wait; whether the script went on is then unknown, and the
	// error says so. Small commands share one shell on the host.
	Run(ctx context.Context, cmd Command) (Result, error)

	// Start begins a script on a channel of its own with open streams, for
	// as long as the channel and ctx live. What must outlive the channel is
	// a journaled process (StartProcess) instead.
	Start(ctx context.Context, cmd Command) (Stream, error)

	// Close gives back every connection. Calls after it fail.
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
	// Stdin is what the script reads on its standard input after itself
	// (Run only; a Stream has its own). It must be small for Run.
	Stdin []byte
	// Bulk says that many bytes will move: the bulk connection is used.
	Bulk bool
	// Fence, when set, makes the script run under the host-side lock of a
	// session and only if no higher epoch is known there (ErrFenced).
	Fence *Fence
	// FenceAtStart gives the lock back before the script runs: for one that
	// takes long, and that a newer holder can find and end (see Reap).
	FenceAtStart bool
	// TellFar sets $FAIRLEAD_FAR for the script where the host is far away,
	// so that bytes are worth more than processor time (Start only).
	TellFar bool
}

// Result is what a finished command left.
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
	// Wait waits for the end of the command; errors as for Host.
	Wait() error
	// Close gives the channel back at once. The command sees EOF.
	Close() error
}

// An Epoch says who may change a host: compared by Generation, then Pump,
// then Attempt. Higher wins; a host refuses every lower one from then on.
type Epoch struct {
	Generation int64 `json:"generation"`
	Pump       int64 `json:"pump"`
	Attempt    int64 `json:"attempt"`
}

// A Fence ties a script to the epoch of a session. Dir is the session's folder
// on the host (<root>/sessions/<id>); the highest epoch seen is kept in
// Dir/epoch, under the lock Dir/lock.
type Fence struct {
	Dir   string
	Epoch Epoch
}
