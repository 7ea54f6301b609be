package records

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
	// SegmentBytes is when a segment is cut.
	SegmentBytes = 64 << 10
	// SegmentAge is how long an entry waits for others.
	SegmentAge = 2 * time.Second
)

// A Transcript stores a session's entries in order. It is safe for concurrent use; an error
// is final.
type Transcript struct {
	Store   *store.Store
	Session string
	Owner   Owner
	Now     func() time.Time

	mu      sync.Mutex
	pending []line // in order, not stored yet
	bytes   int
	since   time.Time // of the oldest of pending
	Stored  int64     // the newest stored seq
	Err     error
	// Strange says that another attempt stored a different entry under the same number: the
	// fold was not deterministic.
	Strange string
}

type line struct {
	seq  int64
	id   string
	json []byte
}

// Add takes an entry. It is stored once a later flush has returned nil.
func (t *Transcript) Add(ctx context.Context, e protocol.Entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode entry %d of %s: %w", e.Seq, t.Session, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Err != nil {
		return t.Err
	}
	if e.Seq <= t.Stored {
		return nil
	}
	if n := len(t.pending); n > 0 && e.Seq != t.pending[n-1].seq+1 {
		t.Err = fmt.Errorf("transcript of %s: entry %d follows entry %d", t.Session, e.Seq, t.pending[n-1].seq)
		return t.Err
	}
	if len(t.pending) == 0 {
		t.since = t.Now()
	}
	t.pending = append(t.pending, line{e.Seq, e.ID, append(data, '\n')})
	if t.bytes += len(data) + 1; t.bytes >= SegmentBytes {
		return t.write(ctx)
	}
	return nil
}

// Flush stores pending entries.
func (t *Transcript) Flush(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(ctx)
}

// FlushOld flushes if the oldest entry has waited for SegmentAge.
func (t *Transcript) FlushOld(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 || t.Now().Sub(t.since) < SegmentAge {
		return t.Err
	}
	return t.write(ctx)
}

func (t *Transcript) write(ctx context.Context) error {
	for t.Err == nil && len(t.pending) > 0 {
		key := segmentKey(t.Session, t.pending[0].seq, t.Owner)
		err := t.Store.Create(ctx, key, t.text())
		switch {
		case err == nil:
			t.drop(t.pending[len(t.pending)-1].seq)
		case errors.Is(err, store.ErrExists):
			// Another attempt wrote this segment, perhaps with fewer or more entries.
			if err := t.skipStored(ctx, key); err != nil {
				t.Err = err
			}
		default:
			t.Err = fmt.Errorf("store transcript of %s: %w", t.Session, err)
		}
	}
	return t.Err
}

func (t *Transcript) text() []byte {
	var b bytes.Buffer
	for _, l := range t.pending {
		b.Write(l.json)
	}
	return b.Bytes()
}

func (t *Transcript) skipStored(ctx context.Context, key string) error {
	there, err := readSegment(ctx, t.Store, key)
	if err != nil {
		return err
	}
	if len(there) == 0 || there[0].Seq != t.pending[0].seq {
		return fmt.Errorf("transcript segment %s does not begin with the entry that its name says", key)
	}
	for i, e := range there {
		if i < len(t.pending) && t.pending[i].id != e.ID && t.Strange == "" {
			t.Strange = fmt.Sprintf("entry %d is %q, another attempt stored %q", e.Seq, t.pending[i].id, e.ID)
		}
	}
	t.drop(there[len(there)-1].Seq)
	return nil
}

func (t *Transcript) drop(seq int64) {
	for len(t.pending) > 0 && t.pending[0].seq <= seq {
		t.bytes -= len(t.pending[0].json)
		t.pending = t.pending[1:]
	}
	if len(t.pending) == 0 {
		t.pending, t.bytes = nil, 0
	}
	t.since = t.Now()
	t.Stored = max(t.Stored, seq)
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
