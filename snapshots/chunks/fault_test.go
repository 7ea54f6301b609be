package chunks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// faulty is a store that fails at the n-th operation.
type faulty struct {
	Blobs
	left  atomic.Int64 // steps until the store fails; it has failed if left is below 0
	how   string       // "before", "lost answer", or "dead" (then every later step fails too)
	torn  bool         // packs that are written are damaged in the store
	steps atomic.Int64
}

var errFault = fmt.Errorf("%w: as the test wants it", store.ErrUnreachable)

// step reports whether this step fails.
func (f *faulty) step() bool {
	f.steps.Add(1)
	n := f.left.Add(-1)
	return n == 0 || n < 0 && f.how == "dead"
}

func (f *faulty) do(fn func() error) error {
	if !f.step() {
		return fn()
	}
	if f.how == "lost answer" {
		if err := fn(); err != nil {
			return err
		}
	}
	return errFault
}

func (f *faulty) Put(ctx context.Context, key string, data []byte) error {
	return f.do(func() error { return f.Blobs.Put(ctx, key, data) })
}

func (f *faulty) Create(ctx context.Context, key string, data []byte) error {
	return f.do(func() error { return f.Blobs.Create(ctx, key, data) })
}

func (f *faulty) Delete(ctx context.Context, key string) error {
	return f.do(func() error { return f.Blobs.Delete(ctx, key) })
}

func (f *faulty) Get(ctx context.Context, key string) (data []byte, err error) {
	err = f.do(func() error { data, err = f.Blobs.Get(ctx, key); return err })
	return data, err
}

func (f *faulty) Stat(ctx context.Context, key string) (info store.Info, err error) {
	err = f.do(func() error { info, err = f.Blobs.Stat(ctx, key); return err })
	return info, err
}

func (f *faulty) List(ctx context.Context, prefix string) (found []store.Info, err error) {
	err = f.do(func() error { found, err = f.Blobs.List(ctx, prefix); return err })
	return found, err
}

func (f *faulty) NewReader(ctx context.Context, key string) (io.ReadCloser, error) {
	if f.step() {
		return nil, errFault
	}
	return f.Blobs.NewReader(ctx, key)
}

func (f *faulty) OpenAt(ctx context.Context, key string) (BlobAt, error) {
	if f.step() {
		return nil, errFault
	}
	r, err := f.Blobs.OpenAt(ctx, key)
	if err != nil {
		return nil, err
	}
	return &faultyAt{r, f}, nil
}

type faultyAt struct {
	BlobAt
	f *faulty
}

func (r *faultyAt) ReadAt(p []byte, off int64) (int, error) {
	if r.f.step() {
		return 0, errFault
	}
	return r.BlobAt.ReadAt(p, off)
}

func (f *faulty) OpenWriter(ctx context.Context, key string) (BlobWriter, error) {
	if f.step() {
		return nil, errFault
	}
	w, err := f.Blobs.OpenWriter(ctx, key)
	if err != nil {
		return nil, err
	}
	return &faultyWriter{w, f}, nil
}

type faultyWriter struct {
	BlobWriter
	f *faulty
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if w.f.step() {
		return 0, errFault
	}
	if w.f.torn && len(p) > 1000 {
		p = bytes.Clone(p)
		p[len(p)/2] ^= 1
	}
	return w.BlobWriter.Write(p)
}

func (w *faultyWriter) Close() error { return w.f.do(w.BlobWriter.Close) }

// manifests stands for the manifests of sessions. Each manifest is an entry of the map.
type manifests struct {
	mu sync.Mutex
	of map[string]snapshotOf
}

type snapshotOf struct {
	digests []Digest
	chunks  [][]byte
}

func (m *manifests) live(_ context.Context, yield func(Digest) error) error {
	m.mu.Lock()
	var all []Digest
	for _, s := range m.of {
		all = append(all, s.digests...)
	}
	m.mu.Unlock()
	return liveOf(all)(context.Background(), yield)
}

func (m *manifests) set(id string, s snapshotOf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[id] = s
}

func (m *manifests) delete(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}

