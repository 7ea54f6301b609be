package snapshots

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

const marked = "marked-secret-0123456789"

func mask() Masker {
	return seeds.NewRedactor("team", []seeds.Secret{seeds.NewSecret(marked)}).MaskStream()
}

func newStore(t *testing.T) (st *store.Store, root string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(t.TempDir(), "store")
	st, err = store.Open(t.Context(), store.Options{URL: "file://" + root, Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st, root
}

func local(t *testing.T) hostexec.Host {
	t.Helper()
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := pool.Host(hostexec.Spec{Name: hostexec.Local})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// session makes the folders of a session on this machine.
func session(t *testing.T) ArchiveSpec {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "s 'ü\" 1")
	spec := ArchiveSpec{Session: "s1", CodexHome: dir + "/codex-home", WorkDir: dir + "/work", ThreadID: "t", CodexVersion: "0.169.0", Turn: 2, Mask: mask}
	for name, content := range map[string]string{
		"codex-home/auth.json":                            `{"OPENAI_API_KEY":"` + marked + `"}`,
		"codex-home/config.toml":                          "t = '" + marked + "'\n",
		"codex-home/state_5.sqlite":                       "index",
		"codex-home/sessions/2026/11/21/rollout-a.jsonl":  `{"type":"x","out":"` + marked + `"}` + "\n",
		"codex-home/sessions/2026/11/21/auth.json":        marked,
		"codex-home/archived_sessions/rollout-b.jsonl":    "{}\n",
		"work/config.toml":                                "title = 'a site'\n",
		"work/.codex/auth.json":                           marked,
		"work/src/main.go":                                "package main\n",
		"work/src/copied.txt":                             "x" + marked + "y" + marked,
		"work/name with\nnewline 'ü\" " + marked + ".txt": "odd",
		"work/run.sh":                                     "#!/bin/sh\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	for _, err := range []error{
		os.Mkdir(dir+"/work/empty", 0o700),
		os.Chmod(dir+"/work/run.sh", 0o755),
		os.Symlink("nowhere", dir+"/work/dangling"),
		os.Symlink("src", dir+"/work/to-folder"),
		os.Link(dir+"/work/src/main.go", dir+"/work/src/second-name.go"),
		os.Link(dir+"/work/.codex/auth.json", dir+"/work/src/linked-credential"),
		syscall.Mkfifo(dir+"/work/fifo", 0o600),
		os.WriteFile(dir+"/work/big", big, 0o644),
		os.Chtimes(dir+"/work/big", time.Unix(1e9, 0), time.Unix(1e9, 0)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return spec
}

// exported reads an export into headers and contents by name.
func exported(t *testing.T, st *store.Store, id string) (map[string]*tar.Header, map[string]string) {
	t.Helper()
	var b bytes.Buffer
	if err := Export(t.Context(), st, id, &b); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b.Bytes(), []byte(marked)) {
		t.Error("the export holds the secret")
	}
	headers, contents := map[string]*tar.Header{}, map[string]string{}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		headers[h.Name], contents[h.Name] = h, string(data)
	}
}

func TestArchiveHoldsEverythingButCredentials(t *testing.T) {
	st, _ := newStore(t)
	spec := session(t)
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	overSSH, err := pool.Host(sshd.Spec())
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]hostexec.Host{"local": local(t), "sshd": overSSH} {
		t.Run(name, func(t *testing.T) {
			m, err := Archive(t.Context(), h, st, spec)
			if err != nil {
				t.Fatal(err)
			}
			headers, contents := exported(t, st, m.ID)
			stars := strings.Repeat("*", len(marked))
			for name, want := range map[string]string{
				"rollouts/sessions/2026/11/21/rollout-a.jsonl":   `{"type":"x","out":"` + stars + `"}` + "\n",
				"rollouts/archived_sessions/rollout-b.jsonl":     "{}\n",
				"work/config.toml":                               "title = 'a site'\n",
				"work/src/copied.txt":                            "x" + stars + "y" + stars,
				"work/name with\nnewline 'ü\" " + stars + ".txt": "odd",
				"work/run.sh": "#!/bin/sh\n",
			} {
				if got, there := contents[name]; got != want || !there {
					t.Errorf("%q is %q; want %q", name, got, want)
				}
			}
			big, err := os.ReadFile(spec.WorkDir + "/big")
			if err != nil || contents["work/big"] != string(big) {
				t.Errorf("work/big differs, %v", err)
			}
			for name, check := range map[string]func(h *tar.Header) bool{
				"work/empty/":    func(h *tar.Header) bool { return h.Typeflag == tar.TypeDir && h.Mode&0o777 == 0o700 },
				"work/run.sh":    func(h *tar.Header) bool { return h.Mode&0o777 == 0o755 },
				"work/dangling":  func(h *tar.Header) bool { return h.Typeflag == tar.TypeSymlink && h.Linkname == "nowhere" },
				"work/to-folder": func(h *tar.Header) bool { return h.Typeflag == tar.TypeSymlink && h.Linkname == "src" },
				"work/big":       func(h *tar.Header) bool { return h.ModTime.Equal(time.Unix(1e9, 0)) },
			} {
				if h := headers[name]; h == nil || !check(h) {
					t.Errorf("%s: %+v", name, h)
				}
			}
			a, b := headers["work/src/main.go"], headers["work/src/second-name.go"]
			if a == nil || b == nil || (a.Typeflag == tar.TypeLink) == (b.Typeflag == tar.TypeLink) {
				t.Errorf("hard links: %+v, %+v", a, b)
			} else if link := max(a.Linkname, b.Linkname); link != "work/src/main.go" && link != "work/src/second-name.go" {
				t.Errorf("the hard link leads to %q", link)
			}
			for name := range headers {
				if base := filepath.Base(name); base == "auth.json" || strings.HasPrefix(base, "state_5") || base == "fifo" || name == "rollouts/config.toml" {
					t.Errorf("%s is in the archive", name)
				}
			}
			// Of two names of one file tar meets either first; a credential's
			// other name is kept with its content masked, or goes with it.
			want := 4
			if _, kept := contents["work/src/linked-credential"]; kept {
				want++
			}
			if !m.Complete || m.Masked != want || m.ThreadID != "t" || m.CodexVersion != "0.169.0" || m.Turn != 2 || m.Bytes < 3<<20 || m.StoredBytes < 3<<20 {
				t.Errorf("manifest %+v", m)
			}
			if !slices.Contains(m.LeftOut, "rollouts/sessions/2026/11/21/auth.json") {
				t.Errorf("left out %v", m.LeftOut)
			}
			if err := Delete(t.Context(), st, m.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(t.Context(), st, m.ID); !errors.Is(err, ErrNotFound) {
				t.Errorf("after delete: %v", err)
			}
		})
	}
}

func TestArchiveOfTheSameIDIsMadeOnce(t *testing.T) {
	st, _ := newStore(t)
	spec, h := session(t), local(t)
	spec.ID = NewID(spec.Session, time.Now())
	const racers = 4
	got := make([]Manifest, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			m, err := Archive(t.Context(), h, st, spec)
			if err != nil {
				t.Error(err)
			}
			got[i] = m
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if err := os.RemoveAll(spec.WorkDir); err != nil {
		t.Fatal(err)
	}
	again, err := Archive(t.Context(), h, st, spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got {
		if len(m.Parts) != 2 || m.Parts[0] != again.Parts[0] || m.Parts[1] != again.Parts[1] {
			t.Errorf("parts %v; then %v", m.Parts, again.Parts)
		}
	}
	objects, err := st.List(t.Context(), "snapshots/")
	if err != nil || len(objects) != 3 {
		t.Errorf("the store holds %v, %v; want two parts and a manifest", objects, err)
	}
	exported(t, st, spec.ID)
}

func TestSessionWithoutATurnHasNoRollouts(t *testing.T) {
	st, _ := newStore(t)
	dir := t.TempDir()
	m, err := Archive(t.Context(), local(t), st, ArchiveSpec{Session: "s1", CodexHome: dir + "/codex-home", WorkDir: dir})
	if err != nil || len(m.Parts) != 1 || m.Parts[0].Name != partWork || m.Files != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = Archive(t.Context(), local(t), st, ArchiveSpec{Session: "s1", WorkDir: dir + "/none"})
	if err != nil || len(m.Parts) != 0 || !m.Complete {
		t.Errorf("nothing at all: %+v, %v", m, err)
	}
}

func TestCodexHomeInsideTheWorkDirectoryIsNotWork(t *testing.T) {
	st, _ := newStore(t)
	spec := session(t)
	spec.WorkDir = filepath.Dir(spec.CodexHome)
	m, err := Archive(t.Context(), local(t), st, spec)
	if err != nil {
		t.Fatal(err)
	}
	_, contents := exported(t, st, m.ID)
	for name := range contents {
		if strings.HasPrefix(name, "work/codex-home") {
			t.Errorf("%s is in the archive", name)
		}
	}
	if !slices.Contains(m.LeftOut, "work/codex-home") || contents["work/work/src/main.go"] == "" {
		t.Errorf("left out %v", m.LeftOut)
	}
}

// cutHost ends a stream in the middle.
type cutHost struct {
	hostexec.Host
	after int
}

func (h cutHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	s, err := h.Host.Start(ctx, c)
	return &cutStream{s, h.after}, err
}

type cutStream struct {
	hostexec.Stream
	left int
}

func (s *cutStream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, fmt.Errorf("read: %w", hostexec.ErrOutcomeUnknown)
	}
	n, err := s.Stream.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

func TestLostHostLeavesNothingThatClaimsToBeWhole(t *testing.T) {
	st, _ := newStore(t)
	spec, h := session(t), local(t)
	good, err := Archive(t.Context(), h, st, spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{0, 1000, 40 << 10, 1 << 20} {
		spec.ID = NewID(spec.Session, time.Now())
		if m, err := Archive(t.Context(), cutHost{h, after}, st, spec); !errors.Is(err, hostexec.ErrOutcomeUnknown) {
			t.Errorf("cut after %d: %+v, %v; want ErrOutcomeUnknown", after, m, err)
		}
	}
	found, err := List(t.Context(), st, "s1")
	if err != nil || len(found) != 1 || found[0].ID != good.ID || !found[0].Complete {
		t.Errorf("listed %+v, %v; want the good one alone", found, err)
	}
}

func TestTornSnapshotIsSeenAndNeverUsed(t *testing.T) {
	spec, h := session(t), local(t)
	for name, tear := range map[string]func(root string, m Manifest) error{
		"no manifest": func(root string, m Manifest) error {
			return os.Remove(filepath.Join(root, prefixOf(m.Session, m.ID), manifestName))
		},
		"torn manifest": func(root string, m Manifest) error {
			return os.Truncate(filepath.Join(root, prefixOf(m.Session, m.ID), manifestName), 300)
		},
		"no part": func(root string, m Manifest) error { return os.Remove(filepath.Join(root, m.Parts[0].Key)) },
		"torn part": func(root string, m Manifest) error {
			return os.Truncate(filepath.Join(root, m.Parts[1].Key), m.Parts[1].Stored-1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, root := newStore(t)
			m, err := Archive(t.Context(), h, st, spec)
			if err != nil {
				t.Fatal(err)
			}
			if err := tear(root, m); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(t.Context(), st, m.ID); !errors.Is(err, ErrIncomplete) {
				t.Errorf("read: %v; want ErrIncomplete", err)
			}
			if err := Export(t.Context(), st, m.ID, io.Discard); !errors.Is(err, ErrIncomplete) {
				t.Errorf("export: %v; want ErrIncomplete", err)
			}
			found, err := List(t.Context(), st, "")
			if err != nil || len(found) != 1 || found[0].Complete || found[0].ID != m.ID {
				t.Errorf("listed %+v, %v; want it as incomplete", found, err)
			}
			again := spec
			again.ID = m.ID
			if m, err := Archive(t.Context(), h, st, again); name == "no manifest" && (err != nil || !m.Complete) {
				t.Errorf("archived again: %+v, %v", m, err)
			} else if name != "no manifest" && err == nil {
				t.Errorf("archived over a torn one: %+v", m)
			}
		})
	}
}

func TestFlippedPartIsFoundOut(t *testing.T) {
	st, root := newStore(t)
	m, err := Archive(t.Context(), local(t), st, session(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, m.Parts[1].Key)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Export(t.Context(), st, m.ID, io.Discard); !errors.Is(err, ErrIncomplete) {
		t.Errorf("export: %v; want ErrIncomplete", err)
	}
}

func TestOtherIDsAreRefused(t *testing.T) {
	st, _ := newStore(t)
	for _, id := range []string{"", "s1", "../x.snap-20261121t120000-abcdef", "s1.snap-x", "s1.snap-20261121t120000-ABCDEF"} {
		if _, err := Read(t.Context(), st, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v; want ErrNotFound", id, err)
		}
	}
	if _, err := Archive(t.Context(), local(t), st, ArchiveSpec{Session: "s2", ID: NewID("s1", time.Now())}); err == nil {
		t.Error("an id of another session was taken")
	}
	if _, err := List(t.Context(), st, "../.."); err == nil {
		t.Error("a session that climbs was listed")
	}
}
