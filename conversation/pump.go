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
)

// ErrWireLost is wrapped by Run's error when the wire broke: nothing is known
// of the process then. The caller attaches anew and runs the same input again,
// with the next Attempt.
var ErrWireLost = errors.New("the wire to codex is lost")

// A Wire is an attachment to a journaled process, at PumpInput.From.
type Wire interface {
	// Read gives the journal's bytes and blocks for more. It returns io.EOF
	// only when the process has ended and everything was read; any other
	// error means that the wire is lost.
	// Write passes bytes to the process. Close makes both return.
	io.ReadWriteCloser
	// Size is the journal's length when the attachment began: what lies
	// below it happened before.
	Size() int64
}

// A RawSink also wants the notifications that the pump does not understand.
type RawSink interface {
	Raw(method string, params json.RawMessage)
}

// Options of Run. The zero value is a first attempt with nothing to hide.
type Options struct {
	// Attempt counts from 1 how often this input is run. From the second on
	// everything may have been written already, and is looked for first.
	Attempt int
	// Nonce makes the ids of barriers differ between attempts; empty means
	// the number of the attempt.
	Nonce string
	// Client introduces us to codex; DefaultClient if it has no name.
	Client ClientInfo
	// AnyVersion opens conversations with codex of any version.
	AnyVersion bool
	// Redactor knows the secrets that must not be stored or shown. It works
	// on all texts that reach the sink and the result; digests are over what
	// was there before.
	Redactor *Redactor
	// Before, if set, is called before a line is folded that may bring what
	// codex's commands printed or the model said, from the pump's goroutine: what
	// the Redactor is told by then is taken out of that line. end is the byte
	// behind the line; piece says that it is one of many of a text that streams.
	Before func(end int64, piece bool)
	// Settled, if set, hears at once what became of a send, from the pump's
	// goroutine; the result tells the workflow. A second attempt says it again.
	Settled func(Delivery)
	// Moved, if set, hears behind every line where the pump is, from its
	// goroutine.
	Moved func(Place)
	// Used, if set, hears at once of tokens that were used and of rate limits,
	// from the pump's goroutine. A second attempt says it again.
	Used func(Use)
	// Broker, if set, gives the access tokens that codex is logged in with:
	// after each start of the process, and whenever codex asks for a newer one.
	Broker Broker
	// Judge says what the policy that PumpInput.Policy names has to say of a
	// request. It must be a function of what it is given: it is asked again after
	// a pump that brought no result. Where it is missing all is declined.
	Judge func(Asked) Verdict
	// Tool, if set, carries out the calls of our tools that need more than an
	// answer.
	Tool Tooler
	// Over says that the process had ended when the wire was attached. Then
	// nothing is written or decided before its journal was read to the end: a
	// request that stands open in it is open no more.
	Over bool
	// Exit tells how the process ended and the tail of its standard error.
	// It is asked once, when the wire says that the process has ended.
	Exit func() (how, tail string)
	// Fresh, if set, hears of each notification that came while the pump was
	// attached when codex sent it, by the clock of codex's host.
	Fresh func(emitted time.Time)
	// Lost, if set, hears once the wire is lost, behind everything else, what was
	// known by then: for the case that nobody can ever attach again.
	Lost func(Lost)
	// Zone, if set, says which zone codex's host lives in; nil where that cannot
	// be found out. It is asked where codex tells the end of a limit by a time of
	// day, and nothing but that end depends on it.
	Zone func() *time.Location
	// Now answers codex when it asks for the time; nothing else depends on it.
	Now func() time.Time
	Log *slog.Logger
}

// A Place is how far a pump has come.
type Place struct {
	ThreadID, TurnID string
	Offset           int64 // next byte of the journal to be folded
	Seq              int64 // of the newest entry
	Progress         *Progress
}

// Use is what a session has used by now.
type Use struct {
	Usage, TurnUsage Usage
	Context          *Context
	RateLimits       *RateLimits
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
	// writeGrace is how long lines that are decided on may take to be written
	// when the pump returns.
	writeGrace = 2 * time.Second
	// verdictGrace is how long a failed write waits for the reading side to
	// say whether the process ended or the wire is lost.
	verdictGrace = 10 * time.Second
	// catchUpGrace is how long a cancelled pump may take to read what was in
	// the journal at its start.
	catchUpGrace = 10 * time.Second
)

