package api

import (
	"context"
	"errors"
	"iter"
	"time"
	"unicode/utf8"

	"fairlead.dev/fairlead/activities"
)

// How a viewer waits.
const (
	pollHere  = 10 * time.Second // the pump is on this worker: the store only confirms
	pollAway  = time.Second      // it is not, or there is none
	pollLong  = 3 * time.Second  // nothing came for a while
	pollSoon  = 250 * time.Millisecond
	gapWait   = 20 * time.Second // entries are missing: how long they may still come
	storeWait = 20 * time.Second // the store does not answer
	lookBack  = 64               // entries compared again at each look into the store
	keepSeen  = 512
)

// ErrNoSession is what Sessions returns where there is no such session.
var ErrNoSession = errors.New("no such session")

// A Sessions says whether a session goes on: its workflow runs. The error is
// ErrNoSession where there is none; another one means that it cannot be known now.
type Sessions interface {
	Running(ctx context.Context, session string) (bool, error)
	// Now is what it says of itself; no error where there is none.
	Now(ctx context.Context, session string) (activities.SessionNow, error)
}

// reader yields the entries of a session that are in the store.
type reader func(ctx context.Context, session string, from int64) iter.Seq2[activities.Entry, error]

// A viewer is one follower of one session.
type viewer struct {
	session string
	topic   *topic
	read    reader
	runs    Sessions
	emit    func(Event) error // an error is the viewer's end
	flush   func() error
	follow  bool // until the session has closed; else to the newest entry

	next   int64 // the seq that comes next
	seen   []seenEntry
	pos    map[string]int64 // of running items: what was shown
	states int
	quiet  int       // looks into the store without anything new
	looked time.Time // when it was last looked into
	trouble
}

type seenEntry struct {
	seq      int64
	id, item string // item is the one that it finishes, if any
}

func (s seenEntry) finishes(item string) bool { return s.item != "" && s.item == item }

// trouble is since when the store gives nothing, and why.
type trouble struct {
	since time.Time
	last  error
}

// run shows the session until its end. A nil error means that all was shown
// and the session is over (or, without follow, that this is all there is).
func (v *viewer) run(ctx context.Context, alive time.Duration) error {
	v.pos = map[string]int64{}
	keepalive := time.NewTicker(alive)
	defer keepalive.Stop()
	poll := time.NewTimer(pollAway)
	defer poll.Stop()
	look, states := true, 0
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
			if err != nil || over {
				return err
			}
			if moved {
				v.quiet, look = 0, true
				continue // memory may go on from here
			}
			look = false
			v.quiet++
			poll.Reset(v.pause())
		} else if behind {
			poll.Reset(pollSoon)
		} else if v.states != states {
			poll.Reset(pollAway) // a pump came or went
		}
		states = v.states
		if err := v.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-poll.C:
			look = true
		case <-keepalive.C:
			if err := v.emit(Event{Kind: KindAlive}); err != nil {
				return err
			}
		}
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

// behind says with which seq memory goes on, when that is not yet what this
// viewer wants next; else 0.
func (v *viewer) behind() int64 {
	v.topic.mu.Lock()
	defer v.topic.mu.Unlock()
	if es := v.topic.entries; len(es) > 0 && es[0].entry.Seq > v.next {
		return es[0].entry.Seq
	}
	return 0
}

// fromMemory shows what the topic has. moved says that there may be more at once.
func (v *viewer) fromMemory() (changed <-chan struct{}, moved bool, err error) {
	t := v.topic
	t.mu.Lock()
	changed = t.changed
	void := v.conflict(t.entries)
	var batch []*activities.Entry
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

// running shows the text of running items and the newest state. It comes after
// the entries, so an item's text never follows its own entry.
func (v *viewer) running() error {
	if !v.follow {
		return nil
	}
	t := v.topic
	var events []Event
	t.mu.Lock()
	if len(t.entries) > 0 && t.entries[len(t.entries)-1].entry.Seq >= v.next {
		t.mu.Unlock() // entries came meanwhile: they go first
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

// alignRunes drops the rest of a character that was cut in two at the front.
func alignRunes(at int64, text []byte) (int64, string) {
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		at, text = at+1, text[1:]
	}
	return at, string(text)
}

// had says whether the viewer has had the entry of an item.
func (v *viewer) had(item string) bool {
	for _, s := range v.seen {
		if s.finishes(item) {
			return true
		}
	}
	return false
}

func (v *viewer) entry(e *activities.Entry) error {
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

// conflict finds the first seq at which memory holds another entry than the
// one that was shown; 0 if there is none.
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

// voidFrom takes back what was shown from seq on.
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

// look shows what the store has. over says that there will be no more.
func (v *viewer) look(ctx context.Context) (moved, over bool, err error) {
	// Asked before the store is read: what a closed session has, it has then.
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
		return false, false, nil // what is missing may still come
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
		return false, v.bad(ctx, &activities.GapError{Session: v.session, From: v.next, To: first - 1})
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

// bad bears with a store that does not answer, and with entries that are
// missing, for a while.
func (v *viewer) bad(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	patience := storeWait
	var gap *activities.GapError
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
