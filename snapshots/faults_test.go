package snapshots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// A strikingStore calls strike before and after each operation. If strike returns an error,
// the operation fails with it.
type strikingStore struct {
	chunks.Blobs
	strike func(what string) error
}

func (s *strikingStore) around(what string, do func() error) error {
	if err := s.strike("before " + what); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return s.strike("after " + what)
}

func (s *strikingStore) Create(ctx context.Context, key string, data []byte) error {
	return s.around("create", func() error { return s.Blobs.Create(ctx, key, data) })
}

func (s *strikingStore) Put(ctx context.Context, key string, data []byte) error {
	return s.around("put", func() error { return s.Blobs.Put(ctx, key, data) })
}

func (s *strikingStore) Get(ctx context.Context, key string) (data []byte, err error) {
	err = s.around("get", func() error { data, err = s.Blobs.Get(ctx, key); return err })
	return data, err
}

func (s *strikingStore) Stat(ctx context.Context, key string) (i store.Info, err error) {
	err = s.around("stat", func() error { i, err = s.Blobs.Stat(ctx, key); return err })
	return i, err
}

func (s *strikingStore) List(ctx context.Context, prefix string) (l []store.Info, err error) {
	err = s.around("list", func() error { l, err = s.Blobs.List(ctx, prefix); return err })
	return l, err
}

func (s *strikingStore) NewReader(ctx context.Context, key string) (r io.ReadCloser, err error) {
	err = s.around("read", func() error { r, err = s.Blobs.NewReader(ctx, key); return err })
	return r, err
}

func (s *strikingStore) OpenAt(ctx context.Context, key string) (r chunks.BlobAt, err error) {
	err = s.around("read", func() error { r, err = s.Blobs.OpenAt(ctx, key); return err })
	return r, err
}

func (s *strikingStore) OpenWriter(ctx context.Context, key string) (chunks.BlobWriter, error) {
	w, err := s.Blobs.OpenWriter(ctx, key)
	if err != nil {
		return nil, err
	}
	return &strikingWriter{w, s}, nil
}

type strikingWriter struct {
	chunks.BlobWriter
	s *strikingStore
}

func (w *strikingWriter) Write(p []byte) (n int, err error) {
	err = w.s.around("write", func() error { n, err = w.BlobWriter.Write(p); return err })
	return n, err
}

func (w *strikingWriter) Close() error { return w.s.around("close", w.BlobWriter.Close) }

// A strikingHost calls strike before each command, and before each piece of a
// command's output.
type strikingHost struct {
	hostexec.Host
	strike func(what string) error
}

func (h *strikingHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	if err := h.strike("run"); err != nil {
		return hostexec.Result{}, err
	}
	return h.Host.Run(ctx, c)
}

func (h *strikingHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	if err := h.strike("start"); err != nil {
		return nil, err
	}
	s, err := h.Host.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &strikingStream{s, h}, nil
}

type strikingStream struct {
	hostexec.Stream
	h *strikingHost
}

func (s *strikingStream) Read(p []byte) (int, error) {
	if err := s.h.strike("stream"); err != nil {
		s.Close()
		return 0, err
	}
	return s.Stream.Read(p)
}

func (s *strikingStream) Write(p []byte) (int, error) {
	if err := s.h.strike("upload"); err != nil {
		s.Close()
		return 0, err
	}
	return s.Stream.Write(p)
}

var errStruck = errors.New("struck by the test")

// smallChunks returns a chunk store with packs so small that a small tree fills several.
func smallChunks(b chunks.Blobs) *chunks.Store {
	return chunks.OpenBlobs(b, chunks.Options{PackBytes: 200_000, BlockBytes: 50_000})
}

func aTree(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	for i := range 20 {
		write(t, dir, fmt.Sprintf("d%d/f%d", i%5, i), randomText(20_000))
	}
	write(t, dir, "large", randomText(1_200_000))
	return dir
}

// mustBeWhole reports whether the store has a snapshot. If so, it checks that the snapshot
// can be exported.
func mustBeWhole(t *testing.T, st *store.Store, id string, want map[string]string) bool {
	t.Helper()
	_, err := Read(t.Context(), st, id)
	if errors.Is(err, ErrNotFound) {
		return false
	}
	must(t, err)
	_, contents := exportOf(t, chunks.Open(st, chunks.Options{}), id)
	for name, content := range want {
		if contents["work/"+name] != content {
			t.Fatalf("%s claims to be whole, and %s is not in it as it is", id, name)
		}
	}
	return true
}

func contentsOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		name, _ := filepath.Rel(dir, p)
		all[name] = string(data)
		return err
	}))
	return all
}

// A striker counts operations by kind, and strikes the nth of one kind.
type striker struct {
	mu   sync.Mutex
	done map[string]int
	what string
	nth  int
	kill func() // called instead of returning an error
	hit  bool
}

