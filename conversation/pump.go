package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// ErrWireLost says that the wire broke and the state of the process is unknown. The caller
// attaches again and runs the same input with the next Attempt.
var ErrWireLost = errors.New("the wire to codex is lost")

// A Wire is an attachment to a journaled process, at PumpInput.From.
type Wire interface {
	// Read returns io.EOF only when the process has ended and everything was read; any
	// other error means that the wire is lost. Close makes Read and Write return.
	io.ReadWriteCloser
	// Size is the journal's length when the attachment began.
	Size() int64
}

// A RawSink also receives notifications that the pump does not understand.
type RawSink interface {
	Raw(method string, params json.RawMessage)
}

// Options of Run. The zero value is a first attempt with nothing to hide.
type Options struct {
	// Attempt counts from 1 how often this input is run. From 2 on, any line may have been
	// written already, so the pump first finds out which were.
	Attempt int
	// Nonce tells the barriers of attempts apart; empty means the attempt number.
	Nonce string
	// Since is how long before this attempt the input was first due to run.
	Since time.Duration
	// Serves says that codex reaches its model through the caller, so that it could not while
	// no attempt was attached.
	Serves bool
	// Client is DefaultClient if its name is empty.
	Client     wire.ClientInfo
	AnyVersion bool
	// Redactor is applied to all texts that reach the sink and the result.
	Redactor *Redactor
	// Before, if set, is called from the pump's goroutine before each line that may contain
	// command output or model text is folded. Secrets that the Redactor learns during the
	// call are removed from that line. end is the offset past the line; piece says that the
	// line is one piece of a streamed text.
	Before func(end int64, piece bool)
	// Settled, if set, is called from the pump's goroutine for each settled send, again by
	// a second attempt.
	Settled func(protocol.Delivery)
	// Moved, if set, is called from the pump's goroutine after every line.
	Moved func(Place)
	// Used, if set, is called from the pump's goroutine when use or rate limits changed,
	// again by a second attempt.
	Used func(Use)
	// Broker, if set, supplies codex's access tokens.
	Broker Broker
	// Judge applies the policy that PumpInput.Policy names. It must give the same verdict in
	// every attempt, because a pump that returned no result is repeated. If it is nil, every
	// request is declined.
	Judge func(Asked) Verdict
	// Tool, if set, carries out calls of our tools that need more than an answer.
	Tool Tooler
	// Over says that the process had ended when the wire was attached. The pump then writes
	// and decides nothing before it has read the whole journal, because open requests can
	// no longer be answered.
	Over bool
	// Exit returns how the process ended and the tail of its standard error. It is called
	// once.
	Exit func() (how, tail string)
	// Fresh, if set, is called for each notification that codex sent while the pump was
	// attached, with the time by the host's clock.
	Fresh func(emitted time.Time)
	// Lost, if set, is called last when the wire is lost. The caller needs it if nobody can
	// ever attach again.
	Lost func(Lost)
	// Zone, if set, returns the time zone of codex's host, or nil if unknown. It is called
	// only when a limit ends at a time of day.
	Zone func() *time.Location
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// A Place is how far a pump has got.
type Place struct {
	ThreadID, TurnID string
	Offset           int64 // next byte of the journal to be folded
	Seq              int64 // of the newest entry
	Progress         *protocol.Progress
	Notices          *protocol.Notices
}

// Use shows how much a session has used so far.
type Use struct {
	Usage, TurnUsage protocol.Usage
	Context          *protocol.ContextUse
	RateLimits       *protocol.RateLimits
}

func (o Options) clock() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

func (o Options) nonce() string {
	n := o.Nonce
	if n == "" {
		n = fmt.Sprint("a", max(o.Attempt, 1))
	}
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' {
			return '_'
		}
		return r
	}, n)
}

const (
	// writeGrace bounds the writing of the remaining lines.
	writeGrace = 2 * time.Second
	// verdictGrace is how long the reader may take, after a failed write, to find out
	// whether the process ended or the wire is lost.
	verdictGrace = 10 * time.Second
	// catchUpGrace is how long a cancelled pump may take to read the backlog.
	catchUpGrace = 10 * time.Second
)

