package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
)

// onward is a session that runs.
type onward struct{ asked atomic.Int64 }

func (o *onward) Running(context.Context, string) (bool, error) {
	o.asked.Add(1)
	return true, nil
}

func (o *onward) Now(context.Context, string) (inquiry.SessionNow, error) {
	return inquiry.SessionNow{Runs: true}, nil
}

// Where many follow a session, each of them gets every word once and in order, in fewer writes than
// there are words.
func TestEachOfManyViewersGetsEveryWordOnce(t *testing.T) {
	const many, words = 3 * fewViewers, 400
	hub := NewHub(nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	publish := func(kind string, v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		hub.Publish("s1", records.LiveEvent{Kind: kind, Data: raw})
	}
	publish(records.LiveState, protocol.SessionLive{Attached: true})
	want := ""
	for i := range words {
		want += fmt.Sprint(i, " ")
	}
	var wg sync.WaitGroup
	var writes atomic.Int64
	got := make([]string, many)
	whole := make(chan int, many)
	for i := range many {
		topic := hub.enter("s1")
		wg.Go(func() {
			defer hub.leave("s1", topic, nil)
			var text strings.Builder
			v := &viewer{session: "s1", topic: topic, runs: &onward{}, follow: true, next: 1, hub: hub,
				read: func(context.Context, string, int64) iter.Seq2[protocol.Entry, error] {
					return func(func(protocol.Entry, error) bool) {}
				},
				flush: func() error { return nil },
				emit: func(ev Event) error {
					if ev.Kind == KindDelta {
						writes.Add(1)
						text.WriteString(ev.Delta.Text)
						if text.Len() >= len(want) {
							got[i] = text.String()
							whole <- i
						}
					}
					return nil
				}}
			_ = v.run(ctx, time.Hour)
		})
	}
	for hub.followers.Load() < many {
		time.Sleep(time.Millisecond)
	}
	at := int64(0)
	for i := range words {
		word := fmt.Sprint(i, " ")
		publish(records.LiveDelta, protocol.Delta{Item: "i1", Type: protocol.EntryAssistant, Turn: 1, At: at, Text: word})
		at += int64(len(word))
	}
	for range many {
		<-whole
	}
	cancel()
	wg.Wait()
	for i, text := range got {
		if text != want {
			t.Fatalf("viewer %d has %q", i, text)
		}
	}
	if n := writes.Load(); n >= many*words {
		t.Errorf("%d words were written to %d viewers in %d writes", words, many, n)
	}
	if n := hub.followers.Load(); n != 0 {
		t.Errorf("%d viewers are left", n)
	}
}

func TestFewViewersDoNotRestAndManyRestForAQuarterOfASecondAtMost(t *testing.T) {
	for n, want := range map[int64]time.Duration{0: 0, 1: 0, fewViewers: 0, 500: 100 * time.Millisecond, 1000: 200 * time.Millisecond, 100000: longestRest} {
		if d := restOf(n); d != want {
			t.Errorf("with %d viewers: %v", n, d)
		}
	}
}

// One viewer of a session reads the store for all who have shown as much, while this worker feeds it.
func TestOneViewerReadsTheStoreForAll(t *testing.T) {
	topic, now := &topic{changed: make(chan struct{})}, time.Now()
	for range 2 {
		if topic.confirmed(5, now) != 0 {
			t.Error("without a pump here, a viewer does not read")
		}
	}
	topic.state = &protocol.SessionLive{Attached: true}
	if topic.confirmed(5, now) != 0 {
		t.Error("the first one does not read")
	}
	if d := topic.confirmed(5, now.Add(time.Second)); d != pollHere-time.Second {
		t.Errorf("the second one waits %v", d)
	}
	if topic.confirmed(4, now.Add(time.Second)) != 0 {
		t.Error("one who has shown less does not read")
	}
	if topic.confirmed(5, now.Add(time.Second)) != 0 {
		t.Error("what was read by one who had shown less counts for others")
	}
	topic.unconfirmed()
	if topic.confirmed(5, now.Add(2*time.Second)) != 0 {
		t.Error("a failed read counts")
	}
	if topic.confirmed(5, now.Add(2*time.Second+pollHere)) != 0 {
		t.Error("an old read counts")
	}
}

// A session may have ended while the topic still says that a pump is attached. Once one viewer finds that out,
// the others do not wait for a turn to ask.
func TestAllViewersLearnTheEndThatOneOfThemFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 30
		hub, runs := NewHub(nil), &sessions{}
		hub.Publish("s1", records.LiveEvent{Kind: records.LiveState, Data: []byte(`{"attached":true}`)})
		none := func(context.Context, string, int64) iter.Seq2[protocol.Entry, error] {
			return func(func(protocol.Entry, error) bool) {}
		}
		var all sync.WaitGroup
		for range many {
			topic := hub.enter("s1")
			all.Go(func() {
				defer hub.leave("s1", topic, nil)
				v := &viewer{session: "s1", topic: topic, read: none, runs: runs, follow: true, next: 1, hub: hub,
					emit: func(Event) error { return nil }, flush: func() error { return nil }}
				if err := v.run(t.Context(), time.Hour); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		runs.closed.Store(true)
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took > 2*pollHere {
			t.Errorf("the last viewer learned of the end after %v", took)
		}
	})
}
