package chunks

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/store"
)

type countingStore struct {
	Blobs
	bytes, open atomic.Int64
}

func (s *countingStore) OpenAt(ctx context.Context, key string) (BlobAt, error) {
	r, err := s.Blobs.OpenAt(ctx, key)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &countingAt{r, s}, nil
}

type countingAt struct {
	BlobAt
	s *countingStore
}

func (r *countingAt) ReadAt(p []byte, off int64) (int, error) {
	r.s.bytes.Add(int64(len(p)))
	return r.BlobAt.ReadAt(p, off)
}

func (r *countingAt) Close() error {
	r.s.open.Add(-1)
	return r.BlobAt.Close()
}

func TestAReaderReadsTheBlocksThatItNeedsOnce(t *testing.T) {
	st := &countingStore{Blobs: memoryStore(t)}
	var chunks [][]byte
	for i := range 200 {
		chunks = append(chunks, noise(uint64(i), 1000))
	}
	digests := mustPut(t, OpenBlobs(st, smallPacks), chunks)
	total := int64(200 * 1000)

	c := OpenBlobs(st, smallPacks)
	r := c.NewReader(t.Context())
	st.bytes.Store(0)
	if got, err := r.Get(digests[100]); err != nil || !bytes.Equal(got, chunks[100]) {
		t.Fatal(err)
	}
	// A reader needs one block and the table of its pack.
	if n := st.bytes.Load(); n > 8<<10+8<<10 {
		t.Errorf("one chunk of 1000 bytes: %d bytes were read", n)
	}
	r.Close()

	r = c.NewReader(t.Context())
	st.bytes.Store(0)
	for i, d := range digests {
		if got, err := r.Get(d); err != nil || !bytes.Equal(got, chunks[i]) {
			t.Fatal(i, err)
		}
	}
	if n := st.bytes.Load(); n > total+total/5 {
		t.Errorf("all %d bytes in order: %d were read", total, n)
	}
	r.Close()
	if n := st.open.Load(); n != 0 {
		t.Errorf("%d packs are open after Close", n)
	}
}

func TestAReaderKeepsFewPacksAndBlocksWhateverItReads(t *testing.T) {
	st := &countingStore{Blobs: memoryStore(t)}
	c := OpenBlobs(st, Options{PackBytes: 1 << 20})
	var chunks [][]byte
	for i := range 40 {
		chunks = append(chunks, noise(uint64(i), 900<<10))
	}
	digests := mustPut(t, c, chunks)
	r := c.NewReader(t.Context())
	defer r.Close()
	for n := range 100 {
		i := n * 7 % len(digests)
		got, err := r.Get(digests[i])
		if err != nil || !bytes.Equal(got, chunks[i]) {
			t.Fatal(i, err)
		}
		size := 0
		for _, b := range r.blocks {
			size += cap(b.raw)
		}
		if size != r.size || size > readerBlocks || st.open.Load() > readerPacks {
			t.Fatalf("it holds %d bytes (counted %d) and %d packs", size, r.size, st.open.Load())
		}
	}
	if st.open.Load() < readerPacks {
		t.Fatalf("there are %d packs only: nothing was tried", st.open.Load())
	}
}

// Rotating keys rewrites every blob in place. In a bucket, that affects readers that have a
// blob open.
func TestAReaderGoesOnWhereAPackIsEncryptedAnew(t *testing.T) {
	old, fresh := mustIdentity(t), mustIdentity(t)
	url := "file://" + t.TempDir() + "/store"
	openAs := func(recipient *age.X25519Identity, with ...age.Identity) *store.Store {
		t.Helper()
		st, err := store.Open(t.Context(), store.Options{URL: url, Recipients: []age.Recipient{recipient.Recipient()}, Identities: with})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	before := openAs(old, old)
	changed := &movingStore{Blobs: StoreBlobs{before}}
	c := OpenBlobs(changed, Options{})
	chunks := [][]byte{noise(1, 800<<10), noise(2, 800<<10), noise(3, 800<<10)}
	digests := mustPut(t, c, chunks)
	c = OpenBlobs(changed, Options{})
	r := c.NewReader(t.Context())
	defer r.Close()
	for i, d := range digests {
		if i == 1 {
			after := openAs(fresh, fresh, old)
			packs, err := after.List(t.Context(), PackPrefix)
			if err != nil || len(packs) != 1 {
				t.Fatal(packs, err)
			}
			if _, err := after.Rekey(t.Context(), packs[0].Key); err != nil {
				t.Fatal(err)
			}
			changed.to(StoreBlobs{after})
		}
		if got, err := r.Get(d); err != nil || !bytes.Equal(got, chunks[i]) {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
	if changed.spoiled.Load() == 0 {
		t.Error("nothing that was open was changed: nothing was tried")
	}
}

func mustIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A movingStore switches to another store. Readers that are open at that moment then read
// wrong bytes, as if their object in a bucket was rewritten.
type movingStore struct {
	Blobs
	mu      sync.Mutex
	now     int // guarded by mu
	spoiled atomic.Int64
}

func (s *movingStore) to(b Blobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Blobs, s.now = b, s.now+1
}

func (s *movingStore) OpenAt(ctx context.Context, key string) (BlobAt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.Blobs.OpenAt(ctx, key)
	if err != nil {
		return nil, err
	}
	return &movingAt{r, s, s.now}, nil
}

type movingAt struct {
	BlobAt
	s  *movingStore
	at int
}

func (r *movingAt) ReadAt(p []byte, off int64) (int, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.at != r.s.now {
		r.s.spoiled.Add(1)
		return 0, store.ErrTorn
	}
	return r.BlobAt.ReadAt(p, off)
}