func (s *striker) strike(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = map[string]int{}
	}
	if s.done[what]++; what != s.what || s.done[what] != s.nth {
		return nil
	}
	s.hit = true
	if s.kill != nil {
		s.kill()
		return nil
	}
	return errStruck
}

// strikes returns strikers for these counts. For each kind of operation, they strike at the
// first, the last and some operations between.
func strikes(done map[string]int) (all []*striker) {
	for _, what := range slices.Sorted(maps.Keys(done)) {
		for nth := 1; nth < done[what]; nth += 1 + nth {
			all = append(all, &striker{what: what, nth: nth})
		}
		all = append(all, &striker{what: what, nth: done[what]})
	}
	return all
}

// strikeEach makes operations of Take fail, or cancels Take there. After each strike it
// checks the store, and takes the same snapshot again with a store that works.
func strikeEach(t *testing.T, kill bool) {
	dir := aTree(t)
	h := localHost(t)
	st := newTestStore(t)
	round := int64(0)
	attempt := func(s *striker) (id string, struckErr error) {
		round++
		write(t, dir, "d0/anew", randomText(400_000)) // new content to store in each round
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if kill {
			s.kill = cancel
		}
		spec := TakeSpec{ID: NewID("s1", time.Unix(1.8e9+round, 0)), Session: "s1", Trees: []TreeSpec{WorkOf(dir, WorkFull, nil)}}
		_, err := Take(ctx, &strikingHost{h, s.strike}, smallChunks(&strikingStore{chunks.StoreBlobs{Store: st}, s.strike}), spec)
		want := contentsOf(t, dir)
		if whole := mustBeWhole(t, st, spec.ID, want); err == nil && !whole {
			t.Errorf("%s %d: no error, and no snapshot", s.what, s.nth)
		}
		_, again := Take(t.Context(), h, smallChunks(chunks.StoreBlobs{Store: st}), spec)
		must(t, again)
		if !mustBeWhole(t, st, spec.ID, want) {
			t.Errorf("%s %d: the second attempt left no snapshot", s.what, s.nth)
		}
		return spec.ID, err
	}
	var dry striker
	last, err := attempt(&dry)
	must(t, err)
	for _, what := range []string{"before create", "after create", "before write", "after close", "stream", "start"} {
		if dry.done[what] == 0 {
			t.Fatalf("there is no step %q: %v", what, dry.done)
		}
	}
	failed := 0
	for _, s := range strikes(dry.done) {
		must(t, Delete(t.Context(), st, last))
		if last, err = attempt(s); err != nil {
			if failed++; !s.hit {
				t.Errorf("%s %d: %v", s.what, s.nth, err)
			}
		}
	}
	if failed < len(dry.done) {
		t.Errorf("only %d attempts failed; %v", failed, dry.done)
	}
}

func TestNoFailedStepLeavesHalfASnapshot(t *testing.T) { strikeEach(t, false) }
func TestNoKilledStepLeavesHalfASnapshot(t *testing.T) { strikeEach(t, true) }

func TestAConnectionCutInMidCaptureLeavesNoSnapshot(t *testing.T) {
	realparts.NotShort(t)
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, hosttest.BigTree(dir, 400, 40<<20))
	want := contentsOf(t, dir)
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	st := newTestStore(t)
	for _, after := range []int64{1, 20 << 20} {
		h := hostOf(t, sshd.Spec())
		cut := false
		spec := TakeSpec{ID: NewID("s1", time.Unix(1.8e9+after, 0)), Session: "s1", Trees: []TreeSpec{WorkOf(dir, WorkFull, nil)},
			Progress: func(p Progress) {
				if p.ReadBytes >= after && !cut {
					cut = true
					if sshd.KillSessions() == 0 {
						t.Error("there was nothing to kill")
					}
				}
			}}
		if _, err := Take(t.Context(), h, chunks.Open(st, chunks.Options{}), spec); !errors.Is(err, hostexec.ErrOutcomeUnknown) && !errors.Is(err, hostexec.ErrUnreachable) {
			t.Errorf("cut after %d bytes: %v", after, err)
		}
		if mustBeWhole(t, st, spec.ID, nil) {
			t.Error("there is a snapshot")
		}
		spec.Progress = nil
		_, err := Take(t.Context(), hostOf(t, sshd.Spec()), chunks.Open(st, chunks.Options{}), spec)
		must(t, err)
		mustBeWhole(t, st, spec.ID, want)
	}
}

