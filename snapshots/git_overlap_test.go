package snapshots

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// A crossedHost calls a function before the n-th request to it.
type crossedHost struct {
	hostexec.Host
	left   int
	happen func()
}

func (h *crossedHost) count() {
	if h.left--; h.left == 0 {
		h.happen()
	}
}

func (h *crossedHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	h.count()
	return h.Host.Run(ctx, c)
}

func (h *crossedHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	h.count()
	return h.Host.Start(ctx, c)
}

// Another attempt works in the same scratch folder on the host, after the repository has
// changed. The kept data is complete and of one moment, at whichever step the other attempt
// intervenes.
func TestAttemptsThatCrossOnAHostKeepOneRepository(t *testing.T) {
	u := newUpstream(t)
	crossed := 0
	for step := 1; crossed == step-1; step++ {
		c := u.clone()
		c.commit("mine", randomText(2000))
		c.write("src/a.c", "changed\n")
		before := c.state()
		h := &crossedHost{Host: c.host, left: step, happen: func() {
			crossed++
			c.commit("another", randomText(3000))
			p, err := planGit(t.Context(), c.host, c.dir, filepath.Join(filepath.Dir(c.dir), "git"))
			if err != nil || p.Why != "" {
				t.Errorf("the other one: %q, %v", p.Why, err)
			}
		}}
		chunks := chunks.Open(newTestStore(t), chunks.Options{})
		m, err := Take(t.Context(), h, chunks, c.session())
		if err != nil || m.Work != WorkGit {
			t.Errorf("crossed before step %d: kept by %s (%s), %v", step, m.Work, m.WorkWhy, err)
			continue
		}
		to := filepath.Join(t.TempDir(), "work")
		r, err := Restore(t.Context(), c.host, chunks, m.ID, RestoreSpec{Dirs: map[string]string{Work: to}})
		if err != nil || len(r.Differs) > 0 {
			t.Errorf("crossed before step %d: restored: %v, it differs: %q", step, err, r.Differs)
			continue
		}
		if got := c.at(to).state(); got != before && got != c.state() {
			t.Errorf("crossed before step %d: restored it is\n%s\nand was\n%s", step, got, c.state())
		}
	}
	if crossed < 5 {
		t.Errorf("it was crossed %d times only", crossed)
	}
}

// haltingGit returns a host whose git stops in the middle of a pack and reads a word from a
// FIFO. The word tells it to go on, to end there with success, or to end there with an
// error.
func haltingGit(t *testing.T, h hostexec.Host) (_ hostexec.Host, fifo string) {
	t.Helper()
	git, err := exec.LookPath("git")
	must(t, err)
	dir := t.TempDir()
	fifo = filepath.Join(dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	script := fmt.Sprintf(`#!/bin/sh
case " $* " in *" pack-objects "*)
	%[1]s "$@" >"%[2]s/whole" || exit 1
	head -c 1000 "%[2]s/whole"
	read -r word <"%[2]s/fifo"
	case $word in cut) exit 0 ;; die) exit 1 ;; esac
	tail -c +1001 "%[2]s/whole"
	exit ;;
esac
exec %[1]s "$@"
`, git, dir)
	must(t, os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755))
	return prefixedPath{h, dir}, fifo
}

type prefixedPath struct {
	hostexec.Host
	dir string
}

func (h prefixedPath) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	c.Args = append([]string{h.dir}, c.Args...)
	c.Script = "PATH=$1:$PATH; export PATH; shift\n" + c.Script
	return h.Host.Start(ctx, c)
}

// tell waits until a halting git has stopped, and returns a function that sends it a word.
func tell(t *testing.T, fifo string) func(word string) {
	t.Helper()
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	must(t, err)
	return func(word string) {
		_, err := fmt.Fprintln(f, word)
		must(t, err, f.Close())
	}
}

