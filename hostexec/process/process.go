package process

import (
	"time"

	"fairlead.dev/fairlead/hostexec"
)

// A Spec describes a journaled process.
type Spec struct {
	// Dir is the process's own folder on the host, such as
	// <root>/sessions/<id>/proc/app-server. It contains the FIFO in and the journals
	// out.log and err.log. The file started holds pid, start time and boot id of the
	// process, and pid and start time of its supervisor; exit holds the status and the time
	// of the end in ticks since boot. Both appear atomically. trimmed records how much of
	// the journals was freed. tie.* and see.* belong to attachments, watch.* to watches.
	Dir string
	// Fence guards the session. The file since in its folder records the start of the
	// session's first process.
	Fence hostexec.Fence
	// Argv does not go through a shell.
	Argv []string
	// Env is added to the login environment, never to an argv. Unset lists names to remove.
	Env   map[string]string
	Unset []string
	// Guard is a shell script, with GuardArgs as its arguments, that runs just before the
	// command, in its environment. If it fails, the command does not run. Empty means none.
	Guard     string
	GuardArgs []string
	// WorkDir is the user's home if empty.
	WorkDir string
	// Mark becomes FAIRLEAD_SESSION in the environment, for Reap.
	Mark string
	// Secret, if any, can be read from descriptor SecretFD, a pipe that ends after it. It
	// is in no file, argument or environment, and exists only while a process holds the
	// pipe.
	Secret []byte
}

// SecretFD is the descriptor of Spec.Secret. A pipe on any host accepts MaxSecret bytes at
// once.
const (
	SecretFD  = 7
	MaxSecret = 4 << 10
)

// State is the known state of a journaled process.
type State string

const (
	// Absent means that no process was started in the folder.
	Absent State = "absent"
	// Running means that a process with the recorded pid, start time and boot id lives.
	Running State = "running"
	// Exited means that the exit status is recorded.
	Exited State = "exited"
	// Lost means that neither the process nor an exit record exists. The outcome is
	// unknown.
	Lost State = "lost"
	// Rebooted means that the host has booted since the start. The outcome is unknown.
	Rebooted State = "rebooted"
)

// Status is the state of a process at one moment.
type Status struct {
	State State `json:"state"`
	PID   int   `json:"pid,omitempty"`
	// Code is the exit status if Exited; 128+n for signal n.
	Code int `json:"code,omitempty"`
	// Size and ErrSize are the lengths of out.log and err.log in bytes.
	Size    int64 `json:"size"`
	ErrSize int64 `json:"err_size"`
	// Trimmed and ErrTrimmed are how many bytes at the beginning of out.log and err.log may
	// be gone.
	Trimmed    int64 `json:"trimmed,omitempty"`
	ErrTrimmed int64 `json:"err_trimmed,omitempty"`
	// StderrTail is the end of err.log, at most 4 KiB, of an ended process.
	StderrTail string `json:"stderr_tail,omitempty"`
}

// AttachOptions configure an attachment.
type AttachOptions struct {
	// Offset is where reading begins.
	Offset int64
	// Fence carries the epoch. Attachments of the same or a lower epoch are cut off.
	Fence hostexec.Fence
	// Silence is how long the host keeps an attachment that sends nothing; 0 means two
	// minutes. The attachment sends blank lines by itself.
	Silence time.Duration
	// Follow makes an attachment that only reads, cuts off no other and needs no fence.
	Follow bool
	// ErrLog reads err.log instead (with Follow only).
	ErrLog bool
	// Untrimmed says that nobody calls TrimJournal. Otherwise zeros in the journal cost a
	// round trip, because they may be a hole.
	Untrimmed bool
	// Lines says that Offset is 0 or directly behind a newline. If no newline is there, the
	// journal was truncated and has grown again, and the error is ErrJournalLost. Not
	// detected are another newline in the same place, and a trim that ends exactly there.
	Lines bool
}

// An Attachment reads a process's journal from an offset and writes to its input. Read
// returns io.EOF only if the process has ended and all of its journal was read, and
// ErrOutcomeUnknown after a lost connection. Write fails with ErrProcessGone if nothing
// reads the input any more. The first byte sent is a newline, which ends a partial line of
// a dead writer.
type Attachment interface {
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	Close() error
	// Size is the length of the journal when the attachment began.
	Size() int64
	// Status is the process's state at the beginning, and at the process's end once Read
	// returned io.EOF.
	Status() Status
}
