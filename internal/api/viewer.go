package api

import (
	"context"
	"errors"
	"iter"
	"time"
	"unicode/utf8"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	pollHere  = 10 * time.Second // the pump is here, so the store only confirms
	pollAway  = time.Second      // the pump is elsewhere, or none
	pollLong  = 3 * time.Second  // nothing came for a while
	pollSoon  = 250 * time.Millisecond
	gapWait   = 20 * time.Second // for missing entries
	storeWait = 20 * time.Second // for a failing store
	lookBack  = 64               // entries compared again at each read of the store
	keepSeen  = 512
)

// ErrNoSession means that the session does not exist.
var ErrNoSession = errors.New("no such session")

// Sessions tells about sessions' workflows. Any error of Running but ErrNoSession means
// that it is unknown now.
type Sessions interface {
	Running(ctx context.Context, session string) (bool, error)
	// Now returns the state that the session reports. A missing session is no error.
	Now(ctx context.Context, session string) (inquiry.SessionNow, error)
}

type reader func(ctx context.Context, session string, from int64) iter.Seq2[protocol.Entry, error]

// A viewer is one follower of one session.
type viewer struct {
	session string
	topic   *topic
	read    reader
	runs    Sessions
	emit    func(Event) error // an error ends the viewer
	flush   func() error
	follow  bool // until the session has closed, not only to the newest entry

	hub *Hub // nil means that there are few viewers

	next   int64 // seq to show
	seen   []seenEntry
	pos    map[string]int64 // shown text of running items
	states int
	finds  int       // as in the topic
	reads  bool      // the next look at the store is for all who have shown as much
	quiet  int       // reads without news, in a row
	looked time.Time // last read of the store
	trouble
}

type seenEntry struct {
	seq      int64
	id, item string // item is the one that the entry finishes, if any
}

func (s seenEntry) finishes(item string) bool { return s.item != "" && s.item == item }

// trouble records since when the store yields nothing, and why.
type trouble struct {
	since time.Time
	last  error
}

// run returns nil when the session is over or, without follow, at the newest entry.
func (v *viewer) run(ctx context.Context, alive time.Duration) error {
	v.pos = map[string]int64{}
	keepalive := time.NewTicker(alive)
	defer keepalive.Stop()
	poll := time.NewTimer(pollAway)
	defer poll.Stop()
	look, states := true, 0
	if v.hub != nil && v.follow {
		v.hub.followers.Add(1)
		defer v.hub.followers.Add(-1)
	}
	for {
		changed, moved, err := v.fromMemory()
		if err != nil {
			return err
		}
		if moved {
			v.quiet = 0
			continue
		}
		if behind := v.behind() > 0; look || behind && time.Since(v.looked) > pollSoon {
			moved, over, err := v.look(ctx)
			if v.reads && (moved || over) {
				v.topic.found()
			}
			v.reads = false
			if err != nil || over {
				return err
			}
			if moved {
				v.quiet, look = 0, true
				continue // memory may have the next entries
			}
			if v.trouble.last != nil {
				v.topic.unconfirmed()
			}
			look = false
			v.quiet++
			poll.Reset(v.pause())
		} else if behind {
			poll.Reset(pollSoon)
		} else if v.states != states {
			poll.Reset(pollAway) // a pump was attached or detached
		}
		states = v.states
		if v.foundSince() {
			look = true
			continue
		}
		if err := v.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
			if err := v.rest(ctx); err != nil {
				return err
			}
		case <-poll.C:
			if wait := v.topic.confirmed(v.next, time.Now()); v.follow && wait > 0 {
				poll.Reset(wait)
			} else {
				look, v.reads = true, v.follow
			}
		case <-keepalive.C:
			if err := v.emit(Event{Kind: KindAlive}); err != nil {
				return err
			}
		}
	}
}

// foundSince reports whether a read for all found something since this viewer last asked.
func (v *viewer) foundSince() bool {
	v.topic.mu.Lock()
	defer v.topic.mu.Unlock()
	since := v.topic.finds != v.finds
	v.finds = v.topic.finds
	return since
}

