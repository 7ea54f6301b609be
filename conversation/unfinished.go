package conversation

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// Text that an interrupted or dead agent left unfinished is in no finished item. At the end
// of the turn or the process, the pump records it from the deltas, as interrupted.
//
// A pump that takes over reads the message again from PumpState.Rewind. To keep that short,
// only the newest part is kept. The deltas' journal offsets decide which, so it does not
// depend on how the journal was split between pumps.
const (
	// keepSpan is the journal that one half of the kept text covers. A delta more than
	// keepSpan after the newer half's beginning drops the older half.
	keepSpan = 4 << 20
	// keepBehind is how far back the kept text may begin, with lines of other items in
	// between.
	keepBehind = 3 * keepSpan
	// maxUnfinished bounds the text of an entry.
	maxUnfinished = 256 << 10
	// keepText bounds the text in memory: longer, so that a secret at the cut is
	// recognised.
	keepText = maxUnfinished + 64<<10
)

type unfinished struct {
	older, newer []byte // from OpenItem.Kept and from OpenItem.Half on
}

func (it *OpenItem) spoken() (protocol.EntryType, bool) {
	switch it.Type {
	case "agentMessage", "plan":
		return protocol.EntryAssistant, true
	case "reasoning":
		return protocol.EntryReasoning, true
	}
	return "", false
}

func (o *items) keep(it *OpenItem, at int64, text string) {
	if _, ok := it.spoken(); !ok {
		return
	}
	u := o.texts[it.key()]
	if u == nil {
		u = &unfinished{}
		o.texts[it.key()] = u
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

// keepAgain adds a delta between From and Cursor.
func (o *items) keepAgain(d wire.Piece, at int64) {
	it := o.st.itemOf(d)
	if it == nil || at < it.Kept {
		return
	}
	if _, ok := it.spoken(); !ok {
		return
	}
	if o.texts[it.key()] == nil {
		o.texts[it.key()] = &unfinished{}
	}
	o.texts[it.key()].add(at < it.Half, d.Text)
	o.holdAgain(it, d.Text)
}

// forget drops text that is too far back. It is called after every line.
func (o *items) forget() {
	for i := range o.st.Items {
		it := &o.st.Items[i]
		if _, ok := it.spoken(); !ok {
			continue
		}
		if it.Pos == 0 {
			it.Kept, it.Half = o.line.End, o.line.End
		}
		if o.line.End-it.Kept > keepBehind {
			it.Kept, it.Half = o.line.End, o.line.End
			delete(o.texts, it.key())
		}
	}
}

// From returns where a pump begins to read: State.Rewind or later. Only a pump that answers
// a request, which may be hours old, reads its line again. Others begin at the oldest open
// item.
func (in PumpInput) From() int64 {
	at := min(in.State.Rewind, in.State.Cursor.Offset)
	if in.State.Opened != in.State.Cursor.Incarnation {
		return at
	}
	return max(at, in.State.needs(func(o OpenRequest) bool { return o.Judged != nil || in.decides(o) }))
}

func (in PumpInput) decides(o OpenRequest) bool {
	return slices.ContainsFunc(in.Sends, func(s Send) bool {
		return s.Kind == SendDecision && s.Incarnation == in.State.Cursor.Incarnation && wire.IDKey(s.RPC) == wire.IDKey(o.RPC)
	})
}

// recordUnfinished records texts that will never be finished. The ids come from the items'
// offsets, so no other entry has them. A sub-agent's item may outlive a turn that was not
// broken off.
func (o *items) recordUnfinished(brokenOff bool) {
	for i := range o.st.Items {
		it := &o.st.Items[i]
		kind, ok := it.spoken()
		if !ok || it.Pos == 0 || it.Thread != "" && !brokenOff || o.err != nil {
			continue
		}
		e := protocol.Entry{Type: kind, Turn: it.Turn, Item: it.ID, Status: "interrupted", At: o.at()}
		e.ID = fmt.Sprintf("i%d.%d-part", o.st.Cursor.Incarnation, it.Offset)
		text, whole := o.said(it)
		e.Text = text
		if it.Type == "plan" {
			setData(&e, "plan", "true")
		}
		setData(&e, "thread", it.Thread)
		if !whole {
			setData(&e, "cut", fmt.Sprintf("%d bytes before this are not kept", it.Pos-int64(len(e.Text))))
		}
		o.emit(e)
	}
}

// said returns the newest part of an item's text, without secrets and without an end that
// may begin one. whole says that nothing is missing before it.
func (o *items) said(it *OpenItem) (text string, whole bool) {
	u := o.texts[it.key()]
	if u == nil {
		return "", false
	}
	text = string(u.older) + string(u.newer)
	whole = int64(len(text)) == it.Pos
	text, _ = o.opt.Redactor.split(o.redact(text))
	if len(text) > maxUnfinished {
		text, whole = text[len(text)-maxUnfinished:], false
	}
	if !whole {
		// A word that was cut may be the end of a secret.
		text = o.opt.Redactor.afterEnd(text)
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

// Lost is what a pump knew when its wire was lost. Result is what it would have returned if
// cancelled then. Unfinished is recorded if nobody attaches again.
type Lost struct {
	Result     PumpResult       `json:"result"`
	Unfinished []protocol.Entry `json:"unfinished,omitempty"`
}

func (m *machine) lost() Lost {
	var said gathered
	if m.result == nil {
		sink, seq := m.sink, m.st.Seq
		m.sink = &said
		if m.turns.end == nil {
			m.items.recordUnfinished(true)
			m.noticed.recordLate()
		}
		m.sink, m.st.Seq = sink, seq
		why := PumpCancelled
		if m.turns.end != nil {
			why = TurnEnded
		}
		m.finish(why)
	}
	return Lost{*m.result, said.entries}
}

type gathered struct{ entries []protocol.Entry }

func (g *gathered) Entry(e protocol.Entry) error { g.entries = append(g.entries, e); return nil }
func (*gathered) Request(protocol.Request) error { return nil }
func (*gathered) Delta(protocol.Delta)           {}
