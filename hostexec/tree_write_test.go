package hostexec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/tree"
)

// fill returns a function that writes a small tree with an entry of each kind. text is the
// end of each file.
func fill(text string) func(*tree.Writer) error {
	at := time.Unix(1_600_000_000, 0)
	return func(w *tree.Writer) error {
		for _, e := range []tree.Entry{
			{Path: "dir", Kind: tree.Folder, Mode: 0o555, MTime: at},
			{Path: ".", Kind: tree.Folder, Mode: 0o750, MTime: at},
			{Path: "link", Kind: tree.Symlink, Link: "../nowhere", MTime: at},
		} {
			if err := w.Add(e); err != nil {
				return err
			}
		}
		for _, name := range []string{"dir/file", "dir/holes"} {
			f, err := w.File(tree.Entry{Path: name, Kind: tree.RegularFile, Mode: 0o640, MTime: at, Size: 300_000 + int64(len(text))}, name == "dir/holes")
			if err != nil {
				return err
			}
			if err := f.Hole(300_000); err != nil {
				return err
			}
			if _, err := f.Write([]byte(text)); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
			if err := w.Add(tree.Entry{Path: "hard " + filepath.Base(name), Kind: tree.HardLink, Link: name}); err != nil {
				return err
			}
		}
		return nil
	}
}

func mustBeFilled(t *testing.T, dir, text string) {
	t.Helper()
	for _, name := range []string{"dir/file", "dir/holes", "hard file", "hard holes"} {
		data, err := os.ReadFile(dir + "/" + name)
		if err != nil || len(data) != 300_000+len(text) || !strings.HasSuffix(string(data), text) {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
	for name, mode := range map[string]os.FileMode{".": 0o750 | os.ModeDir, "dir": 0o555 | os.ModeDir, "dir/file": 0o640, "dir/holes": 0o640} {
		fi, err := os.Stat(dir + "/" + name)
		if err != nil {
			t.Error(err)
		} else if fi.Mode() != mode || fi.ModTime().Unix() != 1_600_000_000 {
			t.Errorf("%s: %v %v", name, fi.Mode(), fi.ModTime())
		}
	}
}

// beside returns the names of the entries beside a tree.
func beside(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestATreeIsPutWhereNothingIs(t *testing.T) {
	for name, h := range treeHosts(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/it's\nnew/tree [a]*"
			write := func(text string, opts tree.WriteOptions) error {
				return tree.Write(t.Context(), h, dir, opts, fill(text))
			}
			if err := write("one", tree.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			mustBeFilled(t, dir, "one")
			for range 2 {
				if err := write("two", tree.WriteOptions{ID: "two"}); !errors.Is(err, tree.ErrExists) {
					t.Errorf("onto another: %v", err)
				}
			}
			mustBeFilled(t, dir, "one")
			for _, there := range []string{`ln -s nowhere "$1"`, `: >"$1"`, `mkdir "$1" && : >"$1/.hidden"`, `mkfifo "$1"`} {
				plant(t, h, `chmod -R u+w "$1" 2>/dev/null; rm -rf "$1"; `+there, dir)
				if err := write("x", tree.WriteOptions{}); !errors.Is(err, tree.ErrExists) {
					t.Errorf("%s: %v", there, err)
				}
			}
			plant(t, h, `rm -rf "$1" && mkdir "$1"`, dir)
			if err := write("three", tree.WriteOptions{ID: "three"}); err != nil {
				t.Fatalf("onto an empty folder: %v", err)
			}
			mustBeFilled(t, dir, "three")
			if got := beside(t, dir); got != ".fl-placed-tree [a]* tree [a]*" {
				t.Errorf("beside it: %q", got)
			}
			// The same call again succeeds although the tree has changed since then. It
			// does not succeed if the tree is gone.
			plant(t, h, `: >"$1/new"`, dir)
			again := tree.Write(t.Context(), h, dir, tree.WriteOptions{ID: "three"}, func(*tree.Writer) error {
				return errors.New("it was asked for again")
			})
			if again != nil {
				t.Error(again)
			}
			plant(t, h, `chmod -R u+w "$1"; rm -rf "$1"; mkdir "$1"`, dir)
			if err := write("four", tree.WriteOptions{ID: "three"}); err != nil {
				t.Fatal(err)
			}
			mustBeFilled(t, dir, "four")
		})
	}
}

func TestNothingIsLeftOfATreeThatIsNotWhole(t *testing.T) {
	why := errors.New("the store is gone")
	for name, h := range treeHosts(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/tree"
			for what, f := range map[string]func(*tree.Writer) error{
				"at once":    func(*tree.Writer) error { return why },
				"at the end": func(w *tree.Writer) error { return errors.Join(fill("x")(w), why) },
				"in a file":  func(w *tree.Writer) error { return errors.Join(cutFile(w, false), why) },
				"in holes":   func(w *tree.Writer) error { return errors.Join(cutFile(w, true), why) },
				"short":      func(w *tree.Writer) error { _ = cutFile(w, false); return nil },
				"ill path": func(w *tree.Writer) error {
					w.Add(tree.Entry{Path: "../x", Kind: tree.Folder})
					return nil
				},
				"absolute": func(w *tree.Writer) error {
					w.Add(tree.Entry{Path: "/x", Kind: tree.Folder})
					return nil
				},
				"link to out": func(w *tree.Writer) error {
					w.Add(tree.Entry{Path: "x", Kind: tree.HardLink, Link: "../../etc/passwd"})
					return nil
				},
				"no target": func(w *tree.Writer) error {
					w.Add(tree.Entry{Path: "x", Kind: tree.HardLink, Link: "none"})
					return nil
				},
				"device": func(w *tree.Writer) error {
					w.Add(tree.Entry{Path: "x", Kind: tree.CharDevice})
					return nil
				},
			} {
				err := tree.Write(t.Context(), h, dir, tree.WriteOptions{ID: "x"}, f)
				if err == nil || strings.HasPrefix(what, "at ") != errors.Is(err, why) && !strings.HasPrefix(what, "in ") {
					t.Errorf("%s: %v", what, err)
				}
				if got := beside(t, dir); got != "" {
					t.Errorf("%s left %q", what, got)
				}
			}
		})
	}
}

