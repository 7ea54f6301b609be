package snapshots

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/tree"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// session makes the folders of a session whose work folder is a clone.
func (c *gitCase) session() TakeSpec {
	c.t.Helper()
	dir := filepath.Dir(c.dir)
	gitDir{c.t, dir}.write("codex-home/sessions/2026/11/22/rollout-a.jsonl", "{}\n")
	return TakeSpec{Session: "s1", Facts: Facts{Host: "here", Work: WorkGit},
		Trees: []TreeSpec{RolloutsOf(filepath.Join(dir, "codex-home")), WorkOf(c.dir, WorkGit, nil)}}
}

func (c *gitCase) at(dir string) *gitCase {
	return &gitCase{gitDir: gitDir{c.t, dir}, root: filepath.Dir(dir), host: c.host}
}

func TestSnapshotByGitIsRestoredAsItWas(t *testing.T) {
	u := newUpstream(t)
	c := u.clone()
	c.commit("mine", "mine\n")
	c.write("README", "stashed\n")
	c.git("stash", "-q")
	c.write("src/a.c", "staged\n")
	c.git("add", "src/a.c")
	c.write("src/b.c", "changed\n")
	c.write("new folder/ü\n\xff", "untracked\n")
	c.write("x.o", "made by a compiler\n")
	c.do(os.Chmod(filepath.Join(c.dir, "new folder"), 0o700))
	c.do(os.Remove(filepath.Join(c.dir, "big")))
	c.do(os.MkdirAll(filepath.Join(c.dir, "empty", "deep"), 0o755))
	chunks := chunks.Open(newTestStore(t), chunks.Options{})
	spec := c.session()
	m, err := Take(t.Context(), c.host, chunks, spec)
	c.do(err)
	work, _ := m.Tree(Work)
	if m.Work != WorkGit || m.WorkWhy != "" || work.Bytes > 1000 || m.Bytes > 100_000 {
		t.Errorf("of a work folder that upstream has, it holds %d bytes, %d in all: %+v", work.Bytes, m.Bytes, m)
	}
	c.do(os.Remove(filepath.Join(c.dir, "x.o")))
	want := c.state()
	to := filepath.Join(t.TempDir(), "deep", "work")
	for range 2 { // the second call changes nothing
		r, err := Restore(t.Context(), c.host, chunks, m.ID, RestoreSpec{Dirs: map[string]string{Work: to, Rollouts: to + "-rollouts"}})
		if err != nil || len(r.Differs) > 0 {
			t.Fatalf("%v, it differs: %q", err, r.Differs)
		}
	}
	if got := c.at(to).state(); got != want {
		t.Errorf("restored it is\n%s\nand was\n%s", got, want)
	}
	if _, err := os.Stat(to + "-rollouts/sessions/2026/11/22/rollout-a.jsonl"); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(to))
	c.do(err)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), ".fl-git") {
			t.Errorf("%s is left", e.Name())
		}
	}
	// Restore does not use a place that is not empty.
	taken := t.TempDir()
	gitDir{t, taken}.write("theirs", "x")
	if _, err := Restore(t.Context(), c.host, chunks, m.ID, RestoreSpec{Dirs: map[string]string{Work: taken}}); !errors.Is(err, tree.ErrExists) {
		t.Errorf("over what was there: %v", err)
	}
	if names, err := os.ReadDir(taken); err != nil || len(names) != 1 {
		t.Errorf("their folder has %v, %v", names, err)
	}
	// If upstream cannot be reached, Restore leaves nothing in the place.
	u.stop()
	nowhere := filepath.Join(t.TempDir(), "work")
	_, err = Restore(t.Context(), c.host, chunks, m.ID, RestoreSpec{Dirs: map[string]string{Work: nowhere}})
	if _, ok := errors.AsType[*UpstreamError](err); !ok {
		t.Errorf("without its upstream: %v", err)
	}
	if _, err := os.Stat(nowhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half of it is there (%v)", err)
	}
}

func TestNextSnapshotByGitReadsWhatChanged(t *testing.T) {
	c := newUpstream(t).clone()
	c.commit("mine", strings.Repeat(randomText(100), 1000))
	c.write("src/a.c", "changed\n")
	chunks := chunks.Open(newTestStore(t), chunks.Options{})
	spec := c.session()
	first, err := Take(t.Context(), c.host, chunks, spec)
	c.do(err)
	settled(t, c.dir)
	spec.Parent, spec.ID = first.ID, ""
	first, err = Take(t.Context(), c.host, chunks, spec)
	c.do(err)
	settled(t, c.dir)
	c.write("src/a.c", "changed again\n")
	settled(t, c.dir)
	spec.Parent, spec.ID = first.ID, ""
	m, err := Take(t.Context(), c.host, chunks, spec)
	c.do(err)
	// Take reads the file and the state of the repository again, but not its pack and
	// index.
	if m.ReadFiles > 2 || m.ReadBytes > 20_000 {
		t.Errorf("read %d files, %d bytes", m.ReadFiles, m.ReadBytes)
	}
}

func TestWorkFolderThatGitDoesNotCoverIsWholeInTheSnapshot(t *testing.T) {
	u := newUpstream(t)
	c := u.clone()
	c.git("remote", "set-url", "origin", u.dir)
	c.write("x.o", "made by a compiler\n")
	chunks := chunks.Open(newTestStore(t), chunks.Options{})
	m, err := Take(t.Context(), c.host, chunks, c.session())
	c.do(err)
	if m.Work != WorkFull || !strings.Contains(m.WorkWhy, "could be reached") {
		t.Errorf("it says %q, %q", m.Work, m.WorkWhy)
	}
	want := treeOf(t, c.dir)
	to := filepath.Join(t.TempDir(), "work")
	_, err = Restore(t.Context(), c.host, chunks, m.ID, RestoreSpec{Dirs: map[string]string{Work: to}})
	c.do(err)
	mustBeEqual(t, treeOf(t, to), want)
	if got, was := c.at(to).state(), c.state(); got != was {
		t.Errorf("restored it is\n%s\nand was\n%s", got, was)
	}
}

func TestCommitWithASecretIsNeverKept(t *testing.T) {
	c := newUpstream(t).clone()
	spec := c.session()
	spec.Mask = func() chunks.Masker {
		return seeds.NewRedactor("team", []seeds.Secret{seeds.NewSecret(gitToken)}).MaskStream()
	}
	st := newTestStore(t)
	chunks := chunks.Open(st, chunks.Options{})
	// In an uncommitted file the secret is overwritten, as in every file of a work folder.
	c.write("notes", "it is "+gitToken+"\n")
	m, err := Take(t.Context(), c.host, chunks, spec)
	c.do(err)
	_, contents := exportOf(t, chunks, m.ID)
	if m.Masked != 1 || strings.Contains(strings.Join(slices.Collect(maps.Values(contents)), ""), gitToken) {
		t.Errorf("masked %d times", m.Masked)
	}
	for _, change := range []func(){
		func() { c.git("add", "notes") },
		func() { c.git("commit", "-q", "-m", "notes") },
		func() {
			c.git("reset", "-q", "--hard", "HEAD~1")
			c.git("commit", "-q", "--allow-empty", "-m", "it is "+gitToken)
		},
	} {
		change()
		spec.ID = ""
		_, err := Take(t.Context(), c.host, chunks, spec)
		if _, ok := errors.AsType[*GitSecretError](err); !ok || !strings.Contains(err.Error(), "known secret") || strings.Contains(err.Error(), gitToken) {
			t.Errorf("a secret in what only git has: %v", err)
		}
	}
}
