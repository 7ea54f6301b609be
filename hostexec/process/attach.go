package process

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

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// ErrJournalLost means that the journal is missing, ends before the offset, or was trimmed
// above it. With AttachOptions.Lines, it can also mean that no line begins at the offset.
var ErrJournalLost = errors.New("journal was lost")

const (
	defaultSilence = 2 * time.Minute
	// minSilence is the shortest Silence. Some shells compare times in whole seconds; below
	// 12 s they may take a live client for a silent one.
	minSilence = time.Second
)

// Attach attaches to a journaled process, in one round trip. It first cuts off an
// attachment of the same or a lower epoch, from which nothing can arrive afterwards. If the
// host knows a higher epoch, the error is a *FencedError. If no process was started, the
// error wraps ErrNotExist.
//
// Of a process that has ended, Status reports the end, the rest of the journal can be read,
// and Write fails with ErrProcessGone. A process that closed its input can only be
// followed. The attachment lives until ctx ends or Close is called.
func Attach(ctx context.Context, h hostexec.Host, dir string, opts AttachOptions) (Attachment, error) {
	a, err := attach(ctx, h, dir, opts)
	if err != nil {
		return nil, fmt.Errorf("attach to process in %s on %s: %w", dir, h.Name(), hostexec.SentBy(h, err))
	}
	return a, nil
}

func attach(ctx context.Context, h hostexec.Host, dir string, opts AttachOptions) (*attachment, error) {
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
	opts.Lines = false // later wires may begin within a line
	a := &attachment{
		opts: opts, open: open, check: check, first: w, wire: w, at: opts.Offset,
		size: w.journal(opts.ErrLog), status: w.status,
		fed: true, closed: make(chan struct{}),
	}
	// The host checks four times per Silence. Six lines make sure that each check finds a
	// new one.
	a.joined.Go(func() { a.keepAlive(opts.Silence / 6) })
	return a, nil
}

// An attachment allows one Read and one Write at a time.
type attachment struct {
	opts AttachOptions
	open func(offset int64, follow bool) (*wire, error)
	// check returns an error if zeros read at an offset are a hole.
	check func(at int64) error
	// first carries our input. Read uses wire: first, or near the end a follower that reads
	// what first did not deliver.
	first *wire
	size  int64

	wire   *wire // used by Read only
	at     int64 // used by Read only: the next byte
	final  error // used by Read only: its result from now on
	closed chan struct{}
	joined sync.WaitGroup

	mu     sync.Mutex
	status Status // guarded by mu
	later  *wire  // guarded by mu: another wire to close

	wmu sync.Mutex
	fed bool // guarded by wmu: the written data ends with a newline
}

func (a *attachment) Size() int64 { return a.size }