// take captures chunks as Take does. It relies on chunks that the store has, writes the
// manifest in Commit, and deletes the manifest after an error.
func (m *manifests) take(ctx context.Context, c *Store, id string, chunks [][]byte) (err error) {
	b := c.NewBatch(ctx, BatchOptions{})
	defer b.Abort()
	s := snapshotOf{chunks: chunks}
	for i, data := range chunks {
		put := b.Put
		if i%5 == 0 {
			put = b.PutList
		}
		d, err := put(data)
		if err != nil {
			return err
		}
		s.digests = append(s.digests, d)
	}
	if _, err := b.Flush(); err != nil {
		return err
	}
	err = b.Commit(func() error {
		m.set(id, s)
		return nil
	})
	if err != nil {
		m.delete(id)
	}
	return err
}

// verify reads every snapshot as a new worker would.
func (m *manifests) verify(t *testing.T, c *Store) {
	t.Helper()
	for id, s := range m.of {
		r := c.NewReader(t.Context())
		for i, d := range s.digests {
			if got, err := r.Get(d); err != nil || !bytes.Equal(got, s.chunks[i]) {
				r.Close()
				t.Fatalf("%s: chunk %d: %v", id, i, err)
			}
		}
		r.Close()
	}
}

func TestAStoreThatFailsAnywhereLosesNothing(t *testing.T) {
	step := int64(1)
	if testing.Short() {
		step = 4
	}
	for from, how := range []string{"before", "lost answer", "dead"} {
		t.Run(how, func(t *testing.T) {
			failed := 0
			for n := min(int64(from)+1, step); ; n += step {
				st := memoryStore(t)
				good := &manifests{of: map[string]snapshotOf{}}
				if err := good.take(t.Context(), OpenBlobs(st, smallPacks), "first", someChunks(1, 12)); err != nil {
					t.Fatal(err)
				}
				f := &faulty{Blobs: st, how: how}
				f.left.Store(n)
				c := OpenBlobs(f, smallPacks)
				chunks := append(someChunks(1, 6), someChunks(2, 30)...)
				err := good.take(t.Context(), c, "second", chunks)
				if err != nil && !errors.Is(err, errFault) {
					t.Fatalf("step %d: %v; want the store's own error", n, err)
				}
				good.verify(t, OpenBlobs(st, smallPacks))
				if f.left.Load() > 0 {
					break // the work needed fewer steps
				}
				if err == nil {
					continue // the failed step was tried again and succeeded
				}
				failed++
				if how == "dead" { // another worker then tries again
					c = OpenBlobs(st, smallPacks)
				}
				if err := good.take(t.Context(), c, "second", chunks); err != nil {
					t.Fatalf("step %d, again: %v", n, err)
				}
				good.verify(t, OpenBlobs(st, smallPacks))
				if n%5 != 0 {
					continue
				}
				for _, hours := range []int{2, 4} {
					mustPruneLive(t, OpenBlobs(st, smallPacks), good, at(hours))
				}
				good.verify(t, OpenBlobs(st, smallPacks))
			}
			if failed < int(20/step) {
				t.Errorf("only %d steps failed: there is no fault where there should be", failed)
			}
		})
	}
}