// A restore fails, or is killed, at each step. The place is then empty or has the whole
// tree, and the same call again completes the restore.
func TestRestoreStruckAnywhereLeavesNothingHalf(t *testing.T) {
	dir := aTree(t)
	h := localHost(t)
	st := newTestStore(t)
	m, err := Take(t.Context(), h, smallChunks(chunks.StoreBlobs{Store: st}), TakeSpec{Session: "s1", Trees: []TreeSpec{WorkOf(dir, WorkFull, nil)}})
	must(t, err)
	want := treeOf(t, dir)
	attempt := func(s *striker, kill bool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if kill {
			s.kill = cancel
		}
		place := filepath.Join(t.TempDir(), "w")
		spec := RestoreSpec{Dirs: map[string]string{Work: place}}
		_, err := Restore(ctx, &strikingHost{h, s.strike}, smallChunks(&strikingStore{chunks.StoreBlobs{Store: st}, s.strike}), m.ID, spec)
		if _, there := os.Stat(place); there == nil {
			mustBeEqual(t, treeOf(t, place), want)
		} else if err == nil {
			t.Fatal("no error, and nothing there")
		}
		_, err = Restore(t.Context(), h, smallChunks(chunks.StoreBlobs{Store: st}), m.ID, spec)
		must(t, err)
		mustBeEqual(t, treeOf(t, place), want)
		if t.Failed() {
			t.Fatalf("struck %s %d", s.what, s.nth)
		}
	}
	var dry striker
	attempt(&dry, false)
	if dry.done["upload"] == 0 || dry.done["before read"] == 0 || dry.done["run"] == 0 {
		t.Fatalf("only %v was done", dry.done)
	}
	for _, kill := range []bool{false, true} {
		for _, s := range strikes(dry.done) {
			attempt(s, kill)
		}
	}
}

func TestRestoreOntoAFullDiskLeavesNothing(t *testing.T) {
	dir := aTree(t)
	write(t, dir, "larger", randomText(20<<20))
	h := localHost(t)
	c := chunks.Open(newTestStore(t), chunks.Options{})
	m, err := Take(t.Context(), h, c, TakeSpec{Session: "s1", Trees: []TreeSpec{WorkOf(dir, WorkFull, nil)}})
	must(t, err)
	for _, size := range []int64{10 << 20, 30 << 20} {
		disk := t.TempDir()
		unmount, err := hosttest.SmallDisk(t.Context(), disk, size)
		must(t, err)
		filled := false
		_, err = Restore(t.Context(), h, c, m.ID, RestoreSpec{Dirs: map[string]string{Work: disk + "/w"}, Progress: func(Progress) {
			if !filled { // after the check for room
				filled = true
				must(t, os.WriteFile(disk+"/others", bytes.Repeat([]byte{1}, 15<<20), 0o600))
			}
		}})
		if !errors.Is(err, hostexec.ErrNoSpace) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if filled != (size == 30<<20) {
			t.Errorf("%d bytes: filled is %v", size, filled)
		}
		entries, err := os.ReadDir(disk)
		must(t, err)
		for _, e := range entries {
			if e.Name() != "others" {
				t.Errorf("%d bytes: %s is left", size, e.Name())
			}
		}
		must(t, unmount())
	}
}

// An unhurriedHost reports its free space only after a stream has begun. It records whether
// data was written to the stream before the report.
type unhurriedHost struct {
	hostexec.Host
	began   chan struct{}
	once    sync.Once
	asked   atomic.Bool // whether the host was asked for free space and has answered
	tooSoon atomic.Bool
}

func (h *unhurriedHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	if c.Script != roomScript {
		return h.Host.Run(ctx, c)
	}
	select {
	case <-h.began:
	case <-time.After(10 * time.Second):
		return hostexec.Result{}, errors.New("asked for room, and nothing else begins")
	}
	res, err := h.Host.Run(ctx, c)
	h.asked.Store(true)
	return res, err
}

func (h *unhurriedHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	s, err := h.Host.Start(ctx, c)
	h.once.Do(func() { close(h.began) })
	return unhurriedStream{s, h}, err
}

type unhurriedStream struct {
	hostexec.Stream
	host *unhurriedHost
}

func (s unhurriedStream) Write(p []byte) (int, error) {
	if !s.host.asked.Load() {
		s.host.tooSoon.Store(true)
	}
	return s.Stream.Write(p)
}

// Restore asks the host for free space and opens the stream for a tree at the same time,
// because each may need a new connection. It writes no data before the answer.
func TestRestoreAsksForRoomAndBeginsAtOnce(t *testing.T) {
	dir := aTree(t)
	write(t, dir, "larger", randomText(3<<20))
	h := localHost(t)
	c := chunks.Open(newTestStore(t), chunks.Options{})
	m, err := Take(t.Context(), h, c, TakeSpec{Session: "s1", Trees: []TreeSpec{WorkOf(dir, WorkFull, nil)}})
	must(t, err)
	slow := &unhurriedHost{Host: h, began: make(chan struct{})}
	_, err = Restore(t.Context(), slow, c, m.ID, RestoreSpec{Dirs: map[string]string{Work: filepath.Join(t.TempDir(), "w")}})
	must(t, err)
	if slow.tooSoon.Load() {
		t.Error("something was written before the host had said that there is room")
	}
}