const (
	// fewViewers follow without a rest.
	fewViewers = 100
	// restEach is the rest for each viewer of the worker, and longestRest bounds it.
	restEach    = 200 * time.Microsecond
	longestRest = 250 * time.Millisecond
)

// restOf returns how long a viewer waits after news before it looks at what there is. Where many
// follow, each write then has several words, so that the worker keeps up.
func restOf(followers int64) time.Duration {
	if followers <= fewViewers {
		return 0
	}
	return min(time.Duration(followers)*restEach, longestRest)
}

func (v *viewer) rest(ctx context.Context) error {
	if v.hub == nil {
		return nil
	}
	d := restOf(v.hub.followers.Load())
	if d == 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (v *viewer) pause() time.Duration {
	v.topic.mu.Lock()
	attached := v.topic.state != nil && v.topic.state.Attached
	v.topic.mu.Unlock()
	switch {
	case v.behind() > 0:
		return pollSoon
	case attached:
		return pollHere
	case v.quiet > 10:
		return pollLong
	}
	return pollAway
}

// behind returns the first seq in memory if the viewer needs earlier entries, else 0.
func (v *viewer) behind() int64 {
	v.topic.mu.Lock()
	defer v.topic.mu.Unlock()
	if es := v.topic.entries; len(es) > 0 && es[0].entry.Seq > v.next {
		return es[0].entry.Seq
	}
	return 0
}

// fromMemory shows the topic's data. moved means that there may be more.
func (v *viewer) fromMemory() (changed <-chan struct{}, moved bool, err error) {
	t := v.topic
	t.mu.Lock()
	changed = t.changed
	void := v.conflict(t.entries)
	var batch []*protocol.Entry
	if void == 0 && len(t.entries) > 0 {
		if first := t.entries[0].entry.Seq; first <= v.next {
			for _, e := range t.entries[min(v.next-first, int64(len(t.entries))):] {
				batch = append(batch, e.entry)
			}
		}
	}
	t.mu.Unlock()
	if void > 0 {
		return changed, true, v.voidFrom(void)
	}
	for _, e := range batch {
		if err := v.entry(e); err != nil {
			return changed, false, err
		}
	}
	if len(batch) > 0 {
		return changed, true, nil
	}
	return changed, false, v.running()
}

// running shows the text of running items and the newest state. To never show text after
// its item's entry, it waits until all entries in memory are shown, and leaves out their
// items.
func (v *viewer) running() error {
	if !v.follow {
		return nil
	}
	t := v.topic
	var events []Event
	t.mu.Lock()
	if len(t.entries) > 0 && t.entries[len(t.entries)-1].entry.Seq >= v.next {
		t.mu.Unlock()
		return nil
	}
	if t.state != nil && t.states != v.states {
		v.states = t.states
		state := *t.state
		events = append(events, Event{Kind: KindState, State: &state})
	}
	for _, p := range t.partials {
		key := string(p.delta.Type) + "\x00" + p.delta.Item
		if v.had(p.delta.Item) {
			continue
		}
		at := max(v.pos[key], p.text.at)
		if text, ok := p.text.from(at, keepPartial); ok {
			d := p.delta
			d.At, d.Text = alignRunes(at, text)
			events = append(events, Event{Kind: KindDelta, Delta: &d})
			v.pos[key] = at + int64(len(text))
		}
	}
	t.mu.Unlock()
	for _, ev := range events {
		if err := v.emit(ev); err != nil {
			return err
		}
	}
	return nil
}

// alignRunes drops the tail of a UTF-8 sequence that was cut at the front.
func alignRunes(at int64, text []byte) (int64, string) {
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		at, text = at+1, text[1:]
	}
	return at, string(text)
}

// had reports whether the entry that finishes item was shown.
func (v *viewer) had(item string) bool {
	for _, s := range v.seen {
		if s.finishes(item) {
			return true
		}
	}
	return false
}

