package hostexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// A shell runs requests on a channel, one at a time, and delimits their output by marks.
type shell struct {
	ch       channel
	out, err sections
	loops    bool   // it serves many requests
	prefix   string // sent before the first request
	tasks    *tasks // of the host, for goroutines that may outlive a call
}

func newShell(ch channel, loops bool, t *tasks) *shell {
	s := &shell{ch: ch, out: sections{r: ch.Stdout()}, err: sections{r: ch.Stderr()}, loops: loops, tasks: t}
	if loops {
		s.prefix = loopLine // sent with the first request, without a round trip
	}
	return s
}

// run runs one command. Unless usable, the caller closes the shell. The error wraps
// errNotSent if the request provably never reached the shell.
func (s *shell) run(ctx context.Context, c Command) (res Result, usable bool, err error) {
	if err := ctx.Err(); err != nil {
		return Result{}, true, fmt.Errorf("%w: %w", errNotSent, context.Cause(ctx))
	}
	mark := script.NewMark()
	line := requestLine(mark, c)
	if !s.loops {
		line = onceLine(mark, c)
	}
	line, s.prefix = s.prefix+line, ""
	// This ends every read and write below.
	stop := context.AfterFunc(ctx, func() { s.ch.Close() })
	defer func() {
		if !stop() {
			usable = false
		}
	}()

	// A write may block until a dead peer is noticed.
	feed := func() {
		if !s.loops {
			// A command need not read its input.
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
			s.abandon(ctx, errs, s.err.noisy)
		}
	}()
	out := s.out.next(mark, MaxOutput)
	if !out.ended {
		s.abandon(ctx, out, s.out.noisy)
	}
	<-errDone

	res = Result{Stdout: out.body, Stderr: errs.body}
	switch {
	case out.tooLong || errs.tooLong:
		return Result{}, false, fmt.Errorf("%w (whether the command went on is unknown)", &FloodError{What: "a script's output", Limit: MaxOutput})
	case s.out.noisy || s.err.noisy:
		return Result{}, false, errNoisy()
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
	return Result{}, false, fmt.Errorf("%w: the shell ended with status %d before the command ended", ErrOutcomeUnknown, end.status)
}

// abandon handles a stream without an end mark. It closes the channel if the host sent too
// much. Otherwise the shell is ending, and abandon only waits, because the other stream may
// still show whether the command began.
func (s *shell) abandon(ctx context.Context, sec section, noisy bool) {
	if sec.tooLong || noisy {
		s.ch.Close()
		return
	}
	late := time.NewTimer(startDeadline)
	defer late.Stop()
	select {
	case <-s.ch.Done():
	case <-ctx.Done(): // also closes the channel
	case <-late.C:
		s.ch.Close()
	}
}

// errNoBase64 means that the host cannot decode an input. Nothing was run.
var errNoBase64 = errors.New("no base64 on the host")

type sections struct {
	r       io.Reader
	buf     []byte
	onBegin func() // called at the first mark
	noise   int64  // bytes dropped before the first mark of the present command
	noisy   bool   // noise is more than mostNoise
}

type section struct {
	began, ended, tooLong bool
	body                  []byte // output between the marks; without began, the last output read
	status                string // the word after the end mark
}

// next reads to the end mark, or to the end of the stream. It skips what precedes the first
// mark: output of rc files, or of an earlier command's child.
func (s *sections) next(mark string, limit int64) section {
	var sec section
	s.noise = 0
	begin, end := []byte("\n"+mark+" b\n"), []byte("\n"+mark+" e ")
	from := 0 // no mark begins before it
	for {
		if !sec.began {
			if i := bytes.Index(s.buf[from:], begin); i >= 0 {
				sec.began = true
				if s.onBegin != nil {
					s.onBegin()
				}
				s.buf = s.buf[from+i+len(begin)-1:] // its newline may also begin the end mark
				from = 0
			} else {
				from = max(0, len(s.buf)-len(begin))
				if from > maxNoise {
					s.buf = append([]byte(nil), s.buf[from:]...)
					s.noise += int64(from)
					from = 0
				}
				if s.noisy = s.noise > mostNoise; s.noisy {
					return sec
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
				sec.body = script.LastBytes(s.buf, 4096)
			}
			s.buf = nil
			return sec
		}
	}
}

const (
	// maxNoise is how much of a stream is kept while the mark is looked for.
	maxNoise = 64 << 10
	// mostNoise bounds what rc files, or children of earlier commands, print before the
	// mark of a command.
	mostNoise = 16 << 20
)

func errNoisy() error {
	return &FloodError{What: "the output of the login shell's start files", Limit: mostNoise}
}

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
