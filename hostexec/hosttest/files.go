package hosttest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

func sum(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func mustHold(t *testing.T, file string, want []byte, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s holds %d other bytes than the %d expected", file, len(got), len(want))
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode() != mode {
		t.Errorf("%s: mode %v, want %v", file, fi.Mode(), mode)
	}
}

var fileChecks = []check{
	{"WriteFileWritesWhole", func(t *testing.T, h target) {
		file := path.Join(h.dir, "a 'b\"", "ü\n*", "file")
		for i, data := range [][]byte{randomBytes(100), nil, []byte("x"), randomBytes(60_000), randomBytes(1_500_000), []byte("\x00\n")} {
			mode := []os.FileMode{0o600, 0o644, 0o755}[i%3]
			if err := hostexec.WriteFile(h.ctx, h.Host, file, data, mode, nil); err != nil {
				t.Fatal(err)
			}
			mustHold(t, file, data, mode)
		}
		if got := names(t, path.Dir(file)); got != "file" {
			t.Errorf("beside it: %q", got)
		}
		for d := path.Dir(file); d != h.root; d = path.Dir(d) {
			if fi, err := os.Stat(d); err != nil || fi.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", d, fi.Mode(), err)
			}
		}
	}},
	{"WriteFileNeverWritesThroughALink", func(t *testing.T, h target) {
		dir := h.mkdir(t)
		h.run(t, hostexec.Command{Script: `cd "$1"; echo old >target; ln -s target link; ln -s nowhere dangling; mkdir folder`, Args: []string{dir}})
		for _, name := range []string{"link", "dangling"} {
			if err := hostexec.WriteFile(h.ctx, h.Host, dir+"/"+name, []byte("new"), 0o600, nil); err != nil {
				t.Error(err)
			}
			mustHold(t, dir+"/"+name, []byte("new"), 0o600)
		}
		if b, _ := os.ReadFile(dir + "/target"); string(b) != "old\n" {
			t.Errorf("the target of the link holds %q", b)
		}
		if err := hostexec.WriteFile(h.ctx, h.Host, dir+"/folder", []byte("new"), 0o600, nil); err == nil {
			t.Error("a folder was overwritten")
		}
		if got := names(t, dir); got != "dangling folder link target" {
			t.Errorf("left: %q", got)
		}
	}},
	{"WriteFileRefusesBadPaths", func(t *testing.T, h target) {
		for _, p := range []string{"", "relative", "/", h.root + "/", h.root + "/../x", h.root + "/a\x00b"} {
			if err := hostexec.WriteFile(h.ctx, h.Host, p, nil, 0o600, nil); err == nil {
				t.Errorf("%q was taken", p)
			}
		}
		if err := hostexec.WriteFile(h.ctx, h.Host, h.dir, nil, os.ModeSetuid|0o755, nil); err == nil {
			t.Error("setuid was taken")
		}
	}},
	{"WriteFileIsFenced", func(t *testing.T, h target) {
		file := h.dir + "/auth.json"
		for _, size := range []int{10, 200_000, 1_500_000} {
			a, b := randomBytes(size), randomBytes(size)
			if err := hostexec.WriteFile(h.ctx, h.Host, file, a, 0o600, fence(h.dir, epoch(3, 0, 0))); err != nil {
				t.Fatal(err)
			}
			err := hostexec.WriteFile(h.ctx, h.Host, file, b, 0o600, fence(h.dir, epoch(2, 9, 9)))
			mustBeFenced(t, err, epoch(2, 9, 9), epoch(3, 0, 0))
			mustHold(t, file, a, 0o600)
		}
		if got := names(t, h.dir); got != "auth.json epoch lock" {
			t.Errorf("left: %q", got)
		}
	}},
	{"ReadFileTellsWhatIsNotThere", func(t *testing.T, h target) {
		dir := h.mkdir(t)
		h.run(t, hostexec.Command{Script: `cd "$1"; printf 12345 >five; mkfifo fifo; ln -s nowhere dangling`, Args: []string{dir}})
		if b, err := hostexec.ReadFile(h.ctx, h, dir+"/five", 5); err != nil || string(b) != "12345" {
			t.Errorf("%q, %v", b, err)
		}
		var long *hostexec.OutputTooLongError
		if _, err := hostexec.ReadFile(h.ctx, h, dir+"/five", 4); !errors.As(err, &long) || long.Limit != 4 {
			t.Error(err)
		}
		for _, name := range []string{"absent", "five/x", "dangling", "no/such/folder"} {
			if _, err := hostexec.ReadFile(h.ctx, h, dir+"/"+name, 5); !errors.Is(err, hostexec.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range []string{"fifo", "."} {
			if _, err := hostexec.ReadFile(h.ctx, h, path.Join(dir, name), 5); err == nil || errors.Is(err, hostexec.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}},
	{"ReadFileReadsMuch", func(t *testing.T, h target) {
		data := randomBytes(2 * hostexec.MaxOutput)
		file := h.dir + "/file"
		if err := hostexec.WriteFile(h.ctx, h.Host, file, data, 0o600, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := hostexec.ReadFile(h.ctx, h, file, int64(len(data))); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		var long *hostexec.OutputTooLongError
		if _, err := hostexec.ReadFile(h.ctx, h, file, int64(len(data))-1); !errors.As(err, &long) {
			t.Error(err)
		}
	}},
	{"UploadWritesWhole", func(t *testing.T, h target) {
		for i, size := range []int{0, 1, 2, 1 << 20, 20<<20 + 7} {
			data := randomBytes(size)
			file := fmt.Sprintf("%s/deep/file %d", h.dir, i)
			if err := hostexec.Upload(h.ctx, h.Host, file, bytes.NewReader(data), int64(size), sum(data), 0o755, nil); err != nil {
				t.Fatal(err)
			}
			mustHold(t, file, data, 0o755)
		}
	}},
	{"UploadLeavesNothingBehindWhenItFails", func(t *testing.T, h target) {
		for _, size := range []int{300_000, 3_000_000} {
			uploadFails(t, h, size)
		}
	}},
	{"RootIsAbsolute", func(t *testing.T, h target) {
		home := strings.TrimSpace(h.run(t, hostexec.Command{Script: `cd; pwd`}))
		for root, want := range map[string]string{"": home + "/.fairlead", "~/x y": home + "/x y", "rel/": home + "/rel", "/a//b/": "/a/b"} {
			if got, err := hostexec.Root(h.ctx, h, protocol.HostSpec{Root: root}); err != nil || got != want {
				t.Errorf("%q: %q, %v; want %q", root, got, err, want)
			}
		}
		for _, root := range []string{"/", "/..", "a\x00"} {
			if got, err := hostexec.Root(h.ctx, h, protocol.HostSpec{Root: root}); err == nil {
				t.Errorf("%q: %q", root, got)
			}
		}
	}},
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// uploadFails makes uploads of size bytes that must fail.
func uploadFails(t *testing.T, h target, size int) {
	t.Helper()
	old := []byte("old")
	file := h.dir + "/file"
	if err := hostexec.WriteFile(h.ctx, h.Host, file, old, 0o600, nil); err != nil {
		t.Fatal(err)
	}
	data := randomBytes(size)
	broken := errors.New("broken source")
	for what, up := range map[string]func() error{
		"wrong sum": func() error {
			return hostexec.Upload(h.ctx, h.Host, file, bytes.NewReader(data), int64(len(data)), sum(data[1:]), 0o600, nil)
		},
		"short": func() error {
			return hostexec.Upload(h.ctx, h.Host, file, bytes.NewReader(data), int64(len(data))+1, sum(data), 0o600, nil)
		},
		"broken": func() error {
			r := io.MultiReader(bytes.NewReader(data[:size/2]), errReader{broken})
			err := hostexec.Upload(h.ctx, h.Host, file, r, int64(len(data)), sum(data), 0o600, nil)
			if !errors.Is(err, broken) {
				t.Errorf("the reason is lost: %v", err)
			}
			return err
		},
		"no sum": func() error {
			return hostexec.Upload(h.ctx, h.Host, file, bytes.NewReader(data), int64(len(data)), "", 0o600, nil)
		},
		"negative": func() error {
			return hostexec.Upload(h.ctx, h.Host, file, bytes.NewReader(data), -1, sum(data), 0o600, nil)
		},
		"onto a folder": func() error {
			return hostexec.Upload(h.ctx, h.Host, h.dir, bytes.NewReader(data), int64(len(data)), sum(data), 0o600, nil)
		},
	} {
		if err := up(); err == nil {
			t.Errorf("%s: no error", what)
		}
		mustHold(t, file, old, 0o600)
		if got := names(t, h.dir); got != "file" {
			t.Errorf("%s left %q", what, got)
		}
	}
}
