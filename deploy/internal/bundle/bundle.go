package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A File is an entry of an archive.
type File struct {
	// Name is a path with slashes, relative to the archive.
	Name string
	// Mode has the permissions, and fs.ModeDir or fs.ModeSymlink.
	Mode fs.FileMode
	// From is the file that has the content. If it is empty, Data is the content.
	From string
	Data []byte
	// Link is where a symbolic link leads.
	Link     string
	UID, GID int
}

// Folder returns an entry for a folder.
func Folder(name string, mode fs.FileMode) File { return File{Name: name, Mode: fs.ModeDir | mode} }

// Text returns an entry with a text that everybody may read.
func Text(name, text string) File { return File{Name: name, Mode: 0o644, Data: []byte(text)} }

// Program returns an entry for a program.
func Program(name, from string) File { return File{Name: name, Mode: 0o755, From: from} }

// Tree returns entries for a folder and all below it, under another name. Files that their
// owner may execute are programs; the rest of a mode does not count. Anything else than
// files, folders and links that stay inside is an error.
func Tree(name, dir string) (files []File, err error) {
	err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		f := File{Name: path.Join(name, filepath.ToSlash(rel)), Mode: 0o644}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			f.Mode = fs.ModeDir | 0o755
		case info.Mode()&fs.ModeSymlink != 0:
			f.Mode = fs.ModeSymlink | 0o777
			if f.Link, err = os.Readlink(at); err != nil {
				return err
			}
			if f.Link = filepath.ToSlash(f.Link); !filepath.IsLocal(filepath.Join(filepath.Dir(rel), f.Link)) || path.IsAbs(f.Link) {
				return fmt.Errorf("%s is a link to %s, outside of %s", at, f.Link, dir)
			}
		case info.Mode().IsRegular():
			f.From = at
			if info.Mode()&0o100 != 0 {
				f.Mode = 0o755
			}
		default:
			return fmt.Errorf("%s is neither a file nor a folder nor a link", at)
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// Write writes an archive. It adds the folders above entries, with mode 0755.
func Write(w io.Writer, files []File, at time.Time) error {
	all, err := withFolders(files)
	if err != nil {
		return fmt.Errorf("write an archive: %w", err)
	}
	archive := tar.NewWriter(w)
	for _, f := range all {
		if err := add(archive, f, at.UTC().Truncate(time.Second)); err != nil {
			return fmt.Errorf("write an archive: %s: %w", f.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write an archive: %w", err)
	}
	return nil
}

// WriteGzip writes a compressed archive.
func WriteGzip(w io.Writer, files []File, at time.Time, level int) error {
	z, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		return fmt.Errorf("write an archive: %w", err)
	}
	if err := Write(z, files, at); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("write an archive: %w", err)
	}
	return nil
}

// withFolders returns the entries in their order, with the folders that they are in.
func withFolders(files []File) ([]File, error) {
	all := map[string]File{}
	for _, f := range files {
		if f.Name != path.Clean(f.Name) || f.Name == "." || !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return nil, fmt.Errorf("%q is not a clean relative path", f.Name)
		}
		if _, twice := all[f.Name]; twice {
			return nil, fmt.Errorf("%s comes twice", f.Name)
		}
		all[f.Name] = f
	}
	for _, f := range files {
		for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
			above, is := all[dir]
			if !is {
				all[dir] = Folder(dir, 0o755)
			} else if !above.Mode.IsDir() {
				return nil, fmt.Errorf("%s is in %s, which is no folder", f.Name, dir)
			}
		}
	}
	sorted := make([]File, 0, len(all))
	for _, f := range all {
		sorted = append(sorted, f)
	}
	slices.SortFunc(sorted, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return sorted, nil
}

func add(archive *tar.Writer, f File, at time.Time) error {
	h := &tar.Header{Name: f.Name, Mode: int64(f.Mode.Perm()), ModTime: at, Uid: f.UID, Gid: f.GID, Format: tar.FormatPAX}
	if f.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	var content io.Reader = bytes.NewReader(f.Data)
	switch {
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, strings.TrimSuffix(f.Name, "/")+"/"
		return archive.WriteHeader(h)
	case f.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		return archive.WriteHeader(h)
	case f.From != "":
		in, err := os.Open(f.From)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		content, h.Size = in, info.Size()
	default:
		h.Size = int64(len(f.Data))
	}
	h.Typeflag = tar.TypeReg
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(archive, content) // a file that changes its size meanwhile is an error of the writer
	return err
}
