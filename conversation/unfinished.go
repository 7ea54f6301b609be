package conversation

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// What an agent said and never finished, because it was interrupted or its
// process died, is in no finished item. It is put on record from its deltas
// when the turn or the process ends, as an entry with the status interrupted.
//
// A pump that takes over in the middle of a message reads it again, from
// PumpState.Rewind. So that this stays short, only the newest part of a text
// is kept, and which part that is follows from the places of the deltas in the
// journal alone: then it is the same text however the journal was split
// between pumps.
const (
	// keepSpan is how much of the journal a half of the kept text covers.
	// When a delta lies further behind the newer half's beginning, the older
	// half goes.
	keepSpan = 4 << 20
	// keepBehind is how far the kept text may lie behind: what other items
	// say meanwhile counts, too.
	keepBehind = 3 * keepSpan
	// maxUnfinished is the longest text of such an entry, its newest part.
	maxUnfinished = 256 << 10
	// keepText is more than that, so that a secret at the cut is still seen
	// whole.
	keepText = maxUnfinished + 64<<10
)

// An unfinished text is what is kept of an open item's deltas.
type unfinished struct {
	older, newer []byte // from OpenItem.Kept and from OpenItem.Half on
}

// spoken is the kind of entry that an item's text makes; false for items
// whose text is not kept.
func (it *OpenItem) spoken() (EntryType, bool) {
	switch it.Type {
	case "agentMessage", "plan":
		return EntryAssistant, true
	case "reasoning":
		return EntryReasoning, true
	}
	return "", false
}

// keep takes a delta of an item at its place in the journal.
func (m *machine) keep(it *OpenItem, at int64, text string) {
	if _, ok := it.spoken(); !ok {
		return
	}
	u := m.texts[it.key()]
	if u == nil {
		u = &unfinished{}
		m.texts[it.key()] = u
	}
	if at-it.Half > keepSpan {
		it.Kept, it.Half = it.Half, at
		u.older, u.newer = u.newer, nil
	}
	u.add(at < it.Half, text)
}

func (u *unfinished) add(older bool, text string) {
	half := &u.newer
	if older {
		half = &u.older
	}
	*half = append(*half, text...)
	if len(*half) > 2*keepText {
		*half = append([]byte(nil), (*half)[len(*half)-keepText:]...)
	}
}

// keepAgain takes a delta between From and Cursor.
func (m *machine) keepAgain(d piece, at int64) {
	it := m.itemOf(d)
	if it == nil || at < it.Kept {
		return
	}
	if _, ok := it.spoken(); !ok {
		return
	}
	if m.texts[it.key()] == nil {
		m.texts[it.key()] = &unfinished{}
	}
	m.texts[it.key()].add(at < it.Half, d.text)
	m.holdAgain(it, d.text)
}

// forget drops texts that lie too far behind; it is called behind every line.
func (m *machine) forget() {
	for i := range m.st.Items {
		it := &m.st.Items[i]
		if _, ok := it.spoken(); !ok {
			continue
		}
		if it.Pos == 0 {
			it.Kept, it.Half = m.line.End, m.line.End
		}
		if m.line.End-it.Kept > keepBehind {
			it.Kept, it.Half = m.line.End, m.line.End
			delete(m.texts, it.key())
		}
	}
}

// From is where a pump with this input begins to read: at or behind
// State.Rewind. A question may be open for hours, so what was asked is read again
// only by the pump that answers it; the others begin where their items do.
func (in PumpInput) From() int64 {
	at := min(in.State.Rewind, in.State.Cursor.Offset)
	if in.State.Opened != in.State.Cursor.Incarnation {
		return at
	}
	return max(at, in.State.needs(func(o OpenRequest) bool { return o.Judged != nil || in.decides(o) }))
}

