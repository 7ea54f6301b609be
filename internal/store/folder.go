package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// folder keeps objects as files (0600); the key is the path.
//
// gocloud's fileblob can read it. But fileblob checks and then renames, so two processes
// can both win an exclusive write, and it syncs nothing, so a power cut leaves an empty
// file under a good name.
type folder struct {
	root string
}

// tempDir holds files being written, on the root's file system for link and rename. It is
// made with the store. If it is missing, the store is not there (the disk may not be
// mounted), and nothing may be written.
const tempDir = ".tmp"

// tempAge is the age at which a file counts as abandoned: each write updates its time.
const tempAge = 24 * time.Hour

func openFolder(u *url.URL) (*folder, error) {
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, fmt.Errorf("a file store is file:///absolute/folder, without host or parameters")
	}
	f := &folder{root: filepath.Clean(u.Path)}
	f.sweep()
	return f, nil
}

// sweep removes files of killed writers.
func (f *folder) sweep() {
	entries, err := os.ReadDir(filepath.Join(f.root, tempDir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempAge {
			_ = os.Remove(filepath.Join(f.root, tempDir, e.Name()))
		}
	}
}

func (f *folder) close() error { return nil }

func (f *folder) make(context.Context) error {
	if err := mkdirAll(f.root); err != nil {
		return unreachable(err)
	}
	if err := mkdirAll(filepath.Join(f.root, tempDir)); err != nil {
		return unreachable(err)
	}
	return nil
}

func (f *folder) path(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

func (f *folder) write(ctx context.Context, key string, exclusive bool) (pending, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Join(f.root, tempDir), "w-*")
	if err != nil {
		return nil, unreachable(err)
	}
	return &pendingFile{ctx: ctx, folder: f, file: file, path: f.path(key), exclusive: exclusive}, nil
}

type pendingFile struct {
	ctx       context.Context // for this write, including commit
	folder    *folder
	file      *os.File
	path      string
	exclusive bool
	was       version // to replace; zero means any
}

func (p *pendingFile) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.file.Write(b)
	if err != nil {
		err = unreachable(err)
	}
	return n, err
}

func (p *pendingFile) abort() {
	_ = p.file.Close()
	_ = os.Remove(p.file.Name())
}

func (p *pendingFile) commit() error {
	defer os.Remove(p.file.Name())
	err := p.ctx.Err()
	if err == nil {
		err = p.file.Sync()
	}
	if err = errors.Join(err, p.file.Close()); err != nil {
		return unreachable(err)
	}
	// The data is synced before the file is named, so a named file is complete.
	if err := p.give(); err != nil {
		return err
	}
	return unreachable(syncDir(filepath.Dir(p.path)))
}

// give names the file. It retries: remove may delete a folder that was just made.
func (p *pendingFile) give() error {
	how := syscall.LOCK_SH
	if p.was.file != nil {
		how = syscall.LOCK_EX
	}
	unlock, err := p.folder.lock(p.ctx, how)
	if err != nil {
		return err
	}
	defer unlock()
	if p.was.file != nil {
		// The exclusive lock keeps others from creating or removing names.
		is, err := os.Lstat(p.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(is, p.was.file) {
			return errMoved
		}
		if err != nil {
			return unreachable(err)
		}
		return unreachable(os.Rename(p.file.Name(), p.path))
	}
	for range 20 {
		if err = mkdirAll(filepath.Dir(p.path)); err != nil {
			break
		}
		if p.exclusive {
			err = os.Link(p.file.Name(), p.path)
		} else {
			err = os.Rename(p.file.Name(), p.path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: a blob and a folder cannot share a name", ErrBadKey)
	case p.exclusive && errors.Is(err, fs.ErrExist):
		// NFS repeats a request whose response was lost, and refuses the second.
		ours, oerr := p.file.Stat()
		is, ierr := os.Lstat(p.path)
		if oerr == nil && ierr == nil && os.SameFile(ours, is) {
			return nil
		}
		return ErrExists
	}
	return unreachable(err)
}

func (f *folder) exclusive(context.Context) error { return nil }

func (f *folder) replace(ctx context.Context, key string, was version) (pending, error) {
	p, err := f.write(ctx, key, false)
	if err != nil {
		return nil, err
	}
	p.(*pendingFile).was = was
	return p, nil
}

func (f *folder) read(ctx context.Context, key string) (io.ReadCloser, error) {
	r, _, err := f.readVersion(ctx, key)
	return r, err
}

type fileParts struct {
	*os.File
	size int64
}

func (f fileParts) Size() int64 { return f.size }

func (f *folder) readAt(ctx context.Context, key string) (parts, error) {
	r, v, err := f.readVersion(ctx, key)
	if err != nil {
		return nil, err
	}
	return fileParts{r.(*os.File), v.file.Size()}, nil
}

func (f *folder) readVersion(ctx context.Context, key string) (io.ReadCloser, version, error) {
	if err := ctx.Err(); err != nil {
		return nil, version{}, err
	}
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, version{}, absent(err)
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		if err == nil {
			return nil, version{}, ErrNotFound
		}
		return nil, version{}, unreachable(err)
	}
	return file, version{file: info}, nil
}

func (f *folder) stat(ctx context.Context, key string) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	info, err := os.Lstat(f.path(key))
	if err != nil {
		return Info{}, absent(err)
	}
	if !info.Mode().IsRegular() {
		return Info{}, ErrNotFound
	}
	return Info{Key: key, Size: info.Size(), ModTime: info.ModTime()}, nil
}

func (f *folder) list(ctx context.Context, prefix string) ([]Info, error) {
	// top is the deepest folder that prefix names whole.
	top, _ := filepath.Split(f.path(prefix + "x"))
	var found []Info
	// "." enters a root that is a symbolic link.
	err := filepath.WalkDir(top+".", func(path string, d fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
				return nil // missing or deleted
			}
			return unreachable(err)
		}
		if d.IsDir() {
			if d.Name() == tempDir {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(f.root, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if !d.Type().IsRegular() || !strings.HasPrefix(key, prefix) || checkKey(key) != nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		found = append(found, Info{Key: key, Size: info.Size(), ModTime: info.ModTime()})
		return nil
	})
	slices.SortFunc(found, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	return found, err
}

func (f *folder) remove(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := f.path(key)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return ErrNotFound
	}
	unlock, err := f.lock(ctx, syscall.LOCK_SH)
	if err != nil {
		return err
	}
	err = os.Remove(path)
	unlock()
	if err != nil {
		return absent(err)
	}
	dir := filepath.Dir(path)
	if err := syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unreachable(err)
	}
	for ; dir != f.root && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
	}
	return nil
}

// mkdirAll makes folders 0700 and syncs each new name.
func mkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := mkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return ErrNotFound
	}
	return unreachable(err)
}

// unreachable wraps an error in ErrUnreachable, unless a context ended.
func unreachable(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, ErrUnreachable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
