package snapshots

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots/chunks"
)

const marked = "marked-secret-0123456789"

func mask() chunks.Masker {
	return seeds.NewRedactor("team", []seeds.Secret{seeds.NewSecret(marked)}).MaskStream()
}

func newTestStore(t testing.TB) *store.Store {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(t.TempDir(), "store"),
		Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func localHost(t testing.TB) hostexec.Host {
	t.Helper()
	return hostOf(t, protocol.HostSpec{Name: protocol.LocalHost})
}

func hostOf(t testing.TB, spec protocol.HostSpec) hostexec.Host {
	t.Helper()
	realparts.NotShort(t)
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := pool.Host(spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func randomText(n int) string {
	p := make([]byte, n)
	_, _ = rand.Read(p)
	return string(p)
}

func aSession(t testing.TB) (spec TakeSpec, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "s 'ü\" 1")
	for name, content := range map[string]string{
		"codex-home/auth.json":                            `{"OPENAI_API_KEY":"` + marked + `"}`,
		"codex-home/config.toml":                          "t = '" + marked + "'\n",
		"codex-home/state_5.sqlite":                       "index",
		"codex-home/sessions/2026/11/21/rollout-a.jsonl":  `{"type":"x","out":"` + marked + `"}` + "\n",
		"codex-home/sessions/2026/11/21/auth.json":        marked,
		"codex-home/sessions/team.env":                    marked,
		"codex-home/archived_sessions/rollout-b.jsonl":    "{}\n",
		"work/config.toml":                                "title = 'a site'\n",
		"work/.env":                                       "PORT=80\n",
		"work/.codex/auth.json":                           marked,
		"work/src/main.go":                                "package main\n",
		"work/src/copied.txt":                             "x" + marked + "y" + marked,
		"work/name with\nnewline 'ü\" " + marked + ".txt": "odd",
		"work/bytes \xff\xfe":                             "no text",
		"work/run.sh":                                     "#!/bin/sh\n",
		"work/nothing":                                    "",
		"work/big":                                        randomText(3 << 20),
		"work/big with secrets":                           strings.Repeat(randomText(99_991)+marked, 50),
	} {
		write(t, dir, name, content)
	}
	must(t,
		os.Mkdir(dir+"/work/empty", 0o700),
		os.Chmod(dir+"/work/run.sh", 0o755),
		os.Symlink("nowhere", dir+"/work/dangling"),
		os.Symlink("src", dir+"/work/to-folder"),
		os.Symlink("/tmp/"+marked, dir+"/work/to-secret"),
		os.Link(dir+"/work/src/main.go", dir+"/work/src/second-name.go"),
		os.Link(dir+"/work/.codex/auth.json", dir+"/work/src/linked-credential"),
		syscall.Mkfifo(dir+"/work/fifo", 0o600),
		os.Chtimes(dir+"/work/big", time.Unix(1e9, 5), time.Unix(1e9, 5)),
		os.Chtimes(dir+"/work/empty", time.Unix(1e9, 7), time.Unix(1e9, 7)),
	)
	sparse, err := os.Create(dir + "/work/sparse")
	must(t, err)
	_, err = sparse.WriteAt([]byte("end"), 50<<20)
	must(t, err, sparse.Close())
	return TakeSpec{
		Session: "s1", Mask: mask, Secrets: []string{"k1"},
		Facts: Facts{ThreadID: "t", CodexVersion: "0.169.0", Turn: 2, Host: "here"},
		Trees: []TreeSpec{RolloutsOf(dir + "/codex-home"), WorkOf(dir+"/work", WorkFull, nil)},
	}, dir
}

// settled waits until files are old enough that a change would change their times.
func settled(t testing.TB, dir string) {
	t.Helper()
	probe := filepath.Join(dir, "..", "probe")
	written := func() time.Time {
		must(t, os.WriteFile(probe, []byte("x"), 0o600))
		fi, err := os.Stat(probe)
		must(t, err)
		return fi.ModTime()
	}
	deadline := time.Now().Add(10 * time.Second)
	for first := written(); written().Sub(first) < 100*time.Millisecond; {
		if time.Now().After(deadline) {
			t.Fatal("the clock stands")
		}
	}
}

// exportOf reads an export into headers and contents by name.
func exportOf(t testing.TB, c *chunks.Store, id string) (map[string]*tar.Header, map[string]string) {
	t.Helper()
	var b bytes.Buffer
	must(t, Export(t.Context(), c, id, &b))
	if bytes.Contains(b.Bytes(), []byte(marked)) {
		t.Error("the export holds the secret")
	}
	headers, contents := map[string]*tar.Header{}, map[string]string{}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		if headers[h.Name] != nil {
			t.Errorf("%q is in the export twice", h.Name)
		}
		headers[h.Name], contents[h.Name] = h, string(data)
	}
}

func TestSnapshotHoldsEverythingButCredentials(t *testing.T) {
	c := chunks.Open(newTestStore(t), chunks.Options{})
	spec, dir := aSession(t)
	m, err := Take(t.Context(), localHost(t), c, spec)
	must(t, err)
	headers, contents := exportOf(t, c, m.ID)
	stars := strings.Repeat("*", len(marked))
	big, err := os.ReadFile(dir + "/work/big")
	must(t, err)
	secrets, err := os.ReadFile(dir + "/work/big with secrets")
	must(t, err)
	for name, want := range map[string]string{
		"rollouts/sessions/2026/11/21/rollout-a.jsonl":   `{"type":"x","out":"` + stars + `"}` + "\n",
		"rollouts/archived_sessions/rollout-b.jsonl":     "{}\n",
		"work/config.toml":                               "title = 'a site'\n",
		"work/.env":                                      "PORT=80\n",
		"work/src/copied.txt":                            "x" + stars + "y" + stars,
		"work/name with\nnewline 'ü\" " + stars + ".txt": "odd",
		"work/bytes \xff\xfe":                            "no text",
		"work/nothing":                                   "",
		"work/run.sh":                                    "#!/bin/sh\n",
		"work/big":                                       string(big),
		"work/big with secrets":                          strings.ReplaceAll(string(secrets), marked, stars),
		"work/sparse":                                    strings.Repeat("\x00", 50<<20) + "end",
	} {
		if got, there := contents[name]; got != want || !there {
			t.Errorf("%q has %d bytes %.60q, there %v; want %d bytes %.60q", name, len(got), got, there, len(want), want)
		}
	}
	for name, check := range map[string]func(h *tar.Header) bool{
		"work/empty/":    func(h *tar.Header) bool { return h.Typeflag == tar.TypeDir && h.Mode&0o777 == 0o700 },
		"work/run.sh":    func(h *tar.Header) bool { return h.Mode&0o777 == 0o755 },
		"work/dangling":  func(h *tar.Header) bool { return h.Typeflag == tar.TypeSymlink && h.Linkname == "nowhere" },
		"work/to-folder": func(h *tar.Header) bool { return h.Typeflag == tar.TypeSymlink && h.Linkname == "src" },
		"work/to-secret": func(h *tar.Header) bool { return h.Linkname == "/tmp/"+stars },
		"work/big":       func(h *tar.Header) bool { return h.ModTime.Equal(time.Unix(1e9, 0)) },
		"work/src/second-name.go": func(h *tar.Header) bool {
			return h.Typeflag == tar.TypeLink && h.Linkname == "work/src/main.go"
		},
	} {
		if h := headers[name]; h == nil || !check(h) {
			t.Errorf("%s: %+v", name, h)
		}
	}
	for name := range headers {
		if base := filepath.Base(name); base == "auth.json" || strings.HasPrefix(base, "state_5") || base == "fifo" || base == "team.env" ||
			base == "linked-credential" || name == "rollouts/config.toml" {
			t.Errorf("%s is in the snapshot", name)
		}
	}
	var left []string
	for _, l := range m.LeftOut {
		left = append(left, l.Path+": "+l.Why)
	}
	slices.Sort(left)
	want := []string{
		"rollouts/sessions/2026/11/21/auth.json: credential", "rollouts/sessions/team.env: credential",
		"work/.codex/auth.json: credential", "work/fifo: fifo", "work/src/linked-credential: credential",
	}
	if !slices.Equal(left, want) || m.LeftOutCount != int64(len(want)) {
		t.Errorf("left out %q, %d; want %q", left, m.LeftOutCount, want)
	}
	if m.Masked < 55 || m.AddedBytes == 0 || m.StoredBytes == 0 || !m.Complete || m.Turn != 2 || m.ThreadID != "t" {
		t.Errorf("%+v", m)
	}
	if again, err := Read(t.Context(), storeOf(c), m.ID); err != nil || again.ID != m.ID || again.Masked != m.Masked || again.Host != "here" {
		t.Errorf("%+v, %v", again, err)
	}
}

func storeOf(c *chunks.Store) *store.Store { return c.Blobs.(chunks.StoreBlobs).Store }

// treeOf describes everything below a folder, entry by entry.
func treeOf(t testing.TB, dir string, omit ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	first := map[uint64]string{}
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		if slices.Contains(omit, name) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%v %d", fi.Mode(), fi.ModTime().UnixNano())
		switch {
		case fi.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text = "-> " + to
		case fi.Mode().IsRegular():
			f, err := os.Open(p)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(f)
			f.Close()
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d %x", len(data), chunks.DigestOf(data))
			if st.Nlink > 1 {
				if first[st.Ino] == "" {
					first[st.Ino] = name
				}
				text += " = " + first[st.Ino]
			}
			if st.Blocks*512 < fi.Size()/2 {
				text += " sparse"
			}
		}
		all[name] = text
		return nil
	}))
	return all
}

