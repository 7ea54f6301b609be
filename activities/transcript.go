package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

const (
	// segmentBytes is the size at which a segment is cut.
	segmentBytes = 64 << 10
	// segmentAge is how long an entry waits for others before it is stored.
	segmentAge = 2 * time.Second
)

// A transcript writes entries of one session into the store, in order. It is
// safe for concurrent use; an error is final.
type transcript struct {
	store   *store.Store
	session string
	owner   owner
	now     func() time.Time

	mu      sync.Mutex
	pending []line // not yet in the store, without a gap
	bytes   int
	since   time.Time // when the oldest of pending was added
	stored  int64     // newest seq that is in the store
	err     error
	// strange is set if another attempt stored a different entry under one of our
	// numbers. Then the fold was not deterministic.
	strange string
}

type line struct {
	seq  int64
	id   string
	json []byte
}

// add takes an entry. The entry is in the store after a later flush has returned nil.
func (t *transcript) add(ctx context.Context, e protocol.Entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode entry %d of %s: %w", e.Seq, t.session, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if e.Seq <= t.stored {
		return nil
	}
	if n := len(t.pending); n > 0 && e.Seq != t.pending[n-1].seq+1 {
		t.err = fmt.Errorf("transcript of %s: entry %d follows entry %d", t.session, e.Seq, t.pending[n-1].seq)
		return t.err
	}
	if len(t.pending) == 0 {
		t.since = t.now()
	}
	t.pending = append(t.pending, line{e.Seq, e.ID, append(data, '\n')})
	if t.bytes += len(data) + 1; t.bytes >= segmentBytes {
		return t.write(ctx)
	}
	return nil
}

// flush stores the pending entries.
func (t *transcript) flush(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(ctx)
}

// flushOld stores the pending entries if the oldest has waited for segmentAge.
func (t *transcript) flushOld(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 || t.now().Sub(t.since) < segmentAge {
		return t.err
	}
	return t.write(ctx)
}

func (t *transcript) write(ctx context.Context) error {
	for t.err == nil && len(t.pending) > 0 {
		key := segmentKey(t.session, t.pending[0].seq, t.owner)
		err := t.store.Create(ctx, key, t.text())
		switch {
		case err == nil:
			t.drop(t.pending[len(t.pending)-1].seq)
		case errors.Is(err, store.ErrExists):
			// Another attempt wrote this segment. It may have fewer or more entries
			// than ours.
			if err := t.skipStored(ctx, key); err != nil {
				t.err = err
			}
		default:
			t.err = fmt.Errorf("store transcript of %s: %w", t.session, err)
		}
	}
	return t.err
}

func (t *transcript) text() []byte {
	var b bytes.Buffer
	for _, l := range t.pending {
		b.Write(l.json)
	}
	return b.Bytes()
}

func (t *transcript) skipStored(ctx context.Context, key string) error {
	there, err := readSegment(ctx, t.store, key)
	if err != nil {
		return err
	}
	if len(there) == 0 || there[0].Seq != t.pending[0].seq {
		return fmt.Errorf("transcript segment %s does not hold what its name says", key)
	}
	for i, e := range there {
		if i < len(t.pending) && t.pending[i].id != e.ID && t.strange == "" {
			t.strange = fmt.Sprintf("entry %d is %q, another attempt stored %q", e.Seq, t.pending[i].id, e.ID)
		}
	}
	t.drop(there[len(there)-1].Seq)
	return nil
}

// drop forgets pending entries up to seq.
func (t *transcript) drop(seq int64) {
	for len(t.pending) > 0 && t.pending[0].seq <= seq {
		t.bytes -= len(t.pending[0].json)
		t.pending = t.pending[1:]
	}
	if len(t.pending) == 0 {
		t.pending, t.bytes = nil, 0
	}
	t.since = t.now()
	t.stored = max(t.stored, seq)
}

func readSegment(ctx context.Context, st *store.Store, key string) ([]protocol.Entry, error) {
	data, err := st.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	var entries []protocol.Entry
	for l := range bytes.Lines(data) {
		var e protocol.Entry
		if err := json.Unmarshal(l, &e); err != nil {
			return nil, fmt.Errorf("transcript segment %s: %w", key, err)
		}
		if n := len(entries); n > 0 && e.Seq != entries[n-1].Seq+1 {
			return nil, fmt.Errorf("transcript segment %s: entry %d follows entry %d", key, e.Seq, entries[n-1].Seq)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
