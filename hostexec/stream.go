package hostexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// startDeadline bounds the time until a login shell runs our line. rc files that start
// version managers take seconds.
const startDeadline = 45 * time.Second

// eofGrace is how long Read waits after the end of output to learn whether the connection
// was lost. A command may also close its output and go on.
const eofGrace = time.Second

type stream struct {
	ctx  context.Context //nolint:containedctx // the stream lives as long as ctx: see Host.Start
	ch   channel
	host string
	stop func() bool

	began   chan struct{} // closed when the mark was seen or will never be
	rest    []byte        // output after the mark; used by Read only, after began
	noMark  error         // why there is no mark; valid after began
	errDone chan struct{} // standard error has ended

	mu    sync.Mutex
	tail  []byte // guarded by mu: the end of standard error
	flood error  // guarded by mu: standard error was too long

	drowned chan struct{} // closed when flood is set
}

// mostStderr bounds the standard error of a stream, of which the end is kept. tar may print
// a line for each of a million files.
const mostStderr = 256 << 20

// newStream sends c to a fresh shell and does not wait for it.
func newStream(ctx context.Context, ch channel, c Command, t *tasks, host string) (*stream, error) {
	s := &stream{ctx: ctx, host: host, ch: ch, began: make(chan struct{}), errDone: make(chan struct{}), drowned: make(chan struct{})}
	mark := script.NewMark()
	select {
	case err := <-t.write(ch, streamLine(mark, c), nil):
		if err != nil {
			ch.Close()
			return nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
	case <-ctx.Done():
		ch.Close()
		return nil, outcomeUnknown(ctx)
	}
	s.stop = context.AfterFunc(ctx, func() { ch.Close() })
	if !t.Go(func() { s.begin(mark) }) || !t.Go(func() { s.keepTail(mark) }) {
		s.Close()
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, errHostClosed)
	}
	return s, nil
}

func (s *stream) begin(mark string) {
	defer close(s.began)
	late := time.AfterFunc(startDeadline, func() { s.ch.Close() })
	var noise []byte
	rest, err := skipPast(s.ch.Stdout(), []byte("\n"+mark+" b\n"), &noise)
	onTime := late.Stop()
	s.rest = rest
	if err == nil {
		return
	}
	var flood *FloodError
	switch {
	case errors.As(err, &flood):
		flood.Host = s.host
		s.noMark = flood
		s.ch.Close()
		return
	case s.flooded() != nil:
		s.noMark = s.flooded()
		return
	case s.ctx.Err() != nil:
		s.noMark = outcomeUnknown(s.ctx)
		return
	case !onTime:
		s.noMark = fmt.Errorf("%w: the login shell did not start our command within %v", ErrOutcomeUnknown, startDeadline)
		return
	}
	select {
	case <-s.ch.Done():
	case <-s.ctx.Done():
		s.noMark = outcomeUnknown(s.ctx)
		return
	case <-time.After(startDeadline):
		s.noMark = fmt.Errorf("%w: the login shell closed its output and went on", ErrOutcomeUnknown)
		return
	}
	if end := s.ch.End(); end.lost != nil {
		s.noMark = end.err(nil)
	} else {
		s.noMark = neverBegan(end, noise)
	}
}

// skipPast reads r up to the end of mark and returns the bytes read beyond it. What precedes
// the mark is at most mostNoise.
func skipPast(r io.Reader, mark []byte, noise *[]byte) ([]byte, error) {
	var buf []byte
	chunk := make([]byte, 8<<10)
	for read := int64(0); ; {
		n, err := r.Read(chunk)
		read += int64(n)
		buf = append(buf, chunk[:n]...)
		if i := bytes.Index(buf, mark); i >= 0 {
			return buf[i+len(mark):], nil
		}
		*noise = script.LastBytes(buf, 4096)
		if err != nil {
			return nil, err
		}
		if read > mostNoise {
			return nil, errNoisy()
		}
		buf = script.LastBytes(buf, maxNoise)
	}
}

func (s *stream) keepTail(mark string) {
	defer close(s.errDone)
	var noise []byte
	rest, err := skipPast(s.ch.Stderr(), []byte("\n"+mark+" b\n"), &noise)
	if err != nil {
		s.drown(err)
		return
	}
	chunk := make([]byte, 4<<10)
	for read := int64(0); ; {
		if read += int64(len(rest)); read > mostStderr {
			s.drown(&FloodError{What: "a script's standard error", Limit: mostStderr})
			return
		}
		s.mu.Lock()
		s.tail = append(s.tail, rest...)
		if len(s.tail) > 2*stderrTail {
			s.tail = append(s.tail[:0], script.LastBytes(s.tail, stderrTail)...)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
		var n int
		n, err = s.ch.Stderr().Read(chunk)
		rest = chunk[:n]
	}
}

// drown ends the stream if err says that the host sent too much. Only keepTail calls it,
// once.
func (s *stream) drown(err error) {
	var flood *FloodError
	if !errors.As(err, &flood) {
		return
	}
	flood.Host = s.host
	s.mu.Lock()
	s.flood = flood
	s.mu.Unlock()
	close(s.drowned)
	s.ch.Close()
}

// flooded returns the error of a stream that was drowned, or nil.
func (s *stream) flooded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flood
}

// Read returns io.EOF at the end of output, ErrOutcomeUnknown after a lost connection, and
// ErrFlood if standard error was too long.
func (s *stream) Read(p []byte) (int, error) {
	<-s.began
	if s.noMark != nil {
		return 0, s.noMark
	}
	if len(s.rest) > 0 {
		n := copy(p, s.rest)
		s.rest = s.rest[n:]
		return n, nil
	}
	n, err := s.ch.Stdout().Read(p)
	if n > 0 || err == nil {
		return n, nil
	}
	if s.ctx.Err() != nil {
		return 0, outcomeUnknown(s.ctx)
	}
	if flood := s.flooded(); flood != nil {
		return 0, flood
	}
	if err != io.EOF {
		return 0, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	grace := time.NewTimer(eofGrace)
	defer grace.Stop()
	select {
	case <-s.ch.Done():
		if end := s.ch.End(); end.lost != nil {
			return 0, end.err(nil)
		}
	case <-s.ctx.Done():
		return 0, outcomeUnknown(s.ctx)
	case <-grace.C:
	}
	return 0, io.EOF
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.ch.Write(p)
	if err != nil {
		err = fmt.Errorf("write to command: %w", err)
	}
	return n, err
}

func (s *stream) CloseWrite() error {
	err := s.ch.CloseWrite()
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		return nil // the command has ended, and its standard input with it
	}
	return err
}

func (s *stream) Stderr() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(script.LastBytes(s.tail, stderrTail))
}

func (s *stream) Wait() error {
	<-s.began
	if s.noMark != nil {
		s.Close()
		return s.noMark
	}
	select {
	case <-s.ch.Done():
	case <-s.drowned:
		return s.flooded()
	case <-s.ctx.Done():
		s.Close()
		return outcomeUnknown(s.ctx)
	}
	// A child of the command may keep standard error open.
	grace := time.NewTimer(eofGrace)
	defer grace.Stop()
	select {
	case <-s.errDone:
	case <-grace.C:
	}
	if flood := s.flooded(); flood != nil {
		return flood
	}
	return s.ch.End().err(s.Stderr())
}

func (s *stream) Close() error {
	s.stop()
	return s.ch.Close()
}
