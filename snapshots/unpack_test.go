package snapshots

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// archiveOf makes a tar archive of entries and their contents.
func archiveOf(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		text := ""
		if h.Typeflag == tar.TypeReg {
			text = h.Linkname
			h.Linkname, h.Size = "", int64(len(text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func wholly() error { return nil }

// A tree that came as an archive is the same as one that was read from a folder.
func TestAnArchiveBecomesTheTreeThatItHolds(t *testing.T) {
	c := chunks.Open(newTestStore(t), chunks.Options{})
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	file := func(name, text string, mode int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: text, Mode: mode, ModTime: at}
	}
	large := strings.Repeat("0123456789abcdef, and so on\n", 200_000)
	archive := archiveOf(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755, ModTime: at},
		file("./b/large", large, 0o4755), // its folder comes later, and the mode has a bit that no tree has
		file("./b-c", "between", 0o644),
		tar.Header{Typeflag: tar.TypeDir, Name: "./b/", Mode: 0o700, ModTime: at},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "./a", Linkname: "b/large", ModTime: at},
		tar.Header{Typeflag: tar.TypeLink, Name: "./b/same", Linkname: "./b/large", Mode: 0o755, ModTime: at},
		file("./.git/config", "[core]", 0o644), file("./sub/.git", "gitdir: x", 0o644),
	)
	m, err := Unpack(t.Context(), c, "s1", "ann", at, archive, wholly)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Complete || m.By != "ann" || m.Files != 5 || m.Bytes != int64(2*len(large)+len("between")) {
		t.Errorf("manifest %+v", m)
	}
	var out bytes.Buffer
	if err := Export(t.Context(), c, m.ID, &out); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "work/b/" && h.Mode != 0o700 || h.Name == "work/b/large" && h.Mode != 0o755 {
			t.Errorf("%s has the mode %o", h.Name, h.Mode)
		}
		got[h.Name] = string(text) + h.Linkname
	}
	delete(got, manifestName)
	want := map[string]string{"work/b/": "", "work/b/large": large, "work/b/same": large, "work/b-c": "between", "work/a": "b/large"}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %.40q, want %.40q", name, got[name], text)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("there is more: %v", got)
	}
}

func TestAnArchiveThatLeadsOutOfItsFolderIsRefused(t *testing.T) {
	c := chunks.Open(newTestStore(t), chunks.Options{})
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: "x", Mode: 0o644}
	}
	link := tar.Header{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "/etc"}
	torn := func(b *bytes.Buffer) *bytes.Buffer { b.Truncate(512); return b }
	failed := errors.New("it is not whole")
	for name, q := range map[string]struct {
		archive io.Reader
		whole   func() error
		err     error
	}{
		"absolute":                {archiveOf(t, file("/etc/passwd")), wholly, ErrArchive},
		"above":                   {archiveOf(t, file("a/../../b")), wholly, ErrArchive},
		"through a link":          {archiveOf(t, link, file("out/passwd")), wholly, ErrArchive},
		"in a file":               {archiveOf(t, file("a"), file("a/b")), wholly, ErrArchive},
		"twice":                   {archiveOf(t, file("a"), file("./a")), wholly, ErrArchive},
		"a device":                {archiveOf(t, tar.Header{Typeflag: tar.TypeBlock, Name: "disk"}), wholly, ErrArchive},
		"a link to what is not":   {archiveOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}), wholly, ErrArchive},
		"a name of other bytes":   {archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "\xff", Format: tar.FormatGNU}), wholly, ErrArchive},
		"a long name":             {archiveOf(t, file(strings.Repeat("long/", 1000)+"a")), wholly, ErrArchive},
		"a link to a long name":   {archiveOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: strings.Repeat("x", 5000)}), wholly, ErrArchive},
		"no archive":              {strings.NewReader(strings.Repeat("no archive ", 100)), wholly, ErrArchive},
		"a part":                  {torn(archiveOf(t, file("a"))), wholly, io.ErrUnexpectedEOF},
		"one with a wrong digest": {archiveOf(t, file("a")), func() error { return failed }, failed},
	} {
		m, err := Unpack(t.Context(), c, "s1", "", time.Now(), q.archive, q.whole)
		if !errors.Is(err, q.err) || m.Complete {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	found, err := list(t.Context(), c.Blobs, "s1")
	if err != nil || len(found) > 0 {
		t.Errorf("there are snapshots: %v, %v", found, err)
	}
}

// A link to a file is a file of its own in a tree, so that it counts like one.
func TestLinksOfAnArchiveCountAsFiles(t *testing.T) {
	u := unpacking{at: map[string]int{}, bytes: MaxUnpacked - 15}
	if err := u.add(Entry{Path: "a", Kind: File, Size: 10}); err != nil {
		t.Fatal(err)
	}
	link := func(name string) error {
		return u.take(&tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: "a"}, nil)
	}
	if err := link("b"); err != nil {
		t.Errorf("one that fits: %v", err)
	}
	if err := link("c"); !errors.Is(err, ErrArchive) {
		t.Errorf("one too many: %v", err)
	}
}

func TestNamesOfAnArchiveAreBoundedTogether(t *testing.T) {
	u := unpacking{at: map[string]int{}, names: maxNameBytes - 3}
	if err := u.take(&tar.Header{Typeflag: tar.TypeDir, Name: "ab"}, nil); err != nil {
		t.Errorf("one that fits: %v", err)
	}
	if err := u.take(&tar.Header{Typeflag: tar.TypeDir, Name: "cd"}, nil); !errors.Is(err, ErrArchive) {
		t.Errorf("one too many: %v", err)
	}
}
