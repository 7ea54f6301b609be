package hosttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

// readBelow reads a file with hostexec.ReadBelow into memory.
func (h target) readBelow(b hostexec.Below) (hostexec.BelowFile, []byte, error) {
	var got bytes.Buffer
	f, err := hostexec.ReadBelow(h.ctx, h.Host, b, func(hostexec.BelowFile) (io.Writer, error) { return &got, nil })
	return f, got.Bytes(), err
}

const outside = "what lies outside"

// trap makes a folder "work" and a folder "out" beside it. The entries of "work" try in
// every way to lead out of it.
func (h target) trap(t *testing.T) (work string) {
	t.Helper()
	dir := h.mkdir(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	work = filepath.Join(dir, "work")
	must(os.MkdirAll(work+"/sub", 0o755))
	must(os.Mkdir(dir+"/out", 0o755))
	must(os.Mkdir(dir+"/work2", 0o755))
	for _, name := range []string{"/out/secret", "/work2/secret"} {
		must(os.WriteFile(dir+name, []byte(outside), 0o644))
	}
	must(os.WriteFile(work+"/a.txt", []byte("inside"), 0o644))
	must(os.WriteFile(work+"/sub/-n *.bin", randomBytes(300_000), 0o644))
	must(os.WriteFile(work+"/empty", nil, 0o644))
	for link, to := range map[string]string{
		"link-in": "sub/../a.txt", "link-out": "../out/secret", "link-abs": dir + "/out/secret", "folder-out": "../out", "link-passwd": "/etc/passwd",
		"dangling": "nowhere", "loop": "loop", "link-work2": "../work2/secret", "link-proc": "/proc/self/environ", "link-fd": "/dev/fd/0", "two": "link-out",
	} {
		must(os.Symlink(to, filepath.Join(work, link)))
	}
	must(syscall.Mkfifo(work+"/fifo", 0o644))
	// The path of a socket may have only 107 bytes.
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must(err)
	t.Cleanup(func() { l.Close() })
	must(os.Rename(l.Addr().String(), work+"/socket"))
	return work
}

var belowChecks = []check{
	{"ReadBelowGivesFilesOfTheFolderAlone", func(t *testing.T, h target) {
		work := h.trap(t)
		for p, want := range map[string]string{"a.txt": "inside", "./sub/../a.txt": "inside", work + "/a.txt": "inside", "link-in": "inside", "empty": ""} {
			f, got, err := h.readBelow(hostexec.Below{Folder: work, Path: p, Max: 1 << 20})
			if err != nil || string(got) != want || f.Size != int64(len(want)) || f.SHA256 != sum([]byte(want)) {
				t.Errorf("%s: %+v %q, %v", p, f, got, err)
			} else if name := map[bool]string{true: "empty", false: "a.txt"}[want == ""]; f.Path != name {
				t.Errorf("%s is called %q", p, f.Path)
			}
		}
		big, err := os.ReadFile(work + "/sub/-n *.bin")
		if err != nil {
			t.Fatal(err)
		}
		if f, got, err := h.readBelow(hostexec.Below{Folder: work + "/sub", Path: "-n *.bin", Max: int64(len(big))}); err != nil || !bytes.Equal(got, big) || f.Path != "-n *.bin" {
			t.Errorf("%+v, %d bytes, %v", f, len(got), err)
		}
		for p, want := range map[string]hostexec.NotGiven{
			"../out/secret": hostexec.Outside, path.Dir(work) + "/out/secret": hostexec.Outside, "/etc/passwd": hostexec.Outside,
			"link-out": hostexec.Outside, "link-abs": hostexec.Outside, "folder-out/secret": hostexec.Outside, "sub/../folder-out/secret": hostexec.Outside,
			"link-passwd": hostexec.Outside, "link-work2": hostexec.Outside, "../work2/secret": hostexec.Outside, "two": hostexec.Outside,
			"link-proc": hostexec.Outside, "dangling": hostexec.LeadsNowhere, "loop": hostexec.LeadsNowhere, "nothing": hostexec.NotThere,
			"a.txt/x": hostexec.NotThere, "": hostexec.NotThere, "a.txt\n": hostexec.NotThere, strings.Repeat("x/", 3000) + "y": hostexec.NotThere,
			"sub": hostexec.IsFolder, ".": hostexec.IsFolder, "folder-out": hostexec.IsFolder, "/": hostexec.IsFolder,
			"fifo": hostexec.NotAFile, "socket": hostexec.NotAFile, "/dev/null": hostexec.NotAFile, "link-fd": hostexec.NotAFile,
		} {
			if _, got, err := h.readBelow(hostexec.Below{Folder: work, Path: p, Max: 1 << 20}); !errors.Is(err, want) || len(got) != 0 {
				t.Errorf("%.40q: %d bytes, %v, want %q", p, len(got), err, want)
			}
		}
		if _, _, err := h.readBelow(hostexec.Below{Folder: work + "/gone", Path: "a", Max: 1}); !errors.Is(err, hostexec.NoFolder) {
			t.Errorf("no folder: %v", err)
		}
	}},
	{"ReadBelowKeepsToItsBound", func(t *testing.T, h target) {
		work := h.trap(t)
		var large *hostexec.TooLargeError
		_, got, err := h.readBelow(hostexec.Below{Folder: work, Path: "a.txt", Max: 5})
		if !errors.Is(err, hostexec.TooLarge) || !errors.As(err, &large) || large.Size != 6 || large.Max != 5 || len(got) != 0 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		// A sparse file counts with its apparent size, which is found out without reading
		// the file.
		if err := os.Truncate(work+"/empty", 1<<40); err != nil {
			t.Fatal(err)
		}
		if _, got, err := h.readBelow(hostexec.Below{Folder: work, Path: "empty", Max: 64 << 20}); !errors.Is(err, hostexec.TooLarge) || len(got) != 0 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}},
	{"ReadBelowLeavesOutWhatIsOurs", func(t *testing.T, h target) {
		work := h.trap(t)
		for _, c := range []struct {
			folder, without string
			want            error
		}{
			{path.Dir(work), work, hostexec.Outside}, // contains the folder of Without
			{work, path.Dir(work), nil},              // inside the folder of Without
			{work, work + "/nowhere", nil},
			{work, work, nil},
		} {
			p := work + "/a.txt"
			if _, _, err := h.readBelow(hostexec.Below{Folder: c.folder, Path: p, Max: 10, Without: c.without}); !errors.Is(err, c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}},
	// A user who may write above the folder replaces one of its ancestors with a symlink.
	{"ReadBelowIsNotLedAwayWithTheFolder", func(t *testing.T, h target) {
		work := h.trap(t)
		top := path.Dir(work)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		read := func(b hostexec.Below) error {
			b.Path, b.Max = "secret", 100
			_, got, err := h.readBelow(b)
			if err != nil && len(got) > 0 {
				t.Errorf("%+v: %d bytes and %v", b, len(got), err)
			}
			return err
		}
		must(os.MkdirAll(top+"/a/b", 0o755))
		must(os.WriteFile(top+"/a/b/secret", []byte("inside"), 0o644))
		must(os.Symlink(top+"/a", top+"/to-a"))
		folder := top + "/a/b"
		if err := read(hostexec.Below{Folder: folder}); err != nil {
			t.Error(err)
		}
		for base, want := range map[string]error{top + "/to-a": nil, top + "/to-a/b": nil, top: hostexec.NoFolder, "": hostexec.NoFolder} {
			if err := read(hostexec.Below{Folder: top + "/to-a/b", Base: base}); !errors.Is(err, want) {
				t.Errorf("through a link with base %q: %v, want %v", base, err, want)
			}
		}
		if err := read(hostexec.Below{Folder: folder, Base: top + "/out"}); err == nil {
			t.Error("a folder that does not lie in its base was read")
		}
		must(os.Rename(top+"/a", top+"/a2"))
		must(os.Mkdir(top+"/a", 0o755))
		must(os.Symlink(top+"/out", folder))
		for _, b := range []hostexec.Below{{Folder: folder}, {Folder: folder, Without: top + "/out"}, {Folder: folder, Without: top}, {Folder: folder, Base: top}, {Folder: folder, Base: top + "/a"}} {
			if err := read(b); !errors.Is(err, hostexec.NoFolder) {
				t.Errorf("led away with %+v: %v", b, err)
			}
		}
		must(os.Remove(folder))
		must(os.Remove(top + "/a"))
		must(os.Symlink(top+"/a2", top+"/a")) // the same folder under another name
		if err := read(hostexec.Below{Folder: folder}); !errors.Is(err, hostexec.NoFolder) {
			t.Errorf("a link above it: %v", err)
		}
	}},
	// The owner of the folder swaps names as fast as possible. They are in turn a symlink
	// that leads out, a symlink to a folder outside, and good files and folders.
	{"ReadBelowIsNotFooledBySwaps", func(t *testing.T, h target) {
		work := h.trap(t)
		stop := make(chan struct{})
		var joined sync.WaitGroup
		joined.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				to := []string{"../out/secret", "a.txt"}[i%2]
				folder := []string{"../out", "swapped-in"}[i%2]
				tmp := fmt.Sprintf("%s/tmp%d", work, i%4)
				for link, target := range map[string]string{"/swapped": to, "/swapped-folder": folder} {
					if os.Symlink(target, tmp) == nil {
						_ = os.Rename(tmp, work+link)
					}
				}
			}
		})
		defer func() { close(stop); joined.Wait() }()
		if err := os.Mkdir(work+"/swapped-in", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(work+"/swapped-in/secret", []byte("inside"), 0o644); err != nil {
			t.Fatal(err)
		}
		given, refused := 0, 0
		enough := time.Now().Add(time.Minute) // limit for a host that returns, or refuses, nothing
		for i := 0; i < 24 || (given == 0 || refused == 0) && time.Now().Before(enough); i++ {
			p := []string{"swapped", "swapped-folder/secret"}[i%2]
			_, got, err := h.readBelow(hostexec.Below{Folder: work, Path: p, Max: 1 << 20})
			var not hostexec.NotGiven
			switch {
			case bytes.Contains(got, []byte(outside)):
				t.Fatalf("%s: what lies outside was given", p)
			case err == nil:
				given++
			case errors.As(err, &not):
				refused++
			default:
				t.Fatal(err)
			}
		}
		if given == 0 || refused == 0 {
			t.Errorf("%d were given and %d refused: the names were not swapped between", given, refused)
		}
	}},
	{"ReadBelowTellsThatAFileChanged", func(t *testing.T, h target) {
		work := h.trap(t)
		name := work + "/sub/-n *.bin"
		for what, change := range map[string]func() error{
			"longer":  func() error { return os.WriteFile(name, randomBytes(400_000), 0o644) },
			"shorter": func() error { return os.WriteFile(name, randomBytes(10), 0o644) },
			"other":   func() error { return os.WriteFile(name, randomBytes(300_000), 0o644) },
		} {
			if err := os.WriteFile(name, randomBytes(8_000_000), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := hostexec.ReadBelow(h.ctx, h.Host, hostexec.Below{Folder: work, Path: "sub/-n *.bin", Max: 10_000_000}, func(hostexec.BelowFile) (io.Writer, error) {
				return io.Discard, change() // more data than the buffers hold is still to come
			})
			if !errors.Is(err, hostexec.Changed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		why := errors.New("no room")
		if _, err := hostexec.ReadBelow(h.ctx, h.Host, hostexec.Below{Folder: work, Path: "a.txt", Max: 10}, func(hostexec.BelowFile) (io.Writer, error) { return nil, why }); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	}},
}
