package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// watch checks continuously, not only at the end, that two codex processes of
// the session never run at once, that work deleted from a host is already in a
// complete snapshot, and that the newest good snapshot is always reported and
// complete.
func (s *snapRun) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex
	one, two, lost, hid := false, "", []string{}, []string{}
	every := func(d time.Duration, look func()) {
		all.Go(func() {
			for ctx.Err() == nil {
				look()
				scenario.Sleep(ctx, d)
			}
		})
	}
	every(100*time.Millisecond, func() {
		homes := s.run.homesOf(s.run.id)
		if one = one || len(homes) == 1; len(homes) > 1 {
			two = strings.Join(homes, " and ")
		}
	})
	every(30*time.Millisecond, func() {
		for _, g := range s.went() {
			all.Go(func() {
				err := s.isProven(context.WithoutCancel(ctx), g) // the store may be away
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					lost = append(lost, err.Error())
				}
			})
		}
	})
	var good protocol.SnapshotView
	every(300*time.Millisecond, func() {
		err := s.isStillGood(ctx, &good)
		if err != nil && ctx.Err() == nil && !slices.Contains(hid, err.Error()) {
			hid = append(hid, err.Error())
		}
	})
	return func() {
		cancel()
		all.Wait()
		if two != "" {
			s.res.Find(twoCodexes, "codex ran in %s", two)
		}
		if !one {
			s.res.Find(wrong, "codex was never seen to run, so nobody knows how often it did")
		}
		for _, what := range lost {
			s.res.Find(workLost, "%s", what)
		}
		for _, what := range hid {
			s.res.Find(hidden, "%s", what)
		}
	}
}

// homesOf returns the folders in which a codex of the session runs, one for
// each.
func (r *run) homesOf(session string) (homes []string) {
	pids := r.CodexOf(session)
	for _, pid := range pids {
		proc := fmt.Sprintf("/proc/%d", pid)
		if parent, _, ok := stat(proc); !ok || slices.Contains(pids, parent) {
			continue // a child of codex's before its exec
		}
		cmd, _ := os.ReadFile(proc + "/cmdline") // a process that has just exited has none
		env, _ := os.ReadFile(proc + "/environ")
		for _, kv := range strings.Split(string(env), "\x00") {
			if home, ok := strings.CutPrefix(kv, "CODEX_HOME="); ok && strings.Contains(string(cmd), "app-server") {
				homes = append(homes, home)
			}
		}
	}
	return homes
}

// A departure is a version of the work folder that is on no host any more.
type departure struct {
	version int
	from    string
	seen    time.Time
}

// went returns the versions that were on a host before and are on none now.
func (s *snapRun) went() (gone []departure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stands := map[*host]int{}
	var versions []int
	for _, h := range s.hosts {
		if v := versionIn(workOn(h, s.run.id)); v > 0 {
			stands[h], versions = v, append(versions, v)
		}
	}
	for h, v := range s.stood {
		if stands[h] != v && !slices.Contains(versions, v) {
			gone = append(gone, departure{v, h.name, time.Now()})
		}
	}
	s.stood = stands
	return gone
}

// versionIn returns the version that a work folder states; 0 if there is none.
func versionIn(work string) int {
	data, _ := os.ReadFile(filepath.Join(work, "version")) // none: there is no folder
	v, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return v
}

// stillThere checks, while the store accepts no writes, that the work is on a
// host or was stored before, and that the session does not claim otherwise.
func (s *snapRun) stillThere() {
	ctx := context.Background()
	now, seen := s.now, time.Now()
	if s.unparked != nil && !s.manifestSince(s.unparked) && s.state() == string(protocol.Parked) {
		s.res.Find(halfWhole, "it says that it is parked while nothing could be kept")
	}
	for _, h := range s.hosts {
		if got, err := treeDigest(workOn(h, s.run.id)); err == nil && got == now {
			return
		}
	}
	// The store can be read only when it is back.
	s.afterwards = append(s.afterwards, func() {
		if err := s.isProven(ctx, departure{s.version, "every host", seen}); err != nil {
			s.res.Find(workLost, "%v", err)
		}
	})
}

// isProven checks that the version was in a complete snapshot by the time it
// was seen to be gone; a later snapshot does not justify the deletion.
func (s *snapRun) isProven(ctx context.Context, g departure) error {
	var held []string
	proven := false
	err := again(ctx, "read the store", func(ctx context.Context) error {
		held = nil
		all, err := s.store.whole(ctx, s.run.id)
		if err != nil {
			return err
		}
		for id, made := range all {
			v, err := s.store.version(ctx, id)
			if err != nil {
				return err
			}
			held = append(held, fmt.Sprintf("%s of version %d, made %s", id, v, made.UTC().Format("15:04:05.000")))
			proven = proven || v == g.version && !made.After(g.seen)
		}
		return nil
	})
	if err == nil && !proven {
		err = fmt.Errorf("version %d was gone from %s at %s, and whole snapshots are %s", g.version, g.from, g.seen.UTC().Format("15:04:05.000"), strings.Join(held, "; "))
	}
	return err
}

