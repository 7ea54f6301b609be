package snapshots

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// A crossedStore calls a function after each manifest that is written.
type crossedStore struct {
	chunks.Blobs
	happen func()
}

func (s *crossedStore) Create(ctx context.Context, key string, data []byte) error {
	err := s.Blobs.Create(ctx, key, data)
	if err == nil && strings.HasSuffix(key, manifestName) {
		s.happen()
	}
	return err
}

// An attempt is cancelled directly after it has written its manifest, when another attempt
// has already read that manifest. The snapshot is complete, and stays.
func TestASnapshotThatAnotherAttemptHasSeenIsNotTakenBack(t *testing.T) {
	dir, st := aTree(t), newTestStore(t)
	spec := workOf(dir)
	spec.ID = NewID("s1", time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	var heard Manifest
	first := &crossedStore{Blobs: chunks.StoreBlobs{Store: st}, happen: func() {
		var err error
		heard, err = Take(t.Context(), localHost(t), smallChunks(chunks.StoreBlobs{Store: st}), spec)
		must(t, err)
		cancel()
	}}
	if m, err := Take(ctx, localHost(t), smallChunks(first), spec); err == nil {
		t.Errorf("nobody called it back: %+v", m)
	}
	if heard.ID != spec.ID || !heard.Complete || !mustBeWhole(t, st, spec.ID, contentsOf(t, dir)) {
		t.Errorf("what another one has heard of is gone: %+v", heard)
	}
}

// If TakeSpec.Sure fails, an attempt makes no snapshot, and removes none.
func TestWhoIsNotSureMakesNoSnapshot(t *testing.T) {
	dir, st := aTree(t), newTestStore(t)
	c := smallChunks(chunks.StoreBlobs{Store: st})
	spec := workOf(dir)
	spec.ID = NewID("s1", time.Now())
	doubt := errors.New("a secret has come up")
	unsure := spec
	asked := 0
	unsure.Sure = func() error { asked++; return doubt }
	if _, err := Take(t.Context(), localHost(t), c, unsure); !errors.Is(err, doubt) || asked != 1 {
		t.Errorf("taken: %v; asked %d times", err, asked)
	}
	if mustBeWhole(t, st, spec.ID, nil) {
		t.Error("there is one")
	}
	_, err := Take(t.Context(), localHost(t), c, spec)
	must(t, err)
	if m, err := Take(t.Context(), localHost(t), c, unsure); err != nil || m.ID != spec.ID {
		t.Errorf("one that is there: %+v, %v", m, err)
	}
	if !mustBeWhole(t, st, spec.ID, contentsOf(t, dir)) {
		t.Error("it is gone")
	}
}
