package hostexec

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// ErrJournalLost: the journal is gone, or shorter than the offset asked for, or
// was trimmed above it, or has no line there that begins where one did: somebody
// deleted, truncated or trimmed it.
var ErrJournalLost = errors.New("journal was lost")

const (
	defaultSilence = 2 * time.Minute
	// Some shells compare times by the second; with less than 12 s a client
	// that is there may look silent to them.
	minSilence = time.Second
)

// Attach attaches to a journaled process: one channel, one round trip.
//
// An attachment of the same or a lower epoch is cut off first, and it is
// certain that nothing of what it sent arrives from then on; a lower epoch
// than the host knows is a *FencedError. Attaching to a process that has ended
// is no error: Status says so, what is left of the journal can be read, and
// Write fails with ErrProcessGone. Where no process was started the error
// wraps ErrNotExist; a journal that ends before the offset, or was trimmed above
// it, is ErrJournalLost; AttachOptions.Lines sees more of what can be lost.
//
// The attachment lives as long as ctx, and until Close. A process that closed
// its input can only be followed.
func Attach(ctx context.Context, h Host, dir string, opts AttachOptions) (Attachment, error) {
	a, err := attach(ctx, h, dir, opts)
	if err != nil {
		return nil, fmt.Errorf("attach to process in %s on %s: %w", dir, h.Name(), err)
	}
	return a, nil
}

func attach(ctx context.Context, h Host, dir string, opts AttachOptions) (*attachment, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	if opts.Silence == 0 {
		opts.Silence = defaultSilence
	}
	switch {
	case opts.Offset < 0:
		return nil, fmt.Errorf("offset %d is negative", opts.Offset)
	case opts.Silence < minSilence:
		return nil, fmt.Errorf("silence of %v is shorter than %v", opts.Silence, minSilence)
	case opts.ErrLog && !opts.Follow:
		return nil, errors.New("err.log can only be followed")
	}
	open := func(offset int64, follow bool) (*wire, error) {
		return openWire(ctx, h, dir, opts, offset, follow)
	}
	check := func(at int64) error { return checkHole(ctx, h, dir, at, opts.ErrLog) }
	w, err := open(opts.Offset, opts.Follow)
	if err != nil {
		return nil, err
	}
	opts.Lines = false // to go on is to begin anywhere
	a := &attachment{
		opts: opts, open: open, check: check, first: w, wire: w, at: opts.Offset,
		size: w.journal(opts.ErrLog), status: w.status,
		fed: true, closed: make(chan struct{}),
	}
	// Six for each silence that the host bears, which looks four times: never
	// in step with it.
	a.joined.Go(func() { a.keepAlive(opts.Silence / 6) })
	return a, nil
}

// An attachment's Read runs beside its Write; neither beside itself.
type attachment struct {
	opts AttachOptions
	// open attaches anew at an offset.
	open func(offset int64, follow bool) (*wire, error)
	// check tells whether zeros that were read at an offset are a hole.
	check func(at int64) error
	// first carries what we write; wire is first or, at the very end, a
	// follower that fetches what first had no time to bring.
	first *wire
	size  int64

	wire   *wire // Read's
	at     int64 // Read's: the next byte of the journal
	final  error // Read's: what it says from now on
	closed chan struct{}
	joined sync.WaitGroup

	mu     sync.Mutex
	status ProcessStatus // guarded by mu
	later  *wire         // guarded by mu: to be closed too

	wmu sync.Mutex
	fed bool // guarded by wmu: what was written so far ends with a newline
}

func (a *attachment) Size() int64 { return a.size }

func (a *attachment) Status() ProcessStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

func (a *attachment) Read(p []byte) (int, error) {
	for a.final == nil {
		n, err := a.wire.out.Read(p)
		if !a.opts.Untrimmed && mayBeHole(p[:n], a.at) {
			if a.final = a.readError(a.check(a.at)); a.final != nil {
				break
			}
		}
		a.at += int64(n)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		switch {
		case err == nil:
		case err != io.EOF:
			a.final = a.readError(err)
		default:
			a.final = a.readError(a.endOfWire())
		}
	}
	return 0, a.final
}

