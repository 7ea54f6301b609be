package hostexec_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

func readBelow(t *testing.T, h hostexec.Host, folder, path string) (string, error) {
	t.Helper()
	var got bytes.Buffer
	_, err := hostexec.ReadBelow(t.Context(), h, hostexec.Below{Folder: folder, Path: path, Max: 1 << 20}, func(hostexec.BelowFile) (io.Writer, error) { return &got, nil })
	return got.String(), err
}

// The complete test is in package hosttest. This test has the parts that depend on a host's
// tools.
func TestFilesBelowAFolderAreReadWithTheToolsThereAre(t *testing.T) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			h, dir := p.host(t), filepath.Join(t.TempDir(), oddName)
			if err := os.MkdirAll(dir+"/work", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/work/a", []byte("inside"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/secret", []byte("outside"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../secret", dir+"/work/link"); err != nil {
				t.Fatal(err)
			}
			if got, err := readBelow(t, h, dir+"/work", "a"); err != nil || got != "inside" {
				t.Errorf("%q, %v", got, err)
			}
			for path, want := range map[string]hostexec.NotGiven{"link": hostexec.Outside, "../secret": hostexec.Outside, "b": hostexec.NotThere, ".": hostexec.IsFolder} {
				if got, err := readBelow(t, h, dir+"/work", path); !errors.Is(err, want) || got != "" {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			}
		})
	}
}

// A FIFO that replaces the file after the first check would block the script forever. No
// process of the script may stay on the host.
func TestAFIFOInPlaceOfTheFileKeepsNobody(t *testing.T) {
	hostexec.SwapBelow(t)
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/a", 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := readBelow(t, localHost(t), dir, "a"); err == nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	// No process has the FIFO open, so a writer that does not wait finds no reader.
	f, err := os.OpenFile(dir+"/a", os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if !errors.Is(err, syscall.ENXIO) {
		t.Errorf("somebody reads it: %v", err)
		f.Close()
	}
}

// The opened file is checked too, not only its path before it is opened.
func TestWhatIsOpenIsLookedAt(t *testing.T) {
	hostexec.SwapBelow(t)
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", dir+"/device"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]hostexec.NotGiven{"sub": hostexec.IsFolder, "device": hostexec.Outside, "/dev/null": hostexec.Outside} {
		if _, err := readBelow(t, localHost(t), dir, path); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A file that grows after its size was checked is read only up to that size.
// Reading to its new end would take hours.
func TestAFileThatGrowsIsNotReadToItsNewEnd(t *testing.T) {
	hostexec.GrowBelow(t)
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", []byte("short"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := hostexec.ReadBelow(ctx, localHost(t), hostexec.Below{Folder: dir, Path: "a", Max: 100}, func(hostexec.BelowFile) (io.Writer, error) { return io.Discard, nil })
	if !errors.Is(err, hostexec.Changed) {
		t.Errorf("%v", err)
	}
}
