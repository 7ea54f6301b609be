package snapshots

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec/tree"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots/chunks"
)

func workOf(dir string, exclude ...string) TakeSpec {
	return TakeSpec{Session: "s1", Facts: Facts{Host: "here"}, Trees: []TreeSpec{WorkOf(dir, WorkFull, exclude)}}
}

func TestTakeIsRepeatableByID(t *testing.T) {
	dir := aTree(t)
	st := newTestStore(t)
	spec := workOf(dir)
	spec.ID = NewID("s1", time.Now())
	first, err := Take(t.Context(), localHost(t), chunks.Open(st, chunks.Options{}), spec)
	must(t, err)
	write(t, dir, "later", "later")
	again, err := Take(t.Context(), localHost(t), chunks.Open(st, chunks.Options{}), spec)
	must(t, err)
	if !again.CreatedAt.Equal(first.CreatedAt) || again.Files != first.Files || again.Took != first.Took {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
}

func TestAParentThatKnewFewerSecretsIsNone(t *testing.T) {
	dir := aTree(t)
	write(t, dir, "told", "the word is "+marked)
	settled(t, dir)
	c, h := chunks.Open(newTestStore(t), chunks.Options{}), localHost(t)
	first, err := Take(t.Context(), h, c, workOf(dir))
	must(t, err)
	spec := workOf(dir)
	spec.Parent, spec.Mask, spec.Secrets = first.ID, mask, []string{"k1"}
	second, err := Take(t.Context(), h, c, spec)
	must(t, err)
	if second.Parent != "" || second.Masked != 1 {
		t.Errorf("parent %q, masked %d", second.Parent, second.Masked)
	}
	_, contents := exportOf(t, c, second.ID)
	if contents["work/told"] != "the word is "+strings.Repeat("*", len(marked)) {
		t.Errorf("%q", contents["work/told"])
	}
	// A parent whose capture knew more secrets is used.
	spec.Parent, spec.ID, spec.Secrets = second.ID, "", nil
	third, err := Take(t.Context(), h, c, spec)
	must(t, err)
	if third.Parent != second.ID || third.ReadFiles != 0 || third.Masked != 1 {
		t.Errorf("%+v", third)
	}
}

func TestADamagedParentIsNone(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, st string){
		"packs gone": func(t *testing.T, root string) { must(t, os.RemoveAll(root+"/snapshots/packs")) },
		"manifest torn": func(t *testing.T, root string) {
			files, err := filepath.Glob(root + "/snapshots/s1/*/manifest.json")
			must(t, err)
			if len(files) != 1 {
				t.Fatal(files)
			}
			must(t, os.Truncate(files[0], 100))
		},
		"manifest gone": func(t *testing.T, root string) { must(t, os.RemoveAll(root+"/snapshots/s1")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := aTree(t)
			settled(t, dir)
			st := newTestStore(t)
			h := localHost(t)
			first, err := Take(t.Context(), h, smallChunks(chunks.StoreBlobs{Store: st}), workOf(dir))
			must(t, err)
			damage(t, strings.TrimPrefix(st.URL(), "file://"))
			spec := workOf(dir)
			spec.ID, spec.Parent = NewID("s1", time.Now().Add(time.Hour)), first.ID
			second, err := Take(t.Context(), h, smallChunks(chunks.StoreBlobs{Store: st}), spec)
			must(t, err)
			if second.ReadFiles != 21 {
				t.Errorf("%d files were read", second.ReadFiles)
			}
			mustBeWhole(t, st, second.ID, contentsOf(t, dir))
		})
	}
}

func TestExcludesLeaveOutWhatTheySay(t *testing.T) {
	dir := t.TempDir() + "/w"
	for _, name := range []string{"a.o", "b.c", "node_modules/p/index.js", "src/node_modules/q.js", "build/x/y", "src/build/keep", "logs/a.log", "logs/keep.log", "lib/z", "src/lib/z"} {
		write(t, dir, name, name)
	}
	c := chunks.Open(newTestStore(t), chunks.Options{})
	for _, exclude := range [][]string{
		{"*.o", "node_modules/", "/build", "lib"},
		{"*.o", "node_modules/", "/build", "*.log", "!keep.log"}, // the host itself cannot apply any of these
	} {
		m, err := Take(t.Context(), localHost(t), c, workOf(dir, exclude...))
		must(t, err)
		_, contents := exportOf(t, c, m.ID)
		var got []string
		for name := range contents {
			if rest, ok := strings.CutPrefix(name, "work/"); ok && !strings.HasSuffix(name, "/") {
				got = append(got, rest)
			}
		}
		slices.Sort(got)
		want := []string{"b.c", "logs/a.log", "logs/keep.log", "src/build/keep"}
		if len(exclude) > 4 {
			want = []string{"b.c", "lib/z", "logs/keep.log", "src/build/keep", "src/lib/z"}
		}
		if !slices.Equal(got, want) || m.LeftOutCount != 0 {
			t.Errorf("%q: got %q, want %q; left out %+v", exclude, got, want, m.LeftOut)
		}
	}
}

