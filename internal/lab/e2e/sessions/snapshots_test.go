package sessions

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// snapshotJSON is the documented output for a snapshot.
type snapshotJSON struct {
	ID           string `json:"id"`
	Session      string `json:"session"`
	Turn         int    `json:"turn"`
	CreatedAt    string `json:"created_at"`
	Files        int64  `json:"files"`
	Bytes        int64  `json:"bytes"`
	StoredBytes  int64  `json:"stored_bytes"`
	AddedBytes   int64  `json:"added_bytes"`
	ThreadID     string `json:"thread_id"`
	CodexVersion string `json:"codex_version"`
	Complete     bool   `json:"complete"`
}

func (s snapshotJSON) whole(t *testing.T, session string) {
	t.Helper()
	if !strings.HasPrefix(s.ID, session+".snap-") || s.Session != session || s.CreatedAt == "" || s.Files < 1 || s.Bytes < 1 || s.StoredBytes < 1 ||
		s.ThreadID == "" || s.CodexVersion == "" || !s.Complete {
		t.Errorf("not a whole snapshot of %s: %+v", session, s)
	}
}

func snapshotsOf(t *testing.T, session string) []snapshotJSON {
	t.Helper()
	list, err := lab.Lines[snapshotJSON](e2e.Within(t), e2e.Lab, "snapshot", "list", session)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// untar reads an archive: names, and contents of files.
func untar(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(data)
	}
}

