package pumps

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
)

// A journalWire is an attachment that marks errors of the connection and counts the bytes
// read.
type journalWire struct {
	process.Attachment
	offset *atomic.Int64 // next byte to read
}

// Read may be called by one goroutine only.
func (w *journalWire) Read(p []byte) (int, error) {
	n, err := w.Attachment.Read(p)
	w.offset.Add(int64(n))
	return n, wireError(err)
}

func (w *journalWire) Write(p []byte) (int, error) {
	n, err := w.Attachment.Write(p)
	return n, wireError(err)
}

// wireError marks errors that end only the connection, not the process.
func wireError(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, hostexec.ErrFenced) || errors.Is(err, hostexec.ErrProcessGone) || errors.Is(err, hostexec.ErrFlood):
		return err
	}
	return fmt.Errorf("%w: %w", conversation.ErrWireLost, err)
}

type goneWire struct{ size int64 }

func (goneWire) Read([]byte) (int, error)  { return 0, io.EOF }
func (goneWire) Write([]byte) (int, error) { return 0, hostexec.ErrProcessGone }
func (goneWire) Close() error              { return nil }
func (g goneWire) Size() int64             { return g.size }