func TestAQuotaSaysWhatIsLarge(t *testing.T) {
	dir := t.TempDir() + "/w"
	write(t, dir, "src/main.go", randomText(5_000))
	for i := range 10 {
		write(t, dir, fmt.Sprintf("web/node_modules/p%d/index.js", i), randomText(100_000))
	}
	st := newTestStore(t)
	spec := workOf(dir)
	spec.MaxBytes = 500_000
	_, err := Take(t.Context(), localHost(t), chunks.Open(st, chunks.Options{}), spec)
	var quota *QuotaError
	if !errors.As(err, &quota) || !errors.Is(err, ErrQuota) {
		t.Fatal(err)
	}
	if quota.Bytes != 1_005_000 || quota.Biggest[0].Path != "work/web/node_modules/" || quota.Biggest[0].Bytes != 1_000_000 {
		t.Errorf("%+v", quota)
	}
	for _, words := range []string{"work/web/node_modules/", "--snapshot-exclude", "981 KiB"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q does not say %q", err, words)
		}
	}
	spec.Trees[0].Exclude = []string{"node_modules/"}
	_, err = Take(t.Context(), localHost(t), chunks.Open(st, chunks.Options{}), spec)
	must(t, err)
	spec = workOf(dir)
	spec.MaxAdded = 500_000
	if _, err = Take(t.Context(), localHost(t), chunks.Open(st, chunks.Options{}), spec); !errors.Is(err, ErrQuota) {
		t.Error(err)
	}
}

func TestWhatChangesOrGoesWhileItIsReadFailsNothing(t *testing.T) {
	dir := t.TempDir() + "/w"
	for i := range 30 {
		write(t, dir, fmt.Sprintf("f%02d", i), strings.Repeat("x", 50_000))
	}
	write(t, dir, "zz-log", "begin\n")
	must(t, os.Link(dir+"/f05", dir+"/second-name"))
	h := localHost(t)
	var mu sync.Mutex // streams are read at the same time
	n := 0
	changing := &strikingHost{h, func(what string) error {
		if what != "stream" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		n++ // the end of the listing, or a piece of content
		switch f, err := os.OpenFile(dir+"/zz-log", os.O_APPEND|os.O_WRONLY, 0); {
		case err != nil:
			return err
		default:
			if _, err := fmt.Fprintf(f, "line %d\n", n); err != nil {
				return err
			}
			return errors.Join(f.Close(), os.RemoveAll(dir+"/f05"), os.RemoveAll(fmt.Sprintf("%s/f%02d", dir, 10+n%10)))
		}
	}}
	c := chunks.Open(newTestStore(t), chunks.Options{})
	m, err := Take(t.Context(), changing, c, workOf(dir))
	must(t, err)
	if m.UnstableCount != 1 || !slices.Equal(m.Unstable, []string{"work/zz-log"}) {
		t.Errorf("unstable: %q", m.Unstable)
	}
	_, contents := exportOf(t, c, m.ID)
	if got := contents["work/zz-log"]; !strings.HasPrefix(got, "begin\nline 1\n") {
		t.Errorf("the log is %q", got)
	}
	for _, name := range []string{"f00", "f29", "second-name"} {
		if len(contents["work/"+name]) != 50_000 {
			t.Errorf("%s has %d bytes", name, len(contents["work/"+name]))
		}
	}
	for name := range contents {
		if name == "work/f05" {
			t.Error("what went away is there")
		}
	}
}

// codex creates folders in a work folder for its sandbox, and removes them a moment later.
// They are not kept while they are empty.
func TestEmptyPlaceholdersAreNoPartOfAWorkFolder(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, ".aws"), 0o700), os.MkdirAll(filepath.Join(dir, ".codex"), 0o700),
		os.MkdirAll(filepath.Join(dir, "sub/.aws"), 0o700), os.MkdirAll(filepath.Join(dir, ".git/empty"), 0o700),
		os.MkdirAll(filepath.Join(dir, ".agents"), 0o700), os.WriteFile(filepath.Join(dir, ".agents/x.tmp"), nil, 0o600))
	spec := workOf(dir, "*.tmp")
	spec.Trees[0].Hollow = []string{".agents", ".aws", ".codex", ".git"}
	c := smallChunks(chunks.StoreBlobs{Store: newTestStore(t)})
	m, err := Take(t.Context(), localHost(t), c, spec)
	must(t, err)
	to := filepath.Join(t.TempDir(), "to")
	_, err = Restore(t.Context(), localHost(t), c, m.ID, RestoreSpec{Dirs: map[string]string{Work: to}})
	must(t, err)
	for name, want := range map[string]bool{".agents": true, ".aws": false, ".codex": false, ".git/empty": true, "sub/.aws": true} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it: %t", name, err, want)
		}
	}
}