func (a *attachment) Status() Status {
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

// mayBeHole reports whether p, read at offset at, may contain bytes of a hole. A hole ends
// at a block boundary.
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

// checkHole returns ErrJournalLost if zeros at an offset may be a hole. A trim is recorded
// before it is done, so the record shows every hole that the read may have met.
func checkHole(ctx context.Context, h hostexec.Host, dir string, at int64, errLog bool) error {
	trimmed, err := trimmedTo(ctx, h, dir, errLog)
	if err == nil && at < trimmed {
		err = fmt.Errorf("%w: its first %d bytes were trimmed", ErrJournalLost, trimmed)
	}
	return err
}

// trimmedTo returns the offset below which a journal may have been freed.
func trimmedTo(ctx context.Context, h hostexec.Host, dir string, errLog bool) (int64, error) {
	st, err := inspect(ctx, h, hostexec.Command{Script: inspectScript, Args: []string{dir}}, dir)
	switch {
	case err != nil:
		return 0, err
	case st.State == Absent:
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

// endOfWire returns nil if reading goes on with a new stream, and io.EOF if the process
// ended and everything was read.
func (a *attachment) endOfWire() error {
	ended := a.wire.end()
	if ended.status == nil {
		if !errors.Is(ended.err, hostexec.ErrProcessGone) || a.wire != a.first {
			return ended.err
		}
		// The process is probably ending, and the host's watcher missed it. A follower gets
		// the final status.
		if err := a.again(); err != nil {
			return err
		}
		if a.wire.status.State == Running {
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

// Write passes p to the process's input. Success means only that p was sent. Another
// goroutine should read meanwhile: a channel cannot end while its output is not read.
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
	if a.first.status.State != Running {
		return 0, fmt.Errorf("%w: it is %s", hostexec.ErrProcessGone, a.first.status.State)
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
		return n, fmt.Errorf("%w: it is %s", hostexec.ErrProcessGone, ended.status.State)
	}
	return n, ended.err
}

// keepAlive sends blank lines between lines: signs of life for the host.
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
			// The next Read or Write reports an error.
			a.first.stream.Write([]byte("\n"))
		}
		a.wmu.Unlock()
	}
}

// Close closes the channel. The host's scripts then end by themselves.
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
	stream hostexec.Stream
	out    *bufio.Reader
	from   int64
	ours   hostexec.Epoch
	status Status // when the wire was opened
}

// maxStatus exceeds what our scripts print as the status of a process.
const maxStatus = 4096

// gated is a host that limits concurrent attaching.
type gated interface {
	EnterAttach(ctx context.Context) (leave func(), err error)
}

func openWire(ctx context.Context, h hostexec.Host, dir string, opts AttachOptions, offset int64, follow bool) (*wire, error) {
	text, kind, file := attachScript, "see", "out.log"
	if opts.ErrLog {
		file = "err.log"
	}
	if !follow {
		if err := opts.Fence.Check(); err != nil {
			return nil, err
		}
		// Command.Fence would hold the lock for the life of the attachment.
		text, kind = script.FenceBegin(opts.Fence.Dir, opts.Fence.Epoch.Generation, opts.Fence.Epoch.Pump, opts.Fence.Epoch.Attempt)+"\n"+text, "tie"
	}
	if g, ok := h.(gated); ok {
		leave, err := g.EnterAttach(ctx)
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
	stream, err := h.Start(ctx, hostexec.Command{Script: text, Args: []string{
		dir, strconv.FormatInt(offset+1, 10), file, kind, strconv.FormatFloat(look, 'f', -1, 64), lines,
	}})
	if err != nil {
		return nil, err
	}
	w := &wire{stream: stream, out: bufio.NewReaderSize(stream, 4096), from: offset, ours: opts.Fence.Epoch}
	line, err := hostexec.ReadLine(w.out, maxStatus, "the status of a process")
	if err == nil {
		w.status, err = parseStatus(line, "fairlead-process")
	} else if err == io.EOF {
		if err = processError(stream.Wait()); err == nil {
			err = fmt.Errorf("%w: %w", hostexec.ErrOutcomeUnknown, script.ErrGarbled)
		}
	}
	if err != nil {
		stream.Close()
		return nil, err
	}
	return w, nil
}

func (w *wire) journal(errLog bool) int64 { return w.status.journal(errLog) }

func (st Status) journal(errLog bool) int64 {
	if errLog {
		return st.ErrSize
	}
	return st.Size
}

// A wireEnd has a status if the process ended, otherwise err.
type wireEnd struct {
	status *Status
	err    error
}

// end waits for the wire's end. The last line on standard error tells whether the host saw
// the process's end or a higher epoch.
func (w *wire) end() wireEnd {
	err := w.stream.Wait()
	for line := range bytes.Lines(w.stream.Stderr()) {
		line := string(bytes.TrimSpace(line))
		if st, err := parseStatus(line, "fairlead-end"); err == nil {
			return wireEnd{status: &st}
		}
		var e hostexec.Epoch
		if n, _ := fmt.Sscanf(line, "fairlead-epoch %d %d %d", &e.Generation, &e.Pump, &e.Attempt); n == 3 && w.ours.Less(e) {
			return wireEnd{err: &hostexec.FencedError{Ours: w.ours, Host: e}}
		}
	}
	var exit *hostexec.ExitError
	switch {
	case errors.Is(err, hostexec.ErrFlood):
	case !errors.As(err, &exit):
		if !errors.Is(err, hostexec.ErrOutcomeUnknown) {
			err = fmt.Errorf("%w: the attachment ended: %w", hostexec.ErrOutcomeUnknown, err)
		}
	case exit.Code == statusPipe || exit.Code == statusTold:
		err = fmt.Errorf("%w: it closed its input, or is ending", hostexec.ErrProcessGone)
	case exit.Code == 128+1:
		err = fmt.Errorf("%w: the host heard nothing from us for too long", hostexec.ErrOutcomeUnknown)
	case exit.Code == 128+9:
		err = fmt.Errorf("%w: the attachment was cut off", hostexec.ErrOutcomeUnknown)
	default:
		err = fmt.Errorf("%w: the attachment ended: %w", hostexec.ErrOutcomeUnknown, err)
	}
	return wireEnd{err: err}
}
