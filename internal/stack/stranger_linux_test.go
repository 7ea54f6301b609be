package stack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/stranger"
	"fairlead.dev/fairlead/internal/localsocket"
)

// Another user may have made the state folder, or the folder of sockets in /tmp. A stack does
// not start there.
func TestAStackDoesNotStartInAFolderOfAnotherUser(t *testing.T) {
	tmp := stranger.Folder(t)
	if err := os.Chmod(tmp, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	long := layout(filepath.Join(t.TempDir(), strings.Repeat("a-long-folder-name/", 6)))
	sockets := filepath.Dir(long.socket(0))
	if !strings.HasPrefix(sockets, tmp) {
		t.Fatalf("the sockets lie in %s", sockets)
	}
	own := filepath.Join(tmp, "own")
	for name, plant := range map[string]func(path string) error{
		"a folder": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, stranger.UID, stranger.UID))
		},
		"a link": func(path string) error { return errors.Join(os.Mkdir(own, 0o700), os.Symlink(own, path)) },
		"an open folder": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777))
		},
	} {
		for place, l := range map[string]layout{sockets: long, filepath.Join(tmp, "state"): layout(filepath.Join(tmp, "state"))} {
			if err := plant(place); err != nil {
				t.Fatal(err)
			}
			if err := l.prepare(); !errors.Is(err, localsocket.ErrFolder) || !strings.Contains(err.Error(), place) {
				t.Errorf("%s at %s: %v", name, place, err)
			}
			if err := errors.Join(os.RemoveAll(place), os.RemoveAll(own)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := long.prepare(); err != nil {
		t.Errorf("where nobody else was: %v", err)
	}
	for _, dir := range []string{string(long), sockets} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
}