func TestRetentionKeepsTheNewestAndWhatIsPinned(t *testing.T) {
	now := time.Unix(1.8e9, 0)
	at := func(session string, hours int, complete bool) Manifest {
		return Manifest{ID: fmt.Sprintf("%s-%d", session, hours), Session: session, CreatedAt: now.Add(-time.Duration(hours) * time.Hour), Complete: complete}
	}
	// A snapshot of files that the session left behind on a host may be newer than the
	// snapshot from which the session continues, but does not replace it.
	left := func(m Manifest) Manifest { m.Left = true; return m }
	all := []Manifest{at("a", 1, false), at("a", 2, true), at("a", 3, true), at("a", 4, false), at("a", 50, true), at("b", 900, true), at("b", 901, true), at("c", 5, false),
		left(at("d", 2, true)), at("d", 7, true)}
	for _, tt := range []struct {
		policy Retention
		pinned []string
		want   []string
	}{
		{Retention{}, nil, nil},
		{Retention{Keep: 1}, nil, []string{"b-901", "a-50", "a-4", "a-3"}},
		{Retention{Keep: 2}, nil, []string{"a-50", "a-4"}},
		{Retention{Keep: 1}, []string{"a-3", "b-901"}, []string{"a-50", "a-4"}},
		{Retention{MaxAge: 10 * time.Hour}, nil, []string{"b-901", "a-50"}},
		{Retention{MaxAge: time.Minute}, []string{"a-50"}, []string{"b-901", "a-4", "a-3"}},
		{Retention{Keep: 1, MaxAge: time.Minute}, nil, []string{"b-901", "a-50", "a-4", "a-3"}},
	} {
		tt.policy.Now = now
		var got []string
		for _, m := range Retain(all, tt.policy, func(id string) bool { return slices.Contains(tt.pinned, id) }) {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: drops %q; want %q", tt.policy, got, tt.want)
		}
	}
}

func TestPruneKeepsWhatSnapshotsNeed(t *testing.T) {
	dir := aTree(t)
	st := newTestStore(t)
	h := localHost(t)
	var ids []string
	for i := range 3 {
		write(t, dir, "changing", randomText(600_000))
		spec := workOf(dir)
		spec.ID = NewID("s1", time.Unix(1.8e9+int64(i), 0))
		_, err := Take(t.Context(), h, smallChunks(chunks.StoreBlobs{Store: st}), spec)
		must(t, err)
		ids = append(ids, spec.ID)
	}
	must(t, Delete(t.Context(), st, ids[0]), Delete(t.Context(), st, ids[1]))
	c := smallChunks(chunks.StoreBlobs{Store: st})
	var freed int64
	for hours := range 4 {
		r, err := c.Prune(t.Context(), Live(c), chunks.PruneOptions{Condemn: time.Minute, Grace: time.Minute, Now: time.Now().Add(time.Duration(hours) * time.Hour)})
		must(t, err)
		freed += r.Freed
	}
	if freed < 1_000_000 {
		t.Errorf("%d bytes were freed", freed)
	}
	mustBeWhole(t, st, ids[2], contentsOf(t, dir))
	if n, damaged, err := FindDamage(t.Context(), c, func(chunks.Digest) error { return nil }); err != nil || n != 1 || len(damaged) > 0 {
		t.Errorf("%d snapshots, damage %+v, %v", n, damaged, err)
	}
}

// The test passes a million names as a host's listing would. The heap does not grow.
func TestMemoryIsBoundedWhateverTheSizeOfTheTree(t *testing.T) {
	if testing.Short() {
		t.Skip("lists 600,000 names, to show that their number does not matter: slow with the race detector")
	}
	c := chunks.Open(newTestStore(t), chunks.Options{})
	r := seeds.NewRedactor("team", []seeds.Secret{seeds.NewSecret(marked)})
	batch := c.NewBatch(t.Context(), chunks.BatchOptions{})
	defer batch.Abort()
	tk := &taking{ctx: t.Context(), c: c, batch: batch, masker: r.MaskStream()}
	tt, err := tk.newTree(WorkOf("/w", WorkFull, nil))
	must(t, err)
	var most, start uint64
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	start = heap()
	const names = 600_000
	for i := range names {
		e := tree.Entry{Path: fmt.Sprintf("d%05d/a file with a rather long name %07d", i/1000, i), Kind: tree.RegularFile, Mode: 0o644,
			MTime: time.Unix(1.7e9, int64(i)), CTime: time.Unix(1.7e9, int64(i)), Inode: uint64(i), Links: 1}
		must(t, tt.listed(e))
		if i%100_000 == 99_999 {
			most = max(most, heap())
		}
	}
	must(t, tt.finish())
	if tk.manifest.Files != names {
		t.Errorf("%d files", tk.manifest.Files)
	}
	if grown := int64(most) - int64(start); grown > 100<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	} else {
		t.Logf("the heap grew by %d MiB at most", grown>>20)
	}
}
