package localsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ErrFolder means that other users could replace what is in a folder.
var ErrFolder = errors.New("other users could replace what is in there")

// MakeFolder makes a folder with mode 0700 if it is missing, and checks it.
func MakeFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return CheckFolder(path)
}

// CheckFolder returns an ErrFolder unless path is a folder that belongs to us, to root or to
// one of owners, and that nobody else can write to or replace. It returns an fs.ErrNotExist
// if there is no such folder.
//
// Links are followed, but not from a folder that everybody can write to.
func CheckFolder(path string, owners ...int) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	refuse := func(remedy, format string, args ...any) error {
		return fmt.Errorf("use the folder %s: %w: %s (%s)", path, ErrFolder, fmt.Sprintf(format, args...), remedy)
	}
	const elsewhere = "remove it, or use another folder"
	at, rest, links := "/", names(path), 0
	above, err := os.Lstat(at)
	if err != nil {
		return err
	}
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		if err != nil {
			return err
		}
		ours := trusted(ownerOf(info), owners)
		anybody := above.Mode().Perm()&0o002 != 0
		switch {
		case anybody && above.Mode()&fs.ModeSticky == 0:
			return refuse("use a folder elsewhere, or say chmod o-w "+at, "everybody can write to %s (mode %04o)", at, above.Mode().Perm())
		case anybody && !ours:
			return refuse(elsewhere, "%s belongs to uid %d, and everybody could have made it", next, ownerOf(info))
		}
		rest = rest[1:]
		if info.Mode()&fs.ModeSymlink == 0 {
			at, above = next, info
			continue
		}
		if anybody {
			return refuse(elsewhere, "%s is a symbolic link in a folder that everybody can write to", next)
		}
		if links++; links > maxLinks {
			return refuse(elsewhere, "there are more than %d symbolic links on the way", maxLinks)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(at, to)
		}
		at, rest = "/", slices.Concat(names(to), rest)
		if above, err = os.Lstat(at); err != nil {
			return err
		}
	}
	switch owner, mode := ownerOf(above), above.Mode(); {
	case !mode.IsDir():
		return fmt.Errorf("use the folder %s: it is not a folder (%s)", path, elsewhere)
	case !trusted(owner, owners):
		return refuse("run as the user that owns it, or use another folder", "it belongs to uid %d, and we are uid %d", owner, os.Geteuid())
	case mode&fs.ModeSticky != 0 && mode.Perm()&0o022 != 0:
		return refuse("use a folder below it", "everybody can write to it (mode %04o)", mode.Perm())
	case mode.Perm()&0o022 != 0:
		return refuse("chmod go-w "+path+", or use a folder of its own", "others can write to it (mode %04o)", mode.Perm())
	}
	return nil
}

// maxLinks is what Linux follows, too.
const maxLinks = 40

func names(path string) []string {
	return strings.FieldsFunc(filepath.Clean(path), func(r rune) bool { return r == filepath.Separator })
}

// trusted reports whether uid is ours, root's or one of owners.
func trusted(uid int, owners []int) bool {
	return uid == 0 || uid == os.Geteuid() || slices.Contains(owners, uid)
}

// ownerOf returns -1 if the file system has no owners.
func ownerOf(info fs.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}
