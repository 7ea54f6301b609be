package conversation

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A core is what all parts of a machine share. It calls no part.
type core struct {
	in   PumpInput
	opt  Options
	lim  Limits
	sink Sink
	log  *slog.Logger

	st   PumpState
	size int64 // of the journal when the wire was attached
	out  [][]byte
	err  error // of the sink, or of encoding

	now      time.Duration
	lastLine time.Duration
	caught   bool // everything up to size was read
	canceled bool

	line    wire.Line
	perLine int // entries made for the current line

	reason  PumpReason // why to return before the turn's end
	problem *protocol.Problem
}

func newCore(in PumpInput, sink Sink, opt Options, size int64) *core {
	c := &core{in: in, opt: opt, lim: in.Limits.orDefaults(), sink: sink, log: opt.Log, st: cloneState(in.State), size: size}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c
}

func cloneState(s PumpState) PumpState {
	s.Open = append([]OpenRequest(nil), s.Open...)
	s.Items = append([]OpenItem(nil), s.Items...)
	s.TokenAsks = append([]json.RawMessage(nil), s.TokenAsks...)
	s.Calls = append([]OpenCall(nil), s.Calls...)
	s.Agents = append([]AgentThread(nil), s.Agents...)
	if s.Rewind > s.Cursor.Offset {
		s.Rewind = s.Cursor.Offset
	}
	return s
}

func (c *core) at() time.Time { return time.UnixMilli(c.st.AtMS).UTC() }

func (c *core) write(o wire.Outgoing) {
	line, err := o.Encode()
	if err != nil {
		c.err = fmt.Errorf("encode %s: %w", o.Method, err)
		return
	}
	c.out = append(c.out, line)
}

// entry gives the sink an entry for the current line. The id comes from the line's offset,
// so the same journal gives the same ids.
func (c *core) entry(e protocol.Entry) {
	e.ID = "i" + strconv.Itoa(c.st.Cursor.Incarnation) + "." + strconv.FormatInt(c.line.Offset, 10)
	if c.perLine > 0 {
		e.ID += "-" + strconv.Itoa(c.perLine)
	}
	c.perLine++
	e.At = c.at()
	c.emit(e)
}

// ofThread marks an entry as one of a sub-agent, unless the thread is the session's own.
func (c *core) ofThread(e *protocol.Entry, thread string) {
	if thread = c.st.keyOf(thread, "").thread; thread != "" {
		setData(e, "thread", thread)
		e.Agent = c.st.agent(thread)
	}
}

func (c *core) note(n Note) {
	c.emit(protocol.Entry{ID: n.ID, At: n.At.UTC(), Turn: n.Turn, Type: n.Type, Text: n.Text, Data: n.Data})
}

func (c *core) emit(e protocol.Entry) {
	if c.err != nil {
		return
	}
	e.Seq = c.st.Seq + 1
	if thread := e.SubAgent(); e.Agent == nil && thread != "" && thread != c.st.ThreadID {
		e.Agent = c.st.agent(thread)
	}
	if err := c.sink.Entry(c.opt.Redactor.entry(e)); err != nil {
		c.err = fmt.Errorf("hand over transcript entry %d: %w", e.Seq, err)
		return
	}
	c.st.Seq = e.Seq
}

func (c *core) warn(text string) { c.warnOf("", text) }

// warnOf warns of what a thread reports.
func (c *core) warnOf(thread, text string) {
	e := protocol.Entry{Type: protocol.EntryState, Turn: c.st.Turn, Status: "warning", Text: text}
	c.ofThread(&e, thread)
	c.entry(e)
}

func (c *core) raw(method string, p json.RawMessage) {
	if raw, ok := c.sink.(RawSink); ok {
		raw.Raw(method, p)
	}
}

// cut redacts a text of codex's and then cuts it.
func (c *core) cut(s string, max int) string {
	return wire.Excerpt(c.redact(strings.ToValidUTF8(s, "\uFFFD")), max)
}

func (c *core) redact(s string) string { return c.opt.Redactor.String(s) }

func (c *core) giveUp(why PumpReason, p *protocol.Problem) {
	if c.reason == "" {
		c.reason, c.problem = why, c.opt.Redactor.problem(p)
	}
}

// tooBusy gives up after codex reported overload for Limits.Request. The refused messages
// had no effect.
func (c *core) tooBusy() {
	c.giveUp(Overloaded, problem(protocol.EndOverloaded, "codex answered for "+c.lim.Request.String()+" that it is overloaded"))
}
