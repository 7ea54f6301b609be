package seeds

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Pack reads a folder laid out like a CODEX_HOME. Other files are left out and listed by
// Ignored. Pack refuses links that lead out of the folder, and a folder with which codex
// could not authenticate. Errors say how to fix it, and contain no content.
func Pack(dir string) (*Bundle, error) { return PackWith(dir, nil) }

// PackWith is Pack with a settings file; nil means none. With settings, dir may be "": they
// are the whole seed.
func PackWith(dir string, settings []byte) (_ *Bundle, err error) {
	defer func() {
		if err == nil {
			return
		}
		if dir == "" {
			err = fmt.Errorf("pack seed: %w", err)
		} else {
			err = fmt.Errorf("pack seed from %s: %w", dir, err)
		}
	}()
	var p packer
	if dir != "" || settings == nil {
		if err := p.pack(dir); err != nil {
			return nil, err
		}
	}
	if settings != nil {
		p.files = append(p.files, file{path: settingsFile, data: settings})
	}
	return newBundle(p.files, p.ignored)
}

func (p *packer) pack(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return bare(err)
	}
	defer root.Close()
	p.root = root
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return bare(err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case slices.Contains(seedFiles, name):
			err = p.file(name, e)
		case slices.Contains(seedFolders, name) && e.IsDir():
			err = p.folder(name)
		default:
			p.ignore(name, e.IsDir())
		}
		if err != nil {
			return err
		}
	}
	for i, f := range p.files {
		if f.path == configFile {
			// Our settings, if the folder was planted, are not part of the seed.
			if p.files[i].data, err = StripConfig(f.data); err != nil {
				return err
			}
		}
	}
	return nil
}

type packer struct {
	root    *os.Root
	files   []file
	ignored []string
}

func (p *packer) ignore(name string, folder bool) {
	if folder {
		name += "/"
	}
	p.ignored = append(p.ignored, name)
}

func (p *packer) folder(name string) error {
	return fs.WalkDir(p.root.FS(), name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return bare(err)
		case path == name:
			return nil
		case !isSeedPath(path):
			p.ignore(path, d.IsDir())
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		return p.file(path, d)
	})
}

func (p *packer) file(path string, d fs.DirEntry) error {
	info, err := p.root.Stat(path) // follows links, not out of the root
	if err != nil {
		if d.Type()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link that leads out of the folder or nowhere (copy the file itself there)", path)
		}
		return bare(err)
	}
	if !info.Mode().IsRegular() {
		if slices.Contains(seedFiles, path) {
			return fmt.Errorf("%s is not a regular file", path)
		}
		p.ignore(path, info.IsDir())
		return nil
	}
	if info.Size() > maxFile {
		return fmt.Errorf("%s is larger than %d MiB, too large for a seed", path, maxFile>>20)
	}
	if len(p.files) >= maxFiles {
		return fmt.Errorf("more than %d files are too many for a seed (move what codex does not need)", maxFiles)
	}
	f, err := p.root.Open(path)
	if err != nil {
		return bare(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1)) // the file may have grown
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	// Scripts of skills stay executable. Planted files are for the user alone.
	exec := info.Mode()&0o100 != 0 && strings.HasPrefix(path, "skills/")
	p.files = append(p.files, file{path: path, exec: exec, data: data})
	return nil
}

func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Path != "" {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}
