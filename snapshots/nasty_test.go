package snapshots

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// A busyboxHost has only busybox on its path, like small systems.
type busyboxHost struct {
	hostexec.Host
	path string
}

// underBusybox runs the script in an argument, with the rest of its arguments.
const underBusybox = `PATH=$1; export PATH; script=$2; shift 2; exec sh -c "$script" sh "$@"`

func (h *busyboxHost) wrap(c hostexec.Command) hostexec.Command {
	script := c.Script
	if c.Fence != nil {
		panic("this host knows no fence")
	}
	c.Args = append([]string{h.path, script}, c.Args...)
	c.Script = underBusybox
	return c
}

func (h *busyboxHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	return h.Host.Run(ctx, h.wrap(c))
}

func (h *busyboxHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	return h.Host.Start(ctx, h.wrap(c))
}

func busyboxOn(t testing.TB, h hostexec.Host) hostexec.Host {
	t.Helper()
	program, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("%v: run `make tools`", err)
	}
	out, err := exec.Command(program, "--list").Output()
	must(t, err)
	dir := t.TempDir()
	for name := range strings.FieldsSeq(string(out)) {
		must(t, os.Symlink(program, filepath.Join(dir, name)))
	}
	return &busyboxHost{h, dir}
}

// TestNastyTreesComeBackEntryByEntry takes a snapshot of a NastyTree on a host of each
// kind, and restores it on the other hosts.
func TestNastyTreesComeBackEntryByEntry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nasty 'tree\"")
	must(t, hosttest.NastyTree(dir, 100<<20))
	local := localHost(t)
	hosts := map[string]hostexec.Host{
		"sshd":    hostOf(t, hosttest.StartSSHD(t, hosttest.Options{}).Spec()),
		"busybox": busyboxOn(t, local),
	}
	c := chunks.Open(newTestStore(t), chunks.Options{})
	for from, a := range hosts {
		m, err := Take(t.Context(), a, c, TakeSpec{Session: "s1", Trees: []TreeSpec{WorkOf(dir, WorkFull, nil)}})
		must(t, err)
		if m.LeftOutCount == 0 || len(m.LeftOut) == 0 || m.Unreadable > 0 {
			t.Errorf("left out: %+v", m.LeftOut)
		}
		for to, b := range hosts {
			t.Run(from+" to "+to, func(t *testing.T) {
				place := filepath.Join(t.TempDir(), "back")
				_, err := Restore(t.Context(), b, c, m.ID, RestoreSpec{Dirs: map[string]string{Work: place}})
				must(t, err)
				may := hosttest.TreeDiffers{WholeSeconds: to == "busybox", LinkTimes: true}
				if err := hosttest.CompareTrees(dir, place, may); err != nil {
					t.Error(err)
				}
			})
		}
		t.Run(from+" exported", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "export.tar")
			f, err := os.Create(file)
			must(t, err)
			must(t, Export(t.Context(), c, m.ID, f), f.Close())
			for _, tar := range [][]string{{"tar"}, {"busybox", "tar"}} {
				place := t.TempDir()
				out, err := exec.Command(tar[0], append(tar[1:], "-xpf", file, "-C", place)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v: %s", tar, err, out)
				}
				may := hosttest.TreeDiffers{WholeSeconds: true, LinkTimes: true, Expanded: true}
				err = hosttest.CompareTrees(dir, filepath.Join(place, "work"), may)
				if tar[0] == "busybox" {
					err = butForFoldersWithLinks(err)
				}
				if err != nil {
					t.Errorf("%v: %v", tar, err)
				}
			}
		})
	}
}

func TestExportsAreTheSameEachTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, hosttest.BigTree(dir, 500, 2<<20))
	c := chunks.Open(newTestStore(t), chunks.Options{})
	m, err := Take(t.Context(), localHost(t), c, TakeSpec{Session: "s1", Trees: []TreeSpec{WorkOf(dir, WorkFull, nil)}})
	must(t, err)
	var exports [2]strings.Builder
	for i := range exports {
		must(t, Export(t.Context(), c, m.ID, &exports[i]))
	}
	if exports[0].String() != exports[1].String() || exports[0].Len() < 2<<20 {
		t.Errorf("%d and %d bytes differ", exports[0].Len(), exports[1].Len())
	}
	if m.Files < 500 {
		t.Errorf("%d files were taken", m.Files)
	}
}

// butForFoldersWithLinks ignores differences that busybox causes. It creates links last,
// and so changes the times of their folders.
func butForFoldersWithLinks(err error) error {
	if err == nil {
		return nil
	}
	var rest []error
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		name, what, _ := strings.Cut(line, ": ")
		folder := slices.Contains([]string{`"."`, `"links"`, `"links/hard"`, `"sparse"`}, name)
		if !folder || !strings.HasPrefix(what, "time ") || strings.Contains(what, ";") {
			rest = append(rest, errors.New(line))
		}
	}
	return errors.Join(rest...)
}

// Names are read while the tree is listed, and content afterwards. Neither may block the
// other, even if both exceed the buffers of a channel.
func TestMoreNamesAndContentThanAChannelHolds(t *testing.T) {
	realparts.NotShort(t)
	dir, long := t.TempDir(), strings.Repeat("n", 200)
	data := make([]byte, 2000)
	for i := range 5000 {
		copy(data, fmt.Sprint(i))
		if err := os.WriteFile(fmt.Sprintf("%s/%s-%d", dir, long, i), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := hostOf(t, hosttest.StartSSHD(t, hosttest.Options{}).Spec())
	m, err := Take(t.Context(), h, chunks.Open(newTestStore(t), chunks.Options{}),
		TakeSpec{Session: "s", Trees: []TreeSpec{WorkOf(dir, WorkFull, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	if m.ReadFiles != 5000 || m.ReadBytes != 5000*int64(len(data)) {
		t.Errorf("%d files of %d bytes were read", m.ReadFiles, m.ReadBytes)
	}
}
