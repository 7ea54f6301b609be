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
)

// without puts a tool of a test in the place of the one of that name, which it
// finds in $real.
func without(t *testing.T, tools, name, script string) string {
	t.Helper()
	real := filepath.Join(tools, name)
	text := fmt.Sprintf("#!/bin/sh\nreal='%s'\n%s\n", real, script)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	// busybox's own sh and xargs would take what is busybox's.
	for _, name := range []string{"sh", "xargs"} {
		if err := os.Symlink(lookPath(t, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir + ":" + tools
}

// A host's tools that fail make a tree neither smaller nor empty: what they
// were to say of it is not taken for all that there is.
func TestAToolThatFailsIsHeardOf(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		data := make([]byte, 20_000)
		rand.NewChaCha8([32]byte{byte(i)}).Read(data) // does not get smaller
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
		// What has nothing to do is no more than asked whether it is there.
		once = `f=$(mktemp); cat >$f; [ -s $f ] || { rm $f; exit 0; }; `
		torn = once + `"$real" "$@" <$f | head -c 100; rm $f; `
	)
	for _, c := range []struct {
		name        string
		host        hostexec.Host
		path        string
		lists, told bool // whether the listing needs it, and whether the reading does
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
			_, err := hostexec.ListTree(t.Context(), h, dir, hostexec.ListTreeOptions{}, func(hostexec.TreeEntry) error { n++; return nil })
			if c.lists && err == nil || !c.lists && (err != nil || n != 41) {
				t.Errorf("%d entries were listed: %v", n, err)
			}
			var names []string
			for i := range 40 {
				names = append(names, fmt.Sprintf("%02d", i))
			}
			n = 0
			err = hostexec.ReadTree(t.Context(), h, dir, slices.Values(names), func(f *hostexec.TreeFile) error {
				_, err := io.Copy(io.Discard, f)
				return err
			}, func(hostexec.TreeEntry) error { n++; return nil })
			if c.told && err == nil {
				t.Errorf("it was read, and %d of %d files are there", n, len(names))
			}
		})
	}
}
