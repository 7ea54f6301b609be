package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func (m *machine) read(l wire.Line, now time.Duration) {
	m.now, m.lastLine = now, now
	if m.result != nil || m.err != nil {
		return
	}
	if l.Offset < m.st.Cursor.Offset {
		m.refill(l)
	} else {
		m.apply(l)
	}
	if l.End >= m.size {
		m.upToDate()
	}
	m.step()
	if m.result == nil && m.err == nil && m.st.Cursor.Offset-m.in.State.Cursor.Offset > m.lim.Bytes {
		m.enough()
	}
	m.delivery.tellSettled()
	if m.opt.Moved != nil {
		m.opt.Moved(Place{m.st.ThreadID, m.st.TurnID, m.st.Cursor.Offset, m.st.Seq, m.st.Progress, m.st.Notices.Newest})
	}
}

// enough returns after Limits.Bytes. Every attempt stops at the same line, at which the
// next pump begins.
func (m *machine) enough() {
	if !m.opt.Over { // otherwise nobody takes the answers
		m.autos.flush()
	}
	if m.turns.end != nil {
		m.finish(TurnEnded)
		return
	}
	m.finish(Bound)
}

// refill reads a line between From and Cursor again, only for open file changes, open
// requests and unfinished texts.
func (m *machine) refill(l wire.Line) {
	if d, ok := m.pieces.Read(l.Raw); ok {
		m.items.keepAgain(d, l.Offset)
		return
	}
	if l.Oversize || l.Blank() {
		return
	}
	msg, err := wire.Parse(l.Raw)
	if err != nil {
		return
	}
	if msg.Clash != nil {
		return
	}
	if msg.IsRequest() {
		m.requests.demandAgain(msg, l.Offset)
		return
	}
	if msg.ID != nil {
		return
	}
	if d, ok := wire.SlowPiece(wire.PieceOf(msg.Method), msg.Params); ok && d.Of != "" {
		m.items.keepAgain(d, l.Offset)
		return
	}
	switch msg.Method {
	case "item/started":
		var n wire.ItemNotice
		if json.Unmarshal(msg.Params, &n) != nil || n.Item.Type != "fileChange" {
			return
		}
		m.items.changed(m.st.keyOf(n.ThreadID, n.Item.ID), n.Item.Changes)
	case "item/fileChange/patchUpdated":
		m.items.patchUpdated(msg.Params)
	}
}

// wordless notifications have no text that is kept, or only text that the item's end
// repeats.
var wordless = map[string]bool{
	"turn/started": true, "turn/diff/updated": true, "thread/started": true, "thread/status/changed": true,
	"thread/tokenUsage/updated": true, "account/rateLimits/updated": true, "serverRequest/resolved": true,
}

func (m *machine) textComes(piece bool) {
	if m.opt.Before != nil {
		m.opt.Before(m.line.End, piece)
	}
}

func (m *machine) apply(l wire.Line) {
	m.line, m.perLine = l, 0
	stray := false
	d, isPiece := m.pieces.Read(l.Raw)
	switch {
	case isPiece:
		m.textComes(true)
		m.emitted(d.At)
		m.turns.delta(d)
	case l.Oversize:
		m.textComes(false)
		m.oversize(l)
	case l.Blank():
		stray = m.st.Stray
	default:
		msg, err := wire.Parse(l.Raw)
		if err != nil {
			stray = true
			m.textComes(false)
			m.stray(l, err)
			break
		}
		if msg.Method != "" && !wordless[msg.Method] {
			m.textComes(false)
		}
		if m.turns.end != nil && m.turns.ofNextTurn(msg) {
			// This line is for the next pump, which begins after pending refusals. So they
			// are written now.
			m.begun = msg.Method == "turn/started"
			m.autos.flush()
			m.finish(TurnEnded)
			return
		}
		m.emitted(msg.EmittedAtMS)
		m.message(msg)
	}
	m.st.Stray = stray
	m.spending.checkTime()
	m.items.forget()
	if m.err == nil {
		m.st.Cursor.Offset = l.End
	}
}

// emitted takes the time at which codex sent the line, or 0 if unknown.
func (m *machine) emitted(ms int64) {
	if ms > m.st.AtMS {
		m.st.AtMS = ms
	}
	m.time.passes(ms)
	if ms > 0 && m.opt.Fresh != nil && m.line.Offset >= m.size {
		m.opt.Fresh(time.UnixMilli(ms))
	}
}

func (m *machine) stray(l wire.Line, err error) {
	m.log.Warn("stray line in the journal", "offset", l.Offset, "error", err)
	if m.st.Stray {
		return
	}
	m.entry(protocol.Entry{Type: protocol.EntryState, Turn: m.st.Turn, Status: "warning",
		Text: "a line that is no message was skipped: " + wire.Excerpt(m.redact(strings.ToValidUTF8(string(l.Raw), "\uFFFD")), 200)})
}

// oversize handles a line that is too long to read: it refuses a request, takes an answer
// by longAnswer, and ends the turn at a turn's end.
func (m *machine) oversize(l wire.Line) {
	m.log.Warn("line over the bound", "offset", l.Offset, "bytes", l.End-l.Offset, "method", l.Method)
	m.entry(protocol.Entry{Type: protocol.EntryState, Turn: m.st.Turn, Status: "warning",
		Text: fmt.Sprintf("a line of %d bytes was skipped, the bound is %d (%s)", l.End-l.Offset, m.lim.Line, orWord(l.Method, "an answer or no message"))})
	switch {
	case l.Method != "" && l.ID != nil:
		m.autos.add(l.ID, wire.Outgoing{ID: l.ID, Error: &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "the request is too long for this client"}})
	case l.Method == "turn/completed" && m.st.TurnID != "":
		m.turns.endTurn("unknown", problem(protocol.EndOversize, "the line that says how the turn ended is too long to read"))
	case l.Method == "item/completed":
		m.items.long(l.Item)
	case l.Method == "" && l.ID != nil:
		if id, ok := wire.StringID(l.ID); ok {
			m.response(id, longAnswer(l))
		}
	}
}

// longAnswer stands for a long answer. A Send needs only whether it is a result or an
// error.
func longAnswer(l wire.Line) *wire.Message {
	if l.Result {
		return &wire.Message{ID: l.ID, Result: json.RawMessage(`{}`)}
	}
	return &wire.Message{ID: l.ID, Error: &wire.RPCError{Code: wire.CodeInternal, Message: "the answer is too long to read"}}
}
