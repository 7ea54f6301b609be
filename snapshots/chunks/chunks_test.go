package chunks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// openTestStore returns a file store that a test may damage.
func openTestStore(t testing.TB) (st *store.Store, root string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(t.TempDir(), "store")
	st, err = store.Open(t.Context(), store.Options{URL: "file://" + root, Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st, root
}

// memoryStore returns a store in memory. It is for tests that open many stores.
func memoryStore(t testing.TB) Blobs {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "mem://", Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return StoreBlobs{st}
}

// smallPacks are options with which little content fills many packs.
var smallPacks = Options{PackBytes: 64 << 10, BlockBytes: 8 << 10}

// noise returns content that does not compress. The same seed gives the same
// content.
func noise(seed uint64, n int) []byte {
	out := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func prose(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 2))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "line %d of %x\n", b.Len(), r.Uint32N(1000))
	}
	return b.Bytes()[:n]
}

func putAll(ctx context.Context, c *Store, opts BatchOptions, chunks [][]byte) (digests []Digest, added Added, err error) {
	b := c.NewBatch(ctx, opts)
	defer b.Abort()
	for _, data := range chunks {
		d, err := b.Put(data)
		if err != nil {
			return nil, added, err
		}
		digests = append(digests, d)
	}
	if added, err = b.Flush(); err != nil {
		return nil, added, err
	}
	return digests, added, b.Commit(func() error { return nil })
}

func someChunks(seed uint64, n int) (chunks [][]byte) {
	for i := range n {
		size := 100 + int(seed*7919+uint64(i)*104729)%9000
		if i%3 == 0 {
			chunks = append(chunks, prose(seed*1000+uint64(i), size))
		} else {
			chunks = append(chunks, noise(seed*1000+uint64(i), size))
		}
	}
	return chunks
}

func checkAll(t *testing.T, c *Store, digests []Digest, chunks [][]byte) {
	t.Helper()
	r := c.NewReader(t.Context())
	for i, d := range digests {
		got, err := r.Get(d)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, chunks[i]) {
			t.Fatalf("chunk %d came back with other bytes", i)
		}
	}
}

func TestChunksComeBackAsTheyWere(t *testing.T) {
	st, _ := openTestStore(t)
	for name, opts := range map[string]Options{"small packs": smallPacks, "as configured": {}} {
		t.Run(name, func(t *testing.T) {
			chunks := append(someChunks(1, 200), []byte{}, []byte("x"), noise(2, MaxChunk), make([]byte, MaxChunk))
			digests, _, err := putAll(t.Context(), Open(st, opts), BatchOptions{}, chunks)
			if err != nil {
				t.Fatal(err)
			}
			checkAll(t, Open(st, opts), digests, chunks) // another worker
		})
	}
}

func TestAChunkIsStoredOnceByAllWorkers(t *testing.T) {
	st, _ := openTestStore(t)
	a, b := Open(st, smallPacks), Open(st, smallPacks)
	chunks := someChunks(1, 100)
	twice := append(append([][]byte{}, chunks...), chunks...)
	_, first, err := putAll(t.Context(), a, BatchOptions{}, twice)
	if err != nil || first.Chunks != 100 {
		t.Fatalf("the first capture added %d chunks, %v; want 100", first.Chunks, err)
	}
	digests, second, err := putAll(t.Context(), b, BatchOptions{}, append(chunks, []byte("new")))
	if err != nil || second.Chunks != 1 || second.Packs != 1 {
		t.Errorf("the second capture added %+v, %v; want one chunk", second, err)
	}
	checkAll(t, a, digests, append(chunks, []byte("new"))) // a sees the new chunk, although it was opened before
}

func TestASecretNeverStaysInAPack(t *testing.T) {
	const planted = "planted-secret-0123456789"
	st, _ := openTestStore(t)
	c := Open(st, smallPacks)
	mask := func() Masker {
		return seeds.NewRedactor("team", []seeds.Secret{seeds.NewSecret(planted)}).MaskStream()
	}
	_, _, err := putAll(t.Context(), c, BatchOptions{Mask: mask}, [][]byte{prose(1, 5000), []byte("a " + planted + " b"), prose(2, 100)})
	if !errors.Is(err, ErrSecret) {
		t.Fatalf("got %v; want ErrSecret", err)
	}
	for _, prefix := range []string{PackPrefix, indexPrefix} {
		if left, err := st.List(t.Context(), prefix); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v; want nothing left", prefix, left, err)
		}
	}
	// If one file ends with the beginning of a secret and the next file begins with the
	// rest, that does not count as a secret.
	if _, _, err := putAll(t.Context(), c, BatchOptions{Mask: mask}, [][]byte{[]byte(planted[:10]), []byte(planted[10:])}); err != nil {
		t.Error(err)
	}
}

func TestSplitIsTheFile(t *testing.T) {
	zero := func(n int) []byte { return make([]byte, n) }
	for name, file := range map[string][]byte{
		"empty": {}, "short": noise(1, 10), "whole": noise(2, WholeFile), "one more": noise(3, WholeFile+1),
		"large": noise(4, 9<<20), "text": prose(5, 6<<20), "a hole": zero(7 << 20),
		"begins with a hole": append(zero(3<<20+5), noise(6, 1<<20)...),
		"ends with a hole":   append(noise(7, 2<<20+1), zero(5<<20)...),
		"holes":              bytes.Join([][]byte{noise(8, 300<<10), zero(MinHole), noise(9, 10), zero(MinHole - 1), noise(10, 3<<20), zero(9 << 20), {1}}, nil),
	} {
		sizes := []int64{int64(len(file)), -1, 0, int64(len(file)) * 2}
		if testing.Short() {
			sizes = sizes[:2] // the race detector makes it slow
		}
		for _, size := range sizes {
			var got bytes.Buffer
			err := Split(io.MultiReader(bytes.NewReader(file)), size, func(chunk []byte, hole int64) error {
				if (len(chunk) == 0) == (hole == 0) || len(chunk) > MaxChunk {
					t.Errorf("%s: a piece of %d bytes and %d zeros", name, len(chunk), hole)
				}
				got.Write(chunk)
				got.Write(make([]byte, hole))
				return nil
			})
			if err != nil || !bytes.Equal(got.Bytes(), file) {
				t.Errorf("%s: %d bytes of %d come back, %v", name, got.Len(), len(file), err)
			}
		}
	}
}
