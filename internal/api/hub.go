package api

import (
	"encoding/json"
	"log/slog"
	"sync"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/conversation"
)

// Bounds of what a hub keeps of one topic. What falls out is in the store, or
// comes there within seconds.
const (
	keepEntries = 512     // entries
	keepEntry   = 8 << 20 // bytes of entries
	keepPartial = 1 << 20 // bytes of one running item
	keepItems   = 64      // running items
	keepOutput  = 1 << 20 // bytes of one output stream
)

// A Hub passes on what happens to whoever watches. It holds no queue for any
// viewer: each one keeps its own place and takes what is new at its own speed,
// from here or from the store, so nobody can hold up a publisher. It is safe
// for concurrent use.
type Hub struct {
	log *slog.Logger

	mu     sync.Mutex
	topics map[string]*topic
}

var _ activities.Live = (*Hub)(nil)

// NewHub returns an empty hub. The logger may be nil.
func NewHub(log *slog.Logger) *Hub {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Hub{log: log, topics: map[string]*topic{}}
}

// A topic is what is in memory about one session or command.
type topic struct {
	viewers int
	live    bool // a pump or a command of this worker feeds it

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	// entries are the newest, without a gap; size is theirs in bytes.
	entries []liveEntry
	size    int
	// partials are the running items, oldest first.
	partials []*partial
	state    *activities.SessionLive
	states   int // how many states there were, for viewers to compare
	out, err window
	result   *activities.ExecResult
}

type liveEntry struct {
	entry *activities.Entry
	size  int
}

// A partial is the text of an item that is not finished.
type partial struct {
	delta Delta // without At and Text
	text  window
}

// A window is the newest part of a stream of bytes. It lets go of the oldest
// only when that is as much as it keeps: else every piece of a long stream would
// move all of it.
type window struct {
	at   int64 // position of data[0]
	data []byte
}

func (w *window) end() int64 { return w.at + int64(len(w.data)) }

// write puts p at its place. What is there already is kept; a gap begins anew.
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

// from returns a copy of what there is from a position on; false if the window
// has nothing there.
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

// Publish implements activities.Live.
func (h *Hub) Publish(name string, ev activities.LiveEvent) {
	t := h.enter(name)
	live := t.take(h.log, ev)
	h.leave(name, t, live)
}

// enter finds or makes a topic and keeps it until leave.
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

// leave gives a topic back. One that nobody feeds and nobody watches is
// forgotten: all of it is in the store.
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

// live is the newest state of a session's pump, if it is here.
func (h *Hub) live(name string) activities.SessionLive {
	h.mu.Lock()
	t := h.topics[name]
	h.mu.Unlock()
	if t == nil {
		return activities.SessionLive{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == nil || !t.state.Attached {
		return activities.SessionLive{}
	}
	return *t.state
}

// Topics says how much a hub holds, for metrics.
func (h *Hub) Topics() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics)
}

// take applies an event. The result says, where it is not nil, whether
// somebody on this worker feeds the topic from now on.
func (t *topic) take(log *slog.Logger, ev activities.LiveEvent) (live *bool) {
	yes, no := true, false
	live = &yes
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	grew := true
	switch ev.Kind {
	case activities.LiveEntry:
		var e activities.Entry
		if err = json.Unmarshal(ev.Data, &e); err == nil {
			grew = t.addEntry(&e, len(ev.Data))
		}
	case activities.LiveDelta:
		var d Delta
		if err = json.Unmarshal(ev.Data, &d); err == nil {
			grew = t.addDelta(d)
		}
	case activities.LiveOutput:
		var c activities.ExecChunk
		if err = json.Unmarshal(ev.Data, &c); err == nil {
			grew = t.stream(c.Stream).write(c.At, c.Data, keepOutput)
		}
	case activities.LiveState:
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

// addState takes a SessionLive or an ExecLive; the result is not nil when the
// topic goes on.
func (t *topic) addState(data []byte) (*bool, error) {
	var s struct {
		activities.SessionLive
		activities.ExecLive
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
	if name == activities.Stderr {
		return &t.err
	}
	return &t.out
}

func (t *topic) addEntry(e *activities.Entry, size int) bool {
	t.partials = unfinished(t.partials, e)
	if n := len(t.entries); n > 0 {
		first, last := t.entries[0].entry.Seq, t.entries[n-1].entry.Seq
		switch {
		case e.Seq > last+1 || e.Seq < first:
			t.entries, t.size = nil, 0
		case e.Seq <= last:
			i := int(e.Seq - first)
			if t.entries[i].entry.ID == e.ID {
				return false // a second attempt
			}
			// Another pump stands where a lost one stood.
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

// stands says whether memory holds another entry in the place of one from the
// store, and stands by it: a pump that is attached here and now knows better
// than what a lost one stored. Without one the store is right, and memory gives way.
func (t *topic) stands(e *activities.Entry) bool {
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

// cut forgets the entries from an index on.
func (t *topic) cut(i int) {
	for _, old := range t.entries[i:] {
		t.size -= old.size
	}
	t.entries = t.entries[:i:i]
}

// unfinished drops the item that an entry finishes.
func unfinished(ps []*partial, e *activities.Entry) []*partial {
	var rest []*partial
	for _, p := range ps {
		if item := finished(e); item == "" || item != p.delta.Item {
			rest = append(rest, p)
		}
	}
	return rest
}

// finished is the item that an entry is the end of; empty where it is of none,
// or only speaks of one, as a request does.
func finished(e *activities.Entry) string {
	switch e.Type {
	case conversation.EntryRequest, conversation.EntryDecision, conversation.EntryState, conversation.EntryError:
		return ""
	}
	return e.Item
}

func (t *topic) addDelta(d Delta) bool {
	for _, p := range t.partials {
		if p.delta.Item == d.Item && p.delta.Type == d.Type {
			return p.text.write(d.At, []byte(d.Text), keepPartial)
		}
	}
	p := &partial{delta: Delta{Item: d.Item, Type: d.Type, Turn: d.Turn}}
	p.text.write(d.At, []byte(d.Text), keepPartial)
	if t.partials = append(t.partials, p); len(t.partials) > keepItems {
		t.partials = t.partials[1:]
	}
	return true
}