// mayBeHole reports whether p, which lies at an offset, may have bytes of a hole
// that was punched before they were read: a hole ends between two blocks.
func mayBeHole(p []byte, at int64) bool {
	if n := len(p); n == 0 || p[n-1] == 0 {
		return n > 0
	}
	for end := trimBlock - at%trimBlock; end < int64(len(p)); end += trimBlock {
		if p[end-1] == 0 {
			return true
		}
	}
	return false
}

// checkHole finds out whether what was read last, at an offset, are the
// journal's own zeros. A trim is on record before it is done: what the record
// says now holds for then.
func checkHole(ctx context.Context, h Host, dir string, at int64, errLog bool) error {
	trimmed, err := trimmedTo(ctx, h, dir, errLog)
	if err == nil && at < trimmed {
		err = fmt.Errorf("%w: its first %d bytes were trimmed", ErrJournalLost, trimmed)
	}
	return err
}

// trimmedTo is the byte below which a journal may be a hole.
func trimmedTo(ctx context.Context, h Host, dir string, errLog bool) (int64, error) {
	st, err := inspect(ctx, h, Command{Script: inspectScript, Args: []string{dir}}, dir)
	switch {
	case err != nil:
		return 0, err
	case st.State == ProcessAbsent:
		return 0, fmt.Errorf("%w: it was removed", ErrJournalLost)
	case errLog:
		return st.ErrTrimmed, nil
	}
	return st.Trimmed, nil
}

func (a *attachment) readError(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return fmt.Errorf("read journal at byte %d: %w", a.at, err)
}

// endOfWire finds out why the stream ended. It returns nil when there is more
// to read on a new one, and io.EOF when the process ended and all was read.
func (a *attachment) endOfWire() error {
	ended := a.wire.end()
	if ended.status == nil {
		if !errors.Is(ended.err, ErrProcessGone) || a.wire != a.first {
			return ended.err
		}
		// Most likely the process is ending and the watcher came too early to
		// see it, or too late to tell. A follower knows what there was to say.
		if err := a.again(); err != nil {
			return err
		}
		if a.wire.status.State == ProcessRunning {
			return ended.err
		}
		return nil
	}
	if size := ended.status.journal(a.opts.ErrLog); a.at < size {
		if a.wire != a.first && a.wire.from == a.at {
			return fmt.Errorf("%w: the journal should have %d bytes", ErrJournalLost, size)
		}
		return a.again()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = *ended.status
	return io.EOF
}

func (a *attachment) again() error {
	w, err := a.open(a.at, true)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.later != nil {
		a.later.stream.Close()
	}
	a.later, a.wire = w, w
	select {
	case <-a.closed:
		w.stream.Close()
	default:
	}
	return nil
}

// Write passes p to the process's input. Success means that it is on its way,
// no more. While one goroutine writes another should read: a channel whose
// output nobody takes cannot come to its end.
func (a *attachment) Write(p []byte) (int, error) {
	if a.opts.Follow {
		return 0, errors.New("write to process: this attachment only follows")
	}
	a.wmu.Lock()
	defer a.wmu.Unlock()
	n, err := a.write(p)
	if err != nil {
		err = fmt.Errorf("write to process: %w", err)
	}
	return n, err
}

func (a *attachment) write(p []byte) (int, error) {
	if a.first.status.State != ProcessRunning {
		return 0, fmt.Errorf("%w: it is %s", ErrProcessGone, a.first.status.State)
	}
	n, err := a.first.stream.Write(p)
	if n > 0 {
		a.fed = p[n-1] == '\n'
	}
	if err == nil {
		return n, nil
	}
	select {
	case <-a.closed:
		return n, errors.New("attachment is closed")
	default:
	}
	ended := a.first.end()
	if ended.status != nil {
		return n, fmt.Errorf("%w: it is %s", ErrProcessGone, ended.status.State)
	}
	return n, ended.err
}

// keepAlive shows the host that we are there, with blank lines, but never in
// the middle of a line.
func (a *attachment) keepAlive(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-a.closed:
			return
		}
		a.wmu.Lock()
		if a.fed {
			// An error will be seen by whoever reads or writes.
			a.first.stream.Write([]byte("\n"))
		}
		a.wmu.Unlock()
	}
}