func (v *viewer) entry(e *protocol.Entry) error {
	if err := v.emit(Event{Kind: KindEntry, Entry: e}); err != nil {
		return err
	}
	v.next = e.Seq + 1
	v.seen = append(v.seen, seenEntry{e.Seq, e.ID, finished(e)})
	if len(v.seen) > keepSeen {
		v.seen = append(v.seen[:0:0], v.seen[len(v.seen)-keepSeen/2:]...)
	}
	for key := range v.pos {
		if _, item, _ := cutKey(key); item != "" && item == finished(e) {
			delete(v.pos, key)
		}
	}
	return nil
}

func cutKey(key string) (kind, item string, ok bool) {
	for i := range len(key) {
		if key[i] == 0 {
			return key[:i], key[i+1:], true
		}
	}
	return "", key, false
}

// conflict returns the first seq at which memory differs from what was shown, or 0.
func (v *viewer) conflict(entries []liveEntry) int64 {
	if len(entries) == 0 || len(v.seen) == 0 {
		return 0
	}
	first, last := entries[0].entry.Seq, entries[len(entries)-1].entry.Seq
	for _, s := range v.seen {
		if s.seq >= first && s.seq <= last && entries[s.seq-first].entry.ID != s.id {
			return s.seq
		}
	}
	return 0
}

// voidFrom tells the viewer that the shown entries from seq on are void.
func (v *viewer) voidFrom(seq int64) error {
	for i, s := range v.seen {
		if s.seq >= seq {
			v.seen = v.seen[:i:i]
			break
		}
	}
	v.next = seq
	v.quiet = 0
	return v.emit(Event{Kind: KindVoid, Void: seq})
}

// look shows the store's entries. over means that no more will come.
func (v *viewer) look(ctx context.Context) (moved, over bool, err error) {
	// Ask before reading: the store has all entries of a closed session.
	running, known := true, false
	if v.follow && v.runs != nil {
		r, err := v.runs.Running(ctx, v.session)
		switch {
		case err == nil:
			running, known = r, true
		case errors.Is(err, ErrNoSession):
			running, known = false, true
		}
	}
	moved, err = v.fromStore(ctx)
	if err != nil || moved {
		return moved, false, err
	}
	if v.trouble.last != nil {
		return false, false, nil // missing entries may still come
	}
	if !v.follow || known && !running {
		return false, true, nil
	}
	return false, false, nil
}

func (v *viewer) fromStore(ctx context.Context) (moved bool, err error) {
	v.looked = time.Now()
	back := v.next
	if n := len(v.seen); n > 0 {
		back = max(v.seen[0].seq, v.next-lookBack)
	}
	for e, err := range v.read(ctx, v.session, back) {
		if err != nil {
			return moved, v.bad(ctx, err)
		}
		if v.topic.stands(&e) {
			break
		}
		if e.Seq < v.next {
			if id, ok := v.idOf(e.Seq); ok && id != e.ID {
				if err := v.voidFrom(e.Seq); err != nil {
					return true, err
				}
			} else {
				continue
			}
		}
		v.trouble = trouble{}
		if err := v.entry(&e); err != nil {
			return true, err
		}
		moved = true
	}
	if first := v.behind(); first > 0 && !moved {
		return false, v.bad(ctx, &records.GapError{Session: v.session, From: v.next, To: first - 1})
	}
	v.trouble = trouble{}
	return moved, nil
}

func (v *viewer) idOf(seq int64) (string, bool) {
	for i := len(v.seen) - 1; i >= 0; i-- {
		if v.seen[i].seq == seq {
			return v.seen[i].id, true
		}
	}
	return "", false
}

// bad returns nil until the store has failed, or entries were missing, for too long.
func (v *viewer) bad(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	patience := storeWait
	var gap *records.GapError
	if errors.As(err, &gap) {
		patience = gapWait
	}
	if v.trouble.last == nil {
		v.trouble.since = time.Now()
	}
	v.trouble.last = err
	if time.Since(v.trouble.since) < patience {
		return nil
	}
	if gap != nil {
		return problem(0, ErrGap, "%v", err).hinted("look at the worker's log; `ctl transcript` from a later --from shows the rest")
	}
	return problem(0, ErrStore, "read the transcript of %s: %v", v.session, err).hinted("`ctl doctor` on the worker's machine says more")
}
