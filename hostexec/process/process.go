package process

import (
	"time"

	"fairlead.dev/fairlead/hostexec"
)

// A Spec describes a journaled process: a command on a host that
// outlives every connection and whose output is an append-only file.
type Spec struct {
	// Dir is the process's own folder on the host, for example
	// <root>/sessions/<id>/proc/app-server. It contains the input in (a FIFO) and the
	// journals out.log and err.log. The file started holds the pid, start time and boot id
	// of the process, and the pid and start time of the shell that waits for it. The file
	// exit holds the status and the time of the end in ticks since boot. Both appear
	// atomically. The file trimmed records how much of the beginning of the journals was
	// freed. tie.* and see.* belong to attachments. watch.* are watches.
	Dir string
	// Fence guards the session of the process. The file since in its folder records the
	// start of the first process of the session (see Reap).
	Fence hostexec.Fence
	// Argv is the command. It does not go through a shell.
	Argv []string
	// Env is added to the process's login environment. It is never part of an argv. Unset
	// lists names to remove.
	Env   map[string]string
	Unset []string
	// WorkDir is the work directory; empty means the user's home.
	WorkDir string
	// Mark becomes FAIRLEAD_SESSION in the environment, so that Reap finds everything that
	// the process leaves behind.
	Mark string
	// Secret, if any, can be read by the process from descriptor SecretFD, a pipe that ends
	// after it. It is in no file, argument or environment, and exists only while a process
	// holds the pipe.
	Secret []byte
}

// SecretFD is the descriptor of Spec.Secret. MaxSecret is the number of bytes that a pipe
// on any host accepts at once.
const (
	SecretFD  = 7
	MaxSecret = 4 << 10
)

// State is the known state of a journaled process.
type State string

const (
	// Absent means that the folder does not exist or that no process was started in it.
	Absent State = "absent"
	// Running means that the process lives: its pid, start time and boot id are as
	// recorded.
	Running State = "running"
	// Exited means that the process ended and that its supervisor recorded the exit status.
	Exited State = "exited"
	// Lost means that neither the process nor an exit record exists. The outcome is
	// unknown.
	Lost State = "lost"
	// Rebooted means that the host has booted since the start. The outcome is unknown.
	Rebooted State = "rebooted"
)

// Status is the state of a journaled process at one moment.
type Status struct {
	State State `json:"state"`
	PID   int   `json:"pid,omitempty"`
	// Code is the exit status if State is Exited; 128+n for signal n.
	Code int `json:"code,omitempty"`
	// Size and ErrSize are the lengths of out.log and err.log in bytes.
	Size    int64 `json:"size"`
	ErrSize int64 `json:"err_size"`
	// Trimmed and ErrTrimmed are the numbers of bytes at the beginning of out.log and
	// err.log that may be gone (see TrimJournal).
	Trimmed    int64 `json:"trimmed,omitempty"`
	ErrTrimmed int64 `json:"err_trimmed,omitempty"`
	// StderrTail is the end of err.log, at most 4 KiB, if the process has ended.
	StderrTail string `json:"stderr_tail,omitempty"`
}

// AttachOptions configure an attachment.
type AttachOptions struct {
	// Offset is the position in the journal at which the attachment begins to read.
	Offset int64
	// Fence carries the epoch. Attachments of the same or a lower epoch are cut off. The
	// error is ErrFenced if the host knows a higher epoch.
	Fence hostexec.Fence
	// Silence is the time for which the host keeps an attachment whose client sends
	// nothing; 0 means two minutes. The attachment sends blank lines by itself.
	Silence time.Duration
	// Follow makes an attachment that only reads. It cuts off no other attachment and needs
	// no fence. It is for viewers, and for commands that get no input.
	Follow bool
	// ErrLog reads err.log instead of out.log (with Follow only).
	ErrLog bool
	// Untrimmed says that nobody calls TrimJournal for this process. Otherwise the host is
	// asked whether zeros in a journal are a hole, which costs a round trip for each piece
	// of a binary stream.
	Untrimmed bool
	// Lines says that Offset is 0 or directly behind a newline, as after a complete line.
	// If the journal has no newline there, the error is ErrJournalLost. The journal was
	// then truncated and has grown past the offset again, so that a reader would miss lines
	// silently. Two losses are not detected: a journal that has another newline in the same
	// place, and a trim that ends exactly there.
	Lines bool
}

// An Attachment reads a process's journal from an offset and writes to its input. It is an
// io.ReadWriteCloser. Read returns io.EOF only if the process has ended and every byte of
// its journal was read; if the connection is lost, the error wraps ErrOutcomeUnknown. Write
// fails with ErrProcessGone if nothing reads the process's input any more. The first byte
// sent to the process is a newline, which ends a partial line of a dead writer.
type Attachment interface {
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	Close() error
	// Size is the length of the journal when the attachment began. Bytes below Size were
	// written before.
	Size() int64
	// Status is the process's state when the attachment began or, once Read returned
	// io.EOF, at the process's end.
	Status() Status
}
