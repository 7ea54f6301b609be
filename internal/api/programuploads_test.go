package api

import (
	"errors"
	"testing"
	"time"

	"fairlead.dev/fairlead/snapshots"
)

// An upload that cannot be recorded leaves no snapshot, unless a record of it may be there.
func TestAnUploadWithoutARecordLeavesNoSnapshot(t *testing.T) {
	c := serve(t, nil)
	p, st := &Records{c.server}, c.server.opts.Store
	for what, is := range map[string]struct {
		record func(m snapshots.Manifest) kept // nil writes none
		stays  bool
	}{
		"no record":             {nil, false},
		"a record of it":        {func(m snapshots.Manifest) kept { return kept{Digest: "d", What: "tree", Snapshot: m.ID} }, true},
		"of a faster call":      {func(snapshots.Manifest) kept { return kept{Digest: "d", What: "tree", Snapshot: "s0.snap-1"} }, false},
		"of another request":    {func(snapshots.Manifest) kept { return kept{Digest: "e", What: "tree", Snapshot: "s0.snap-1"} }, true},
		"one that is not known": {func(snapshots.Manifest) kept { return kept{} }, true},
	} {
		t.Run(what, func(t *testing.T) {
			m, err := snapshots.Make(t.Context(), c.server.opts.Chunks, "s1", "", time.Now(), nil, func() ([]byte, error) { return nil, nil })
			if err != nil {
				t.Fatal(err)
			}
			key, now := "inputs/"+m.ID, kept{Digest: "d", What: "tree", Snapshot: m.ID}
			if is.record != nil {
				if _, err := p.keep(t.Context(), "inputs", key, is.record(m)); err != nil {
					t.Fatal(err)
				}
			}
			p.undo(t.Context(), key, now)
			if _, err := snapshots.Read(t.Context(), st, m.ID); is.stays && err != nil || !is.stays && !errors.Is(err, snapshots.ErrNotFound) {
				t.Errorf("the snapshot: %v; it stays: %v", err, is.stays)
			}
		})
	}
}
