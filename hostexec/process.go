package hostexec

import "time"

// A ProcessSpec describes a journaled process: a command on a host that
// outlives every connection and whose output is an append-only file.
type ProcessSpec struct {
	// Dir is the process's own folder on the host, for instance
	// <root>/sessions/<id>/proc/app-server. It holds in (a FIFO), out.log,
	// err.log, started (pid, start time and boot id of the process, pid and
	// start time of the shell that waits for it) and, at the end, exit
	// (status, and when in ticks since boot); both appear at once and whole.
	// trimmed says how much of the journals' beginning was given back.
	// tie.* and see.* are attachments, watch.* says that somebody waits.
	Dir string
	// Fence guards the session that the process belongs to.
	Fence Fence
	// Argv is the command; no shell looks at it.
	Argv []string
	// Env is added to the login environment of the process. It is never
	// part of an argv. Unset lists names to remove.
	Env   map[string]string
	Unset []string
	// WorkDir is where it runs; empty means the user's home.
	WorkDir string
	// Mark is put into the environment as FAIRLEAD_SESSION, so that Reap
	// finds whatever the process leaves behind.
	Mark string
	// Secret, if any, is what the process reads on descriptor SecretFD: a pipe
	// with that in it and then its end. It is in no file, argument or
	// environment, and lives as long as somebody holds the pipe.
	Secret []byte
}

// SecretFD is the descriptor of ProcessSpec.Secret, and MaxSecret what a pipe
// takes at once on any host, in bytes.
const (
	SecretFD  = 7
	MaxSecret = 4 << 10
)

// ProcessState says what is known of a journaled process.
type ProcessState string

const (
	// ProcessAbsent: there is no such folder; it never began.
	ProcessAbsent ProcessState = "absent"
	// ProcessRunning: it lives (pid, start time and boot id agree).
	ProcessRunning ProcessState = "running"
	// ProcessExited: it ended and its supervisor wrote how.
	ProcessExited ProcessState = "exited"
	// ProcessLost: neither it nor an exit record is there: outcome unknown.
	ProcessLost ProcessState = "lost"
	// ProcessRebooted: the machine has booted since: outcome unknown.
	ProcessRebooted ProcessState = "rebooted"
)

// ProcessStatus is a look at a journaled process.
type ProcessStatus struct {
	State ProcessState `json:"state"`
	PID   int          `json:"pid,omitempty"`
	// Code is the exit status when State is exited; 128+n for signal n.
	Code int `json:"code,omitempty"`
	// Size and ErrSize are the lengths of out.log and err.log in bytes.
	Size    int64 `json:"size"`
	ErrSize int64 `json:"err_size"`
	// Trimmed and ErrTrimmed are the bytes at their beginning that may be gone
	// (see TrimJournal).
	Trimmed    int64 `json:"trimmed,omitempty"`
	ErrTrimmed int64 `json:"err_trimmed,omitempty"`
	// StderrTail is the end of err.log, at most 4 KiB, when the process has ended.
	StderrTail string `json:"stderr_tail,omitempty"`
}

// AttachOptions say from where and for whom to attach.
type AttachOptions struct {
	// Offset is the byte of out.log to begin at.
	Offset int64
	// Fence carries the epoch; an attachment of a lower epoch is cut off,
	// and ErrFenced is returned if the host knows a higher one.
	Fence Fence
	// Silence is how long the host keeps an attachment whose client says
	// nothing; 0 means two minutes. The attachment sends blank lines itself.
	Silence time.Duration
	// Follow only reads, takes nothing over and needs no fence: for viewers
	// and for commands whose input nobody feeds.
	Follow bool
	// ErrLog follows err.log in place of out.log (with Follow only).
	ErrLog bool
	// Untrimmed says that nobody calls TrimJournal for this process. Without it
	// zeros in a journal are not believed before the host was asked whether they
	// are a hole: that costs a round trip for each piece of a binary stream.
	Untrimmed bool
	// Lines says that Offset is where a reader of lines left off: 0 or just
	// behind a newline. An attachment whose journal has no newline there is
	// ErrJournalLost: it was cut and has grown past the offset since, and what
	// was written between would be missed without a word. What cannot be seen:
	// a new newline in that very place, and a trim that ends just there.
	Lines bool
}

// An Attachment reads a process's journal from an offset and writes to its
// input. It is an io.ReadWriteCloser. Read returns io.EOF only when the
// process has ended and every byte of its journal was read; a lost wire is an
// error that wraps ErrOutcomeUnknown. Write fails with ErrProcessGone when
// nobody reads the process's input any more. The first byte that reaches the
// process is a newline, so that a torn line of a dead writer is ended.
type Attachment interface {
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	Close() error
	// Size is the length of the journal when the attachment began: what lies
	// below it happened before.
	Size() int64
	// Status is the process's state: as of the attachment's start, or its end
	// once Read returned io.EOF.
	Status() ProcessStatus
}
