package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
)

// ErrClosed is wrapped by every call that fails because the conversation is over.
var ErrClosed = errors.New("conversation closed")

// maxQueue bounds the bytes that wait for a slow handler; more end the conversation.
const maxQueue = 256 << 20

// ConnConfig holds optional handlers. They are called one at a time, in wire order, from a
// goroutine of the Conn; they may call the Conn, but not Close it.
type ConnConfig struct {
	Notify func(method string, params json.RawMessage)
	// Ask may keep the Incoming and answer it an hour later, from any goroutine. Without
	// Ask every request is refused.
	Ask func(*Incoming)
	// Stray receives lines that are no message or are too long. A too long request was
	// already refused.
	Stray func(Line)
	// MaxLine is in bytes; 0 means DefaultMaxLine.
	MaxLine int
	Log     *slog.Logger
}

// A Conn is one end of a short conversation. It is safe for concurrent use. Sessions use
// conversation.Run.
type Conn struct {
	rw  io.ReadWriteCloser
	cfg ConnConfig

	lines  chan []byte
	gone   chan struct{}
	joined sync.WaitGroup

	mu      sync.Mutex
	cond    *sync.Cond // signals that the queue grew or the conversation ended
	cause   error      // why it ended; nil while it lives
	next    int64
	pending map[string]chan *Message
	queue   []queued
	queued  int
}

type queued struct {
	line Line
	msg  *Message
}

// NewConn begins a conversation over rw, which it owns.
func NewConn(rw io.ReadWriteCloser, cfg ConnConfig) *Conn {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{
		rw: rw, cfg: cfg,
		lines:   make(chan []byte),
		gone:    make(chan struct{}),
		pending: map[string]chan *Message{},
	}
	c.cond = sync.NewCond(&c.mu)
	c.joined.Go(c.read)
	c.joined.Go(c.write)
	c.joined.Go(c.dispatch)
	return c
}

// Call sends a request and waits for the answer. result may be nil. An error answer is an
// *RPCError. A cancelled call returns at once with the context's cause; it is then unknown
// whether the peer acts on the request.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	if params == nil {
		params = struct{}{} // codex requires params
	}
	answer := make(chan *Message, 1)
	c.mu.Lock()
	if c.cause != nil {
		defer c.mu.Unlock()
		return fmt.Errorf("call %s: %w", method, c.cause)
	}
	c.next++
	id := c.next
	key := strconv.FormatInt(id, 10)
	c.pending[key] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, key)
		c.mu.Unlock()
	}()
	if err := c.send(ctx, Outgoing{ID: id, Method: method, Params: params}); err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	var m *Message
	select {
	case m = <-answer:
	case <-ctx.Done():
		return fmt.Errorf("call %s: %w", method, context.Cause(ctx))
	case <-c.gone:
		select {
		case m = <-answer: // the answer came just before the end
		default:
			return fmt.Errorf("call %s: %w", method, c.Err())
		}
	}
	if m.Error != nil {
		return fmt.Errorf("call %s: %w", method, m.Error)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("call %s: read the answer: %w", method, err)
	}
	return nil
}

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	if err := c.send(ctx, Outgoing{Method: method, Params: params}); err != nil {
		return fmt.Errorf("notify %s: %w", method, err)
	}
	return nil
}

// Done is closed when the conversation is over.
func (c *Conn) Done() <-chan struct{} { return c.gone }

// Err returns why the conversation ended, wrapping ErrClosed, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Close ends the conversation and waits for the Conn's goroutines.
func (c *Conn) Close() error {
	err := c.end(ErrClosed)
	c.joined.Wait()
	return err
}

func (c *Conn) end(why error) error {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return nil
	}
	c.cause = why
	close(c.gone)
	c.cond.Broadcast()
	c.mu.Unlock()
	return c.rw.Close()
}

func (c *Conn) send(ctx context.Context, o Outgoing) error {
	line, err := o.Encode()
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	select {
	case c.lines <- line:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.gone:
		return c.Err()
	}
}

func (c *Conn) write() {
	for {
		select {
		case line := <-c.lines:
			if _, err := c.rw.Write(line); err != nil {
				c.fail("write", err)
				return
			}
		case <-c.gone:
			return
		}
	}
}

