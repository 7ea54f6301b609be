package snapshots

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/store"
)

type countingStore struct {
	blobs
	bytes, open atomic.Int64
}

func (s *countingStore) newReaderAt(ctx context.Context, key string) (blobAt, error) {
	r, err := s.blobs.newReaderAt(ctx, key)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &countingAt{r, s}, nil
}

type countingAt struct {
	blobAt
	s *countingStore
}

func (r *countingAt) ReadAt(p []byte, off int64) (int, error) {
	r.s.bytes.Add(int64(len(p)))
	return r.blobAt.ReadAt(p, off)
}

func (r *countingAt) Close() error {
	r.s.open.Add(-1)
	return r.blobAt.Close()
}

func TestAReaderReadsTheBlocksThatItNeedsOnce(t *testing.T) {
	st := &countingStore{blobs: memoryStore(t)}
	var chunks [][]byte
	for i := range 200 {
		chunks = append(chunks, noise(uint64(i), 1000))
	}
	digests := mustPut(t, openChunks(st, smallPacks), chunks)
	total := int64(200 * 1000)

	c := openChunks(st, smallPacks)
	r := c.NewReader(t.Context())
	st.bytes.Store(0)
	if got, err := r.Get(digests[100]); err != nil || !bytes.Equal(got, chunks[100]) {
		t.Fatal(err)
	}
	// One block, and the table of its pack.
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
	st := &countingStore{blobs: memoryStore(t)}
	c := openChunks(st, ChunkOptions{packBytes: 1 << 20})
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

// Rotating keys rewrites every blob in place. In a bucket, that affects readers
// that have it open.
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
	changed := &movingStore{blobs: storeBlobs{before}}
	c := openChunks(changed, ChunkOptions{})
	chunks := [][]byte{noise(1, 800<<10), noise(2, 800<<10), noise(3, 800<<10)}
	digests := mustPut(t, c, chunks)
	c = openChunks(changed, ChunkOptions{})
	r := c.NewReader(t.Context())
	defer r.Close()
	for i, d := range digests {
		if i == 1 {
			after := openAs(fresh, fresh, old)
			packs, err := after.List(t.Context(), packPrefix)
			if err != nil || len(packs) != 1 {
				t.Fatal(packs, err)
			}
			if _, err := after.Rekey(t.Context(), packs[0].Key); err != nil {
				t.Fatal(err)
			}
			changed.to(storeBlobs{after})
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

// A movingStore switches to another store. Readers that are open then read wrong
// bytes, as from a range of an object that was rewritten.
type movingStore struct {
	blobs
	mu      sync.Mutex
	now     int // guarded by mu
	spoiled atomic.Int64
}

func (s *movingStore) to(b blobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs, s.now = b, s.now+1
}

func (s *movingStore) newReaderAt(ctx context.Context, key string) (blobAt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.blobs.newReaderAt(ctx, key)
	if err != nil {
		return nil, err
	}
	return &movingAt{r, s, s.now}, nil
}

type movingAt struct {
	blobAt
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
	return r.blobAt.ReadAt(p, off)
}

// A fullSink accepts nothing until it is told to.
type fullSink struct {
	take chan struct{}
	seen int
}

func (s *fullSink) entry(Entry) error { return nil }
func (s *fullSink) hole(int64) error  { return nil }
func (s *fullSink) end() error        { return nil }
func (s *fullSink) piece(data []byte) error {
	<-s.take
	s.seen += len(data)
	return nil
}

// treeOfChunks puts a tree with one file for each chunk.
func treeOfChunks(t *testing.T, c *Chunks, chunks [][]byte) Tree {
	t.Helper()
	b := c.NewBatch(t.Context(), BatchOptions{})
	defer b.Abort()
	var tree Tree
	var lists listWriter
	lists.put = b.PutList
	seg := segmenter{put: func(data []byte) error {
		d, err := b.PutList(data)
		if err != nil {
			return err
		}
		return lists.add(d)
	}}
	for i, data := range chunks {
		d, err := b.Put(data)
		if err != nil {
			t.Fatal(err)
		}
		name := string([]byte{'a' + byte(i/26), 'a' + byte(i%26)})
		if err := seg.add(Entry{Path: name, Kind: File, Size: int64(len(data)), Content: []Ref{{Digest: d}}}); err != nil {
			t.Fatal(err)
		}
	}
	err := seg.end()
	if err == nil {
		err = lists.end()
		tree.Index = lists.index
	}
	if err == nil {
		_, err = b.Flush()
	}
	if err == nil {
		err = b.Commit(func() error { return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestWalksThatStandStillHoldLittleAndStopNobody(t *testing.T) {
	st := memoryStore(t)
	c := openChunks(st, ChunkOptions{})
	var chunks [][]byte
	for i := range 24 {
		chunks = append(chunks, noise(uint64(i), 700<<10))
	}
	size := 24 * 700 << 10
	tree := treeOfChunks(t, c, chunks)
	const slow = 6
	sinks := make([]fullSink, slow)
	var wg sync.WaitGroup
	errs := make([]error, slow)
	for i := range sinks {
		sinks[i].take = make(chan struct{})
		wg.Go(func() { errs[i] = c.walk(t.Context(), tree, &sinks[i]) })
	}
	// They hold everything that is shared, and another reader still finishes.
	for c.ahead.TryAcquire(1) {
		c.ahead.Release(1)
		time.Sleep(5 * time.Millisecond)
	}
	quick := fullSink{take: make(chan struct{})}
	close(quick.take)
	if err := c.walk(t.Context(), tree, &quick); err != nil || quick.seen != size {
		t.Errorf("a walk beside those that stand still: %d of %d bytes, %v", quick.seen, size, err)
	}
	for i := range sinks {
		close(sinks[i].take)
	}
	wg.Wait()
	for i, s := range sinks {
		if errs[i] != nil || s.seen != size {
			t.Errorf("walk %d: %d of %d bytes, %v", i, s.seen, size, errs[i])
		}
	}
	if !c.ahead.TryAcquire(sharedMore) {
		t.Error("what is shared was not given back")
	}
}

func TestAWalkThatFailsGivesBackWhatIsShared(t *testing.T) {
	st := memoryStore(t)
	c := openChunks(st, smallPacks)
	tree := treeOfChunks(t, c, slices.Repeat([][]byte{noise(1, 800<<10), noise(2, 800<<10)}, 10))
	errSink := errors.New("the sink will not have it")
	for range 3 {
		if err := c.walk(t.Context(), tree, &failingSink{err: errSink}); !errors.Is(err, errSink) {
			t.Fatalf("%v; want the sink's own error", err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the test ends it")
	cancel(why)
	if err := c.walk(ctx, tree, &failingSink{}); !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the context's error", err)
	}
	if !c.ahead.TryAcquire(sharedMore) {
		t.Error("what is shared was not given back")
	}
}

type failingSink struct{ err error }

func (s *failingSink) entry(Entry) error  { return nil }
func (s *failingSink) hole(int64) error   { return nil }
func (s *failingSink) end() error         { return nil }
func (s *failingSink) piece([]byte) error { return s.err }