// A snapshot is taken, listed, shown, exported and deleted; one from which a
// session would continue is not deleted.
func TestASnapshotIsTakenListedShownAndExported(t *testing.T) {
	e2e.Session(t, "kept", "--snapshot-when", "close", "--snapshot-exclude", "*.tmp")
	e2e.Idle(t, "kept")
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "snapshot", "create", "kept"); r.Code != 6 || !strings.Contains(r.Stderr, "nothing to keep yet") {
		t.Errorf("before the first turn: %v", r)
	}
	e2e.Turn(t, "kept", "need a file at notes.txt")
	work := filepath.Join(e2e.Root, "sessions", "kept", "work")
	for name, text := range map[string]string{"a b\n'c.txt": "odd", "left.tmp": "not this"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var first, second snapshotJSON
	if err := e2e.Lab.JSON(e2e.Within(t), &first, "snapshot", "create", "kept"); err != nil {
		t.Fatal(err)
	}
	first.whole(t, "kept")
	if err := os.WriteFile(filepath.Join(work, "later.txt"), []byte("later"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := e2e.Lab.JSON(e2e.Within(t), &second, "snapshot", "create", "kept"); err != nil {
		t.Fatal(err)
	}
	second.whole(t, "kept")
	if list := snapshotsOf(t, "kept"); len(list) != 2 || list[0].ID != first.ID || list[1].ID != second.ID {
		t.Errorf("listed %+v", list)
	}
	if v := e2e.Show(t, "kept").Snapshot; v == nil || v.ID != second.ID || v.Error != nil {
		t.Errorf("the session says %+v", v)
	}
	if text := e2e.OK(t, "session", "show", "kept"); !strings.Contains(text, second.ID+", of turn 1") {
		t.Errorf("the session's text does not tell of it:\n%s", text)
	}
	var shown snapshotJSON
	if err := e2e.Lab.JSON(e2e.Within(t), &shown, "snapshot", "show", first.ID); err != nil || shown.ID != first.ID {
		t.Errorf("shown %+v, %v", shown, err)
	}
	if text := e2e.OK(t, "snapshot", "list"); !strings.Contains(text, first.ID) || !strings.Contains(text, second.ID) {
		t.Errorf("all of them:\n%s", text)
	}

	file := filepath.Join(t.TempDir(), "kept.tar")
	var said struct {
		ID, File, SHA256 string
		Bytes            int64
	}
	if err := json.Unmarshal([]byte(e2e.OK(t, "snapshot", "export", first.ID, file, "-o", "json")), &said); err != nil || said.File != file || len(said.SHA256) != 64 {
		t.Errorf("it says %+v, %v", said, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != said.Bytes {
		t.Errorf("the file: %v, %v", info, err)
	}
	in := untar(t, file)
	if in["work/a b\n'c.txt"] != "odd" || in["work/notes.txt"] != "made by codex\n" || in["manifest.json"] == "" {
		t.Errorf("in the archive: %q", in)
	}
	for name, text := range in {
		if strings.HasSuffix(name, ".tmp") || strings.Contains(name, "later") || strings.HasSuffix(name, "auth.json") || strings.Contains(text, e2e.Lab.Token) {
			t.Errorf("%s is in the archive, or a secret in it", name)
		}
	}
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "snapshot", "export", first.ID, "-")
	if data, err := os.ReadFile(file); r.Code != 0 || err != nil || r.Stdout != string(data) {
		t.Errorf("to standard output: exit %d, %d bytes, want %d (%v): %s", r.Code, len(r.Stdout), len(data), err, r.Stderr)
	}

	e2e.Exits(t, 6, "snapshot", "export", second.ID, file)
	if now := untar(t, file); len(now) != len(in) {
		t.Error("an export without --force changed a file that was there")
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "snapshot", "delete", second.ID); r.Code != 6 || !strings.Contains(r.Stderr, "goes on from") {
		t.Errorf("the one it goes on from: %v", r)
	}
	e2e.OK(t, "snapshot", "delete", first.ID)
	if list := snapshotsOf(t, "kept"); len(list) != 1 || list[0].ID != second.ID {
		t.Errorf("left are %+v", list)
	}
	for _, args := range [][]string{{"show", first.ID}, {"export", first.ID, file, "--force"}, {"restore", first.ID}, {"delete", first.ID}} {
		if r := e2e.Lab.Ctl(e2e.Within(t), nil, append([]string{"snapshot"}, args...)...); r.Code != 3 {
			t.Errorf("%s of one that is gone: %v", args[0], r)
		}
	}
	if again := untar(t, file); len(again) != len(in) {
		t.Error("an export that failed changed the file that was there")
	}
}

// Snapshots follow the flags and the retention; damage is found.
func TestTheStoreOfSnapshotsIsLookedAfter(t *testing.T) {
	e2e.Session(t, "pruned", "--snapshot-when", "close")
	e2e.Turn(t, "pruned", "hello")
	var all []string
	for range 3 {
		var s snapshotJSON
		if err := e2e.Lab.JSON(e2e.Within(t), &s, "snapshot", "create", "pruned"); err != nil {
			t.Fatal(err)
		}
		all = append(all, s.ID)
	}
	var out struct {
		Snapshots []string `json:"snapshots"`
	}
	if err := e2e.Lab.JSON(e2e.Within(t), &out, "snapshot", "prune", "pruned", "--keep", "1", "--dry-run"); err != nil || strings.Join(out.Snapshots, " ") != strings.Join(all[:2], " ") {
		t.Errorf("it would drop %v, want %v (%v)", out.Snapshots, all[:2], err)
	}
	if list := snapshotsOf(t, "pruned"); len(list) != 3 {
		t.Errorf("after looking there are %d", len(list))
	}
	if err := e2e.Lab.JSON(e2e.Within(t), &out, "snapshot", "prune", "pruned", "--keep", "1"); err != nil || strings.Join(out.Snapshots, " ") != strings.Join(all[:2], " ") {
		t.Errorf("it dropped %v, want %v (%v)", out.Snapshots, all[:2], err)
	}
	if list := snapshotsOf(t, "pruned"); len(list) != 1 || list[0].ID != all[2] {
		t.Errorf("left are %+v", list)
	}
	var checked struct {
		Snapshots int      `json:"snapshots"`
		Problems  []string `json:"problems"`
	}
	for _, args := range [][]string{nil, {"--read-data"}} {
		if err := e2e.Lab.JSON(e2e.Within(t), &checked, append([]string{"snapshot", "check"}, args...)...); err != nil || checked.Snapshots < 1 || len(checked.Problems) > 0 {
			t.Errorf("check %v: %+v, %v", args, checked, err)
		}
	}
}

// Missing or corrupt blobs in the store are found and named, and never exported
// as complete; once they are put back, all is well again.
func TestADamagedStoreOfSnapshotsIsFound(t *testing.T) {
	l, run := e2e.Own(t, "limits: {watch: 1s}\n")
	run("session", "start", "--host", "web-1", "--seed", "team", "--id", "rotten", "--snapshot-when", "close")
	run("session", "send", "rotten", "need a file at notes.txt")
	var snap snapshotJSON
	if err := l.JSON(e2e.Within(t), &snap, "snapshot", "create", "rotten"); err != nil {
		t.Fatal(err)
	}
	var packs []string
	root := filepath.Join(l.State, "store", "snapshots")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "pack") && !strings.Contains(path, "index") {
			packs = append(packs, path)
		}
		return err
	})
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs below %s: %v, %v", root, packs, err)
	}
	file := filepath.Join(t.TempDir(), "x.tar")
	var checked struct {
		Problems []string `json:"problems"`
		Damaged  []string `json:"damaged"`
	}
	finds := func(what string, args ...string) {
		t.Helper()
		r := l.Ctl(e2e.Within(t), nil, append([]string{"snapshot", "check", "-o", "json"}, args...)...)
		if err := e2e.FirstJSON(r.Stdout, &checked); r.Code != 1 || err != nil || len(checked.Problems) == 0 || strings.Join(checked.Damaged, " ") != snap.ID {
			t.Errorf("%s: %+v, %v: %v", what, checked, err, r)
		}
		if r := l.Ctl(e2e.Within(t), nil, "snapshot", "export", snap.ID, file); r.Code == 0 {
			t.Errorf("%s, and it was exported: %v", what, r)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s, and a file is there", what)
		}
	}
	whole := map[string][]byte{}
	for _, path := range packs {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[path] = data
		rotten := append([]byte{}, data...)
		rotten[len(rotten)/2] ^= 0x40
		if err := os.WriteFile(path, rotten, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	finds("rotten", "--read-data")
	for _, path := range packs {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	finds("missing")
	for path, data := range whole {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("snapshot", "check", "--read-data")
	run("snapshot", "export", snap.ID, file)
	if in := untar(t, file); in["work/notes.txt"] != "made by codex\n" {
		t.Errorf("exported %q", in)
	}
	run("session", "close", "rotten")
}
