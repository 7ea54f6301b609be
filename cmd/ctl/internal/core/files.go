package core

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// OpenRegular opens a regular file.
func OpenRegular(flag, path string) (*os.File, int64, error) {
	st, err := os.Stat(path) // before opening, because opening a FIFO would block
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, 0, Usage("%s %s: there is no such file", flag, path)
	case err != nil:
		return nil, 0, Usage("%s %s: %v", flag, path, errors.Unwrap(err))
	case !st.Mode().IsRegular():
		return nil, 0, Usage("%s %s is not a regular file", flag, path)
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, 0, Usage("%s %s: %v", flag, path, errors.Unwrap(err))
	}
	return r, st.Size(), nil
}

// ReadSmall reads a text file. most is its largest size in bytes.
func ReadSmall(flag, path string, most int) ([]byte, error) {
	r, _, err := OpenRegular(flag, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case err != nil:
		return nil, Failed("read %s: %v", path, err)
	case len(data) > most:
		return nil, Usage("%s %s has more than %d bytes", flag, path, most)
	case !utf8.Valid(data):
		return nil, Usage("%s %s is not UTF-8 text", flag, path)
	}
	return data, nil
}

// maxInput bounds a file that the user names, in bytes.
const maxInput = 4 << 20

// Input reads a file, or standard input for "-".
func (a *App) Input(doing, name string) ([]byte, error) {
	data, err := a.readInput(name)
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return nil, Usage("%s: %s: %v", doing, name, path.Err).Because(err)
	case err != nil:
		return nil, Usage("%s: %s: %v", doing, name, err).Because(err)
	case len(data) > maxInput:
		return nil, Usage("%s: %s has more than %d bytes", doing, name, maxInput)
	}
	return data, nil
}

func (a *App) readInput(name string) ([]byte, error) {
	r := a.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	return io.ReadAll(io.LimitReader(r, maxInput+1))
}

// WriteWhole writes a file with mode 0600. An old file of that name stays until the new one
// is complete.
func WriteWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // may be closed already
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// PlainFile returns the path to write to, with links resolved. It refuses anything but a
// regular or new file.
func PlainFile(doing, path string) (string, error) {
	if path == "" {
		return "", Usage("%s: the file's name is empty", doing)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
			return "", Usage("%s: there is no folder %s", doing, filepath.Dir(path)).Hinted("make it, or name another file")
		}
		return path, nil
	case err != nil:
		return "", Usage("%s: %v", doing, err)
	case !info.Mode().IsRegular():
		return "", Usage("%s: %s is there and is not a plain file", doing, path).Hinted("name another file, or - for standard output")
	}
	return filepath.EvalSymlinks(path)
}

// MayReplace refuses to write a file that is there, unless the person forces it.
func MayReplace(doing, file string, force bool) error {
	if _, err := os.Lstat(file); force || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return Refused("%s: %s is there already", doing, file).Hinted("name another file, or give --force")
}
