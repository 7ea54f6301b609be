package hostexec_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	treepkg "fairlead.dev/fairlead/hostexec/tree"
)

// A pausingTree is a tree of one file. Its stream stops once after stopAt bytes,
// until the test lets it go on.
type pausingTree struct {
	data   []byte
	stopAt int
	goOn   chan struct{}
	sent   int // bytes written since the stream last began
}

func (p *pausingTree) write(w io.Writer) error {
	p.sent = 0
	tw := tar.NewWriter(writerFunc(func(b []byte) (int, error) {
		if p.goOn != nil && p.sent+len(b) > p.stopAt {
			<-p.goOn
		}
		p.sent += len(b)
		return w.Write(b)
	}))
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "file", Mode: 0o640, Size: int64(len(p.data))}); err != nil {
		return err
	}
	for chunk := range chunksOf(p.data, 4<<10) {
		if _, err := tw.Write(chunk); err != nil {
			return err
		}
	}
	return tw.Close()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func chunksOf(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 && yield(b[:min(n, len(b))]) {
			b = b[min(n, len(b)):]
		}
	}
}

func sizes(t *testing.T, parts string) map[string]int64 {
	t.Helper()
	found, err := filepath.Glob(parts + "/part-*")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, f := range found {
		if fi, err := os.Stat(f); err == nil {
			all[filepath.Base(f)] = fi.Size()
		}
	}
	return all
}

func isOpen(t *testing.T, dir string) bool {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(links, func(link string) bool {
		file, err := os.Readlink(link) // the file may be closed by now
		return err == nil && strings.HasPrefix(file, dir+"/")
	})
}

func total(all map[string]int64) (n int64) {
	for _, size := range all {
		n += size
	}
	return n
}

func mustBe(t *testing.T, file string, data []byte) {
	t.Helper()
	if there, err := os.ReadFile(file); err != nil || !bytes.Equal(there, data) {
		t.Errorf("%s: %d bytes of %d, %v", file, len(there), len(data), err)
	}
}

func testTreeParts(t *testing.T, far bool) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	p := newPool(t, hostexec.PoolOptions{})
	if far {
		p.EverythingIsFar()
	}
	h, err := p.Host(sshd.Spec())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	parts := dir + "/parts"
	tree := &pausingTree{data: pattern(6, 2<<20), stopAt: 1 << 20, goOn: make(chan struct{})}
	size := int64(len(tree.data))
	put := func(ctx context.Context, into string) error {
		return treepkg.PutInParts(ctx, h, dir+"/"+into, parts, tree.write)
	}

	// The connection is lost after about half of the tree has arrived.
	ended := make(chan error, 1)
	go func() { ended <- put(t.Context(), "one") }()
	until(t, "a part is there", func() bool { return total(sizes(t, parts)) > size/4 })
	if sshd.KillSessions() == 0 {
		t.Error("nothing was killed")
	}
	close(tree.goOn)
	if err := <-ended; !errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Fatalf("a lost connection: %v", err)
	}
	tree.goOn = nil
	// The writer on the host may still write what it has read.
	until(t, "nobody writes the part", func() bool { return !isOpen(t, parts) })
	before := sizes(t, parts)
	if err := put(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	mustBe(t, dir+"/one/file", tree.data)
	after := sizes(t, parts)
	if len(before) != 1 || len(after) != 2 {
		t.Fatalf("parts before and after: %v, %v", before, after)
	}
	for name, n := range before {
		if after[name] != n || n < size/4 {
			t.Errorf("part %s had %d bytes and has %d", name, n, after[name])
		}
	}
	if n := total(after); !far && n > size+16<<10 {
		t.Errorf("%d bytes were sent for %d", n, size)
	}

	// The host has the whole stream, so nothing is sent.
	if err := put(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	mustBe(t, dir+"/two/file", tree.data)
	if again := sizes(t, parts); len(again) != len(after) {
		t.Errorf("parts that were sent though all was there: %v, before %v", again, after)
	}

	// Parts that differ from the stream are not used.
	for name := range before {
		f, err := os.OpenFile(parts+"/"+name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("something else"), 5000); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if err := put(t.Context(), "three"); err != nil {
		t.Fatal(err)
	}
	mustBe(t, dir+"/three/file", tree.data)
}

func TestATreeThatWasHalfThereGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	t.Run("Near", func(t *testing.T) { t.Parallel(); testTreeParts(t, false) })
	t.Run("Far", func(t *testing.T) { t.Parallel(); testTreeParts(t, true) })
}

func TestTwoWhoBringTheSameTreeDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	h, other := newHost(t, sshd.Spec()), newHost(t, sshd.Spec())
	dir := t.TempDir()
	data := pattern(7, 2<<20)
	slow := &pausingTree{data: data, stopAt: 1 << 20, goOn: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- treepkg.PutInParts(t.Context(), h, dir+"/slow", dir+"/parts", slow.write) }()
	until(t, "a part is there", func() bool { return total(sizes(t, dir+"/parts")) > 1<<19 })
	fast := &pausingTree{data: data}
	if err := treepkg.PutInParts(t.Context(), other, dir+"/fast", dir+"/parts", fast.write); err != nil {
		t.Error(err)
	}
	mustBe(t, dir+"/fast/file", data)
	close(slow.goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mustBe(t, dir+"/slow/file", data)
}
