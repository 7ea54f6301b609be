package workflows

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The histories of each release have a folder, such as testdata/replay/v0.1. As long as the
// folder has no file SUMS, the release is open, and `make record` records its histories
// anew. `make freeze` writes SUMS. After that, nothing in the folder may change, because
// workflows that the release began are still running somewhere. `make record RELEASE=v0.2`
// begins the folder of the next release.

var (
	recordInto = flag.String("release", "", "the release whose histories -record records; the newest one if empty")
	freezing   = flag.Bool("freeze", false, "freeze the histories of the newest release")
)

const (
	histories = "testdata/replay"
	sumsFile  = "SUMS"
)

// A recordedRelease is the folder of a release's histories.
type recordedRelease struct {
	name   string // v0.1
	dir    string
	frozen bool
}

// releases lists the folders of root, oldest release first.
func releases(root string) (all []recordedRelease, err error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		r := recordedRelease{name: e.Name(), dir: filepath.Join(root, e.Name())}
		if _, err := r.number(); err != nil || !e.IsDir() {
			return nil, fmt.Errorf("%s is no folder of a release (v0.1, …): remove it", r.dir)
		}
		_, err := os.Stat(filepath.Join(r.dir, sumsFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		r.frozen = err == nil
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b recordedRelease) int {
		x, _ := a.number()
		y, _ := b.number()
		return slices.Compare(x[:], y[:])
	})
	return all, nil
}

// number returns the numbers in the release's name: {1, 2} for v1.2.
func (r recordedRelease) number() (n [2]int, err error) {
	major, minor, _ := strings.Cut(strings.TrimPrefix(r.name, "v"), ".")
	n[0], err = strconv.Atoi(major)
	if err == nil {
		n[1], err = strconv.Atoi(minor)
	}
	if err == nil && r.name != fmt.Sprintf("v%d.%d", n[0], n[1]) {
		err = fmt.Errorf("%q is not the name of a release: v0.1, …", r.name)
	}
	return n, err
}

// openRelease returns the folder to record into: that of the release called name, or of the
// newest release. It returns an error if that release is frozen, or if a newer release
// exists.
func openRelease(root, name string) (dir string, err error) {
	all, err := releases(root)
	if err != nil {
		return "", err
	}
	if name == "" {
		if len(all) == 0 {
			return "", fmt.Errorf("record into %s: there is no release yet; name the first one: -release v0.1", root)
		}
		name = all[len(all)-1].name
	}
	wanted := recordedRelease{name: name, dir: filepath.Join(root, name)}
	number, err := wanted.number()
	if err != nil {
		return "", fmt.Errorf("record into %s: %w", wanted.dir, err)
	}
	for _, r := range all {
		other, _ := r.number()
		switch {
		case r.name == name && r.frozen:
			return "", fmt.Errorf("record into %s: it is frozen; record into the next release: -release v%d.%d", r.dir, number[0], number[1]+1)
		case slices.Compare(other[:], number[:]) > 0:
			return "", fmt.Errorf("record into %s: there is a newer release, %s", wanted.dir, r.name)
		case r.name != name && !r.frozen:
			return "", fmt.Errorf("record into %s: %s is not frozen yet; freeze it first (`make freeze`)", wanted.dir, r.name)
		}
	}
	return wanted.dir, os.MkdirAll(wanted.dir, 0o755)
}

// sums are the SHA-256 sums of a release's files by their names.
func (r recordedRelease) sums() (map[string]string, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		if e.Name() == sumsFile {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(r.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(raw))
	}
	return out, nil
}

// freeze closes a release: its files may not change any more. It writes their sums
// to a file that `sha256sum -c` can read.
func (r recordedRelease) freeze() error {
	if r.frozen {
		return fmt.Errorf("freeze %s: it is frozen already", r.dir)
	}
	sums, err := r.sums()
	if err != nil {
		return err
	}
	if len(sums) == 0 {
		return fmt.Errorf("freeze %s: there are no histories in it", r.dir)
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	return os.WriteFile(filepath.Join(r.dir, sumsFile), []byte(text.String()), 0o644)
}

// check returns an error if something in a release has changed since it was frozen.
func (r recordedRelease) check() error {
	if !r.frozen {
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(r.dir, sumsFile))
	if err != nil {
		return err
	}
	want := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || len(sum) != 2*sha256.Size {
			return fmt.Errorf("%s/%s: %q is no sum and name", r.dir, sumsFile, line)
		}
		want[name] = sum
	}
	got, err := r.sums()
	if err != nil {
		return err
	}
	var all []error
	bad := func(name, what string) {
		all = append(all, fmt.Errorf("%s/%s %s since %s was frozen: put it back as it was (git); what changes goes into the next release", r.dir, name, what, r.name))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch got[name] {
		case want[name]:
		case "":
			bad(name, "was removed")
		default:
			bad(name, "was changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == "" {
			bad(name, "was added")
		}
	}
	if len(want) == 0 {
		all = append(all, fmt.Errorf("%s/%s is empty", r.dir, sumsFile))
	}
	return errors.Join(all...)
}

// checkReleases returns an error if something is wrong with the folders of root.
func checkReleases(root string) error {
	all, err := releases(root)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no histories of any release", root)
	}
	var bad []error
	for i, r := range all {
		bad = append(bad, r.check())
		if !r.frozen && i < len(all)-1 {
			bad = append(bad, fmt.Errorf("%s is not frozen, and there is a newer release: its file %s is gone", r.dir, sumsFile))
		}
	}
	return errors.Join(bad...)
}

