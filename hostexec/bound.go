package hostexec

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// ErrFlood means that a host sent more than it may; see FloodError.
var ErrFlood = errors.New("host sends too much")

// A FloodError means that a host sent more of something than a sound host can. Its
// connection is fine. The rest was not read, so a command that ran may have had effects. A
// retry gets the same.
type FloodError struct {
	// Host is the host's name, or empty where it is not known.
	Host string
	// What exceeded Limit bytes or, if Unit is set, Limit of that.
	What  string
	Limit int64
	Unit  string
}

func (e *FloodError) Error() string {
	unit := e.Unit
	if unit == "" {
		unit = "bytes"
	}
	return fmt.Sprintf("%v: %s has more than %d %s", ErrFlood, e.What, e.Limit, unit)
}

func (e *FloodError) Unwrap() error { return ErrFlood }

// ErrContent means that a folder has more of something than we handle; see ContentError.
var ErrContent = errors.New("a folder has too much")

// A ContentError means that the content of a folder, which whoever works there decides, has
// more of something than we handle. The host is not to blame. A retry gets the same.
type ContentError struct {
	What  string
	Limit int64
	Unit  string
}

func (e *ContentError) Error() string {
	return fmt.Sprintf("%v: %s has more than %d %s", ErrContent, e.What, e.Limit, e.Unit)
}

func (e *ContentError) Unwrap() error { return ErrContent }

// SentBy returns err with the host's name in its FloodError, if any. Functions that read a
// Stream use it for their errors.
func SentBy(h Host, err error) error {
	var flood *FloodError
	if errors.As(err, &flood) && flood.Host == "" {
		flood.Host = h.Name()
	}
	return err
}

// ReadAll reads a host's output to its end. If it has more than most bytes, the error is a
// *FloodError, and the rest is not read.
func ReadAll(r io.Reader, most int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if int64(len(data)) > most {
		return nil, &FloodError{What: what, Limit: most}
	}
	return data, err
}

// ReadLine reads a line of a host's output, with its newline, like ReadString of the reader.
// If it has more than most bytes, the error is a *FloodError.
func ReadLine(in *bufio.Reader, most int, what string) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > most {
			return "", &FloodError{What: what, Limit: int64(most)}
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return string(line), err
		}
	}
}