// A script goes on after its worker has died. The next attempt makes the same pack at the
// same time, and dies too. Neither of them leaves an incomplete pack under the final name.
func TestPacksOfTwoAttemptsDoNotMix(t *testing.T) {
	c := newUpstream(t).clone()
	c.commit("mine", randomText(5000))
	scratch := filepath.Join(filepath.Dir(c.dir), "git")
	plan := func(h hostexec.Host) chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := planGit(t.Context(), h, c.dir, scratch)
			ended <- err
		}()
		return ended
	}
	one, first := haltingGit(t, c.host)
	two, second := haltingGit(t, c.host)
	endedOne := plan(one)
	goOn := tell(t, first)
	endedTwo := plan(two)
	goOnTwo := tell(t, second)
	goOn("on")
	must(t, <-endedOne)
	goOnTwo("die")
	must(t, <-endedTwo) // git fails, so the folder would be kept in full
	chunks := chunks.Open(newTestStore(t), chunks.Options{})
	m, err := Take(t.Context(), c.host, chunks, c.session())
	must(t, err)
	to := filepath.Join(t.TempDir(), "work")
	if r, err := Restore(t.Context(), c.host, chunks, m.ID, RestoreSpec{Dirs: map[string]string{Work: to}}); err != nil || len(r.Differs) > 0 {
		t.Fatalf("restored: %v, it differs: %q", err, r.Differs)
	}
	if got, want := c.at(to).state(), c.state(); got != want {
		t.Errorf("restored it is\n%s\nand was\n%s", got, want)
	}
	left, err := filepath.Glob(filepath.Join(scratch, "*"))
	if must(t, err); len(left) != 3 {
		t.Errorf("in the folder for it are %q", left)
	}
}

// Files that a live attempt works on are kept, however long the attempt takes. Files that a
// dead attempt left are removed after an hour.
func TestAnAttemptThatTakesLongKeepsWhatItWorksOn(t *testing.T) {
	c := newUpstream(t).clone()
	c.commit("mine", randomText(5000))
	scratch := filepath.Join(filepath.Dir(c.dir), "git")
	h, fifo := haltingGit(t, c.host)
	ended := make(chan error, 1)
	var slow gitPlan
	go func() {
		var err error
		slow, err = planGit(t.Context(), h, c.dir, scratch)
		ended <- err
	}()
	goOn := tell(t, fifo)
	old := time.Now().Add(-2 * time.Hour)
	mine, err := filepath.Glob(filepath.Join(scratch, "tmp.*"))
	if must(t, err); len(mine) != 1 {
		t.Fatalf("it works in %q", mine)
	}
	must(t, os.Chtimes(mine[0], old, old)) // a growing file in a folder does not change the folder's time
	const nobody = "tmp.999999999."
	for name, at := range map[string]time.Time{nobody + "old": old, nobody + "grown": old, nobody + "new": time.Now()} {
		dir := filepath.Join(scratch, name)
		must(t, os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "new.pack"), []byte("x"), 0o600))
		if name != nobody+"grown" {
			must(t, os.Chtimes(filepath.Join(dir, "new.pack"), at, at))
		}
		must(t, os.Chtimes(dir, at, at))
	}
	p, err := planGit(t.Context(), c.host, c.dir, scratch)
	if err != nil || p.Why != "" {
		t.Fatalf("the other one: %q, %v", p.Why, err)
	}
	goOn("on")
	if err := <-ended; err != nil || slow.Why != "" || slow.made.packSize != p.made.packSize {
		t.Errorf("the slow one has %d of %d bytes: %q, %v", slow.made.packSize, p.made.packSize, slow.Why, err)
	}
	left, err := filepath.Glob(filepath.Join(scratch, "tmp.*"))
	want := []string{filepath.Join(scratch, nobody+"grown"), filepath.Join(scratch, nobody+"new")}
	if must(t, err); !slices.Equal(left, want) {
		t.Errorf("left are %q", left)
	}
}

