package session

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A worker that is not to be trusted must not choose what is written here.
func TestOnlyFilesThatWereAskedForAreWritten(t *testing.T) {
	for _, c := range []struct {
		name string
		sent bool
	}{{"report.md", true}, {"src/a/b.go", true}, {".envrc", false}, {"../report.md", false}, {"src/../.envrc", false}, {"/etc/passwd", false}, {"report.md/x", true}, {"srcs", false}} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := w.WriteHeader(&tar.Header{Name: c.name, Mode: 0o644, Size: 2, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("hi")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		files, err := unpack(root, &archive, []string{"report.md", "src"})
		if c.sent && (err != nil || len(files) != 1 || files[0] != c.name) {
			t.Errorf("%s: unpacked %v, %v", c.name, files, err)
		}
		if !c.sent && (err == nil || !strings.Contains(err.Error(), "nobody asked for")) {
			t.Errorf("%s was sent: %v, %v", c.name, files, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, filepath.Clean("/"+c.name))); (err == nil) != c.sent {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