// Run attaches to a conversation, sends the messages that are due, folds codex's lines into
// the sink, and returns when the workflow is needed. When it returns, the wire is closed
// and all its goroutines have ended.
//
// If ctx is cancelled, Run folds the lines that have arrived and returns a normal result.
// After an error nothing counts: the caller runs the same input again, on a new wire and
// with the next Attempt. The sink then gets the earlier entries again, with the same ids
// and numbers.
func Run(ctx context.Context, w Wire, in PumpInput, sink Sink, opt Options) (PumpResult, error) {
	m, err := newMachine(in, sink, opt, w.Size())
	if err != nil {
		return PumpResult{}, errors.Join(err, w.Close())
	}
	d := &driver{
		m: m, wire: w, begun: time.Now(),
		events:  make(chan event, 4),
		write:   make(chan []byte),
		failed:  make(chan error, 1),
		stop:    make(chan struct{}),
		tokens:  make(chan tokenAnswered),
		replied: make(chan toolReplied),
	}
	brokering, noMore := context.WithCancel(context.WithoutCancel(ctx))
	defer noMore()
	d.broker = func(w tokenWant) {
		d.joined.Go(func() {
			token, err := opt.Broker(brokering, w.ask)
			select {
			case d.tokens <- tokenAnswered{w.key, token, err}:
			case <-d.stop:
			}
		})
	}
	d.tool = func(c OpenCall) {
		d.joined.Go(func() {
			reply, err := opt.Tool(brokering, c.ToolCall)
			select {
			case d.replied <- toolReplied{wire.IDKey(c.RPC), reply, err}:
			case <-d.stop:
			}
		})
	}
	split := wire.NewSplitter(in.From(), m.lim.Line) // the machine belongs to the caller's goroutine
	d.joined.Go(func() { d.reader(split) })
	d.joined.Go(d.writer)
	err = d.loop(ctx)
	if err == nil {
		err = d.flush()
	}
	close(d.stop)
	noMore()
	closeErr := w.Close()
	d.joined.Wait()
	if err != nil {
		if opt.Lost != nil && errors.Is(err, ErrWireLost) && m.err == nil {
			opt.Lost(m.lost())
		}
		return PumpResult{}, fmt.Errorf("pump of session %q: %w", in.Session, err)
	}
	if closeErr != nil {
		m.log.Debug("closing the wire", "error", closeErr)
	}
	return *m.result, nil
}

// A driver runs a machine on a wire. The caller's goroutine owns the machine.
type driver struct {
	m      *machine
	wire   Wire
	begun  time.Time
	events chan event
	write  chan []byte
	failed chan error
	stop   chan struct{}
	joined sync.WaitGroup

	tokens chan tokenAnswered
	broker func(tokenWant) // the answer comes on tokens

	replied chan toolReplied
	tool    func(OpenCall) // the reply comes on replied

	queue [][]byte
	busy  bool
	spoke bool
}

// An event is a line, the end of the backlog, or an error.
type event struct {
	line   wire.Line
	caught bool
	err    error
}

func (d *driver) reader(split wire.Splitter) {
	size := d.wire.Size()
	behind := split.Pos < size
	buf := make([]byte, 64<<10)
	for {
		n, err := d.wire.Read(buf)
		ok := true
		split.Feed(buf[:n], func(l wire.Line) { ok = ok && d.tell(event{line: l}) })
		if ok && behind && split.Pos >= size {
			behind = false
			ok = d.tell(event{caught: true})
		}
		if err != nil {
			d.tell(event{err: err})
			return
		}
		if !ok {
			return
		}
	}
}

func (d *driver) tell(e event) bool {
	select {
	case d.events <- e:
		return true
	case <-d.stop:
		return false
	}
}

func (d *driver) writer() {
	for {
		select {
		case line := <-d.write:
			_, err := d.wire.Write(line)
			d.failed <- err // has room for the write in progress
			if err != nil {
				return
			}
		case <-d.stop:
			return
		}
	}
}

