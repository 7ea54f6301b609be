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

// Run's error wraps ErrWireLost when the wire broke. The state of the process is then
// unknown. The caller attaches again and runs the same input with the next Attempt.
var ErrWireLost = errors.New("the wire to codex is lost")

// A Wire is an attachment to a journaled process, at PumpInput.From.
type Wire interface {
	// Read returns the journal's bytes and blocks for more. It returns io.EOF only when
	// the process has ended and everything was read; any other error means that the
	// wire is lost. Write passes bytes to the process. Close makes both return.
	io.ReadWriteCloser
	// Size is the journal's length when the attachment began.
	Size() int64
}

// A RawSink also receives the notifications that the pump does not understand.
type RawSink interface {
	Raw(method string, params json.RawMessage)
}

// Options of Run. The zero value is a first attempt with nothing to hide.
type Options struct {
	// Attempt counts from 1 how often this input is run. From the second attempt on, any
	// line may have been written already, so the pump first finds out which were.
	Attempt int
	// Nonce makes the ids of barriers differ between attempts. If it is empty, the
	// attempt number is used.
	Nonce string
	// Since is how long before this attempt the input was first due to run. The turn's time
	// counts from that moment (see deadlines.go).
	Since time.Duration
	// Client introduces us to codex; DefaultClient if its name is empty.
	Client wire.ClientInfo
	// AnyVersion accepts any version of codex.
	AnyVersion bool
	// Redactor knows the secrets that must not be stored or shown. It is applied to all
	// texts that reach the sink and the result; digests are computed before redaction.
	Redactor *Redactor
	// Before, if set, is called from the pump's goroutine before each line that may contain
	// command output or model text is folded. Secrets that the Redactor learns during the
	// call are removed from that line. end is the offset just past the line; piece says
	// that the line is one of many pieces of a streaming text.
	Before func(end int64, piece bool)
	// Settled, if set, is called from the pump's goroutine as soon as a send is
	// settled; the workflow learns of it from the result. A second attempt calls it
	// again.
	Settled func(protocol.Delivery)
	// Moved, if set, is called from the pump's goroutine after every line with the
	// pump's place.
	Moved func(Place)
	// Used, if set, is called from the pump's goroutine when tokens were used or rate
	// limits changed. A second attempt calls it again.
	Used func(Use)
	// Broker, if set, supplies the access tokens that codex is logged in with: after
	// each start of the process, and whenever codex asks for a newer one.
	Broker Broker
	// Judge applies the policy that PumpInput.Policy names to a request. It must be a
	// pure function, because it is asked again after a pump that returned no result. If
	// it is nil, every request is declined.
	Judge func(Asked) Verdict
	// Tool, if set, carries out calls of our tools that need more than an answer.
	Tool Tooler
	// Over says that the process had ended when the wire was attached. Then the pump writes
	// and decides nothing before it has read the journal to the end, because a request that
	// is open in the journal can no longer be answered.
	Over bool
	// Exit returns how the process ended and the tail of its standard error. It is
	// called once, when the wire reports that the process has ended.
	Exit func() (how, tail string)
	// Fresh, if set, is called for each notification that codex sent while the pump was
	// attached, with the time by the clock of codex's host.
	Fresh func(emitted time.Time)
	// Lost, if set, is called last when the wire is lost, with all that the pump knew at
	// that moment. The caller needs this if nobody can ever attach again.
	Lost func(Lost)
	// Zone, if set, returns the time zone of codex's host, or nil if nobody can find it
	// out. It is called when codex gives the end of a limit as a time of day; nothing else
	// depends on it.
	Zone func() *time.Location
	// Now is the clock for deadlines and for codex's requests for the time; nil means
	// time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// A Place is how far a pump has got.
type Place struct {
	ThreadID, TurnID string
	Offset           int64 // next byte of the journal to be folded
	Seq              int64 // of the newest entry
	Progress         *protocol.Progress
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
	// writeGrace is how long the remaining lines may take to be written when the pump
	// returns.
	writeGrace = 2 * time.Second
	// verdictGrace is how long the driver waits after a failed write for the reader to find
	// out whether the process ended or the wire is lost.
	verdictGrace = 10 * time.Second
	// catchUpGrace is how long a cancelled pump may take to read the journal up to the
	// length at the pump's start.
	catchUpGrace = 10 * time.Second
)

// Run attaches to a conversation, sends the messages that are due, folds codex's lines into
// the sink, and returns when the workflow is needed. PumpReason says why. When it returns,
// the wire is closed and all its goroutines have ended.
//
// If ctx is cancelled, Run folds the lines that have arrived and returns a normal result.
// If one of these lines ended the turn, the result says so. After an error nothing counts:
// the caller runs the same input again, on a new wire and with the next Attempt. The sink
// then gets the earlier entries again, with the same ids and numbers.
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

// A driver runs a machine on a wire: one goroutine reads and one writes. The
// caller's goroutine owns the machine.
type driver struct {
	m      *machine
	wire   Wire
	begun  time.Time
	events chan event
	write  chan []byte
	failed chan error // results of the writer
	stop   chan struct{}
	joined sync.WaitGroup

	tokens chan tokenAnswered
	broker func(tokenWant) // asks for a token; the answer comes on tokens

	replied chan toolReplied
	tool    func(OpenCall) // carries out a call; the reply comes on replied

	queue [][]byte // lines for the writer
	busy  bool     // the writer is writing a line
	spoke bool
}

// An event comes from the reader: a line, the end of the backlog, or an error.
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
	var deaf <-chan time.Time  // set when a write has failed: ends the wait for the reader
	var stuck <-chan time.Time // set when the pump is cancelled: ends the wait for the backlog
	timer := time.NewTimer(0)
	defer timer.Stop()
	for m.result == nil {
		if m.err != nil {
			return m.err
		}
		d.collect()

		// Events that have arrived go first. So a turn that has ended is reported as ended,
		// even if the workflow cancels the pump at the same moment.
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
			return fmt.Errorf("%w: writing fails, and reading does not end", ErrWireLost)
		case <-canceled:
			canceled = nil
			stuck = time.After(catchUpGrace)
			m.cancel(d.now())
		case <-stuck:
			return fmt.Errorf("%w: the journal could not be read up to its length", ErrWireLost)
		case <-timer.C:
			m.tick(d.now())
		}
	}
	return m.err
}

// collect takes the lines for codex from the machine, and its questions to the broker and
// the tools. It writes a newline before the first line: if an earlier writer left a line
// incomplete, the first line must not become a part of it.
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

// flush writes the remaining lines, most of which are refusals. A failure does not matter
// if the process or the turn of the lines has ended.
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
			why = errors.New("the process does not take what is written")
		}
	}
	if why != nil && m.result.Reason != TurnEnded {
		return fmt.Errorf("%w: %w", ErrWireLost, why)
	}
	return nil
}
