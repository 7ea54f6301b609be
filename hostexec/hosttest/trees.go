package hosttest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	treepkg "fairlead.dev/fairlead/hostexec/tree"
)

// plantTree is a script that makes a tree with every kind of entry.
const plantTree = `umask 022; mkdir -p "$1/tree" && cd "$1/tree" && mkdir empty deep deep/er && echo a >'a b' &&
echo g >'[g]*?' && echo n >'new
line' && echo b >'back\slash' && printf x >deep/er/run && chmod 750 deep/er/run && ln -s ../nowhere deep/link && mkfifo fifo '[p]*' && echo d >./-dash`

func tarOf(t *testing.T, h target, dir string, paths ...string) map[string]*tar.Header {
	t.Helper()
	var buf bytes.Buffer
	if err := treepkg.Get(h.ctx, h, dir, &buf, paths...); err != nil {
		t.Fatal(err)
	}
	got := map[string]*tar.Header{}
	r := tar.NewReader(&buf)
	for {
		hdr, err := r.Next()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Clean(hdr.Name)] = hdr
	}
}

func sortedNames(m map[string]*tar.Header) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

var treeChecks = []check{
	{"GetTreeTakesFilesAndLeavesPipes", func(t *testing.T, h target) {
		h.run(t, hostexec.Command{Script: plantTree, Args: []string{h.dir}})
		tree := h.dir + "/tree"
		want := []string{"-dash", ".", "[g]*?", "a b", `back\slash`, "deep", "deep/er", "deep/er/run", "deep/link", "empty", "new\nline"}
		if got := sortedNames(tarOf(t, h, tree)); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if got := sortedNames(tarOf(t, h, tree, "deep/er", "-dash", "[g]*?")); !slices.Equal(got, []string{"-dash", "[g]*?", "deep/er", "deep/er/run"}) {
			t.Errorf("named paths: %q", got)
		}
		for _, missing := range [][]string{{tree + "/absent"}, {tree, "absent"}, {tree, "a b", "deep/absent"}} {
			if err := treepkg.Get(h.ctx, h, missing[0], io.Discard, missing[1:]...); !errors.Is(err, hostexec.ErrNotExist) {
				t.Errorf("%q: %v", missing, err)
			}
		}
		for _, bad := range []string{"/etc/passwd", "../x", "..", "a/../b", ""} {
			if err := treepkg.Get(h.ctx, h, tree, io.Discard, bad); err == nil {
				t.Errorf("%q was taken", bad)
			}
		}
	}},
	{"GetTreeBearsFilesThatChange", func(t *testing.T, h target) {
		dir := h.mkdir(t)
		s := h.start(t, hostexec.Command{Script: `cd "$1"; echo ready; while :; do echo more >>log; : >"tmp.$((i=i+1))"; rm -f tmp.*; done`, Args: []string{dir}})
		if _, err := io.ReadFull(s, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := treepkg.Get(h.ctx, h, dir, io.Discard); err != nil {
				t.Error(err)
			}
		}
		// The script's loop does not notice the end of its input, so the test ends it
		// through the folder.
		h.run(t, hostexec.Command{Script: `rm -rf -- "$1"; mkdir "$1"; chmod 000 "$1"`, Args: []string{dir}})
		s.Close()
	}},
	{"GetTreeFailsWhenItsWriterDoes", func(t *testing.T, h target) {
		h.run(t, hostexec.Command{Script: `mkdir -p "$1" && head -c 5000000 /dev/zero >"$1/zeros"`, Args: []string{h.dir}})
		why := errors.New("no more")
		if err := treepkg.Get(h.ctx, h, h.dir, errWriter{why}); !errors.Is(err, why) {
			t.Error(err)
		}
	}},
	{"PutTreeGivesBackWhatGetTreeTook", func(t *testing.T, h target) {
		h.run(t, hostexec.Command{Script: plantTree, Args: []string{h.dir}})
		var buf bytes.Buffer
		if err := treepkg.Get(h.ctx, h, h.dir+"/tree", &buf); err != nil {
			t.Fatal(err)
		}
		to := h.dir + "/new 'place'/tree"
		f := fence(h.dir, epoch(1, 0, 0))
		if err := treepkg.Put(h.ctx, h, to, bytes.NewReader(buf.Bytes()), f); err != nil {
			t.Fatal(err)
		}
		before, after := tarOf(t, h, h.dir+"/tree"), tarOf(t, h, to)
		if !slices.Equal(sortedNames(before), sortedNames(after)) {
			t.Fatalf("took %q, gave %q", sortedNames(before), sortedNames(after))
		}
		for name, b := range before {
			a := after[name]
			if a.Mode != b.Mode || a.Size != b.Size || a.Typeflag != b.Typeflag || a.Linkname != b.Linkname || !a.ModTime.Equal(b.ModTime) {
				t.Errorf("%q: %+v became %+v", name, b, a)
			}
		}
		// The tree is written again, into a folder with other entries.
		h.run(t, hostexec.Command{Script: `cd "$1" && echo mine >mine && echo changed >'a b'`, Args: []string{to}})
		if err := treepkg.Put(h.ctx, h, to, bytes.NewReader(buf.Bytes()), f); err != nil {
			t.Fatal(err)
		}
		mustHold(t, to+"/mine", []byte("mine\n"), h.fileMode(t, to+"/mine"))
		mustHold(t, to+"/a b", []byte("a\n"), 0o644)
		if got := names(t, h.dir+"/new 'place'"); got != "tree" {
			t.Errorf("left: %q", got)
		}
	}},
	{"PutTreeShowsNothingUnlessItIsWhole", func(t *testing.T, h target) {
		var whole bytes.Buffer
		w := tar.NewWriter(&whole)
		for _, name := range []string{"one", "two"} {
			w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 700_000})
			w.Write(make([]byte, 700_000))
		}
		w.Close()
		h.mkdir(t)
		broken := errors.New("broken source")
		put := func(r io.Reader, e hostexec.Epoch) error {
			return treepkg.Put(h.ctx, h, h.dir+"/tree", r, fence(h.dir, e))
		}
		if err := put(strings.NewReader("this is no tar stream, by any means"), epoch(1, 0, 0)); err == nil {
			t.Error("not a tar stream: no error")
		}
		if err := put(bytes.NewReader(whole.Bytes()[:1_000_000]), epoch(1, 0, 0)); err == nil {
			t.Error("half a tar stream: no error")
		}
		// tar takes a stream that was cut between two entries for complete.
		cut := 512 + (700_000+511)/512*512
		if err := put(io.MultiReader(bytes.NewReader(whole.Bytes()[:cut]), errReader{broken}), epoch(1, 0, 0)); !errors.Is(err, broken) {
			t.Errorf("a broken source: %v", err)
		}
		if err := put(bytes.NewReader(whole.Bytes()), epoch(0, 9, 0)); !errors.Is(err, hostexec.ErrFenced) {
			t.Errorf("a former holder: %v", err)
		}
		if got := names(t, h.dir); got != "epoch lock" {
			t.Errorf("left: %q", got)
		}
		if err := put(bytes.NewReader(whole.Bytes()), epoch(1, 0, 0)); err != nil {
			t.Error(err)
		}
		if got := names(t, h.dir+"/tree"); got != "one two" {
			t.Errorf("in place: %q", got)
		}
	}},
}