func (d *driver) now() time.Duration { return time.Since(d.begun) }

func (d *driver) loop(ctx context.Context) error {
	m := d.m
	m.atStart()
	canceled := ctx.Done()
	var deaf <-chan time.Time  // after a failed write: ends the wait for the reader
	var stuck <-chan time.Time // after a cancellation: ends the wait for the backlog
	timer := time.NewTimer(0)
	defer timer.Stop()
	for m.result == nil {
		if m.err != nil {
			return m.err
		}
		d.collect()

		// A turn that has ended is reported as ended, even if the workflow cancels the pump
		// at the same moment.
		select {
		case e := <-d.events:
			if err := d.take(e); err != nil {
				return err
			}
			continue
		default:
		}
		if now := d.now(); now >= m.wake() && m.caught {
			m.tick(now)
			if m.result != nil || m.err != nil || len(m.out) > 0 {
				continue
			}
		}
		timer.Reset(max(m.wake()-d.now(), time.Millisecond))
		var out chan []byte
		var next []byte
		if len(d.queue) > 0 && !d.busy && deaf == nil {
			out, next = d.write, d.queue[0]
		}
		select {
		case e := <-d.events:
			if err := d.take(e); err != nil {
				return err
			}
		case out <- next:
			d.queue, d.busy = d.queue[1:], true
		case a := <-d.tokens:
			m.brokered(a, d.now())
		case r := <-d.replied:
			m.toolReplied(r, d.now())
		case err := <-d.failed:
			d.busy = false
			if err != nil {
				m.log.Debug("write to the process", "error", err)
				deaf = time.After(verdictGrace)
			}
		case <-deaf:
			return fmt.Errorf("%w: a write to codex failed, and the journal reader did not report an end in time", ErrWireLost)
		case <-canceled:
			canceled = nil
			stuck = time.After(catchUpGrace)
			m.cancel(d.now())
		case <-stuck:
			return fmt.Errorf("%w: the pump was cancelled, and the journal could not be read to its end in time", ErrWireLost)
		case <-timer.C:
			m.tick(d.now())
		}
	}
	return m.err
}

// collect takes the lines and questions from the machine. A newline goes before the first
// line, because an earlier writer may have left a line incomplete.
func (d *driver) collect() {
	for _, line := range d.m.out {
		if !d.spoke {
			d.spoke = true
			line = append([]byte("\n"), line...)
		}
		d.queue = append(d.queue, line)
	}
	d.m.out = nil
	for _, w := range d.m.logins.wants {
		d.broker(w)
	}
	d.m.logins.wants = nil
	for _, c := range d.m.calls.due {
		d.tool(c)
	}
	d.m.calls.due = nil
}

func (d *driver) take(e event) error {
	switch {
	case e.caught:
		d.m.caughtUp(d.now())
	case e.err == nil:
		d.m.read(e.line, d.now())
	case errors.Is(e.err, io.EOF):
		d.m.ended(d.now())
	default:
		return fmt.Errorf("%w: %w", ErrWireLost, e.err)
	}
	return d.m.err
}

// flush writes the remaining lines, mostly refusals. A failure does not matter if the
// process or the turn has ended.
func (d *driver) flush() error {
	m := d.m
	d.collect()
	if m.result.Reason == ProcessEnded {
		return nil
	}
	late := time.After(writeGrace)
	var why error
	for why == nil && (d.busy || len(d.queue) > 0) {
		var out chan []byte
		var next []byte
		if !d.busy {
			out, next = d.write, d.queue[0]
		}
		select {
		case out <- next:
			d.queue, d.busy = d.queue[1:], true
		case err := <-d.failed:
			d.busy = false
			why = err
		case <-late:
			why = errors.New("codex did not accept the last lines in time")
		}
	}
	if why != nil && m.result.Reason != TurnEnded {
		return fmt.Errorf("%w: %w", ErrWireLost, why)
	}
	return nil
}