// isStillGood checks that the snapshot from which the session would continue is
// visible, is not older than the last one, and is complete.
func (s *snapRun) isStillGood(ctx context.Context, last *protocol.SnapshotView) error {
	d, err := s.detail(ctx, s.run.id)
	if err != nil || last.ID == "" && d.View.Snapshot == nil {
		return nil // the query failed, or there is none yet
	}
	was := *last
	if err := follows(was, d.View.Snapshot); err != nil || d.View.Snapshot.ID == was.ID {
		return err
	}
	now := *d.View.Snapshot
	*last = now
	_, err = snapshots.Read(ctx, s.store.Store, now.ID)
	if errors.Is(err, snapshots.ErrIncomplete) || errors.Is(err, snapshots.ErrNotFound) && !exists(s.awayDir()) {
		return fmt.Errorf("the newest good one is said to be %s: %w", now.ID, err)
	}
	return nil
}

// follows checks that one newest good snapshot may come after another.
func follows(was protocol.SnapshotView, now *protocol.SnapshotView) error {
	switch {
	case now == nil:
		return fmt.Errorf("the newest good one was %s, and none is said", was.ID)
	case was.ID != "" && (now.ID == "" || now.Turn < was.Turn):
		return fmt.Errorf("the newest good one was %s of turn %d, and now it is %q of turn %d", was.ID, was.Turn, now.ID, now.Turn)
	}
	return nil
}

// A keptStore reads the stack's store without the workers.
type keptStore struct {
	*store.Store
	chunks   *chunks.Store
	mu       *sync.Mutex
	versions map[string]int // by snapshot
}

func (s *stage) openStore(ctx context.Context) (keptStore, error) {
	st, err := s.readStore(ctx)
	if err != nil {
		return keptStore{}, err
	}
	return newKeptStore(st), nil
}

func newKeptStore(st *store.Store) keptStore {
	return keptStore{st, chunks.Open(st, chunks.Options{}), &sync.Mutex{}, map[string]int{}}
}

// whole returns the session's snapshots that are marked complete, and since
// when.
func (k keptStore) whole(ctx context.Context, session string) (map[string]time.Time, error) {
	all, err := snapshots.List(ctx, k.Store, session)
	if err != nil {
		return nil, err
	}
	blobs, err := k.List(ctx, "snapshots/"+session+"/")
	if err != nil {
		return nil, err
	}
	out := map[string]time.Time{}
	for _, m := range all {
		for _, b := range blobs {
			if m.Complete && strings.Contains(b.Key, "/"+m.ID+"/") {
				out[m.ID] = b.ModTime
			}
		}
	}
	return out, nil
}

// version returns the version of the work in a snapshot and reads all of its
// bytes; 0 if it holds none.
func (k keptStore) version(ctx context.Context, id string) (v int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.versions[id]; ok {
		return v, nil
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(snapshots.Export(ctx, k.chunks, id, w)) }()
	defer r.Close()
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if h.Name == "work/version" {
			data, err := io.ReadAll(t)
			if err != nil {
				return 0, err
			}
			v, _ = strconv.Atoi(strings.TrimSpace(string(data))) // this program wrote it
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // the export is complete only if its error is nil
		return 0, err
	}
	k.versions[id] = v
	return v, nil
}

// blobs returns the snapshot blobs that exist, also while the store is away.
func (s *snapRun) blobs() map[string]bool {
	all := map[string]bool{}
	for _, dir := range []string{s.storeDir(), s.awayDir()} {
		root := filepath.Join(dir, "snapshots")
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // a file that is deleted meanwhile counts
			if err == nil && d.Type().IsRegular() {
				all[strings.TrimPrefix(path, root+"/")] = true
			}
			return nil
		})
	}
	return all
}

func (s *snapRun) isNew(prefix string, seen map[string]bool) bool {
	for name := range s.blobs() {
		if strings.HasPrefix(name, prefix) && !seen[name] {
			return true
		}
	}
	return false
}

// manifestSince reports whether there is a new snapshot that is marked
// complete.
func (s *snapRun) manifestSince(seen map[string]bool) bool { return s.isNew(s.run.id+"/", seen) }
