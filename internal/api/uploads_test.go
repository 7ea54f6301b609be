package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	chunkspkg "fairlead.dev/fairlead/snapshots/chunks"
)

func TestALocalTreeIsSentOnceAndComesToAHostAsItWas(t *testing.T) {
	chunks := (*chunkspkg.Store)(nil)
	b := serve(t, func(o *Options) {
		chunks = chunkspkg.Open(o.Store, chunkspkg.Options{})
		o.Chunks = chunks
	})
	c := b.client("")
	dir := t.TempDir()
	put := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "sub", "empty"), 0o755), os.Symlink("sub/a", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	put("sub/a", []byte("a\n"))
	put("none", nil)
	put("large", bytes.Repeat([]byte("0123456789abcdef, and so on\n"), 400_000))
	send := func() (snapshots.Manifest, int64) {
		t.Helper()
		tree, err := snapshots.ReadLocal(dir)
		if err != nil {
			t.Fatal(err)
		}
		m, sent, err := c.PutTree(t.Context(), "s1", tree)
		if err != nil {
			t.Fatal(err)
		}
		return m, sent
	}
	if _, sent := send(); sent == 0 {
		t.Error("nothing was sent at first")
	}
	put("sub/a", []byte("changed\n"))
	m, sent := send()
	if sent != int64(len("changed\n")) {
		t.Errorf("%d bytes were sent again", sent)
	}
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() { pool.Close() })
	h, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "work")
	if _, err := snapshots.Restore(context.Background(), h, chunks, m.ID, snapshots.RestoreSpec{Dirs: map[string]string{snapshots.Work: to}}); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("diff", "-r", "--no-dereference", dir, to).CombinedOutput(); err != nil {
		t.Errorf("it is not what was sent: %s", out)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

func TestATreeThatIsNotWholeOrLeadsElsewhereIsNotKept(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	for what, body := range map[string]string{
		"nothing":         "",
		"no list":         "hello\n",
		"cut short":       `[{"Path":"a","Kind":102,"Size":1}]` + "\n\x00\x00\x00\x05ab",
		"a chunk of 4G":   "[]\n\xff\xff\xff\xff",
		"above itself":    `[{"Path":"../a","Kind":102}]` + "\n\x00\x00\x00\x00",
		"what it lacks":   `[{"Path":"a","Kind":102,"Size":1,"Content":[{"Digest":"` + strings.Repeat("ab", 32) + `","Hole":0}]}]` + "\n\x00\x00\x00\x00",
		"a hard link":     `[{"Path":"a","Kind":104,"Link":"/etc/passwd"}]` + "\n\x00\x00\x00\x00",
		"a setuid file":   `[{"Path":"a","Kind":102,"Mode":2541}]` + "\n\x00\x00\x00\x00",
		"without its dir": `[{"Path":"a/b","Kind":102}]` + "\n\x00\x00\x00\x00",
	} {
		_, err := c.send(t.Context(), http.MethodPost, "/v1/uploads?session=s1", []byte(body))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := snapshots.List(t.Context(), b.store, "s1"); err != nil || len(list) != 0 {
		t.Errorf("kept: %+v, %v", list, err)
	}
}
