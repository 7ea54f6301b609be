package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/blang/semver/v4"
)

const unstamped = "unstamped"

const headerSize = 100

func orUnstamped(stamp string) string {
	if stamp == "" {
		return unstamped
	}
	return stamp
}

type step int

const (
	stepCreate  step = iota // nothing exists
	stepOpen                // this server version has opened it before
	stepUpgrade             // an older version wrote it: copy and upgrade
)

// decide says how a server of version mine opens a database. stamp is the version in
// FILE.version, or empty; written is whether the database has content. A stamp that is
// newer than mine is refused.
func decide(stamp, mine string, written bool) (step, error) {
	if !written {
		return stepCreate, nil
	}
	if stamp == "" {
		return stepUpgrade, nil
	}
	was, err := semver.Parse(stamp)
	if err != nil {
		return 0, fmt.Errorf("its stamp %q is not a server version: put the right one there, "+
			"or remove the stamp to have the database copied and treated as an old one", stamp)
	}
	is, err := semver.Parse(mine)
	if err != nil {
		return 0, fmt.Errorf("this server's own version %q cannot be understood: %w", mine, err)
	}
	switch c := was.Compare(is); {
	case c > 0:
		return 0, refusal{fmt.Errorf("server %s has opened it and this one is %s; a newer server may have changed it "+
			"beyond what an older one understands: run a devserver with server %[1]s or newer", stamp, mine)}
	case c < 0:
		return stepUpgrade, nil
	}
	return stepOpen, nil
}

func readStamp(path string) (string, error) {
	b, err := os.ReadFile(path + ".version")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the version stamp of database %s: %w", path, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// writeStamp replaces path's stamp, atomically.
func writeStamp(path, version string) error {
	tmp, err := scratch(path+".version", func(tmp string) error {
		return os.WriteFile(tmp, []byte(version+"\n"), 0o600)
	})
	if err == nil {
		err = install(tmp, path+".version")
	}
	if err != nil {
		return fmt.Errorf("write the version stamp of database %s: %w", path, err)
	}
	return nil
}

// copyName returns a name for a copy of path as version left it: a free one, or that of a
// copy equal to tmp. So no copy is overwritten, and a start that fails again and again
// makes only one.
func copyName(path, version, tmp string) (name string, same bool, err error) {
	base := path + "." + orUnstamped(version) + ".bak"
	name = base
	for n := 2; ; n++ {
		same, err = sameDatabase(name, tmp)
		if errors.Is(err, fs.ErrNotExist) {
			return name, false, nil
		}
		if err != nil || same {
			return name, same, err
		}
		name = fmt.Sprintf("%s.%d", base, n)
	}
}

// sameDatabase ignores SQLite's header, which has counters.
func sameDatabase(a, b string) (bool, error) {
	var in [2]*bufio.Reader
	for i, name := range []string{a, b} {
		f, err := os.Open(name)
		if err != nil {
			return false, err
		}
		defer f.Close()
		if _, err := f.Seek(headerSize, io.SeekStart); err != nil {
			return false, err
		}
		in[i] = bufio.NewReaderSize(f, 1<<16)
	}
	for {
		x, errX := in[0].Peek(1 << 12)
		y, errY := in[1].Peek(1 << 12)
		if err := errors.Join(errX, errY); err != nil && (errX != nil && errX != io.EOF || errY != nil && errY != io.EOF) {
			return false, err
		}
		if !bytes.Equal(x, y) || (errX == nil) != (errY == nil) {
			return false, nil
		}
		if errX == io.EOF {
			return true, nil
		}
		in[0].Discard(len(x))
		in[1].Discard(len(y))
	}
}

// waysBack returns a text to append to a refusal, about the newest copy beside path that a
// server of version mine can open; it may be empty.
func waysBack(path, mine string) string {
	matches, err := filepath.Glob(globEscape(path) + ".*.bak")
	is, verr := semver.Parse(mine)
	if err != nil || verr != nil {
		return ""
	}
	best, name := semver.Version{}, ""
	for _, m := range matches {
		v, err := semver.Parse(strings.TrimSuffix(strings.TrimPrefix(m, path+"."), ".bak"))
		if err == nil && v.LTE(is) && (name == "" || v.GT(best)) {
			best, name = v, m
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; or go back to the copy from before: rm -f '%[1]s' '%[1]s-wal' '%[1]s-shm' && cp '%[2]s' '%[1]s' && echo %[3]s > '%[1]s.version'",
		path, name, best)
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// scratch calls fill to make a new file beside path, syncs it, and returns its name.
func scratch(path string, fill func(tmp string) error) (tmp string, err error) {
	tmp = path + ".tmp"
	// Left by a server that died; the lock says that nobody writes it now.
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := errors.Join(fill(tmp), syncPath(tmp)); err != nil {
		os.Remove(tmp)
		return "", err
	}
	return tmp, nil
}

// install renames the scratch file, durably.
func install(tmp, path string) error {
	if err := os.Rename(tmp, path); err != nil {
		os.Remove(tmp)
		return err
	}
	return syncPath(filepath.Dir(path))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
