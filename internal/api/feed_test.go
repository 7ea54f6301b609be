package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A witness checks what a viewer is shown, line by line.
type witness struct {
	t    *testing.T
	name string
	want func(seq int64) protocol.Entry

	next  atomic.Int64
	items map[string]string // text of running items, as it was streamed
	texts map[string]string // their whole texts
}

func newWitness(t *testing.T, name string, from int64, want func(int64) protocol.Entry) *witness {
	w := &witness{t: t, name: name, want: want, items: map[string]string{}, texts: map[string]string{}}
	w.next.Store(from)
	return w
}

func (w *witness) see(ev Event) {
	switch ev.Kind {
	case KindEntry:
		e, next := ev.Entry, w.next.Load()
		if e.Seq != next {
			w.t.Errorf("%s: entry %d, want %d", w.name, e.Seq, next)
		}
		if want := w.want(e.Seq); e.ID != want.ID || e.Text != want.Text {
			w.t.Errorf("%s: entry %d is %s %.20q, want %s %.20q", w.name, e.Seq, e.ID, e.Text, want.ID, want.Text)
		}
		w.next.Store(e.Seq + 1)
		if e.Type == protocol.EntryRequest {
			return
		}
		if streamed := w.items[e.Item]; !strings.HasPrefix(e.Text, streamed) {
			w.t.Errorf("%s: item %s streamed %.40q and is %.40q", w.name, e.ID, streamed, e.Text)
		}
		delete(w.items, e.Item)
	case KindDelta:
		d := ev.Delta
		if have := int64(len(w.items[d.Item])); d.At != have {
			w.t.Errorf("%s: item %s: delta at %d, want %d", w.name, d.Item, d.At, have)
		}
		w.items[d.Item] += d.Text
	case KindVoid:
		w.t.Errorf("%s: entries from %d on were void, and none is", w.name, ev.Void)
	}
}

func (w *witness) follow(ctx context.Context, c *Client, session string, from int64) {
	last := ""
	for ev, err := range c.Feed(ctx, session, from) {
		if err != nil {
			w.t.Errorf("%s: %v", w.name, err)
			return
		}
		last = ev.Kind
		w.see(ev)
	}
	if last != KindEnd {
		w.t.Errorf("%s: the feed ended with %q", w.name, last)
	}
}

// A viewer that joins late or reconnects misses nothing and sees nothing twice. The test
// has many viewers, connections that break at random bytes, and a pump that is attempted
// twice, moves to another worker for a while, and comes back.
func TestViewersMissNothingAndSeeNothingTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("has a dozen viewers read everything: slow with the race detector")
	}
	const last = 210
	b := serve(t, nil)
	text := func(seq int64) string {
		return fmt.Sprintf("entry %d: ", seq) + strings.Repeat("wörd ", int(seq%40)+1)
	}
	want := func(seq int64) protocol.Entry {
		return entry(seq, fmt.Sprintf("item-%d", seq), text(seq))
	}
	var wg sync.WaitGroup
	var watching []*witness
	join := func(name, endpoint string, from int64) {
		w := newWitness(t, name, from, want)
		watching = append(watching, w)
		c := b.client(endpoint)
		wg.Go(func() { w.follow(t.Context(), c, "s1", from) })
	}
	join("steady", "", 1)
	for i := range 4 {
		join(fmt.Sprintf("rough-%d", i), rough(t, b.server.Address(), uint64(i)), 1)
	}

	rnd := rand.New(rand.NewPCG(7, 7))
	var pending []protocol.Entry
	for seq := int64(1); seq <= last; seq++ {
		e := want(seq)
		here := seq%100 < 70 // false: the pump is on another worker
		if seq%100 == 0 {
			b.attached("s1", true)
		}
		if here {
			for at := 0; at < len(e.Text); {
				n := min(len(e.Text)-at, 1+rnd.IntN(30))
				for at+n < len(e.Text) && e.Text[at+n]&0xc0 == 0x80 {
					n++ // codex never cuts a character
				}
				b.showDelta("s1", e.ID, int64(at), e.Text[at:at+n])
				at += n
			}
			b.showEntry("s1", e)
			if rnd.IntN(10) == 0 { // a second attempt publishes the same again
				back := max(1, seq-int64(rnd.IntN(20)))
				for s := back; s <= seq; s++ {
					b.showDelta("s1", want(s).ID, 0, text(s))
					b.showEntry("s1", want(s))
				}
			}
		}
		pending = append(pending, e)
		if seq%100 == 69 || len(pending) > 12 || !here {
			b.keep("s1", 1, int(seq), pending...)
			pending = nil
		}
		if seq%100 == 69 {
			b.attached("s1", false)
		}
		if seq == 50 || seq == 120 || seq == 200 {
			// Late viewers join, and all viewers catch up before the test continues.
			join(fmt.Sprintf("late-%d", seq), rough(t, b.server.Address(), uint64(seq)), 1)
			join(fmt.Sprintf("later-%d", seq), "", seq-3)
		}
	}
	b.keep("s1", 1, last, pending...)
	b.attached("s1", false)
	b.sessions.closed.Store(true)
	wg.Wait()
	for _, w := range watching {
		if got := w.next.Load(); got != last+1 {
			t.Errorf("%s saw entries up to %d of %d", w.name, got-1, last)
		}
	}
	wait(t, "topics are forgotten", func() bool { return b.hub.Topics() == 0 })
}