func mustPruneLive(t *testing.T, c *Store, m *manifests, o PruneOptions) PruneReport {
	t.Helper()
	r, err := c.Prune(t.Context(), m.live, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAPruneThatIsKilledAnywhereLosesNothing(t *testing.T) {
	// Together the runs fail at every step, or with -short at every thirtieth.
	step := int64(3)
	if testing.Short() {
		step = 90
	}
	for from, how := range []string{"before", "lost answer", "dead"} {
		t.Run(how, func(t *testing.T) {
			failed := 0
			for n := int64(from) + 1; ; n += step {
				st := memoryStore(t)
				good := &manifests{of: map[string]snapshotOf{}}
				everyKindOfWork(t, st, good)
				f := &faulty{Blobs: st, how: how}
				f.left.Store(n)
				r, err := OpenBlobs(f, smallPacks).Prune(t.Context(), good.live, at(4))
				if err != nil && !errors.Is(err, errFault) {
					t.Fatalf("step %d: %v", n, err)
				}
				good.verify(t, OpenBlobs(st, smallPacks))
				if err != nil {
					failed++
				}
				if failed%4 == 0 || err == nil {
					pruneToTheEnd(t, st, good)
				}
				if f.left.Load() <= 0 {
					continue
				}
				if r.Packs == 0 || r.Condemned == 0 || r.Repacked == 0 || r.Merged == 0 {
					t.Errorf("%+v; want that something of everything was to be done", r)
				}
				break
			}
			if failed < 60/int(step) {
				t.Errorf("only %d steps failed: there is no fault where there should be", failed)
			}
		})
	}
}

// everyKindOfWork prepares a store in which every step of a prune four hours from now has
// work. The store has packs to delete, to condemn and to copy, and many index blobs.
func everyKindOfWork(t *testing.T, st Blobs, good *manifests) {
	t.Helper()
	c := OpenBlobs(st, smallPacks)
	take := func(id string, chunks [][]byte) {
		t.Helper()
		if err := good.take(t.Context(), c, id, chunks); err != nil {
			t.Fatal(err)
		}
	}
	take("to be condemned at two", someChunks(1, 6))
	good.delete("to be condemned at two")
	take("to be copied", append(someChunks(2, 3), someChunks(3, 20)...))
	mustPruneLive(t, c, good, PruneOptions{Condemn: time.Hour, Grace: time.Hour, Now: at(2).Now, RepackBelow: -1})
	good.delete("to be copied")
	take("kept", someChunks(2, 3))
	for i := range uint64(20) {
		take(fmt.Sprint("small ", i), someChunks(10+i, 1))
	}
	take("needs what is condemned", someChunks(3, 2))
}

// pruneToTheEnd checks that pruning keeps the needed chunks, and that it empties the store
// if no chunk is needed.
func pruneToTheEnd(t *testing.T, st Blobs, good *manifests) {
	t.Helper()
	for _, hours := range []int{8, 12} {
		mustPruneLive(t, OpenBlobs(st, smallPacks), good, at(hours))
	}
	good.verify(t, OpenBlobs(st, smallPacks))
	nothing := &manifests{}
	for _, hours := range []int{16, 20, 24} {
		mustPruneLive(t, OpenBlobs(st, smallPacks), nothing, at(hours))
	}
	for _, prefix := range []string{PackPrefix, indexPrefix, markerPrefix} {
		if left := keysUnder(t, OpenBlobs(st, smallPacks), prefix); len(left) > 0 {
			t.Errorf("nothing is needed, and left are %d of %s", len(left), prefix)
		}
	}
}

func TestAPackThatIsTornInTheStoreIsFoundBeforeItCounts(t *testing.T) {
	st, _ := openTestStore(t)
	c := OpenBlobs(&faulty{Blobs: StoreBlobs{st}, torn: true}, smallPacks)
	b := c.NewBatch(t.Context(), BatchOptions{})
	defer b.Abort()
	for _, data := range someChunks(1, 100) {
		if _, err := b.Put(data); err != nil {
			break
		}
	}
	if _, err := b.Flush(); !errors.Is(err, ErrRotten) || !strings.Contains(err.Error(), "pack ") {
		t.Errorf("flush: %v; want ErrRotten, naming the pack", err)
	}
	if err := b.Commit(func() error { t.Error("the manifest was written"); return nil }); err == nil {
		t.Error("commit succeeded")
	}
	if indexes := keysUnder(t, c, indexPrefix); len(indexes) > 0 {
		t.Errorf("it is indexed: %v", indexes)
	}
}

// hooked calls a function after each pack and each index blob that is written.
type hooked struct {
	Blobs
	packWritten, indexWritten func(key string)
}

func (h *hooked) OpenWriter(ctx context.Context, key string) (BlobWriter, error) {
	w, err := h.Blobs.OpenWriter(ctx, key)
	return &hookedWriter{BlobWriter: w, closed: func() { h.packWritten(key) }}, err
}

func (h *hooked) Put(ctx context.Context, key string, data []byte) error {
	err := h.Blobs.Put(ctx, key, data)
	if strings.HasPrefix(key, indexPrefix) {
		h.indexWritten(key)
	}
	return err
}

type hookedWriter struct {
	BlobWriter
	closed func()
}

func (w *hookedWriter) Close() error {
	err := w.BlobWriter.Close()
	w.closed()
	return err
}

func TestAPackThatIsPrunedBeforeItIsIndexedWasPruned(t *testing.T) {
	st := memoryStore(t)
	c := OpenBlobs(&hooked{Blobs: st,
		packWritten: func(key string) {
			if err := st.Delete(t.Context(), key); err != nil {
				t.Error(err)
			}
		},
		indexWritten: func(key string) { t.Errorf("a pack that is gone was indexed in %s", key) },
	}, smallPacks)
	if _, _, err := putAll(t.Context(), c, BatchOptions{}, someChunks(1, 10)); !errors.Is(err, ErrCondemned) {
		t.Errorf("got %v; want ErrCondemned", err)
	}
}

// TestACommitOutlastsPrunesThatCondemnAgainAndAgain condemns again and again the packs to
// which a commit has copied chunks.
func TestACommitOutlastsPrunesThatCondemnAgainAndAgain(t *testing.T) {
	st := memoryStore(t)
	all := &manifests{of: map[string]snapshotOf{}}
	var one sync.Mutex // packs are written at the same time
	prunes := 0
	c := OpenBlobs(&hooked{Blobs: st, packWritten: func(string) {},
		indexWritten: func(string) {
			one.Lock()
			defer one.Unlock()
			if prunes == 12 {
				return
			}
			prunes++
			_, err := OpenBlobs(st, smallPacks).Prune(t.Context(), all.live,
				PruneOptions{Condemn: time.Nanosecond, Grace: time.Hour, Now: time.Now().Add(time.Minute)})
			if err != nil {
				t.Error(err)
			}
		},
	}, smallPacks)
	if err := all.take(t.Context(), c, "a", someChunks(1, 3)); err != nil {
		t.Fatal(err)
	}
	if prunes != 12 {
		t.Errorf("%d prunes came between; want 12", prunes)
	}
	all.verify(t, OpenBlobs(st, smallPacks))
}

// TestCapturesDeletesAndPrunesAtOnce lets workers capture, delete and prune at the same
// time. In one case the grace is so short that captures often miss it. A snapshot that
// Commit reported as complete must be complete at every moment.
func TestCapturesDeletesAndPrunesAtOnce(t *testing.T) {
	for name, o := range map[string]PruneOptions{
		// The grace is longer than any step, so no capture may fail.
		"enough grace": {Condemn: time.Nanosecond, Grace: 20 * time.Second},
		// Condemned packs vanish during captures. A capture may then fail with an error
		// that says so.
		"no grace": {Condemn: time.Nanosecond, Grace: time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			st := memoryStore(t)
			all := &manifests{of: map[string]snapshotOf{}}
			var taken, late atomic.Int64
			stop := make(chan struct{})
			var captures, others sync.WaitGroup
			for w := range 3 {
				captures.Go(func() {
					r := rand.New(rand.NewPCG(uint64(w), 7))
					c := OpenBlobs(st, smallPacks)
					for i := 0; i < 12 || taken.Load() == 0; i++ {
						chunks := append(someChunks(r.Uint64N(4), 10), someChunks(100+r.Uint64N(6), 10)...)
						id := fmt.Sprint(w, "-", i)
						switch err := all.take(t.Context(), c, id, chunks); {
						case err == nil:
							taken.Add(1)
						case errors.Is(err, ErrCondemned) && o.Grace < time.Second:
							late.Add(1)
						default:
							t.Error(err)
						}
						if i > 1 {
							all.delete(fmt.Sprint(w, "-", r.IntN(i-1)))
						}
					}
				})
			}
			for range 2 {
				others.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						c := OpenBlobs(st, smallPacks)
						_, err := c.Prune(t.Context(), all.live, o)
						if errors.Is(err, store.ErrUnreachable) && o.Grace < time.Second {
							continue // the other prune removed the marker before it was read back
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			captures.Wait()
			close(stop)
			others.Wait()
			t.Logf("%d taken, %d were told that they came too late", taken.Load(), late.Load())
			all.verify(t, OpenBlobs(st, smallPacks))
			for range 3 {
				o.Now = time.Now().Add(time.Hour)
				mustPruneLive(t, OpenBlobs(st, smallPacks), all, o)
				o.Now = o.Now.Add(time.Hour)
			}
			all.verify(t, OpenBlobs(st, smallPacks))
		})
	}
}
