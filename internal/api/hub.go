package api

import (
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds on one topic. What a hub drops is in the store, or arrives there within seconds.
const (
	keepEntries = 512
	keepEntry   = 8 << 20 // bytes of entries
	keepPartial = 1 << 20 // bytes of an item
	keepItems   = 64
	keepOutput  = 1 << 20 // bytes of a stream
)

// A Hub passes live events on to viewers. Each viewer reads at its own speed, from the hub
// or the store, without a queue, so no viewer can block a publisher. A Hub is safe for
// concurrent use.
type Hub struct {
	log *slog.Logger

	followers atomic.Int64

	mu     sync.Mutex
	topics map[string]*topic
}

var _ records.Live = (*Hub)(nil)

// NewHub returns an empty hub. log may be nil.
func NewHub(log *slog.Logger) *Hub {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Hub{log: log, topics: map[string]*topic{}}
}

// A topic is the live data of one session or command.
type topic struct {
	viewers int
	live    bool // this worker feeds it

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	// entries are the newest, without a gap.
	entries []liveEntry
	size    int
	// partials are the running items, oldest first.
	partials []*partial
	state    *protocol.SessionLive
	states   int // number so far, to notice a new one
	out, err window
	result   *protocol.ExecResult
	// read is when a viewer who had shown all before readNext last read the store, while this
	// worker fed the topic.
	read     time.Time
	readNext int64
	finds    int // reads for all that found something, to notice a new one
}

// confirmed returns how long a viewer need not read the store, because another one who had shown as
// much read it just now and this worker feeds the topic. 0 means that the viewer is to read it, and
// that others need not.
func (t *topic) confirmed(next int64, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == nil || !t.state.Attached {
		return 0
	}
	if age := now.Sub(t.read); t.readNext == next && age >= 0 && age < pollHere {
		return pollHere - age
	}
	t.read, t.readNext = now, next
	return 0
}

// unconfirmed says that the store could not be read.
func (t *topic) unconfirmed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = time.Time{}
}

// found says that such a read found news or the end of the session, so that those who wait for it
// read the store, too.
func (t *topic) found() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = time.Time{}
	t.finds++
	close(t.changed)
	t.changed = make(chan struct{})
}

type liveEntry struct {
	entry *protocol.Entry
	size  int
}

// A partial is the text of an unfinished item.
type partial struct {
	delta protocol.Delta // without At and Text
	text  window
}

// A window is the newest part of a byte stream. It drops bytes only when it has more than
// twice as many as it must keep, to move data rarely.
type window struct {
	at   int64 // position of data[0]
	data []byte
}

func (w *window) end() int64 { return w.at + int64(len(w.data)) }

// write puts p at position at. Bytes already there stay; a gap restarts the window.
func (w *window) write(at int64, p []byte, keep int) (grew bool) {
	switch {
	case at > w.end() || len(w.data) == 0 && at != w.end():
		w.at, w.data = at, nil
	case at+int64(len(p)) <= w.end():
		return false
	default:
		p = p[w.end()-at:]
	}
	w.data = append(w.data, p...)
	if over := len(w.data) - keep; over > keep {
		w.at += int64(over)
		w.data = append(w.data[:0:0], w.data[over:]...)
	}
	return len(p) > 0
}

// from returns a copy of up to limit bytes at pos, if there are any.
func (w *window) from(pos int64, limit int) ([]byte, bool) {
	if pos < w.at || pos >= w.end() {
		return nil, false
	}
	p := w.data[pos-w.at:]
	if len(p) > limit {
		p = p[:limit]
	}
	return append([]byte(nil), p...), true
}

// Publish implements records.Live.
func (h *Hub) Publish(name string, ev records.LiveEvent) {
	t := h.enter(name)
	live := t.take(h.log, ev)
	h.leave(name, t, live)
}

// enter finds or makes a topic, kept until leave.
func (h *Hub) enter(name string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if t == nil {
		t = &topic{changed: make(chan struct{})}
		h.topics[name] = t
	}
	t.viewers++
	return t
}

// leave releases a topic. Without viewers it is dropped, unless this worker feeds it: the
// store has the data. live, if not nil, sets whether this worker feeds it.
func (h *Hub) leave(name string, t *topic, live *bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if live != nil {
		t.live = *live
	}
	if t.viewers--; t.viewers == 0 && !t.live {
		delete(h.topics, name)
	}
}

// live returns the newest state of this worker's pump of a session, or zero.
func (h *Hub) live(name string) protocol.SessionLive {
	h.mu.Lock()
	t := h.topics[name]
	h.mu.Unlock()
	if t == nil {
		return protocol.SessionLive{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == nil || !t.state.Attached {
		return protocol.SessionLive{}
	}
	return *t.state
}

// Topics returns the number of topics, for metrics.
func (h *Hub) Topics() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics)
}

