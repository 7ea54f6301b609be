package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// watched returns a run with two hosts and nothing else.
func watched(t *testing.T) *snapRun {
	s := newSnapRun(&rowRun{stage: &stage{}})
	s.hosts = []*host{{name: "p1", root: t.TempDir()}, {name: "p2", root: t.TempDir()}}
	s.run = &run{host: s.hosts[0], id: "x", stage: s.stage}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheWatchSeesWhatGoesFromAHost(t *testing.T) {
	s := watched(t)
	if gone := s.went(); len(gone) > 0 {
		t.Fatalf("with nothing there, %v went", gone)
	}
	must(t, s.works())
	must(t, s.works())
	if gone := s.went(); len(gone) > 0 {
		t.Fatalf("what codex changes itself went: %v", gone)
	}
	there := s.run.work()
	s.run.host = s.hosts[1]
	must(t, os.MkdirAll(s.run.dir(), 0o700))
	must(t, os.CopyFS(s.run.work(), os.DirFS(filepath.Join(there, "bin")))) // no version yet: partly restored
	must(t, os.WriteFile(filepath.Join(s.run.work(), "version"), []byte("2\n"), 0o600))
	s.went()
	must(t, os.RemoveAll(there))
	if gone := s.went(); len(gone) > 0 {
		t.Fatalf("%v went, and it stands on the other host", gone)
	}
	must(t, os.WriteFile(filepath.Join(s.run.work(), "version"), []byte("1\n"), 0o600))
	if gone := s.went(); len(gone) != 1 || gone[0].version != 2 || gone[0].from != "p2" {
		t.Fatalf("an older version in its place is judged %v", gone)
	}
	must(t, os.RemoveAll(s.run.work()))
	if gone := s.went(); len(gone) != 1 || gone[0].version != 1 {
		t.Fatalf("what was removed is judged %v", gone)
	}
}

// A copy made after the original was deleted does not justify the deletion.
func TestOnlyAWholeSnapshotOfBeforeProvesWhatWent(t *testing.T) {
	if testing.Short() {
		t.Skip("makes many snapshots: slow with the race detector")
	}
	s := watched(t)
	must(t, s.works())
	id, err := age.GenerateX25519Identity()
	must(t, err)
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + t.TempDir(), Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	s.store = newKeptStore(st)
	before := time.Now().Add(-time.Minute)
	if err := s.isProven(t.Context(), departure{version: 1, seen: time.Now()}); err == nil {
		t.Error("without any snapshot it is proven")
	}
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() { must(t, pool.Close()) })
	h, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	must(t, err)
	_, err = snapshots.Take(t.Context(), h, chunks.Open(st, chunks.Options{}), snapshots.TakeSpec{
		ID: snapshots.NewID("x", time.Now()), Session: "x", Trees: []snapshots.TreeSpec{snapshots.WorkOf(s.run.work(), snapshots.WorkFull, nil)}})
	must(t, err)
	if err := s.isProven(t.Context(), departure{version: 1, seen: time.Now()}); err != nil {
		t.Error(err)
	}
	for what, g := range map[string]departure{"another version": {version: 2, seen: time.Now()}, "one that went before": {version: 1, seen: before}} {
		if err := s.isProven(t.Context(), g); err == nil {
			t.Errorf("%s is proven", what)
		}
	}
}

func TestTheWatchSeesThatAGoodSnapshotIsHidden(t *testing.T) {
	none, first, second := protocol.SnapshotView{}, protocol.SnapshotView{ID: "a", Turn: 1}, protocol.SnapshotView{ID: "b", Turn: 2}
	for _, c := range []struct {
		name string
		was  protocol.SnapshotView
		now  *protocol.SnapshotView
		ok   bool
	}{
		{"none yet", none, &none, true},
		{"the first", none, &first, true},
		{"the next", first, &second, true},
		{"none is said any more", first, &none, false},
		{"nothing is said of any", first, nil, false},
		{"an earlier one", second, &first, false},
	} {
		if err := follows(c.was, c.now); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
