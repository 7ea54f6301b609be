package chunks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// liveOf returns a live function that yields digests.
func liveOf(digests ...[]Digest) func(context.Context, func(Digest) error) error {
	return func(_ context.Context, yield func(Digest) error) error {
		for _, some := range digests {
			for _, d := range some {
				if err := yield(d); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// at returns options for a prune some hours from now.
func at(hours int) PruneOptions {
	return PruneOptions{Condemn: time.Hour, Grace: time.Hour, Now: time.Now().Add(time.Duration(hours) * time.Hour)}
}

func mustPut(t *testing.T, c *Store, chunks [][]byte) []Digest {
	t.Helper()
	digests, _, err := putAll(t.Context(), c, BatchOptions{}, chunks)
	if err != nil {
		t.Fatal(err)
	}
	return digests
}

func mustPrune(t *testing.T, c *Store, o PruneOptions, live ...[]Digest) PruneReport {
	t.Helper()
	r, err := c.Prune(t.Context(), liveOf(live...), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keysUnder(t *testing.T, c *Store, prefix string) (keys []string) {
	t.Helper()
	found, err := c.Blobs.List(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		keys = append(keys, f.Key)
	}
	return keys
}

func TestPruneDeletesWhatNothingNeedsAfterItsGrace(t *testing.T) {
	st, _ := openTestStore(t)
	c := Open(st, smallPacks)
	kept, dropped := someChunks(1, 60), someChunks(2, 60)
	digests := mustPut(t, c, kept)
	mustPut(t, c, dropped)
	packs := len(keysUnder(t, c, PackPrefix))

	if r := mustPrune(t, c, at(0), digests); r.Condemned+r.Packs != 0 {
		t.Errorf("young packs: %+v; want nothing done", r)
	}
	if r := mustPrune(t, c, PruneOptions{Condemn: time.Hour, Now: at(2).Now, DryRun: true}, digests); r.Condemned == 0 || len(keysUnder(t, c, markerPrefix)) > 0 {
		t.Errorf("dry run: %+v, %v; want some that would be condemned and no marker", r, keysUnder(t, c, markerPrefix))
	}
	first := mustPrune(t, c, at(2), digests)
	if first.Condemned == 0 || first.Packs != 0 || len(keysUnder(t, c, PackPrefix)) != packs {
		t.Errorf("first: %+v; want packs condemned and none deleted", first)
	}
	other := Open(st, smallPacks) // another worker, which has not read the index yet
	second := mustPrune(t, other, at(4), digests)
	if second.Packs != first.Condemned || second.Freed == 0 || len(keysUnder(t, c, PackPrefix)) != packs-second.Packs {
		t.Errorf("second: %+v; want the %d condemned packs deleted", second, first.Condemned)
	}
	mustPrune(t, other, at(6), digests)
	if left := keysUnder(t, c, markerPrefix); len(left) > 0 {
		t.Errorf("markers %v are left", left)
	}
	checkAll(t, c, digests, kept)
	checkAll(t, Open(st, smallPacks), digests, kept)
	if digests := mustPut(t, c, dropped); len(digests) > 0 { // although the index of c had them
		checkAll(t, Open(st, smallPacks), digests, dropped)
	}
}

func TestPruneCopiesWhatIsNeededOutOfMostlyDeadPacks(t *testing.T) {
	st, _ := openTestStore(t)
	c := Open(st, smallPacks)
	chunks := someChunks(1, 100)
	digests := mustPut(t, c, chunks)
	var live []Digest
	var kept [][]byte
	for i := 0; i < len(digests); i += 10 {
		live, kept = append(live, digests[i]), append(kept, chunks[i])
	}
	before := len(keysUnder(t, c, PackPrefix))
	if r := mustPrune(t, c, at(2), live); r.Repacked == 0 || r.Condemned < r.Repacked {
		t.Fatalf("%+v; want packs copied and condemned", r)
	}
	mustPrune(t, c, at(4), live)
	if after := len(keysUnder(t, c, PackPrefix)); after >= before/2 {
		t.Errorf("%d packs of %d are left for a tenth of the content", after, before)
	}
	checkAll(t, Open(st, smallPacks), live, kept)
}

func TestManySmallPacksAndIndexesBecomeFew(t *testing.T) {
	st, _ := openTestStore(t)
	c := Open(st, Options{})
	stale := Open(st, Options{}) // its index has only the chunks that the store has now
	var chunks [][]byte
	var digests []Digest
	for i := range 40 {
		chunk := prose(uint64(i), 3000)
		chunks, digests = append(chunks, chunk), append(digests, mustPut(t, c, [][]byte{chunk})...)
	}
	checkAll(t, stale, digests[:1], chunks[:1])
	mustPrune(t, c, at(2), digests)
	if r := mustPrune(t, c, at(4), digests); r.Packs != 40 {
		t.Errorf("%+v; want the 40 small packs gone", r)
	}
	if packs, indexes := len(keysUnder(t, c, PackPrefix)), len(keysUnder(t, c, indexPrefix)); packs > 2 || indexes > 2 {
		t.Errorf("%d packs and %d index blobs are left; want one or two", packs, indexes)
	}
	for _, c := range []*Store{c, stale, Open(st, Options{})} {
		checkAll(t, c, digests, chunks)
	}
}

func TestABatchThatReliedOnACondemnedPackStoresItAnew(t *testing.T) {
	st, _ := openTestStore(t)
	c := Open(st, smallPacks)
	chunks := someChunks(1, 60)
	mustPut(t, c, chunks)

	worker := Open(st, smallPacks)
	b := worker.NewBatch(t.Context(), BatchOptions{})
	defer b.Abort()
	var digests []Digest
	for _, data := range chunks[:30] {
		if d := DigestOf(data); b.Has(d) {
			digests = append(digests, d)
		}
	}
	if len(digests) != 30 {
		t.Fatalf("%d of 30 chunks are known", len(digests))
	}
	if _, err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	mustPrune(t, c, at(2)) // nothing is live, so everything is condemned
	if b := c.NewBatch(t.Context(), BatchOptions{}); b.Has(digests[0]) {
		t.Error("a new batch relies on a condemned pack")
	} else {
		b.Abort()
	}
	written := false
	if err := b.Commit(func() error { written = true; return nil }); err != nil || !written {
		t.Fatalf("commit: %v, written %v", err, written)
	}
	// A pruner that called live too early removes no needed chunk either.
	if r := mustPrune(t, c, at(4)); r.Packs == 0 {
		t.Errorf("%+v; want the condemned packs deleted", r)
	}
	checkAll(t, Open(st, smallPacks), digests, chunks[:30])
}

func TestABatchThatCommitsMuchTooLateIsToldSo(t *testing.T) {
	st, _ := openTestStore(t)
	for name, during := range map[string]bool{"before the manifest": false, "while it is written": true} {
		t.Run(name, func(t *testing.T) {
			c, pruner := Open(st, smallPacks), Open(st, smallPacks)
			chunks := someChunks(3, 30)
			mustPut(t, c, chunks)
			prune := func() {
				mustPrune(t, pruner, at(2))
				mustPrune(t, pruner, at(4))
			}
			b := c.NewBatch(t.Context(), BatchOptions{})
			defer b.Abort()
			for _, data := range chunks {
				if !b.Has(DigestOf(data)) {
					t.Fatal("a chunk is not known")
				}
			}
			if !during {
				prune()
			}
			err := b.Commit(func() error {
				if during {
					prune()
				}
				return nil
			})
			if !errors.Is(err, ErrCondemned) {
				t.Errorf("got %v; want ErrCondemned", err)
			}
			checkAll(t, c, mustPut(t, c, chunks), chunks) // the next capture stores all chunks
			prune()
			prune()
		})
	}
}

func TestALostIndexIsMadeAnew(t *testing.T) {
	for _, how := range []string{"deleted", "torn"} {
		t.Run(how, func(t *testing.T) {
			st, root := openTestStore(t)
			chunks := someChunks(1, 60)
			digests := mustPut(t, Open(st, smallPacks), chunks)
			indexes, err := filepath.Glob(filepath.Join(root, indexPrefix, "*"))
			if err != nil || len(indexes) < 2 {
				t.Fatal(indexes, err)
			}
			for _, name := range indexes {
				if how == "torn" {
					err = os.Truncate(name, 200)
				} else {
					err = os.Remove(name)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			checkAll(t, Open(st, smallPacks), digests, chunks) // packs can be read without an index
			c := Open(st, smallPacks)
			report, err := c.Check(t.Context(), CheckOptions{}, liveOf(digests))
			if err != nil || report.Missing+report.Rotten != 0 || report.Orphaned != len(indexes) {
				t.Errorf("check: %+v, %v; want %d packs without an index and nothing missing", report, err, len(indexes))
			}
			if b := c.NewBatch(t.Context(), BatchOptions{}); b.Has(digests[0]) {
				t.Error("a batch relies on a pack that no index names")
			} else {
				b.Abort()
			}
			if r := mustPrune(t, c, at(100), digests); r.Adopted != len(indexes) || r.Missing != 0 || r.Packs+r.Condemned != 0 {
				t.Errorf("%+v; want %d packs adopted and nothing else", r, len(indexes))
			}
			checkAll(t, Open(st, smallPacks), digests, chunks)
		})
	}
}

func TestAPackOfAKilledCaptureIsPruned(t *testing.T) {
	st, root := openTestStore(t)
	c := Open(st, smallPacks)
	mustPut(t, c, someChunks(1, 30))
	if err := os.RemoveAll(filepath.Join(root, indexPrefix)); err != nil {
		t.Fatal(err)
	}
	c = Open(st, smallPacks)
	if r := mustPrune(t, c, at(0)); r.Condemned != 0 {
		t.Errorf("%+v; want a young pack left alone: its capture may be about to index it", r)
	}
	first, second := mustPrune(t, c, at(2)), mustPrune(t, c, at(4))
	if first.Condemned == 0 || second.Packs != first.Condemned || len(keysUnder(t, c, PackPrefix)) != 0 {
		t.Errorf("%+v, then %+v; want all condemned, then deleted", first, second)
	}
}

func TestNothingChangesWhereLiveFails(t *testing.T) {
	st, _ := openTestStore(t)
	c := Open(st, smallPacks)
	mustPut(t, c, someChunks(1, 30))
	mustPrune(t, c, at(2))
	before := fmt.Sprint(keysUnder(t, c, PackPrefix), keysUnder(t, c, indexPrefix), keysUnder(t, c, markerPrefix))
	failed := errors.New("a manifest cannot be read")
	_, err := c.Prune(t.Context(), func(context.Context, func(Digest) error) error { return failed }, at(4))
	if after := fmt.Sprint(keysUnder(t, c, PackPrefix), keysUnder(t, c, indexPrefix), keysUnder(t, c, markerPrefix)); !errors.Is(err, failed) || after != before {
		t.Errorf("%v; the store changed: %s", err, after)
	}
}

func TestCheckFindsMissingAndRottenChunks(t *testing.T) {
	st, root := openTestStore(t)
	c := Open(st, smallPacks)
	digests := mustPut(t, c, someChunks(1, 100))
	check := func(data bool) CheckReport {
		t.Helper()
		r, err := Open(st, smallPacks).Check(t.Context(), CheckOptions{ReadData: data}, liveOf(digests))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := check(true); r.Chunks != 100 || r.Missing+r.Rotten != 0 || len(r.Problems) > 0 {
		t.Fatalf("a good store: %+v", r)
	}
	packs, err := filepath.Glob(filepath.Join(root, PackPrefix, "*"))
	if err != nil || len(packs) < 4 {
		t.Fatal(packs, err)
	}
	damage := func(name string, fn func([]byte) []byte) {
		t.Helper()
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, fn(data), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	damage(packs[0], func(p []byte) []byte { p[len(p)/2] ^= 1; return p })
	if r := check(false); r.Missing+r.Rotten != 0 {
		t.Errorf("without reading data: %+v", r)
	}
	if r := check(true); r.Rotten == 0 || r.Missing != 0 || r.Chunks != 100 || !strings.Contains(strings.Join(r.Problems, "\n"), filepath.Base(packs[0])) {
		t.Errorf("a flipped bit: %+v", r)
	}
	checkAll(t, c, mustPut(t, Open(st, smallPacks), someChunks(1, 100)), someChunks(1, 100)) // no capture relies on the bad pack any more
	if r := check(true); r.Missing+r.Rotten != 0 {
		t.Errorf("after the next capture: %+v", r)
	}
	mustPrune(t, c, at(2), digests)
	mustPrune(t, c, at(4), digests)
	if r := check(true); r.Missing+r.Rotten != 0 || len(r.Problems) > 0 {
		t.Errorf("after a prune: %+v; want the rotten pack gone", r)
	}
	if packs, err = filepath.Glob(filepath.Join(root, PackPrefix, "*")); err != nil || len(packs) < 4 {
		t.Fatal(packs, err)
	}
	if err := os.Remove(packs[1]); err != nil {
		t.Fatal(err)
	}
	damage(packs[2], func(p []byte) []byte { return p[:len(p)/3] })
	r := check(false)
	if r.Missing == 0 || r.Rotten == 0 || len(r.Problems) != 2 {
		t.Errorf("a pack removed and one cut: %+v", r)
	}
	reader := c.NewReader(t.Context())
	for _, d := range digests {
		_, err := reader.Get(d)
		switch bad := r.Bad(d); {
		case errors.Is(bad, ErrMissing) != errors.Is(err, ErrMissing):
			t.Errorf("check says %v and reading %v", bad, err)
		case err != nil && !strings.Contains(err.Error(), "pack "):
			t.Errorf("%v names no pack", err)
		}
	}
	// A capture that relied on a lost chunk gets an error, and the next capture is
	// complete.
	chunks := someChunks(1, 100)
	worker := Open(st, smallPacks)
	if _, _, err := putAll(t.Context(), worker, BatchOptions{}, chunks); !errors.Is(err, ErrCondemned) {
		t.Errorf("a capture that relied on a pack that is lost: %v; want ErrCondemned", err)
	}
	again, _, err := putAll(t.Context(), worker, BatchOptions{}, chunks)
	if err != nil {
		t.Fatal(err)
	}
	lost := Open(st, smallPacks).NewReader(t.Context())
	for _, d := range again {
		if _, err := lost.Get(d); errors.Is(err, ErrMissing) {
			t.Error(err)
		}
	}
}