// A viewer that does not read delays nobody. When it reads again, it gets everything.
func TestSlowViewerHoldsUpNobodyAndLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the buffers of a viewer: slow with the race detector")
	}
	const last = 2 * keepEntries
	b := serve(t, nil)
	long := strings.Repeat("x", 20<<10)
	want := func(seq int64) protocol.Entry { return entry(seq, fmt.Sprintf("item-%d", seq), long) }
	var slow []int64
	reading := make(chan struct{})
	done := make(chan error, 1)
	c := b.client("")
	b.showEntry("s1", want(1))
	go func() {
		for ev, err := range c.Feed(t.Context(), "s1", 1) {
			if err != nil {
				done <- err
				return
			}
			if ev.Kind == KindEntry {
				slow = append(slow, ev.Entry.Seq)
			}
			<-reading
		}
		done <- nil
	}()
	// 20 MiB: more than sockets and memory hold for a viewer that has stopped.
	var segment []protocol.Entry
	for seq := int64(1); seq <= last; seq++ {
		b.showEntry("s1", want(seq))
		if segment = append(segment, want(seq)); len(segment) == 16 {
			b.keep("s1", 1, int(seq), segment...)
			segment = nil
		}
	}
	close(reading)
	b.attached("s1", false)
	b.sessions.closed.Store(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i, seq := range slow {
		if seq != int64(i+1) {
			t.Fatalf("entry %d came as number %d", seq, i+1)
		}
	}
	if len(slow) != last {
		t.Fatalf("%d entries, want %d", len(slow), last)
	}
}

func TestLateViewerGetsTheRunningItemFromItsBeginning(t *testing.T) {
	b := serve(t, nil)
	b.attached("s1", true)
	b.showDelta("s1", "item-1", 0, "The first part, ")
	b.showDelta("s1", "item-1", 16, "the second")
	w := newWitness(t, "late", 1, func(seq int64) protocol.Entry {
		return entry(seq, "item-1", map[int64]string{2: "The first part, the second and the third"}[seq])
	})
	seen := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	c := b.client("")
	go func() {
		defer close(done)
		for ev, err := range c.Feed(ctx, "s1", 1) {
			if err != nil {
				t.Error(err)
				return
			}
			w.see(ev)
			if ev.Kind == KindDelta {
				seen <- ev.Delta.Text
			}
		}
	}()
	if got := <-seen; got != "The first part, the second" {
		t.Errorf("first delta is %q", got)
	}
	// Codex asks before it continues. The request names the item and does not end it.
	ask := entry(1, "item-1", "")
	ask.Type = protocol.EntryRequest
	b.showEntry("s1", ask)
	b.showDelta("s1", "item-1", 26, " and")
	if got := <-seen; got != " and" {
		t.Errorf("second delta is %q", got)
	}
	e := entry(2, "item-1", "The first part, the second and the third")
	b.showEntry("s1", e)
	b.keep("s1", 1, 1, ask, e)
	b.attached("s1", false)
	b.sessions.closed.Store(true)
	<-done
	if w.next.Load() != 3 {
		t.Error("the entry never came")
	}
}