// Close gives the channel back. The host clears up by itself.
func (a *attachment) Close() error {
	a.mu.Lock()
	select {
	case <-a.closed:
		a.mu.Unlock()
		return nil
	default:
	}
	close(a.closed)
	err := a.first.stream.Close()
	if a.later != nil {
		a.later.stream.Close()
	}
	a.mu.Unlock()
	a.joined.Wait()
	return err
}

// A wire is one channel of an attachment.
type wire struct {
	stream Stream
	out    *bufio.Reader
	from   int64
	ours   Epoch
	status ProcessStatus // when it began
}

func openWire(ctx context.Context, h Host, dir string, opts AttachOptions, offset int64, follow bool) (*wire, error) {
	text, kind, file := attachScript, "see", "out.log"
	if opts.ErrLog {
		file = "err.log"
	}
	if !follow {
		if err := opts.Fence.check(); err != nil {
			return nil, err
		}
		// Not Command.Fence: the lock is held until the take-over is done,
		// not as long as the attachment lives.
		text, kind = fencePrologue(opts.Fence)+"\n"+text, "tie"
	}
	if g, ok := h.(gated); ok {
		leave, err := g.attaching().enter(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	lines := ""
	if opts.Lines {
		lines = "lines"
	}
	look := (opts.Silence / 4).Seconds()
	stream, err := h.Start(ctx, Command{Script: text, Args: []string{
		dir, strconv.FormatInt(offset+1, 10), file, kind, strconv.FormatFloat(look, 'f', -1, 64), lines,
	}})
	if err != nil {
		return nil, err
	}
	w := &wire{stream: stream, out: bufio.NewReaderSize(stream, 4096), from: offset, ours: opts.Fence.Epoch}
	line, err := w.out.ReadSlice('\n')
	if err == nil {
		w.status, err = parseStatus(string(line), "fairlead-process")
	} else if err == io.EOF {
		if err = processError(stream.Wait()); err == nil {
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, errGarbled)
		}
	}
	if err != nil {
		stream.Close()
		return nil, err
	}
	return w, nil
}

func (w *wire) journal(errLog bool) int64 { return w.status.journal(errLog) }

func (st ProcessStatus) journal(errLog bool) int64 {
	if errLog {
		return st.ErrSize
	}
	return st.Size
}

// A wireEnd is why a wire ended: the process's end, or err.
type wireEnd struct {
	status *ProcessStatus
	err    error
}

// end waits for the wire's end and reads what the watcher left on standard
// error: last words that are there only if it saw the end of the process.
func (w *wire) end() wireEnd {
	err := w.stream.Wait()
	for line := range bytes.Lines(w.stream.Stderr()) {
		line := string(bytes.TrimSpace(line))
		if st, err := parseStatus(line, "fairlead-end"); err == nil {
			return wireEnd{status: &st}
		}
		var e Epoch
		if n, _ := fmt.Sscanf(line, "fairlead-epoch %d %d %d", &e.Generation, &e.Pump, &e.Attempt); n == 3 && w.ours.Less(e) {
			return wireEnd{err: &FencedError{Ours: w.ours, Host: e}}
		}
	}
	var exit *ExitError
	switch {
	case !errors.As(err, &exit):
		if !errors.Is(err, ErrOutcomeUnknown) {
			err = fmt.Errorf("%w: the attachment ended: %w", ErrOutcomeUnknown, err)
		}
	case exit.Code == statusPipe || exit.Code == statusTold:
		err = fmt.Errorf("%w: it closed its input, or is ending", ErrProcessGone)
	case exit.Code == 128+1:
		err = fmt.Errorf("%w: the host heard nothing from us for too long", ErrOutcomeUnknown)
	case exit.Code == 128+9:
		err = fmt.Errorf("%w: the attachment was cut off", ErrOutcomeUnknown)
	default:
		err = fmt.Errorf("%w: the attachment ended: %w", ErrOutcomeUnknown, err)
	}
	return wireEnd{err: err}
}
