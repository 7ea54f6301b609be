package core

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file gets its name only when it is complete. Until then the old file stays.
func TestAnExportIsThereWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.tar")
	if err := os.WriteFile(path, []byte("the old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	is := func(want string) {
		t.Helper()
		names, err := os.ReadDir(dir)
		data, rerr := os.ReadFile(path)
		if err != nil || rerr != nil || string(data) != want || len(names) != 1 {
			t.Errorf("%q in %v (%v, %v), want %q alone", data, names, err, rerr, want)
		}
	}
	torn := errors.New("the worker went away")
	err := WriteWhole(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "half of it")
		is2, lerr := os.ReadFile(path)
		if string(is2) != "the old one" || lerr != nil {
			t.Errorf("meanwhile there is %q, %v", is2, lerr)
		}
		return errors.Join(err, torn)
	})
	if !errors.Is(err, torn) {
		t.Errorf("it ended with %v", err)
	}
	is("the old one")
	if err := WriteWhole(path, func(w io.Writer) error { _, err := io.WriteString(w, "all of it"); return err }); err != nil {
		t.Fatal(err)
	}
	is("all of it")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// If the name is a link, the file that it points to is written.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if got, err := PlainFile("export", link); err != nil || got != path {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := PlainFile("export", "/dev/null"); ExitCode(err) != ExitUsage || err == nil {
		t.Errorf("a device: %v", err)
	}
}

func TestAFileInNoFolderIsBadInput(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "x.tar")
	if _, err := PlainFile("export", missing); ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "there is no folder "+filepath.Dir(missing)) {
		t.Errorf("%v", err)
	}
}
