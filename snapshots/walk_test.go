package snapshots

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	chunkspkg "fairlead.dev/fairlead/snapshots/chunks"
)

// randomBytes returns content that does not compress. The same seed gives the same content.
func randomBytes(seed uint64, n int) []byte {
	out := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// A fullSink accepts no data until the test lets it.
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

// treeOfChunks stores a tree with one file for each chunk.
func treeOfChunks(t *testing.T, c *chunkspkg.Store, chunks [][]byte) Tree {
	t.Helper()
	b := c.NewBatch(t.Context(), chunkspkg.BatchOptions{})
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
	c := chunkspkg.Open(newTestStore(t), chunkspkg.Options{})
	var chunks [][]byte
	for i := range 24 {
		chunks = append(chunks, randomBytes(uint64(i), 700<<10))
	}
	size := 24 * 700 << 10
	tree := treeOfChunks(t, c, chunks)
	const slow = 6
	sinks := make([]fullSink, slow)
	var wg sync.WaitGroup
	errs := make([]error, slow)
	for i := range sinks {
		sinks[i].take = make(chan struct{})
		wg.Go(func() { errs[i] = walk(t.Context(), c, tree, &sinks[i]) })
	}
	// The stopped walks hold all shared batches, and another reader still finishes.
	for c.Ahead.TryAcquire(1) {
		c.Ahead.Release(1)
		time.Sleep(5 * time.Millisecond)
	}
	quick := fullSink{take: make(chan struct{})}
	close(quick.take)
	if err := walk(t.Context(), c, tree, &quick); err != nil || quick.seen != size {
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
	if !c.Ahead.TryAcquire(chunkspkg.SharedMore) {
		t.Error("what is shared was not given back")
	}
}

func TestAWalkThatFailsGivesBackWhatIsShared(t *testing.T) {
	c := chunkspkg.Open(newTestStore(t), chunkspkg.Options{PackBytes: 64 << 10, BlockBytes: 8 << 10})
	tree := treeOfChunks(t, c, slices.Repeat([][]byte{randomBytes(1, 800<<10), randomBytes(2, 800<<10)}, 10))
	errSink := errors.New("the sink will not have it")
	for range 3 {
		if err := walk(t.Context(), c, tree, &failingSink{err: errSink}); !errors.Is(err, errSink) {
			t.Fatalf("%v; want the sink's own error", err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the test ends it")
	cancel(why)
	if err := walk(ctx, c, tree, &failingSink{}); !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the context's error", err)
	}
	if !c.Ahead.TryAcquire(chunkspkg.SharedMore) {
		t.Error("what is shared was not given back")
	}
}

type failingSink struct{ err error }

func (s *failingSink) entry(Entry) error  { return nil }
func (s *failingSink) hole(int64) error   { return nil }
func (s *failingSink) end() error         { return nil }
func (s *failingSink) piece([]byte) error { return s.err }