// Run attaches to a conversation, sends what is due, folds what codex says into
// the sink, and returns when the workflow is needed; PumpReason says why. The
// wire is closed and nothing of Run runs any more when it returns.
//
// Cancelling ctx makes Run return a normal result, after the newest line that
// has arrived; if that line ended the turn, the result says so. An error means
// that nothing counts: the caller runs the same input again, on a new wire and
// with the next Attempt. The entries that the sink got already come again then,
// with the same ids and numbers.
func Run(ctx context.Context, wire Wire, in PumpInput, sink Sink, opt Options) (PumpResult, error) {
	m, err := newMachine(in, sink, opt, wire.Size())
	if err != nil {
		return PumpResult{}, errors.Join(err, wire.Close())
	}
	d := &driver{
		m: m, wire: wire, begun: time.Now(),
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
			case d.replied <- toolReplied{idKey(c.RPC), reply, err}:
			case <-d.stop:
			}
		})
	}
	split := newSplitter(in.From(), m.lim.Line) // the machine is the caller's alone
	d.joined.Go(func() { d.reader(split) })
	d.joined.Go(d.writer)
	err = d.loop(ctx)
	if err == nil {
		err = d.flush()
	}
	close(d.stop)
	noMore()
	closeErr := wire.Close()
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

// A driver runs a machine on a wire: one goroutine reads, one writes, and the
// caller's owns the machine.
type driver struct {
	m      *machine
	wire   Wire
	begun  time.Time
	events chan event
	write  chan []byte
	failed chan error // of the writer
	stop   chan struct{}
	joined sync.WaitGroup

	tokens chan tokenAnswered
	broker func(tokenWant) // asks for a token; the answer comes by tokens

	replied chan toolReplied
	tool    func(OpenCall) // carries one out; the reply comes by replied

	queue [][]byte // lines for the writer
	busy  bool     // the writer has one
	spoke bool
}

// An event is what the reader saw: a line, the end of the backlog, or the end.
type event struct {
	line   Line
	caught bool
	err    error
}

func (d *driver) reader(split splitter) {
	size := d.wire.Size()
	behind := split.pos < size
	buf := make([]byte, 64<<10)
	for {
		n, err := d.wire.Read(buf)
		ok := true
		split.feed(buf[:n], func(l Line) { ok = ok && d.tell(event{line: l}) })
		if ok && behind && split.pos >= size {
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
			d.failed <- err // has room for the one that is under way
			if err != nil {
				return
			}
		case <-d.stop:
			return
		}
	}
}

func (d *driver) now() time.Duration { return time.Since(d.begun) }

// loop runs the machine until it has a result.
func (d *driver) loop(ctx context.Context) error {
	m := d.m
	m.atStart()
	canceled := ctx.Done()
	var deaf <-chan time.Time  // a write failed: the reading side has until then
	var stuck <-chan time.Time // cancelled while behind
	timer := time.NewTimer(0)
	defer timer.Stop()
	for m.result == nil {
		if m.err != nil {
			return m.err
		}
		d.collect()

		// What has arrived goes first: a turn that has ended is ended, even
		// if the workflow wants the pump back at the same moment.
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

// collect takes the machine's lines and questions. The first is preceded by a newline, so
// that a torn line of a dead writer cannot swallow it.
func (d *driver) collect() {
	for _, line := range d.m.out {
		if !d.spoke {
			d.spoke = true
			line = append([]byte("\n"), line...)
		}
		d.queue = append(d.queue, line)
	}
	d.m.out = nil
	for _, w := range d.m.wants {
		d.broker(w)
	}
	d.m.wants = nil
	for _, c := range d.m.calls {
		d.tool(c)
	}
	d.m.calls = nil
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

// flush writes what is left, refusals above all. Where the process has ended,
// or the turn that they were for, it does not matter if that fails.
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
