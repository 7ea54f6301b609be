package snapshots

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// inFolders makes the folder at path below dir and calls f with it open. The whole path is
// too long for a system call, so inFolders never passes it as a whole.
func inFolders(t *testing.T, dir, path string, f func(folder int) error) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for name := range strings.SplitSeq(path, "/") {
		if err := unix.Mkdirat(at, name, 0o755); err != nil && err != unix.EEXIST {
			t.Fatal(err)
		}
		below, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(at)
		at = below
	}
	defer unix.Close(at)
	must(t, f(at))
}

func writeAt(folder int, name string) error {
	fd, err := unix.Openat(folder, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("deep"))
	return err
}

// Files with paths that are too long to be created again are left out, and the manifest
// reports them. The snapshot can be taken and restored, but Unread counts the files.
func TestWhatLiesTooDeepIsLeftOutAndSaid(t *testing.T) {
	for name, h := range map[string]hostexec.Host{"gnu": localHost(t), "busybox": busyboxOn(t, localHost(t))} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			work := dir + "/w"
			write(t, work, "a", "text")
			// The path folders has 4,019 bytes. With fits it becomes a path of the largest
			// allowed length, and with tooLong a path of one byte more.
			folders := strings.Repeat(strings.Repeat("d", 200)+"/", 20)[:20*201-1]
			fits, tooLong := strings.Repeat("f", 4090-len(folders)-1), strings.Repeat("g", 4090-len(folders))
			inFolders(t, work, folders, func(folder int) error {
				must(t, writeAt(folder, fits))
				must(t, unix.Symlinkat("a", folder, "l"+fits[1:]))
				must(t, unix.Mkdirat(folder, "e"+fits[1:], 0o755))
				must(t, writeAt(folder, tooLong))
				must(t, unix.Symlinkat("a", folder, "m"+tooLong[1:]))
				return nil
			})
			inFolders(t, work, folders+"/"+strings.Repeat("x", 100)+"/"+strings.Repeat("y", 100), func(folder int) error { return writeAt(folder, "z") })

			c := chunks.Open(newTestStore(t), chunks.Options{})
			spec := workOf(work)
			spec.ID = NewID("s1", time.Now())
			m, err := Take(t.Context(), h, c, spec)
			must(t, err)
			if n, names := m.Unread(10, Work); n < 3 || len(names) < 3 {
				t.Errorf("of what is too deep it says %d: %q", n, names)
			}
			to := t.TempDir() + "/restored"
			if _, err := Restore(t.Context(), h, c, m.ID, RestoreSpec{Dirs: map[string]string{Work: to}}); err != nil {
				t.Fatal(err)
			}
			if data, err := os.ReadFile(filepath.Join(to, "a")); err != nil || string(data) != "text" {
				t.Errorf("a is %q, %v", data, err)
			}
			inFolders(t, to, folders, func(folder int) error {
				var st unix.Stat_t
				for _, there := range []string{fits, "l" + fits[1:], "e" + fits[1:]} {
					if err := unix.Fstatat(folder, there, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
						t.Errorf("%.1s… is not there: %v", there, err)
					}
				}
				if err := unix.Fstatat(folder, tooLong, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
					t.Error("what was left out is there")
				}
				return nil
			})
			// The original tree can be removed, with the long paths.
			must(t, hostexec.RemoveTree(t.Context(), localHost(t), work, dir, nil))
		})
	}
}
