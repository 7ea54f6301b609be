package hostexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// A shell runs requests on a channel, one at a time, and frames their output
// by marks. It is not safe for concurrent use.
type shell struct {
	ch       channel
	out, err sections
	loops    bool   // serves many requests, not one
	prefix   string // sent before the first request
	tasks    *tasks // of the host, for what may outlast a call
}

func newShell(ch channel, loops bool, t *tasks) *shell {
	s := &shell{ch: ch, out: sections{r: ch.Stdout()}, err: sections{r: ch.Stderr()}, loops: loops, tasks: t}
	if loops {
		s.prefix = loopLine // costs no round trip: the first request follows at once
	}
	return s
}

// run runs one command to its end. usable reports whether the shell can serve
// another; if not, the caller closes it. Its errors wrap errNotSent when the
// request provably never reached the shell.
func (s *shell) run(ctx context.Context, c Command) (res Result, usable bool, err error) {
	if err := ctx.Err(); err != nil {
		return Result{}, true, fmt.Errorf("%w: %w", errNotSent, context.Cause(ctx))
	}
	mark := newMark()
	line := requestLine(mark, c)
	if !s.loops {
		line = onceLine(mark, c)
	}
	line, s.prefix = s.prefix+line, ""
	// Ending ctx closes the channel, and that ends every read and write below.
	stop := context.AfterFunc(ctx, func() { s.ch.Close() })
	defer func() {
		if !stop() {
			usable = false
		}
	}()

	// Writing may block for as long as a dead peer is not known to be dead, so
	// nothing here waits for it without an eye on ctx.
	feed := func() {
		if !s.loops {
			// A command need not read its input: errors here mean nothing.
			s.ch.Write(c.Stdin)
			s.ch.CloseWrite()
		}
	}
	select {
	case err := <-s.tasks.write(s.ch, line, feed):
		if err != nil {
			return Result{}, false, fmt.Errorf("%w: %w", errNotSent, err)
		}
	case <-ctx.Done():
		return Result{}, false, outcomeUnknown(ctx)
	}
	late := time.AfterFunc(startDeadline, func() { s.ch.Close() })
	defer late.Stop()
	s.out.onBegin = func() { late.Stop() }

	var errs section
	errDone := make(chan struct{})
	go func() {
		defer close(errDone)
		errs = s.err.next(mark, MaxOutput)
		if !errs.ended {
			s.abandon(ctx, errs)
		}
	}()
	out := s.out.next(mark, MaxOutput)
	if !out.ended {
		s.abandon(ctx, out)
	}
	<-errDone

	res = Result{Stdout: out.body, Stderr: errs.body}
	switch {
	case out.tooLong || errs.tooLong:
		return Result{}, false, fmt.Errorf("%w (whether the command went on is unknown)", &OutputTooLongError{Limit: MaxOutput})
	case out.ended && errs.ended:
		if out.status == "n" {
			return Result{}, s.loops, errNoBase64
		}
		status, err := strconv.Atoi(out.status)
		if err != nil {
			return Result{}, false, fmt.Errorf("%w: the shell answered %q", ErrOutcomeUnknown, out.status)
		}
		return res, s.loops, exitError(status, errs.body)
	case ctx.Err() != nil:
		return Result{}, false, outcomeUnknown(ctx)
	}
	select {
	case <-s.ch.Done():
	default:
		return Result{}, false, fmt.Errorf("%w: the shell did not answer in %v", ErrOutcomeUnknown, startDeadline)
	}
	end := s.ch.End()
	switch {
	case end.lost != nil:
		return Result{}, false, end.err(nil)
	case !out.began && !errs.began:
		return Result{}, false, neverBegan(end, append(out.body, errs.body...))
	}
	return Result{}, false, fmt.Errorf("%w: its shell ended with status %d before it did", ErrOutcomeUnknown, end.status)
}

// abandon deals with a stream that had no end mark. One that is too long ends
// the channel. One that just stopped means that the shell is ending, and how it
// ends is waited for; the channel is not closed then, since the other stream
// may still hold what tells whether the command began.
func (s *shell) abandon(ctx context.Context, sec section) {
	if sec.tooLong {
		s.ch.Close()
		return
	}
	late := time.NewTimer(startDeadline)
	defer late.Stop()
	select {
	case <-s.ch.Done():
	case <-ctx.Done(): // and that closes the channel
	case <-late.C:
		s.ch.Close()
	}
}

// errNoBase64: the host cannot decode input in a line; nothing was run.
var errNoBase64 = errors.New("no base64 on the host")

// sections cuts one output stream of a shell at marks.
type sections struct {
	r       io.Reader
	buf     []byte // read and not yet used
	onBegin func() // called at the first mark, if set
}

// A section is what one command printed on one stream.
type section struct {
	began, ended, tooLong bool
	body                  []byte // between the marks; what came instead of a first mark, cut, if not began
	status                string // the word behind the last mark
}

// next reads to the end mark, or as far as the stream goes. Before the first
// mark anything may come: what rc files print, or a child of an earlier
// command that still holds the stream.
func (s *sections) next(mark string, limit int64) section {
	var sec section
	begin, end := []byte("\n"+mark+" b\n"), []byte("\n"+mark+" e ")
	from := 0 // nothing starts before here
	for {
		if !sec.began {
			if i := bytes.Index(s.buf[from:], begin); i >= 0 {
				sec.began = true
				if s.onBegin != nil {
					s.onBegin()
				}
				s.buf = s.buf[from+i+len(begin)-1:] // its newline may begin the end mark's
				from = 0
			} else {
				from = max(0, len(s.buf)-len(begin))
				if from > maxNoise {
					s.buf = append([]byte(nil), s.buf[from:]...)
					from = 0
				}
			}
		}
		if sec.began {
			if i := bytes.Index(s.buf[from:], end); i >= 0 {
				at := from + i
				if j := bytes.IndexByte(s.buf[at+len(end):], '\n'); j >= 0 {
					sec.ended = true
					sec.status = string(s.buf[at+len(end) : at+len(end)+j])
					if at > 0 {
						sec.body = bytes.Clone(s.buf[1:at])
					}
					s.buf = bytes.Clone(s.buf[at+len(end)+j+1:])
					sec.tooLong = int64(len(sec.body)) > limit
					return sec
				}
				from = at
			} else {
				from = max(0, len(s.buf)-len(end))
			}
			if int64(len(s.buf)) > limit+int64(len(end))+16 {
				sec.tooLong = true
				return sec
			}
		}
		if err := s.fill(); err != nil {
			if sec.began {
				sec.body = s.buf[1:]
			} else {
				sec.body = lastBytes(s.buf, 4096)
			}
			s.buf = nil
			return sec
		}
	}
}

// maxNoise bounds what is kept of the output before a mark.
const maxNoise = 64 << 10

func (s *sections) fill() error {
	if cap(s.buf)-len(s.buf) < 4096 {
		s.buf = append(make([]byte, 0, 2*cap(s.buf)+8192), s.buf...)
	}
	n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
