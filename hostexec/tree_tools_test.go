package hostexec_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/tree"
)

// without returns a folder of tools in which a script replaces one tool. The script finds
// the real tool in $real.
func without(t *testing.T, tools, name, script string) string {
	t.Helper()
	real := filepath.Join(tools, name)
	text := fmt.Sprintf("#!/bin/sh\nreal='%s'\n%s\n", real, script)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	// busybox's own sh and xargs would use busybox's tools.
	for _, name := range []string{"sh", "xargs"} {
		if err := os.Symlink(lookPath(t, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir + ":" + tools
}

// If a tool on the host fails, the call fails. It does not take partial output for a
// smaller or empty tree.
func TestAToolThatFailsIsHeardOf(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		data := make([]byte, 20_000)
		rand.NewChaCha8([32]byte{byte(i)}).Read(data) // random data does not compress
		if err := os.WriteFile(fmt.Sprintf("%s/%02d", dir, i), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	near, far := newHost(t, spec), farHost(t, spec)
	gnu, busy := "/usr/bin", busybox(t)
	const (
		noRoom = `cat >/dev/null; echo "sort: write failed: /tmp/sortX: No space left on device" >&2; exit 2`
		killed = `cat >/dev/null; kill -9 $$`
		looks  = `case $* in *"-files0-from - "*) kill -9 $$ ;; esac; exec "$real" "$@"`
		eio    = `case $* in *"-files0-from - "*) cat >/dev/null; echo "find: './07': Input/output error" >&2; exit 1 ;; esac; exec "$real" "$@"`
		// A call with empty input only tests whether the tool exists.
		once = `f=$(mktemp); cat >$f; [ -s $f ] || { rm $f; exit 0; }; `
		torn = once + `"$real" "$@" <$f | head -c 100; rm $f; `
	)
	for _, c := range []struct {
		name        string
		host        hostexec.Host
		path        string
		lists, told bool // whether listing needs the tool, and whether reading needs it
	}{
		{"sort without room", near, without(t, gnu, "sort", noRoom), true, true},
		{"sort is killed", near, without(t, gnu, "sort", killed), true, true},
		{"sort is killed far away", far, without(t, gnu, "sort", killed), true, true},
		{"sort of busybox", near, without(t, busy, "sort", once+`rm $f; exit 2`), true, true},
		{"sort of busybox far away", far, without(t, busy, "sort", once+`rm $f; kill -9 $$`), true, true},
		{"find is killed behind the reading", near, without(t, gnu, "find", looks), false, true},
		{"find is killed behind the reading far away", far, without(t, gnu, "find", looks), false, true},
		{"a disk fails behind the reading", near, without(t, gnu, "find", eio), false, true},
		{"stat is killed", near, without(t, busy, "stat", `[ $# -le 3 ] || kill -9 $$; exec "$real" "$@"`), true, true},
		{"tee is killed", near, without(t, gnu, "tee", `head -c 12; kill -9 $$`), false, true},
		{"zstd is killed", far, without(t, gnu, "zstd", torn+`kill -9 $$`), true, true},
		{"zstd ends early", far, without(t, gnu, "zstd", torn+`exit 0`), true, true},
		{"gzip is killed", far, without(t, busy, "gzip", torn+`kill -9 $$`), true, true},
		{"gzip ends early", far, without(t, busy, "gzip", torn+`exit 0`), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &otherShell{c.host, c.path}
			n := 0
			_, err := tree.List(t.Context(), h, dir, tree.ListOptions{}, func(tree.Entry) error { n++; return nil })
			if c.lists && err == nil || !c.lists && (err != nil || n != 41) {
				t.Errorf("%d entries were listed: %v", n, err)
			}
			var names []string
			for i := range 40 {
				names = append(names, fmt.Sprintf("%02d", i))
			}
			n = 0
			err = tree.Read(t.Context(), h, dir, slices.Values(names), func(f *tree.File) error {
				_, err := io.Copy(io.Discard, f)
				return err
			}, func(tree.Entry) error { n++; return nil })
			if c.told && err == nil {
				t.Errorf("it was read, and %d of %d files are there", n, len(names))
			}
		})
	}
}

// A tree is put in place only if everything arrived. tar takes an archive that ends between
// two files for complete, and the decompressor before tar may fail at such a place.
func TestATreeIsNotPutInPlaceByAToolThatFails(t *testing.T) {
	far := farHost(t, hosttest.StartSSHD(t, hosttest.Options{}).Spec())
	const (
		// One header and 2048 bytes of content: exactly the first file.
		cut = `"$real" "$@" | head -c 2560; `
		// A call with almost no input only tests whether the tool can decompress.
		asks = `case $* in *d*) ;; *) exec "$real" "$@" ;; esac; f=$(mktemp); head -c 200 >$f; [ $(wc -c <$f) = 200 ] || { "$real" "$@" <$f; rm $f; exit; }; `
		torn = asks + `{ cat $f -; rm $f; } | ` + cut
	)
	for _, c := range []struct{ name, path string }{
		{"zstd fails", without(t, "/usr/bin", "zstd", torn+`exit 1`)},
		{"zstd is killed", without(t, "/usr/bin", "zstd", torn+`kill -9 $$`)},
		{"gzip of busybox fails", without(t, busybox(t), "gzip", torn+`exit 1`)},
		{"tar fails", without(t, "/usr/bin", "tar", `case $* in *-C*) "$real" "$@"; exit 2 ;; esac; exec "$real" "$@"`)},
		{"tar is killed", without(t, "/usr/bin", "tar", `case $* in *-C*) head -c 2560 | "$real" "$@"; kill -9 $$ ;; esac; exec "$real" "$@"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir() + "/tree"
			err := tree.Write(t.Context(), &otherShell{far, c.path}, dir, tree.WriteOptions{ID: "x"}, func(w *tree.Writer) error {
				for _, name := range []string{"one", "two"} {
					if err := writeFileInto(w, name, pattern(6, 2048)); err != nil {
						return err
					}
				}
				return nil
			})
			if err == nil {
				t.Error("it is said to be in place")
			}
			if got := beside(t, dir); got != "" {
				t.Errorf("it left %q", got)
			}
		})
	}
}

// A host without a decompressor gets a tree uncompressed.
func TestATreeIsWrittenWhereNothingUnpacks(t *testing.T) {
	far := farHost(t, hosttest.StartSSHD(t, hosttest.Options{}).Spec())
	links := map[string]string{}
	for _, name := range []string{"sh", "tar", "mkdir", "rmdir", "rm", "ls", "cat", "mv", "find", "chmod", "dd", "touch", "ln"} {
		links[name] = lookPath(t, name)
	}
	dir := t.TempDir() + "/tree"
	if err := tree.Write(t.Context(), &otherShell{far, farm(t, links)}, dir, tree.WriteOptions{}, fill("x")); err != nil {
		t.Fatal(err)
	}
	mustBeFilled(t, dir, "x")
	// This host has only gzip, and GNU tar.
	links["gzip"] = lookPath(t, "gzip")
	dir += "2"
	if err := tree.Write(t.Context(), &otherShell{far, farm(t, links)}, dir, tree.WriteOptions{}, fill("y")); err != nil {
		t.Fatal(err)
	}
	mustBeFilled(t, dir, "y")
}

func writeFileInto(w *tree.Writer, name string, data []byte) error {
	f, err := w.File(tree.Entry{Path: name, Kind: tree.RegularFile, Mode: 0o600, Size: int64(len(data))}, false)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Close()
	}
	return err
}