func (c *Conn) fail(doing string, err error) {
	if errors.Is(err, io.EOF) {
		_ = c.end(fmt.Errorf("%w: the peer ended it", ErrClosed)) // closing a dead stream
		return
	}
	_ = c.end(fmt.Errorf("%w: %s: %w", ErrClosed, doing, err)) // closing a dead stream
}

// read runs none of the caller's code, so a handler that calls back cannot block it.
func (c *Conn) read() {
	s := NewScanner(c.rw, 0, c.cfg.MaxLine)
	for {
		l, err := s.Next()
		if err != nil {
			c.fail("read", err)
			return
		}
		if l.Blank() {
			continue
		}
		if l.Oversize {
			if l.Method == "" && l.ID != nil {
				c.answer(&Message{ID: l.ID, Error: &RPCError{Code: CodeInternal, Message: fmt.Sprintf("the answer is longer than %d bytes", s.split.max)}})
			}
			c.enqueue(queued{line: l})
			continue
		}
		m, err := Parse(l.Raw)
		switch {
		case err != nil:
			c.enqueue(queued{line: l})
		case m.IsResponse():
			c.answer(m)
		default:
			c.enqueue(queued{line: l, msg: m})
		}
	}
}

func (c *Conn) answer(m *Message) {
	key := IDKey(m.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch, ok := c.pending[key]; ok {
		delete(c.pending, key)
		ch <- m
		return
	}
	c.cfg.Log.Debug("answer that nobody waits for", "id", key)
}

func (c *Conn) enqueue(q queued) {
	c.mu.Lock()
	c.queue = append(c.queue, q)
	c.queued += len(q.line.Raw)
	full := c.queued > maxQueue
	c.cond.Signal()
	c.mu.Unlock()
	if full {
		_ = c.end(fmt.Errorf("%w: more than %d bytes wait for the handler", ErrClosed, maxQueue)) // closing may fail
	}
}

// dispatch runs the handlers. Messages that were read before the end are still delivered,
// unless Close caused it.
func (c *Conn) dispatch() {
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && c.cause == nil {
			c.cond.Wait()
		}
		if len(c.queue) == 0 || c.cause == ErrClosed {
			c.mu.Unlock()
			return
		}
		q := c.queue[0]
		c.queue = c.queue[1:]
		c.queued -= len(q.line.Raw)
		c.mu.Unlock()
		c.deliver(q)
	}
}

func (c *Conn) deliver(q queued) {
	switch {
	case q.msg == nil:
		if q.line.Oversize && q.line.Method != "" && q.line.ID != nil {
			in := &Incoming{ID: q.line.ID, Method: q.line.Method, conn: c}
			in.note(in.Refuse(CodeInvalidRequest, "the request is too long for this client"))
		}
		if c.cfg.Stray != nil {
			c.cfg.Stray(q.line)
		}
	case q.msg.IsRequest():
		in := &Incoming{ID: q.msg.ID, Method: q.msg.Method, Params: q.msg.Params, conn: c}
		if c.cfg.Ask == nil {
			in.note(in.Refuse(CodeNoMethod, "this client answers no requests"))
			return
		}
		c.cfg.Ask(in)
	case c.cfg.Notify != nil:
		c.cfg.Notify(q.msg.Method, q.msg.Params)
	}
}

// An Incoming is a request from the peer. Reply or Refuse answers it, from any goroutine;
// later answers fail with ErrAnswered.
type Incoming struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage

	conn *Conn
	once sync.Once
}

// ErrAnswered is returned for a second answer.
var ErrAnswered = errors.New("request is answered already")

// Reply answers with a result.
func (in *Incoming) Reply(result any) error {
	if result == nil {
		result = struct{}{}
	}
	return in.answer(Outgoing{ID: in.ID, Result: result})
}

// Refuse answers with an error.
func (in *Incoming) Refuse(code int64, text string) error {
	return in.answer(Outgoing{ID: in.ID, Error: &RPCError{Code: code, Message: text}})
}

func (in *Incoming) answer(o Outgoing) error {
	err := ErrAnswered
	in.once.Do(func() { err = in.conn.send(context.Background(), o) }) // ends with the conversation
	if err != nil {
		return fmt.Errorf("answer %s: %w", in.Method, err)
	}
	return nil
}

func (in *Incoming) note(err error) {
	if err != nil {
		in.conn.cfg.Log.Debug("could not refuse a request", "method", in.Method, "error", err)
	}
}