// Files that were prepared on the host are checked before they are used again. A script
// that was removing them may have died, and the host may have lost its power.
func TestWhatIsOnlyHalfThereIsPreparedAnew(t *testing.T) {
	c := newUpstream(t).clone()
	c.commit("mine", randomText(5000))
	c.write("src/a.c", "changed\n")
	chunks := chunks.Open(newTestStore(t), chunks.Options{})
	spec := c.session()
	scratch := filepath.Join(filepath.Dir(c.dir), "git")
	first, err := Take(t.Context(), c.host, chunks, spec)
	must(t, err)
	dotgit, err := filepath.Glob(filepath.Join(scratch, "dotgit-*"))
	if must(t, err); len(dotgit) != 1 {
		t.Fatalf("prepared is %q", dotgit)
	}
	index := filepath.Join(dotgit[0], "index")
	for what, happen := range map[string]func() error{
		"a file is gone":       func() error { return os.Remove(index) },
		"a file is empty":      func() error { return os.Truncate(index, 0) },
		"all files are gone":   func() error { return errors.Join(os.RemoveAll(dotgit[0]), os.Mkdir(dotgit[0], 0o700)) },
		"a file is too many":   func() error { return os.WriteFile(filepath.Join(dotgit[0], "MERGE_HEAD"), nil, 0o600) },
		"a file in its place":  func() error { return errors.Join(os.RemoveAll(dotgit[0]), os.WriteFile(dotgit[0], nil, 0o600)) },
		"a pack of former use": func() error { return os.WriteFile(filepath.Join(scratch, "objects-0123456789abcdef.pack"), nil, 0o600) },
	} {
		must(t, happen())
		spec.ID, spec.Parent = "", ""
		m, err := Take(t.Context(), c.host, chunks, spec)
		if err != nil || m.Work != WorkGit || m.Files != first.Files || m.Bytes != first.Bytes {
			t.Errorf("%s: kept by %s (%s), %d files of %d, %v", what, m.Work, m.WorkWhy, m.Files, first.Files, err)
			continue
		}
		to := filepath.Join(t.TempDir(), "work")
		if r, err := Restore(t.Context(), c.host, chunks, m.ID, RestoreSpec{Dirs: map[string]string{Work: to}}); err != nil || len(r.Differs) > 0 {
			t.Errorf("%s: restored: %v, it differs: %q", what, err, r.Differs)
		} else if got, want := c.at(to).state(), c.state(); got != want {
			t.Errorf("%s: restored it is\n%s\nand was\n%s", what, got, want)
		}
		if left, err := filepath.Glob(filepath.Join(scratch, "*")); err != nil || len(left) != 3 {
			t.Errorf("%s: left are %q, %v", what, left, err)
		}
	}
}

// A prepared state that is no longer needed is renamed before its files are removed.
func TestAStateIsRemovedUnderAnotherName(t *testing.T) {
	c := newUpstream(t).clone()
	c.commit("mine", "mine\n")
	before := c.plan()
	tools := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tools, "rm"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	c.write("src/a.c", "staged\n")
	c.git("add", "src/a.c")
	p, err := planGit(t.Context(), prefixedPath{c.host, tools}, c.dir, filepath.Join(c.root, "scratch"))
	if err != nil || p.Why != "" || p.Dotgit == before.Dotgit {
		t.Fatalf("%+v, %v", p, err)
	}
	named, err := filepath.Glob(filepath.Join(c.root, "scratch", "dotgit*"))
	if must(t, err); len(named) != 1 || filepath.Base(named[0]) != p.Dotgit {
		t.Errorf("there are %q, and it is %s", named, p.Dotgit)
	}
}

// If git did not complete a pack, the pack is not kept, even if git reports success. The
// work folder is then kept in full.
func TestAPackThatIsNotWholeIsNotKept(t *testing.T) {
	c := newUpstream(t).clone()
	c.commit("mine", randomText(5000))
	h, fifo := haltingGit(t, c.host)
	chunks := chunks.Open(newTestStore(t), chunks.Options{})
	spec := c.session()
	ended := make(chan error, 1)
	var m Manifest
	go func() {
		var err error
		m, err = Take(t.Context(), h, chunks, spec)
		ended <- err
	}()
	tell(t, fifo)("cut")
	must(t, <-ended)
	if m.Work != WorkFull || !strings.Contains(m.WorkWhy, "git fails in it") {
		t.Errorf("kept by %s (%s)", m.Work, m.WorkWhy)
	}
	to := filepath.Join(t.TempDir(), "work")
	if _, err := Restore(t.Context(), c.host, chunks, m.ID, RestoreSpec{Dirs: map[string]string{Work: to}}); err != nil {
		t.Fatal(err)
	}
	if got, want := c.at(to).state(), c.state(); got != want {
		t.Errorf("restored it is\n%s\nand was\n%s", got, want)
	}
}