// take applies an event. The result, if not nil, says whether this worker feeds the topic
// now.
func (t *topic) take(log *slog.Logger, ev records.LiveEvent) (live *bool) {
	yes, no := true, false
	live = &yes
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	grew := true
	switch ev.Kind {
	case records.LiveEntry:
		var e protocol.Entry
		if err = json.Unmarshal(ev.Data, &e); err == nil {
			grew = t.addEntry(&e, len(ev.Data))
		}
	case records.LiveDelta:
		var d protocol.Delta
		if err = json.Unmarshal(ev.Data, &d); err == nil {
			grew = t.addDelta(d)
		}
	case records.LiveOutput:
		var c protocol.ExecChunk
		if err = json.Unmarshal(ev.Data, &c); err == nil {
			grew = t.stream(c.Stream).write(c.At, c.Data, keepOutput)
		}
	case records.LiveState:
		if live, err = t.addState(ev.Data); err == nil && live == nil {
			live = &no
		}
	default:
		log.Warn("live event of an unknown kind", "kind", ev.Kind)
	}
	if err != nil {
		log.Warn("live event cannot be read", "kind", ev.Kind, "err", err)
		return nil
	}
	if grew {
		close(t.changed)
		t.changed = make(chan struct{})
	}
	return live
}

// addState takes a SessionLive or an ExecLive. It returns nil if this worker no longer
// feeds the topic.
func (t *topic) addState(data []byte) (*bool, error) {
	var s struct {
		protocol.SessionLive
		records.ExecLive
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	if s.Ended {
		t.result = &s.Result
		return nil, nil
	}
	t.state = &s.SessionLive
	t.states++
	if !s.Attached {
		t.partials = nil
		return nil, nil
	}
	return &s.Attached, nil
}

func (t *topic) stream(name string) *window {
	if name == records.Stderr {
		return &t.err
	}
	return &t.out
}

func (t *topic) addEntry(e *protocol.Entry, size int) bool {
	t.partials = unfinished(t.partials, e)
	if n := len(t.entries); n > 0 {
		first, last := t.entries[0].entry.Seq, t.entries[n-1].entry.Seq
		switch {
		case e.Seq > last+1 || e.Seq < first:
			t.entries, t.size = nil, 0
		case e.Seq <= last:
			i := int(e.Seq - first)
			if t.entries[i].entry.ID == e.ID {
				return false // published again by a second attempt
			}
			// The rest came from a lost pump; its successor's entries count.
			t.cut(i)
		}
	}
	t.entries = append(t.entries, liveEntry{e, size})
	t.size += size
	for len(t.entries) > 1 && (len(t.entries) > keepEntries || t.size > keepEntry) {
		t.size -= t.entries[0].size
		t.entries = t.entries[1:]
	}
	return true
}

// stands reports whether memory overrules e, an entry of the store: it has another entry
// with that seq, and a pump of this worker is attached. Without a pump the store is right,
// and stands drops the entries in memory from that seq on.
func (t *topic) stands(e *protocol.Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.entries) == 0 {
		return false
	}
	i := e.Seq - t.entries[0].entry.Seq
	if i < 0 || i >= int64(len(t.entries)) || t.entries[i].entry.ID == e.ID {
		return false
	}
	if t.state != nil && t.state.Attached {
		return true
	}
	t.cut(int(i))
	return false
}

func (t *topic) cut(i int) {
	for _, old := range t.entries[i:] {
		t.size -= old.size
	}
	t.entries = t.entries[:i:i]
}

func unfinished(ps []*partial, e *protocol.Entry) []*partial {
	var rest []*partial
	for _, p := range ps {
		if item := finished(e); item == "" || item != p.delta.Item {
			rest = append(rest, p)
		}
	}
	return rest
}

// finished returns the item that e finishes, or "". A request, for example, only mentions
// one.
func finished(e *protocol.Entry) string {
	switch e.Type {
	case protocol.EntryRequest, protocol.EntryDecision, protocol.EntryState, protocol.EntryError, protocol.EntryToolProgress:
		return ""
	}
	return e.Item
}

func (t *topic) addDelta(d protocol.Delta) bool {
	for _, p := range t.partials {
		if p.delta.Item == d.Item && p.delta.Type == d.Type {
			return p.text.write(d.At, []byte(d.Text), keepPartial)
		}
	}
	p := &partial{delta: protocol.Delta{Item: d.Item, Type: d.Type, Turn: d.Turn, Command: d.Command, Agent: d.Agent}}
	p.text.write(d.At, []byte(d.Text), keepPartial)
	if t.partials = append(t.partials, p); len(t.partials) > keepItems {
		t.partials = t.partials[1:]
	}
	return true
}
