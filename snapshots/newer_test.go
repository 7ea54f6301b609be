package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// newerStore returns a store with two snapshots. The later one was written by a
// newer program, in a later format.
func newerStore(t *testing.T, manifest func(old map[string]any) []byte) (st *store.Store, spec TakeSpec, dir, old, newer string) {
	t.Helper()
	dir, st = aTree(t), newTestStore(t)
	for i := range 2 {
		write(t, dir, "changing", randomText(600_000))
		spec = workOf(dir)
		spec.ID, spec.At = NewID("s1", time.Unix(1.8e9+int64(i), 0)), time.Unix(1.8e9+int64(i), 0)
		_, err := Take(t.Context(), localHost(t), smallChunks(chunks.StoreBlobs{Store: st}), spec)
		must(t, err)
		old, newer = newer, spec.ID
	}
	key := manifestKey("s1", newer)
	data, err := st.Get(t.Context(), key)
	must(t, err)
	var m map[string]any
	must(t, json.Unmarshal(data, &m), st.Put(t.Context(), key, manifest(m)))
	return st, spec, dir, old, newer
}

// An older worker deletes no snapshot of a newer worker, and no chunk that such a snapshot
// needs.
func TestWhatANewerVersionWroteIsNeverPrunedNorDeleted(t *testing.T) {
	for name, manifest := range map[string]func(map[string]any) []byte{
		"the next format": func(m map[string]any) []byte {
			m["format"] = format + 1
			data, err := json.Marshal(m)
			must(t, err)
			return data
		},
		"other types": func(m map[string]any) []byte {
			m["format"], m["trees"], m["created_at"] = format+7, map[string]int{"work": 1}, 7
			data, err := json.Marshal(m)
			must(t, err)
			return data
		},
		"no JSON": func(map[string]any) []byte { return []byte{2, 0, 1} },
	} {
		t.Run(name, func(t *testing.T) {
			st, spec, _, old, newer := newerStore(t, manifest)
			if _, err := Read(t.Context(), st, newer); !errors.Is(err, ErrNewer) || errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), newer) {
				t.Errorf("read: %v", err)
			}
			all, err := List(t.Context(), st, "")
			must(t, err)
			if len(all) != 2 {
				t.Fatalf("listed %+v", all)
			}
			for _, m := range all {
				if m.Newer() != (m.ID == newer) || m.Complete != (m.ID == old) || m.Session != "s1" || m.CreatedAt.IsZero() {
					t.Errorf("listed %+v", m)
				}
			}
			for _, policy := range []Retention{{Keep: 1}, {MaxAge: time.Minute}} {
				policy.Now = time.Now().Add(24 * 365 * time.Hour)
				if drop := Retain(all, policy, nil); len(drop) > 0 {
					t.Errorf("retention of %+v drops %+v", policy, drop)
				}
			}
			c := smallChunks(chunks.StoreBlobs{Store: st})
			packs, err := st.List(t.Context(), chunks.PackPrefix)
			must(t, err)
			for hours := range 4 {
				if _, err := c.Prune(t.Context(), Live(c), chunks.PruneOptions{Condemn: time.Minute, Grace: time.Minute, Now: time.Now().Add(time.Duration(hours) * time.Hour)}); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), newer) {
					t.Errorf("pruned: %v", err)
				}
			}
			left, err := st.List(t.Context(), chunks.PackPrefix)
			if err != nil || len(left) != len(packs) || len(packs) == 0 {
				t.Errorf("of %d packs %d are left, %v", len(packs), len(left), err)
			}
			if _, _, err := FindDamage(t.Context(), c, func(chunks.Digest) error { return nil }); !errors.Is(err, ErrNewer) {
				t.Errorf("checked: %v", err)
			}
			if err := Delete(t.Context(), st, newer); !errors.Is(err, ErrNewer) {
				t.Errorf("deleted: %v", err)
			}
			if err := Drop(t.Context(), st, newer, func(context.Context, Pin) (bool, error) { return false, nil }); !errors.Is(err, ErrNewer) {
				t.Errorf("dropped: %v", err)
			}
			if there, err := st.Exists(t.Context(), manifestKey("s1", newer)); err != nil || !there {
				t.Errorf("it is not there any more (%v)", err)
			}
			// The newer snapshot is not taken again and is not used as a parent. Other
			// snapshots can still be taken.
			if _, err := Take(t.Context(), localHost(t), c, spec); !errors.Is(err, ErrNewer) {
				t.Errorf("taken over it: %v", err)
			}
			spec.ID, spec.Parent = "", newer
			if m, err := Take(t.Context(), localHost(t), c, spec); err != nil || m.Parent != "" {
				t.Errorf("taken after it: %+v, %v", m, err)
			}
			must(t, Delete(t.Context(), st, old), Delete(t.Context(), st, old))
		})
	}
}