// The entries of the transcript replace entries that a lost attempt showed and never
// reported.
func TestVoidEntriesAreTakenBack(t *testing.T) {
	for _, how := range []string{"told by this worker", "found in the store"} {
		t.Run(how, func(t *testing.T) {
			b := serve(t, nil)
			b.keep("s1", 1, 1, entry(1, "a1", ""), entry(2, "a2", ""))
			for seq := int64(3); seq <= 6; seq++ {
				b.showEntry("s1", entry(seq, fmt.Sprintf("lost%d", seq), ""))
			}
			now := map[int64]string{}
			var mu sync.Mutex
			count := func() int { mu.Lock(); defer mu.Unlock(); return len(now) }
			done := make(chan struct{})
			c := b.client("")
			go func() {
				defer close(done)
				for ev, err := range c.Feed(t.Context(), "s1", 1) {
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					switch ev.Kind {
					case KindEntry:
						if id, ok := now[ev.Entry.Seq]; ok {
							t.Errorf("entry %d came as %s and again as %s", ev.Entry.Seq, id, ev.Entry.ID)
						}
						now[ev.Entry.Seq] = ev.Entry.ID
					case KindVoid:
						for seq := range now {
							if seq >= ev.Void {
								delete(now, seq)
							}
						}
					}
					mu.Unlock()
				}
			}()
			wait(t, "the lost entries are shown", func() bool { return count() == 6 })
			b.keep("s1", 2, 1, entry(3, "b3", ""), entry(4, "b4", ""))
			if how == "told by this worker" {
				b.showEntry("s1", entry(3, "b3", ""))
				b.showEntry("s1", entry(4, "b4", ""))
			}
			b.attached("s1", false)
			b.sessions.closed.Store(true)
			<-done
			want := map[int64]string{1: "a1", 2: "a2", 3: "b3", 4: "b4"}
			if fmt.Sprint(now) != fmt.Sprint(want) {
				t.Errorf("shown in the end: %v, want %v", now, want)
			}
		})
	}
}

func TestTranscriptHasWhatIsStoredAndWhatIsNotYet(t *testing.T) {
	b := serve(t, nil)
	b.keep("s1", 1, 1, entry(1, "a1", ""), entry(2, "a2", ""))
	b.attached("s1", true)
	b.showEntry("s1", entry(2, "a2", ""))
	b.showEntry("s1", entry(3, "a3", ""))
	c := b.client("")
	for from, want := range map[int64]string{0: "a1 a2 a3", 1: "a1 a2 a3", 3: "a3", 4: ""} {
		var got []string
		for e, err := range c.Transcript(t.Context(), "s1", from) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.ID)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("from %d: %q, want %q", from, s, want)
		}
	}
}

func TestUnknownSessionIsNotFound(t *testing.T) {
	b := serve(t, nil)
	b.sessions.none.Store(true)
	c := b.client("")
	for _, id := range []string{"nobody", "No/Body"} {
		var got *Error
		for _, err := range c.Feed(t.Context(), id, 1) {
			if !errors.As(err, &got) {
				t.Fatalf("%s: %v", id, err)
			}
		}
		if want := map[string]string{"nobody": ErrNotFound, "No/Body": ErrBadInput}[id]; got == nil || got.Kind != want {
			t.Errorf("%s: %+v, want kind %s", id, got, want)
		}
	}
	// Temporal deletes closed sessions, but the transcript stays.
	b.keep("old", 1, 1, entry(1, "a1", ""))
	n := 0
	for ev, err := range c.Feed(t.Context(), "old", 1) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == KindEntry {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d entries of an old session, want 1", n)
	}
}

func TestQuietFeedSaysThatItLives(t *testing.T) {
	b := serve(t, func(o *Options) { o.Alive = 20 * time.Millisecond })
	c := b.client("")
	alive := 0
	err := c.stream(t.Context(), "/v1/sessions/s1/feed", func(ev Event) bool {
		if ev.Kind == KindAlive {
			alive++
		}
		return alive < 3
	})
	if err != nil || alive < 3 {
		t.Errorf("%d alive lines, error %v", alive, err)
	}
}
