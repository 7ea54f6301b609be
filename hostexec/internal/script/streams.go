package script

import (
	"fmt"
	"io"
)

// LastWord sends word to a receive command, closes its input and waits for its end.
func LastWord(s interface {
	io.Writer
	CloseWrite() error
	Wait() error
}, word string) error {
	_, sendErr := io.WriteString(s, word+"\n")
	s.CloseWrite()
	if err := s.Wait(); err != nil {
		return err
	}
	return sendErr
}

// A MarkedReader wraps its reader's errors together with As.
type MarkedReader struct {
	io.Reader
	As error
}

func (r MarkedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", r.As, err)
	}
	return n, err
}

// An OnlyWriter hides the other methods of a Stream from io.Copy.
type OnlyWriter struct{ io.Writer }