var removeChecks = []check{
	{"RemoveTreeRemovesAndProvesIt", func(t *testing.T, h target) {
		h.run(t, hostexec.Command{Script: plantTree + ` && chmod 500 deep/er && chmod 000 deep`, Args: []string{h.dir}})
		for range 2 { // the second call finds no path and succeeds
			if err := hostexec.RemoveTree(h.ctx, h, h.dir+"/tree", h.dir, fence(h.dir, epoch(1, 0, 0))); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(h.dir + "/tree"); !os.IsNotExist(err) {
				t.Fatalf("still there: %v", err)
			}
		}
		if err := hostexec.RemoveTree(h.ctx, h, h.dir+"/no/such/thing", h.dir, nil); err != nil {
			t.Error(err)
		}
		absent := h.dir + "/absent"
		if err := hostexec.RemoveTree(h.ctx, h, absent+"/work", absent, fence(absent, epoch(1, 0, 0))); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(absent); err == nil {
			t.Error("removing what is not there made a folder")
		}
	}},
	{"RemoveTreeNeverLeavesItsFolder", func(t *testing.T, h target) {
		h.run(t, hostexec.Command{Script: `mkdir -p "$1/in/side" "$1/outside/keep" && cd "$1/in" && ln -s ../outside door && ln -s ../outside side/door`, Args: []string{h.dir}})
		in := h.dir + "/in"
		if err := hostexec.RemoveTree(h.ctx, h, in+"/door/keep", in, nil); err == nil {
			t.Error("went through a symlink")
		}
		for _, bad := range [][2]string{{in, in}, {h.dir, in}, {in + "/../outside", in}, {"/", "/"}, {in + "/x", "/"}, {"in/side", "in"}, {in + "side", in}} {
			if err := hostexec.RemoveTree(h.ctx, h, bad[0], bad[1], nil); err == nil {
				t.Errorf("%q was taken", bad)
			}
		}
		for _, good := range []string{"/door", "/side"} {
			if err := hostexec.RemoveTree(h.ctx, h, in+good, in, nil); err != nil {
				t.Error(err)
			}
		}
		if got := names(t, h.dir+"/outside"); got != "keep" {
			t.Errorf("outside holds %q", got)
		}
		if got := names(t, in); got != "" {
			t.Errorf("inside holds %q", got)
		}
	}},
	{"RemoveTreeRefusesTheHome", func(t *testing.T, h target) {
		home := strings.TrimSpace(h.run(t, hostexec.Command{Script: `cd; pwd -P`}))
		if within := filepath.Dir(home); within != "/" {
			if err := hostexec.RemoveTree(h.ctx, h, home, within, nil); err == nil {
				t.Fatal("removed the home")
			}
		}
		if _, err := os.Stat(home); err != nil {
			t.Error(err)
		}
	}},
	{"RemoveTreeIsFenced", func(t *testing.T, h target) {
		h.run(t, hostexec.Command{Script: `mkdir -p "$1/x"`, Args: []string{h.dir}, Fence: fence(h.dir, epoch(2, 0, 0))})
		err := hostexec.RemoveTree(h.ctx, h, h.dir+"/x", h.dir, fence(h.dir, epoch(1, 0, 0)))
		mustBeFenced(t, err, epoch(1, 0, 0), epoch(2, 0, 0))
		if _, err := os.Stat(h.dir + "/x"); err != nil {
			t.Error(err)
		}
	}},
}

func (h target) fileMode(t *testing.T, file string) os.FileMode {
	t.Helper()
	fi, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Mode()
}

type errWriter struct{ err error }

func (w errWriter) Write([]byte) (int, error) { return 0, w.err }
