package snapshots

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// A LocalTree is a folder of this machine as a tree of a snapshot, without .git, files that
// .gitignore files exclude, and everything but files, folders and symlinks.
type LocalTree struct {
	Entries []Entry
	Bytes   int64
	Digest  chunks.Digest // without times
	root    string
	places  map[chunks.Digest]place
	order   []chunks.Digest
}

type place struct {
	file   string
	offset int64
	size   int
}

const maxLocal = 200_000

// ReadLocal reads a folder and computes its digests.
func ReadLocal(dir string) (*LocalTree, error) {
	t := &LocalTree{root: dir, places: map[chunks.Digest]place{}}
	if err := t.folder("", nil); err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	sum := sha256.New()
	for _, e := range t.Entries {
		fmt.Fprintf(sum, "%q %c %o %q", e.Path, e.Kind, e.Mode, e.Link)
		for _, r := range e.Content {
			fmt.Fprintf(sum, " %s %d", r.Digest, r.Hole)
		}
		fmt.Fprintln(sum)
	}
	t.Digest = chunks.Digest(sum.Sum(nil))
	return t, nil
}

// ignoring is a .gitignore file. above is that of the nearest folder above with one.
type ignoring struct {
	above *ignoring
	at    string // its folder, relative to the root
	own   *excluder
}

// ignores takes the last matching pattern of the deepest .gitignore file that has one.
func (g *ignoring) ignores(p string, dir bool) bool {
	for ; g != nil; g = g.above {
		rel := strings.TrimPrefix(strings.TrimPrefix(p, g.at), "/")
		for i := len(g.own.patterns) - 1; i >= 0; i-- {
			pat := &g.own.patterns[i]
			name := rel
			if pat.baseOnly {
				name = path.Base(rel)
			}
			if (dir || !pat.dirOnly) && wildmatch(pat.text, name) == wildYes {
				return !pat.not
			}
		}
	}
	return false
}

func (t *LocalTree) folder(at string, above *ignoring) error {
	here := filepath.Join(t.root, filepath.FromSlash(at))
	list, err := os.ReadDir(here)
	if err != nil {
		return err
	}
	rules := above
	if text, err := os.ReadFile(filepath.Join(here, ".gitignore")); err == nil {
		own, err := newExcluder(strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n"))
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(at, ".gitignore"), err)
		}
		rules = &ignoring{above: above, at: at, own: own}
	}
	for _, d := range list {
		p := path.Join(at, d.Name())
		if d.Name() == ".git" || rules.ignores(p, d.IsDir()) {
			continue
		}
		if len(t.Entries) >= maxLocal {
			return fmt.Errorf("there are more than %d names in it", maxLocal)
		}
		if err := t.add(p, d, rules); err != nil {
			return err
		}
	}
	return nil
}

func (t *LocalTree) add(p string, d fs.DirEntry, rules *ignoring) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if !utf8.ValidString(p) {
		return fmt.Errorf("the name %q is not UTF-8", p)
	}
	e := Entry{Path: p, Mode: uint32(info.Mode().Perm()), MTime: info.ModTime().UTC()}
	file := filepath.Join(t.root, filepath.FromSlash(p))
	switch {
	case d.IsDir():
		e.Kind = Dir
		t.Entries = append(t.Entries, e)
		return t.folder(p, rules)
	case info.Mode()&fs.ModeSymlink != 0:
		e.Kind = Symlink
		if e.Link, err = os.Readlink(file); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		e.Kind = File
		if err := t.content(file, &e); err != nil {
			return err
		}
	default:
		return nil
	}
	t.Entries = append(t.Entries, e)
	return nil
}

func (t *LocalTree) content(file string, e *Entry) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = chunks.Split(f, 0, func(chunk []byte, hole int64) error {
		if hole > 0 {
			e.Content, e.Holes, e.Size = append(e.Content, Ref{Hole: hole}), e.Holes+hole, e.Size+hole
			return nil
		}
		d := chunks.DigestOf(chunk)
		if _, known := t.places[d]; !known {
			t.places[d] = place{file, e.Size, len(chunk)}
			t.order = append(t.order, d)
		}
		e.Content, e.Size = append(e.Content, Ref{Digest: d}), e.Size+int64(len(chunk))
		return nil
	})
	t.Bytes += e.Size
	return err
}

// Dir returns the folder, as an absolute path if possible.
func (t *LocalTree) Dir() string {
	if abs, err := filepath.Abs(t.root); err == nil {
		return abs
	}
	return t.root
}

// Chunks returns the chunks of the tree's files, each once.
func (t *LocalTree) Chunks() []chunks.Digest { return t.order }

// ErrLocalChanged means that a file has changed since the tree was read.
var ErrLocalChanged = errors.New("it was changed meanwhile")

// Read reads a chunk again.
func (t *LocalTree) Read(d chunks.Digest) ([]byte, error) {
	at := t.places[d]
	f, err := os.Open(at.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, at.size)
	if _, err := f.ReadAt(data, at.offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if chunks.DigestOf(data) != d {
		return nil, fmt.Errorf("%s: %w", at.file, ErrLocalChanged)
	}
	return data, nil
}