func mustBeEqual(t testing.TB, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%q is %q; want %q", name, got[name], want[name])
		}
	}
	for name := range got {
		if _, wanted := want[name]; !wanted {
			t.Errorf("%q should not be there", name)
		}
	}
}

func TestRestoreGivesBackWhatWasTaken(t *testing.T) {
	c := chunks.Open(newTestStore(t), chunks.Options{})
	spec, dir := aSession(t)
	spec.Mask = nil
	must(t, os.Remove(dir+"/work/src/linked-credential"))
	h := localHost(t)
	m, err := Take(t.Context(), h, c, spec)
	must(t, err)
	to := t.TempDir()
	for range 2 { // the second call changes nothing
		r, err := Restore(t.Context(), h, c, m.ID, RestoreSpec{Dirs: map[string]string{Rollouts: to + "/ch", Work: to + "/deep/w"}})
		must(t, err)
		if r.Manifest.ID != m.ID {
			t.Errorf("%+v", r)
		}
	}
	mustBeEqual(t, treeOf(t, to+"/deep/w"), treeOf(t, dir+"/work", "fifo", ".codex/auth.json"))
	got := treeOf(t, to+"/ch", ".")
	mustBeEqual(t, got, treeOf(t, dir+"/codex-home", ".", "auth.json", "config.toml", "state_5.sqlite", "sessions/2026/11/21/auth.json", "sessions/team.env"))
}

