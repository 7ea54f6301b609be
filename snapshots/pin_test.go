package snapshots

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// keptIn puts an empty snapshot into a store.
func keptIn(t *testing.T, st *store.Store, id string) {
	t.Helper()
	data := fmt.Sprintf(`{"format":%d,"id":%q,"session":"s","complete":true,"created_at":"2026-11-22T03:04:05Z"}`, format, id)
	if err := st.Put(t.Context(), manifestKey("s", id), []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// holds returns a function for Drop. It reports that the given holders still need their
// snapshots.
func holds(who ...string) func(context.Context, Pin) (bool, error) {
	return func(_ context.Context, p Pin) (bool, error) {
		for _, w := range who {
			if w == p.Holder {
				return true, nil
			}
		}
		return false, nil
	}
}

func TestAPinnedSnapshotIsNotDropped(t *testing.T) {
	st := newTestStore(t)
	id := NewID("s", time.Unix(1_800_000_000, 0))
	keptIn(t, st, id)
	for range 2 {
		if m, err := Keep(t.Context(), st, id, "fork.r1"); err != nil || m.ID != id {
			t.Fatalf("pinned %+v, %v", m, err)
		}
	}
	var held *HeldError
	if err := Drop(t.Context(), st, id, holds("fork.r1")); !errors.As(err, &held) || held.Holder != "fork.r1" {
		t.Errorf("dropped: %v", err)
	}
	away := errors.New("nobody answers")
	if err := Drop(t.Context(), st, id, func(context.Context, Pin) (bool, error) { return false, away }); !errors.Is(err, away) {
		t.Errorf("dropped: %v", err)
	}
	if _, err := Read(t.Context(), st, id); err != nil {
		t.Fatal(err)
	}
	if err := Drop(t.Context(), st, id, holds("another.r1")); err != nil {
		t.Errorf("dropped, when nobody holds it any more: %v", err)
	}
	if pins, err := Pins(t.Context(), st, ""); err != nil || len(pins) != 0 {
		t.Errorf("pins are left: %v, %v", pins, err)
	}
	if _, err := Keep(t.Context(), st, id, "late.r1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("pinned what is gone: %v", err)
	}
	if list, err := List(t.Context(), st, ""); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
}

// Keep and Drop meet at every step, in either order. One of them is stopped, and the other
// does all its work meanwhile. Afterwards the snapshot exists and is pinned, or it is gone
// and Keep returns an error.
func TestPinningAndDroppingAtTheSameTime(t *testing.T) {
	for _, name := range []string{"pinned while it is dropped", "dropped while it is pinned"} {
		for at := 0; ; at++ {
			st := newTestStore(t)
			id := NewID("s", time.Unix(1_800_000_000, 0))
			keptIn(t, st, id)
			pin := func(b chunks.Blobs) error { _, err := keep(t.Context(), b, Pin{id, "fork.r1"}); return err }
			out := func(b chunks.Blobs) error { return drop(t.Context(), b, id, holds("fork.r1")) }
			first, second := out, pin
			if name == "dropped while it is pinned" {
				first, second = pin, out
			}
			step, met := 0, false
			var other error
			striking := &pinStore{strikingStore{Blobs: chunks.StoreBlobs{Store: st}, strike: func(string) error {
				if step++; step == at+1 {
					met = true
					other = second(chunks.StoreBlobs{Store: st})
				}
				return nil
			}}}
			err := first(striking)
			if !met {
				if at < 6 {
					t.Fatalf("%s: only %d steps", name, at)
				}
				break
			}
			pinned, dropped := other, err
			if name == "dropped while it is pinned" {
				pinned, dropped = err, other
			}
			if errors.Is(pinned, ErrDropping) {
				pinned = pin(chunks.StoreBlobs{Store: st}) // as an activity does
			}
			_, there := Read(t.Context(), st, id)
			switch {
			case pinned == nil && there != nil:
				t.Errorf("%s, step %d: it is pinned, and gone: %v", name, at, there)
			case pinned != nil && (there == nil || !errors.Is(pinned, ErrNotFound)):
				t.Errorf("%s, step %d: pinned: %v; it is there: %v", name, at, pinned, there)
			case (dropped == nil) != (there != nil):
				t.Errorf("%s, step %d: dropped: %v; it is there: %v", name, at, dropped, there)
			}
			if marks, err := st.List(t.Context(), dropPrefix); err != nil || len(marks) != 0 {
				t.Errorf("%s, step %d: marks are left: %v, %v", name, at, marks, err)
			}
		}
	}
}

// A pinStore is a strikingStore that also strikes at deletions.
type pinStore struct{ strikingStore }

func (s *pinStore) Delete(ctx context.Context, key string) error {
	return s.around("delete", func() error { return s.Blobs.Delete(ctx, key) })
}

func TestManyPinAndDrop(t *testing.T) {
	st := newTestStore(t)
	id := NewID("s", time.Unix(1_800_000_000, 0))
	for range 20 {
		keptIn(t, st, id)
		var wg sync.WaitGroup
		pinned, dropped := make([]error, 4), make([]error, 4)
		for i := range 4 {
			wg.Go(func() {
				for pinned[i] = ErrDropping; errors.Is(pinned[i], ErrDropping); {
					_, pinned[i] = Keep(t.Context(), st, id, fmt.Sprintf("fork%d.r1", i))
				}
			})
			wg.Go(func() {
				dropped[i] = Drop(t.Context(), st, id, func(context.Context, Pin) (bool, error) { return true, nil })
			})
		}
		wg.Wait()
		_, there := Read(t.Context(), st, id)
		for i := range 4 {
			if pinned[i] == nil && there != nil {
				t.Errorf("it is pinned by %d, and gone; dropped: %v", i, dropped)
			}
			if dropped[i] == nil && there == nil {
				t.Errorf("it is dropped, and there")
			}
		}
		pins, err := Pins(t.Context(), st, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pins {
			if err := Unpin(t.Context(), st, p); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The mark of a process that died delays other callers only for a short time, and is
// removed.
func TestAMarkOfTheDeadMeansNothing(t *testing.T) {
	st := newTestStore(t)
	id := NewID("s", time.Unix(1_800_000_000, 0))
	keptIn(t, st, id)
	died := errors.New("killed")
	striking := &strikingStore{Blobs: chunks.StoreBlobs{Store: st}}
	puts := false
	striking.strike = func(what string) error {
		if puts = puts || what == "after put"; puts {
			return died
		}
		return nil
	}
	if err := drop(t.Context(), striking, id, holds()); !errors.Is(err, died) {
		t.Fatalf("dropped: %v", err)
	}
	if _, err := Keep(t.Context(), st, id, "fork.r1"); !errors.Is(err, ErrDropping) {
		t.Errorf("pinned at once: %v", err)
	}
	late := &agedStore{chunks.StoreBlobs{Store: st}, dropDead}
	if m, err := keep(t.Context(), late, Pin{id, "fork.r1"}); err != nil || m.ID != id {
		t.Errorf("pinned later: %v", err)
	}
	if err := Tidy(t.Context(), st, time.Now().Add(25*time.Hour)); err != nil {
		t.Error(err)
	}
	if marks, err := st.List(t.Context(), dropPrefix); err != nil || len(marks) != 0 {
		t.Errorf("left are %v, %v", marks, err)
	}
}

// An agedStore shifts all modification times that it reports by a duration.
type agedStore struct {
	chunks.StoreBlobs
	by time.Duration
}

func (a *agedStore) Stat(ctx context.Context, key string) (store.Info, error) {
	i, err := a.StoreBlobs.Stat(ctx, key)
	i.ModTime = i.ModTime.Add(a.by)
	return i, err
}
