package snapshots

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// MaxUnpacked bounds the files of an archive that is made into a tree, in bytes, together.
const MaxUnpacked = 32 << 30

const (
	// maxNameLength bounds the name of a file in an archive, and where a symbolic link leads.
	maxNameLength = 4096
	// maxNameBytes bounds all of these together.
	maxNameBytes = 64 << 20
)

// ErrArchive means that an archive is not one of a work folder.
var ErrArchive = errors.New("the archive does not fit")

// Unpack makes a snapshot of a work folder from a tar archive, as Make does from chunks. It leaves
// out .git, at each depth, as [ReadLocal] does. The archive is read once, and content goes to the
// store as it comes. whole is called at its end: unless it returns nil, there is no snapshot.
func Unpack(ctx context.Context, c *chunks.Store, session, by string, at time.Time, archive io.Reader, whole func() error) (Manifest, error) {
	return makeOf(ctx, c, session, by, at, func(batch *chunks.Batch) ([]Entry, error) {
		u := unpacking{batch: batch, at: map[string]int{}}
		if err := u.read(tar.NewReader(archive)); err != nil {
			return nil, err
		}
		if err := whole(); err != nil {
			return nil, err
		}
		return u.sorted()
	})
}

type unpacking struct {
	batch   *chunks.Batch
	entries []Entry
	at      map[string]int // by path
	bytes   int64
	names   int // bytes of names and of where links lead
}

func (u *unpacking) read(archive *tar.Reader) error {
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, tar.ErrHeader):
			return fmt.Errorf("%w: it is not a tar archive, or a part of it is missing (%v)", ErrArchive, err)
		case err != nil:
			return err
		}
		if err := u.take(h, archive); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

func (u *unpacking) take(h *tar.Header, content io.Reader) error {
	p := path.Clean(h.Name)
	u.names += len(h.Name) + len(h.Linkname)
	switch {
	case len(h.Name) > maxNameLength || len(h.Linkname) > maxNameLength:
		return fmt.Errorf("%w: a name has more than %d bytes", ErrArchive, maxNameLength)
	case u.names > maxNameBytes:
		return fmt.Errorf("%w: its names have more than %d bytes together", ErrArchive, maxNameBytes)
	case h.Typeflag == tar.TypeXGlobalHeader, p == ".":
		return nil
	case path.IsAbs(p), p == "..", strings.HasPrefix(p, "../"):
		return fmt.Errorf("%w: the name leads out of the folder", ErrArchive)
	case !utf8.ValidString(p) || strings.ContainsRune(p, 0):
		return fmt.Errorf("%w: the name is not UTF-8 text", ErrArchive)
	case slices.Contains(strings.Split(p, "/"), ".git"):
		return nil
	}
	e := Entry{Path: p, Mode: uint32(h.Mode) & 0o777, MTime: h.ModTime.UTC()}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = Dir
	case tar.TypeSymlink:
		e.Kind, e.Link = Symlink, h.Linkname
	case tar.TypeLink:
		i, known := u.at[path.Clean(h.Linkname)]
		if !known || u.entries[i].Kind != File {
			return fmt.Errorf("%w: it is a link to %.200q, and no such file comes before it in the archive", ErrArchive, h.Linkname)
		}
		was := u.entries[i]
		if u.bytes += was.Size; u.bytes > MaxUnpacked { // a tree has no links between files
			return tooLarge()
		}
		e.Kind, e.Size, e.Holes, e.Content = File, was.Size, was.Holes, was.Content
	case tar.TypeReg, tar.TypeGNUSparse:
		e.Kind = File
	default:
		return fmt.Errorf("%w: only files, folders and links are taken, and it has the type %q", ErrArchive, h.Typeflag)
	}
	if err := u.folder(path.Dir(p), e.MTime); err != nil {
		return err
	}
	if i, twice := u.at[p]; twice {
		if e.Kind == Dir && u.entries[i].Kind == Dir {
			u.entries[i] = e // now with its own mode and time
			return nil
		}
		return fmt.Errorf("%w: the name is there twice", ErrArchive)
	}
	if h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse {
		if u.bytes += h.Size; u.bytes > MaxUnpacked {
			return tooLarge()
		}
		if err := u.content(&e, content); err != nil {
			return err
		}
	}
	return u.add(e)
}

func tooLarge() error {
	return fmt.Errorf("%w: its files have more than %d bytes together", ErrArchive, int64(MaxUnpacked))
}

// folder adds a folder that the archive does not name before what is in it.
func (u *unpacking) folder(p string, at time.Time) error {
	if p == "." {
		return nil
	}
	if i, known := u.at[p]; known {
		if u.entries[i].Kind != Dir {
			return fmt.Errorf("%w: it is in %.200q, which is not a folder", ErrArchive, p)
		}
		return nil
	}
	if err := u.folder(path.Dir(p), at); err != nil {
		return err
	}
	return u.add(Entry{Path: p, Kind: Dir, Mode: 0o755, MTime: at})
}

func (u *unpacking) add(e Entry) error {
	if len(u.entries) >= maxLocal {
		return fmt.Errorf("%w: there are more than %d names in it", ErrArchive, maxLocal)
	}
	u.at[e.Path] = len(u.entries)
	u.entries = append(u.entries, e)
	return nil
}

func (u *unpacking) content(e *Entry, r io.Reader) error {
	return chunks.Split(r, 0, func(chunk []byte, hole int64) error {
		if hole > 0 {
			e.Content, e.Holes, e.Size = append(e.Content, Ref{Hole: hole}), e.Holes+hole, e.Size+hole
			return nil
		}
		d, err := u.batch.Put(chunk)
		e.Content, e.Size = append(e.Content, Ref{Digest: d}), e.Size+int64(len(chunk))
		return err
	})
}

// sorted returns the entries in the order of a tree: each folder before what is in it.
func (u *unpacking) sorted() ([]Entry, error) {
	key := func(e Entry) string { return strings.ReplaceAll(e.Path, "/", "\x00") }
	slices.SortFunc(u.entries, func(a, b Entry) int { return strings.Compare(key(a), key(b)) })
	return u.entries, checkEntries(u.entries)
}