// strictness returns how the payloads of a release's histories are compared. Those of the
// newest release must be the same in the replay. In the replay, the payloads of an older
// release may have more fields.
func (r recordedRelease) strictness(all []recordedRelease) strictness {
	return strictness(r.name != all[len(all)-1].name)
}

// With -freeze, TestFrozenHistoriesAreAsTheyWere also freezes the newest release. `make
// freeze` runs it so.
func TestFrozenHistoriesAreAsTheyWere(t *testing.T) {
	if *freezing {
		all, err := releases(histories)
		if err != nil || len(all) == 0 {
			t.Fatalf("there is nothing to freeze in %s (%v)", histories, err)
		}
		newest := all[len(all)-1]
		replayRelease(t, newest, exact)
		complete(t, newest)
		if t.Failed() {
			t.Fatalf("%s is not frozen: record it anew first (`make record`)", newest.dir)
		}
		if err := newest.freeze(); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkReleases(histories); err != nil {
		t.Error(err)
	}
}

func TestAFrozenReleaseCannotBeChanged(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	// made makes two releases: v0.9, which is frozen, and v0.10, which is open.
	made := func(t *testing.T) (root string) {
		t.Helper()
		root = t.TempDir()
		write(t, filepath.Join(root, "v0.9/a.json"), "{}")
		write(t, filepath.Join(root, "v0.9/b.json"), "[]")
		if err := (recordedRelease{name: "v0.9", dir: filepath.Join(root, "v0.9")}).freeze(); err != nil {
			t.Fatal(err)
		}
		if _, err := openRelease(root, "v0.10"); err != nil {
			t.Fatal(err)
		}
		return root
	}
	remove := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for what, c := range map[string]struct {
		do   func(t *testing.T, root string)
		want string
	}{
		"nothing":               {func(*testing.T, string) {}, ""},
		"the open one is given": {func(t *testing.T, root string) { write(t, root+"/v0.10/a.json", "1") }, ""},
		"a file is changed":     {func(t *testing.T, root string) { write(t, root+"/v0.9/a.json", "1") }, "v0.9/a.json was changed since v0.9 was frozen"},
		"a file is removed":     {func(t *testing.T, root string) { remove(t, root+"/v0.9/a.json") }, "v0.9/a.json was removed"},
		"a file is added":       {func(t *testing.T, root string) { write(t, root+"/v0.9/c.json", "1") }, "v0.9/c.json was added"},
		"the sums are removed":  {func(t *testing.T, root string) { remove(t, root+"/v0.9/SUMS") }, "v0.9 is not frozen, and there is a newer release"},
		"the sums are emptied":  {func(t *testing.T, root string) { write(t, root+"/v0.9/SUMS", "") }, "SUMS is empty"},
		"the sums are spoiled":  {func(t *testing.T, root string) { write(t, root+"/v0.9/SUMS", "x") }, "is no sum and name"},
		"a loose file":          {func(t *testing.T, root string) { write(t, root+"/a.json", "1") }, "is no folder of a release"},
	} {
		t.Run(what, func(t *testing.T) {
			root := made(t)
			c.do(t, root)
			err := checkReleases(root)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v, want %q", err, c.want)
			}
		})
	}

	root := made(t)
	for name, want := range map[string]string{
		"v0.9":  "it is frozen; record into the next release",
		"v0.8":  "there is a newer release, v0.9",
		"v0.11": "v0.10 is not frozen yet",
		"0.12":  "is not the name of a release",
		"v0.10": "",
		"":      "",
	} {
		dir, err := openRelease(root, name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("recording into %q says %v, want %q", name, err, want)
		}
		if err == nil && filepath.Base(dir) != "v0.10" {
			t.Errorf("recording into %q goes to %s", name, dir)
		}
	}
	if err := (recordedRelease{name: "v0.10", dir: filepath.Join(root, "v0.10")}).freeze(); err == nil {
		t.Error("a release without histories was frozen")
	}
	all, err := releases(root)
	if err != nil || len(all) != 2 || !all[0].frozen || all[1].frozen {
		t.Fatalf("the releases are %+v (%v)", all, err)
	}
	if err := all[0].freeze(); err == nil {
		t.Error("a release was frozen twice")
	}
	if all[0].strictness(all) != mayGrow || all[1].strictness(all) != exact {
		t.Error("the payloads of the newest release are to be the same, those of others may grow")
	}
}