func cutFile(w *tree.Writer, sparse bool) error {
	f, err := w.File(tree.Entry{Path: "file", Kind: tree.RegularFile, Mode: 0o600, Size: 9 << 20}, sparse)
	if err == nil {
		_, err = f.Write(make([]byte, 5<<20))
	}
	if err == nil {
		_, err = f.Write([]byte("some"))
	}
	return err
}

func TestATreeIsFenced(t *testing.T) {
	for name, h := range treeHosts(t) {
		t.Run(name, func(t *testing.T) {
			session := t.TempDir() + "/session"
			opts := func(generation int64) tree.WriteOptions {
				return tree.WriteOptions{ID: "x", Fence: &hostexec.Fence{Dir: session, Epoch: hostexec.Epoch{Generation: generation}}}
			}
			dir := session + "/work"
			if err := tree.Write(t.Context(), h, dir, opts(2), fill("two")); err != nil {
				t.Fatal(err)
			}
			if err := tree.Write(t.Context(), h, session+"/other", opts(1), fill("one")); !errors.Is(err, hostexec.ErrFenced) {
				t.Errorf("a former holder: %v", err)
			}
			err := tree.Write(t.Context(), h, session+"/other", opts(2), func(w *tree.Writer) error {
				_, err := h.Run(t.Context(), hostexec.Command{Script: ":", Fence: opts(3).Fence})
				return errors.Join(err, fill("two")(w))
			})
			if !errors.Is(err, hostexec.ErrFenced) {
				t.Errorf("one that became a former holder: %v", err)
			}
			mustBeFilled(t, dir, "two")
			if got := strings.Replace(beside(t, dir), " lock", "", 1); got != ".fl-placed-work epoch work" {
				t.Errorf("there is %q", got)
			}
		})
	}
}

func TestATreeWhoseConnectionIsLostCanBeWrittenAgain(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	for name, h := range map[string]hostexec.Host{"gnu": newHost(t, sshd.Spec()), "busybox": &otherShell{newHost(t, sshd.Spec()), busybox(t)}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/tree"
			opts := tree.WriteOptions{ID: "x"}
			for i, cut := range []func(*tree.Writer) error{
				func(w *tree.Writer) error { sshd.KillSessions(); return fill("lost")(w) },
				func(w *tree.Writer) error { err := fill("lost")(w); sshd.KillSessions(); return err },
				func(w *tree.Writer) error {
					err := cutFile(w, false)
					sshd.KillSessions()
					return errors.Join(err, cutFile(w, false))
				},
			} {
				err := tree.Write(t.Context(), h, dir, opts, cut)
				if !errors.Is(err, hostexec.ErrOutcomeUnknown) && i < 2 || err == nil {
					t.Errorf("%d: %v", i, err)
				}
				if _, err := os.Lstat(dir); err == nil {
					t.Fatalf("%d: it is in place", i)
				}
			}
			for i := range 2 {
				if err := tree.Write(t.Context(), h, dir, opts, fill(fmt.Sprint("round ", i))); err != nil {
					t.Fatal(err)
				}
				mustBeFilled(t, dir, "round 0")
			}
			if got := beside(t, dir); got != ".fl-placed-tree tree" {
				t.Errorf("beside it: %q", got)
			}
		})
	}
}

// Times before 1970 keep their fraction, for files with holes and without.
func TestTimesBefore1970KeepTheirFraction(t *testing.T) {
	h, dir := localHost(t), t.TempDir()+"/tree"
	times := []time.Time{time.Unix(-1, 750_000_000), time.Unix(-2, 500_000_000), time.Unix(-1, 0), time.Unix(0, 500_000_000)}
	err := tree.Write(t.Context(), h, dir, tree.WriteOptions{}, func(w *tree.Writer) error {
		for i, at := range times {
			for _, holes := range []bool{false, true} {
				f, err := w.File(tree.Entry{Path: fmt.Sprint(i, holes), Kind: tree.RegularFile, Mode: 0o600, MTime: at, Size: 300_000}, holes)
				if err != nil {
					return err
				}
				if err := f.Hole(300_000); err != nil {
					return err
				}
				if err := f.Close(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range times {
		for _, holes := range []bool{false, true} {
			fi, err := os.Stat(fmt.Sprint(dir, "/", i, holes))
			if err != nil {
				t.Error(err)
			} else if !fi.ModTime().Equal(at) {
				t.Errorf("%v, with holes %v, became %v", at, holes, fi.ModTime())
			}
		}
	}
}
