package api

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// take takes a snapshot of a session on this machine. Its folder has n files of 64 KiB that
// can hardly be compressed.
func (b *bench) take(session string, at time.Time, n int) snapshots.Manifest {
	b.Helper()
	return b.takeWith(session, at, n, snapshots.Facts{ThreadID: "t", CodexVersion: "0.1", Turn: 1})
}

func (b *bench) takeWith(session string, at time.Time, n int, facts snapshots.Facts) snapshots.Manifest {
	b.Helper()
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	defer pool.Close()
	h, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	for i := range n {
		text := strings.Repeat(fmt.Sprintf("%s %d\n", session, i), 8<<10)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%04d", i)), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	m, err := snapshots.Take(context.Background(), h, chunks.Open(b.store, chunks.Options{}), snapshots.TakeSpec{
		ID: snapshots.NewID(session, at), Session: session, Trees: []snapshots.TreeSpec{snapshots.WorkOf(dir, snapshots.WorkFull, nil)},
		Facts: facts})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// objects returns the files of the store that belong to snapshots.
func (b *bench) objects() (packs, manifests []string) {
	b.Helper()
	err := filepath.WalkDir(strings.TrimPrefix(b.store.URL(), "file://"), func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() || !strings.Contains(path, "snap"):
		case strings.Contains(filepath.Base(path), "manifest"):
			manifests = append(manifests, path)
		default:
			packs = append(packs, path)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return packs, manifests
}

func listed(t *testing.T, c *Client, session string) (out []snapshots.Manifest) {
	t.Helper()
	for m, err := range c.Snapshots(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func kindOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return fmt.Sprint(err)
}

func TestSnapshotsAreListedShownAndExportedWhole(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	now := time.Now()
	one, two := b.take("s1", now.Add(-time.Hour), 3), b.take("s2", now, 40)
	if all := listed(t, c, ""); len(all) != 2 || all[0].ID != one.ID || all[1].ID != two.ID || !all[1].Complete || all[1].Files != two.Files {
		t.Errorf("all: %+v", all)
	}
	if mine := listed(t, c, "s2"); len(mine) != 1 || mine[0].ID != two.ID {
		t.Errorf("of s2: %+v", mine)
	}
	if none := listed(t, c, "s3"); len(none) != 0 {
		t.Errorf("of nobody: %+v", none)
	}
	if m, err := c.Snapshot(t.Context(), two.ID); err != nil || m.ID != two.ID || m.ThreadID != "t" {
		t.Errorf("shown: %+v, %v", m, err)
	}
	var got bytes.Buffer
	said, err := c.ExportSnapshot(t.Context(), two.ID, &got)
	if err != nil || said.Bytes != int64(got.Len()) || len(said.SHA256) != 64 {
		t.Fatalf("exported %+v, %d bytes, %v", said, got.Len(), err)
	}
	files := map[string]string{}
	for r := tar.NewReader(&got); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
	}
	if want := strings.Repeat("s2 39\n", 8<<10); files["work/f0039"] != want || files["manifest.json"] == "" {
		t.Errorf("in it are %d files, f0039 of %d bytes", len(files), len(files["work/f0039"]))
	}
	for name, id := range map[string]string{"never taken": snapshots.NewID("s1", now), "no id": "s1", "climbing": "../../x"} {
		_, err := c.Snapshot(t.Context(), id)
		_, xerr := c.ExportSnapshot(t.Context(), id, io.Discard)
		_, derr := c.DeleteSnapshot(t.Context(), id)
		if kindOf(err) != ErrNotFound || kindOf(xerr) != ErrNotFound || kindOf(derr) != ErrNotFound {
			t.Errorf("%s: %v; %v; %v", name, err, xerr, derr)
		}
	}
	for _, err := range c.Snapshots(t.Context(), "A/B") {
		if kindOf(err) != ErrBadInput {
			t.Errorf("a session that cannot be: %v", err)
		}
	}
}

// An incomplete snapshot is shown as incomplete and cannot be exported.
func TestASnapshotWithoutAManifestIsShownAndNeverExported(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	m := b.take("s1", time.Now(), 2)
	_, manifests := b.objects()
	if len(manifests) != 1 {
		t.Fatalf("manifests: %v", manifests)
	}
	if err := os.WriteFile(manifests[0], []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list := listed(t, c, "s1"); len(list) != 1 || list[0].Complete || list[0].ID != m.ID {
		t.Errorf("listed %+v", list)
	}
	if got, err := c.Snapshot(t.Context(), m.ID); err != nil || got.Complete || got.ID != m.ID {
		t.Errorf("shown %+v, %v", got, err)
	}
	var out bytes.Buffer
	if _, err := c.ExportSnapshot(t.Context(), m.ID, &out); kindOf(err) != ErrIncomplete || out.Len() > 0 {
		t.Errorf("exported %d bytes, %v", out.Len(), err)
	}
	b.sessions.closed.Store(true)
	if _, err := c.DeleteSnapshot(t.Context(), m.ID); err != nil {
		t.Errorf("delete: %v", err)
	}
	if list := listed(t, c, "s1"); len(list) != 0 {
		t.Errorf("left %+v", list)
	}
}

// A snapshot of a newer version is shown as such. An older worker never exports or deletes
// it.
func TestASnapshotOfANewerVersionIsShownAndLeftAlone(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	m := b.take("s1", time.Now(), 2)
	key := "snapshots/s1/" + m.ID + "/manifest.json"
	if err := b.store.Put(t.Context(), key, []byte(`{"id":"`+m.ID+`","format":1000,"complete":true}`)); err != nil {
		t.Fatal(err)
	}
	if list := listed(t, c, "s1"); len(list) != 1 || list[0].ID != m.ID || !list[0].Newer() {
		t.Errorf("listed %+v", list)
	}
	if got, err := c.Snapshot(t.Context(), m.ID); err != nil || !got.Newer() || got.ID != m.ID {
		t.Errorf("shown %+v, %v", got, err)
	}
	if _, err := c.ExportSnapshot(t.Context(), m.ID, io.Discard); kindOf(err) != ErrNewer {
		t.Errorf("exported: %v", err)
	}
	for _, closed := range []bool{false, true} {
		b.sessions.closed.Store(closed)
		if _, err := c.DeleteSnapshot(t.Context(), m.ID); kindOf(err) != ErrNewer {
			t.Errorf("deleted: %v", err)
		}
	}
	if there, err := b.store.Exists(t.Context(), key); err != nil || !there {
		t.Errorf("it is not there any more (%v)", err)
	}
}

// If a damaged chunk is found during an export, the export ends with an error, even if data
// was sent before.
func TestADamagedSnapshotIsNeverExportedAsWhole(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	m := b.take("s1", time.Now(), 60)
	packs, _ := b.objects()
	damaged := 0
	for _, path := range packs {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 2000 {
			continue
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		damaged++
	}
	if damaged == 0 {
		t.Fatalf("nothing to damage among %v", packs)
	}
	if _, err := c.ExportSnapshot(t.Context(), m.ID, io.Discard); kindOf(err) != ErrIncomplete && kindOf(err) != ErrStore {
		t.Errorf("exported with %v", err)
	}
}

// An export that is cut is an error, wherever it is cut.
func TestAnExportThatIsCutIsAnError(t *testing.T) {
	b := serve(t, nil)
	m := b.take("s1", time.Now(), 30)
	cut := 0
	for seed := range uint64(12) {
		c := b.client(roughly(t, b.server.Address(), seed, 8<<20))
		var out bytes.Buffer
		said, err := c.ExportSnapshot(t.Context(), m.ID, &out)
		switch {
		case err != nil:
			cut++
		case said.Bytes != int64(out.Len()):
			t.Errorf("%d bytes came and it says %+v", out.Len(), said)
		}
	}
	if cut < 2 {
		t.Errorf("only %d of 12 were cut: the wire is not rough", cut)
	}
}

// A snapshot that a session may continue from is not deleted.
func TestTheNewestGoodSnapshotOfASessionIsNotDeleted(t *testing.T) {
	var j journal
	b := serve(t, func(o *Options) { o.Record = j.add })
	c := b.client("")
	now := time.Now()
	old, newest := b.take("s1", now.Add(-time.Hour), 1), b.take("s1", now, 1)
	// A snapshot of the data that a session left on a host is newer, but the session does
	// not continue from it.
	left := b.takeWith("s1", now.Add(time.Minute), 1, snapshots.Facts{ThreadID: "t", CodexVersion: "0.1", Turn: 1, Left: true})
	if _, err := c.DeleteSnapshot(t.Context(), newest.ID); kindOf(err) != ErrRefused {
		t.Errorf("the newest: %v", err)
	}
	if m, err := c.DeleteSnapshot(t.Context(), old.ID); err != nil || len(m.Trees) != 1 || m.Trees[0].Index != nil || m.Secrets != nil {
		t.Errorf("the older one: %+v, %v", m, err)
	}
	if _, err := c.DeleteSnapshot(t.Context(), left.ID); err != nil {
		t.Errorf("what was left elsewhere: %v", err)
	}
	b.sessions.closed.Store(true)
	if _, err := c.DeleteSnapshot(t.Context(), newest.ID); err != nil {
		t.Errorf("of a session that has closed: %v", err)
	}
	if list := listed(t, c, ""); len(list) != 0 {
		t.Errorf("left %+v", list)
	}
	if all := j.take(); len(all) != 3 || all[0].Object != "session/s1" || !strings.Contains(all[0].Reason, old.ID) || all[0].Outcome != "accepted" || all[0].Source != "unix" {
		t.Errorf("on record: %+v", all)
	}
}

// Any other snapshot that a session continues from or that a fork begins with is not
// deleted either. The error names the holder. If the holders are not known, nothing is
// deleted.
func TestWhatASessionGoesOnFromIsNotDeleted(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	now := time.Now()
	good, newest := b.take("s1", now.Add(-time.Hour), 1), b.take("s1", now, 1)
	said := func(what, who, kind string) {
		t.Helper()
		_, err := c.DeleteSnapshot(t.Context(), good.ID)
		var e *Error
		if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(e.Message, who) || e.Hint == "" {
			t.Errorf("%s: %+v", what, err)
		}
		if _, err := c.Snapshot(t.Context(), good.ID); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	b.sessions.now.Store("s1", inquiry.SessionNow{Runs: true, Run: "r0", Snapshot: good.ID})
	said("the session has not heard of the newest", "session s1 goes on from", ErrRefused)
	b.sessions.now.Store("s1", errors.New("no worker answers"))
	said("it does not answer", "no worker answers", ErrStore)

	b.sessions.now.Store("s1", inquiry.SessionNow{Runs: true, Run: "r0", Snapshot: newest.ID})
	if _, err := snapshots.Keep(t.Context(), b.store, good.ID, snaps.PinHolder("fork", "r1")); err != nil {
		t.Fatal(err)
	}
	b.sessions.now.Store("fork", inquiry.SessionNow{Runs: true, Run: "r1"})
	said("a fork waits", "session fork starts from", ErrRefused)
	b.sessions.now.Store("fork", errors.New("no worker answers"))
	said("the fork does not answer", "no worker answers", ErrStore)
	b.sessions.now.Store("fork", inquiry.SessionNow{Runs: true, Run: "r2"}) // another session of the same name
	if _, err := c.DeleteSnapshot(t.Context(), good.ID); err != nil {
		t.Errorf("when nobody holds it any more: %v", err)
	}
}

// Requests for snapshots need the token, like all others.
func TestSnapshotsWantTheToken(t *testing.T) {
	b := serve(t, func(o *Options) { o.Token = "0123456789abcdef" })
	m := b.take("s1", time.Now(), 1)
	c := b.client("")
	_, err := c.Snapshot(t.Context(), m.ID)
	_, xerr := c.ExportSnapshot(t.Context(), m.ID, io.Discard)
	_, derr := c.DeleteSnapshot(t.Context(), m.ID)
	if kindOf(err) != ErrUnauthorized || kindOf(xerr) != ErrUnauthorized || kindOf(derr) != ErrUnauthorized {
		t.Errorf("without it: %v; %v; %v", err, xerr, derr)
	}
	req, err := http.NewRequest(http.MethodDelete, "http://worker/v1/snapshots/"+m.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer 0123456789abcdef")
	req.Header.Set("Origin", "http://evil.example")
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page in a browser: %s", resp.Status)
	}
	if got, err := snapshots.List(t.Context(), b.store, "s1"); err != nil || len(got) != 1 {
		t.Errorf("left %+v, %v", got, err)
	}
}