// decides says whether a decision of a request is among the sends.
func (in PumpInput) decides(o OpenRequest) bool {
	return slices.ContainsFunc(in.Sends, func(s Send) bool {
		return s.Kind == SendDecision && s.Incarnation == in.State.Cursor.Incarnation && idKey(s.RPC) == idKey(o.RPC)
	})
}

// rewind is below what no later pump has to read.
func (m *machine) rewind() int64 { return m.st.needs(func(OpenRequest) bool { return true }) }

// needs is the place of the oldest line that is read again: of the open items,
// and of the requests that count.
func (s PumpState) needs(counts func(OpenRequest) bool) int64 {
	at := s.Cursor.Offset
	for i := range s.Items {
		it := &s.Items[i]
		if _, ok := it.spoken(); ok && it.Pos > 0 {
			at = min(at, it.Kept)
		}
		if it.Type == "fileChange" {
			at = min(at, it.Offset)
		}
	}
	for _, o := range s.Open {
		if o.At > 0 && counts(o) {
			at = min(at, o.At)
		}
	}
	return at
}

// recordUnfinished puts on record what was said of items that will never be
// finished. Its ids are those items' places, so nothing else bears them. A
// sub-agent may outlive the turn unless that was broken off.
func (m *machine) recordUnfinished(brokenOff bool) {
	for i := range m.st.Items {
		it := &m.st.Items[i]
		kind, ok := it.spoken()
		if !ok || it.Pos == 0 || it.Thread != "" && !brokenOff || m.err != nil {
			continue
		}
		e := Entry{Type: kind, Turn: it.Turn, Item: it.ID, Status: "interrupted", At: m.at()}
		e.ID = fmt.Sprintf("i%d.%d-part", m.st.Cursor.Incarnation, it.Offset)
		text, whole := m.said(it)
		e.Text = text
		if it.Type == "plan" {
			e.set("plan", "true")
		}
		e.set("thread", it.Thread)
		if !whole {
			e.set("cut", fmt.Sprintf("%d bytes before this are not kept", it.Pos-int64(len(e.Text))))
		}
		m.emit(e)
	}
}

// said is the newest part of an item's text, without secrets and without what
// may be the beginning of one, and whether nothing is missing before it.
func (m *machine) said(it *OpenItem) (text string, whole bool) {
	u := m.texts[it.key()]
	if u == nil {
		return "", false
	}
	text = string(u.older) + string(u.newer)
	whole = int64(len(text)) == it.Pos
	text, _ = m.opt.Redactor.split(m.redact(text))
	if len(text) > maxUnfinished {
		text, whole = text[len(text)-maxUnfinished:], false
	}
	if !whole {
		// Not in the middle of a word, which may be a secret's end.
		text = m.opt.Redactor.afterEnd(text)
		if i := strings.IndexAny(text, " \t\n"); i >= 0 {
			text = text[i+1:]
		} else {
			text = ""
		}
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text, whole
}

// Lost is what a pump knew when its wire was lost. Result is as if it had been
// called back then; Unfinished is what would have to be put on record behind its
// entries, if nobody ever attached again: what the agent had begun to say.
type Lost struct {
	Result     PumpResult `json:"result"`
	Unfinished []Entry    `json:"unfinished,omitempty"`
}

func (m *machine) lost() Lost {
	var said gathered
	if m.result == nil {
		sink, seq := m.sink, m.st.Seq
		m.sink = &said
		if m.turnEnd == nil {
			m.recordUnfinished(true)
		}
		m.sink, m.st.Seq = sink, seq
		why := PumpCancelled
		if m.turnEnd != nil {
			why = TurnEnded
		}
		m.finish(why)
	}
	return Lost{*m.result, said.entries}
}

// gathered is a sink that keeps entries.
type gathered struct{ entries []Entry }

func (g *gathered) Entry(e Entry) error { g.entries = append(g.entries, e); return nil }
func (*gathered) Request(Request) error { return nil }
func (*gathered) Delta(Delta)           {}