func TestOnlyWhatChangedTravels(t *testing.T) {
	c := chunks.Open(newTestStore(t), chunks.Options{})
	spec, dir := aSession(t)
	for i := range 500 {
		write(t, dir, fmt.Sprintf("work/many/%d/f%d", i%7, i), fmt.Sprintf("content %d", i))
	}
	// If a name contains a secret, it is changed in the snapshot, and the file is read
	// again for each snapshot.
	must(t, os.Remove(dir+"/work/name with\nnewline 'ü\" "+marked+".txt"))
	h := localHost(t)
	settled(t, dir)
	first, err := Take(t.Context(), h, c, spec)
	must(t, err)
	if first.ReadFiles < 500 || first.Parent != "" {
		t.Errorf("%+v", first)
	}
	write(t, dir, "work/many/3/f3", "other content")
	write(t, dir, "work/many/3/new", "new content")
	must(t, os.Remove(dir+"/work/many/4/f4"))
	settled(t, dir)
	spec.ID, spec.Parent = "", first.ID
	second, err := Take(t.Context(), h, c, spec)
	must(t, err)
	if second.ReadFiles != 2 || second.ReadBytes != 24 || second.Parent != first.ID {
		t.Errorf("read %d files, %d bytes; parent %q", second.ReadFiles, second.ReadBytes, second.Parent)
	}
	if second.Files != first.Files || second.Masked != first.Masked || second.AddedBytes > first.AddedBytes/20 {
		t.Errorf("first %+v\nsecond %+v", first, second)
	}
	_, contents := exportOf(t, c, second.ID)
	if contents["work/many/3/f3"] != "other content" || contents["work/many/3/new"] != "new content" || contents["work/many/5/f5"] != "content 5" {
		t.Error("the second one holds something else")
	}
	if _, there := contents["work/many/4/f4"]; there {
		t.Error("what was removed is there")
	}
	spec.ID, spec.Parent = "", second.ID
	third, err := Take(t.Context(), h, c, spec)
	must(t, err)
	if third.ReadFiles != 0 || third.AddedBytes != 0 {
		t.Errorf("nothing changed, and %d files were read, %d bytes added", third.ReadFiles, third.AddedBytes)
	}
	// Without a parent every file is read, but no chunk is stored again.
	spec.ID, spec.Parent = "", ""
	fourth, err := Take(t.Context(), h, c, spec)
	must(t, err)
	if fourth.ReadFiles < 500 || fourth.AddedBytes != 0 {
		t.Errorf("read %d files, added %d bytes", fourth.ReadFiles, fourth.AddedBytes)
	}
}
