package activities

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// aFolder is a batch's folder in the store for the files of its messages.
const aFolder = "batch.b-1.0123456789abcdef"

// newStore makes a store for one test.
func newStore(t *testing.T) *store.Store {
	t.Helper()
	dir := t.TempDir()
	id, err := store.GenerateIdentity(filepath.Join(dir, "identity"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{
		URL:        "file://" + filepath.Join(dir, "store"),
		Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// A recorder is a Live that keeps all events.
type recorder struct {
	mu     sync.Mutex
	events map[string][]records.LiveEvent
}

func (r *recorder) Publish(topic string, ev records.LiveEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events == nil {
		r.events = map[string][]records.LiveEvent{}
	}
	r.events[topic] = append(r.events[topic], ev)
}

func (r *recorder) of(topic, kind string) []records.LiveEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []records.LiveEvent
	for _, ev := range r.events[topic] {
		if ev.Kind == kind {
			out = append(out, ev)
		}
	}
	return out
}

// readAll reads a transcript that must be complete.
func readAll(t *testing.T, st *store.Store, session string, from int64) []protocol.Entry {
	t.Helper()
	var out []protocol.Entry
	for e, err := range records.ReadTranscript(t.Context(), st, session, from) {
		if err != nil {
			t.Fatalf("read transcript of %s: %v", session, err)
		}
		out = append(out, e)
	}
	return out
}

func seqs(entries []protocol.Entry) string {
	s := ""
	for _, e := range entries {
		s += fmt.Sprintf("%d:%s ", e.Seq, e.ID)
	}
	return s
}
