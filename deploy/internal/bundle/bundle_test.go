package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Two trees of the same content, made in another order, at other times and with other
// permissions of the group, become the same bytes.
func TestAnArchiveDependsOnItsContentAlone(t *testing.T) {
	made := func(names []string, group fs.FileMode, at time.Time) []byte {
		dir := t.TempDir()
		for _, name := range names {
			file := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(name), 0o600)); err != nil {
				t.Fatal(err)
			}
			mode := 0o600 | group
			if strings.HasPrefix(name, "bin/") {
				mode |= 0o100
			}
			if err := errors.Join(os.Chmod(file, mode), os.Chtimes(file, at, at)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("bin/a", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		files, err := Tree("opt", dir)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := WriteGzip(&b, append(files, Text("etc/passwd", "root\n")), time.Unix(1_800_000_000, 5), 6); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	long := "share/" + strings.Repeat("long-", 40) + "name"
	names := []string{"bin/a", "bin/b", "share/c", long}
	one := made(names, 0, time.Unix(1_700_000_000, 0))
	slices.Reverse(names)
	if other := made(names, 0o044, time.Unix(1_600_000_000, 0)); !bytes.Equal(one, other) {
		t.Error("two archives of the same content differ")
	}
}

func TestAnArchiveHasModesOwnersAndFolders(t *testing.T) {
	var b bytes.Buffer
	files := []File{
		{Name: "var/lib/x", Mode: fs.ModeDir | 0o700, UID: 7, GID: 8},
		{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		Text("etc/motd", "hello"),
	}
	if err := Write(&b, files, time.Unix(9, 0)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 9 {
			t.Errorf("%s is of %s", h.Name, h.ModTime)
		}
		got = append(got, h.Name+" "+h.FileInfo().Mode().String())
		if h.Name == "var/lib/x/" && (h.Uid != 7 || h.Gid != 8) {
			t.Errorf("%s belongs to %d:%d", h.Name, h.Uid, h.Gid)
		}
	}
	want := []string{"etc/ drwxr-xr-x", "etc/motd -rw-r--r--", "tmp/ dtrwxrwxrwx", "var/ drwxr-xr-x", "var/lib/ drwxr-xr-x", "var/lib/x/ drwx------"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestWhatDoesNotBelongInAnArchiveIsRefused(t *testing.T) {
	for why, files := range map[string][]File{
		"not a clean": {Text("../x", "")},
		"relative":    {Text("/x", "")},
		"twice":       {Text("x", "1"), Text("x", "2")},
		"no folder":   {Text("x", "1"), Text("x/y", "2")},
		"no such":     {Program("x", filepath.Join(t.TempDir(), "none"))},
	} {
		if err := Write(io.Discard, files, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("../../etc/passwd", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if _, err := Tree("x", dir); err == nil || !strings.Contains(err.Error(), "outside of") {
		t.Errorf("a link that leads out: %v", err)
	}
	dir = t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Tree("x", dir); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("a pipe: %v", err)
	}
}
