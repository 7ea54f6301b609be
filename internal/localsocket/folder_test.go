package localsocket

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/stranger"
)

// do stops the test at an error of its own preparations.
func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A folder in a place such as /tmp counts only if no other user can have made, replaced or
// changed it.
func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(tmp, path string) error // tmp is like /tmp, and path lies in it
		want string                       // part of the error; empty means that the folder is good
	}{
		"ours":               {func(_, path string) error { return os.Mkdir(path, 0o700) }, ""},
		"readable by others": {func(_, path string) error { return os.Mkdir(path, 0o755) }, ""},
		"of another user": {func(_, path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, stranger.UID, stranger.UID))
		}, "belongs to uid 65534"},
		"that the group can write to": {func(_, path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o770))
		}, "chmod go-w"},
		"that everybody can write to": {func(_, path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o702))
		}, "chmod go-w"},
		"a link to our own folder": {func(tmp, path string) error {
			own := filepath.Join(filepath.Dir(tmp), "own")
			return errors.Join(os.Mkdir(own, 0o700), os.Symlink(own, path))
		}, "symbolic link"},
		"a link of another user": {func(tmp, path string) error {
			own := filepath.Join(filepath.Dir(tmp), "own")
			return errors.Join(os.Mkdir(own, 0o700), os.Symlink(own, path), os.Lchown(path, stranger.UID, stranger.UID))
		}, "belongs to uid 65534"},
		"below a folder that everybody can change": {func(tmp, path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(tmp, 0o777))
		}, "chmod o-w"},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := filepath.Join(stranger.Folder(t), "tmp")
			path := filepath.Join(tmp, "fairlead-0")
			do(t, os.Mkdir(tmp, 0o700), os.Chmod(tmp, 0o777|fs.ModeSticky), c.make(tmp, path))
			before, err := os.Lstat(path)
			do(t, err)
			for does, err := range map[string]error{"check": CheckFolder(path), "make": MakeFolder(path)} {
				switch {
				case c.want == "" && err != nil:
					t.Errorf("%s: %v", does, err)
				case c.want != "" && (!errors.Is(err, ErrFolder) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path)):
					t.Errorf("%s: %v, want an ErrFolder with %q and the path", does, err, c.want)
				}
			}
			if after, err := os.Lstat(path); err != nil || after.Mode() != before.Mode() {
				t.Errorf("the folder was %v and is %v, %v", before.Mode(), after, err)
			}
		})
	}
}

func TestAFolderThatIsMissingIsMadePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	if err := CheckFolder(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	do(t, MakeFolder(path))
	for _, dir := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
}

// A user may keep the state on another disk, by a link in a folder of his own.
func TestALinkInAFolderOfOursIsFollowedAndItsTargetChecked(t *testing.T) {
	dir := stranger.Folder(t)
	target, link := filepath.Join(dir, "disk"), filepath.Join(dir, "state")
	do(t, os.Mkdir(target, 0o700), os.Symlink("disk", link))
	do(t, CheckFolder(link))
	do(t, os.Chown(target, stranger.UID, stranger.UID))
	if err := CheckFolder(link); !errors.Is(err, ErrFolder) {
		t.Errorf("a link to the folder of another user: %v", err)
	}
	if err := CheckFolder(link, stranger.UID); err != nil {
		t.Errorf("of an owner that the config names: %v", err)
	}
	do(t, os.Remove(link), os.Symlink("state", link))
	if err := CheckFolder(link); !errors.Is(err, ErrFolder) {
		t.Errorf("a link to itself: %v", err)
	}
}
