package codexpkg

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"fairlead.dev/fairlead/activities/internal/kit"
)

// A CodexSource has codex packages for hosts, as published, one folder each. codex looks
// for its files relative to its own path, so a package is copied whole. A CodexSource is
// safe for concurrent use.
type CodexSource struct {
	dirs []string

	mu    sync.Mutex
	trees map[string]*CodexTree // by folder, read at first use
}

// NewCodexSource takes folders that may appear later, by `make tools`.
func NewCodexSource(dirs ...string) *CodexSource {
	return &CodexSource{dirs: dirs, trees: map[string]*CodexTree{}}
}

// A CodexTree is a package, ready to be sent.
type CodexTree struct {
	Dir     string
	Version string
	Target  string // as in x86_64-unknown-linux-musl
	Digest  string // over names, modes and contents of all files, hex
	Files   []CodexFile
	Size    int64
}

// CodexFile is a file of a package.
type CodexFile struct {
	Path   string // with slashes
	Mode   fs.FileMode
	Size   int64
	Digest string // SHA-256, hex
}

// Name is the tree's folder on a host.
func (t *CodexTree) Name() string { return t.Version + "-" + t.Digest[:12] }

// Stamp is the file of a package on a host that says that the package is complete.
const Stamp = "stamp"

// Listed returns the files that are verified on hosts, by path.
func (t *CodexTree) Listed() []CodexFile {
	listed := slices.DeleteFunc(slices.Clone(t.Files), func(f CodexFile) bool { return f.Path == Stamp })
	slices.SortFunc(listed, func(a, b CodexFile) int { return strings.Compare(a.Path, b.Path) })
	return listed
}

// Sums returns the SHA-256, in hex, of the list of files and their digests, as sha256sum
// prints it.
func (t *CodexTree) Sums() string {
	sum := sha256.New()
	for _, f := range t.Listed() {
		fmt.Fprintf(sum, "%s  ./%s\n", f.Digest, f.Path)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Named returns the package whose Name is name, or nil.
func (s *CodexSource) Named(ctx context.Context, name string) (*CodexTree, error) {
	if s == nil {
		return nil, nil
	}
	for _, configured := range s.dirs {
		dir, err := realDir(configured)
		if err != nil {
			continue
		}
		p, err := readPackage(dir)
		if err != nil || !strings.HasPrefix(name, p.Version+"-") {
			continue
		}
		t, err := s.read(ctx, dir, p)
		if err != nil {
			return nil, err
		}
		if t.Name() == name {
			return t, nil
		}
	}
	return nil, nil
}

// At returns the package in a folder of the worker's own, as the worker first read it, or nil
// if dir is no such folder.
func (s *CodexSource) At(ctx context.Context, dir string) (*CodexTree, error) {
	if s == nil {
		return nil, nil
	}
	for _, configured := range s.dirs {
		if real, err := realDir(configured); err != nil || real != dir {
			continue
		}
		p, err := readPackage(dir)
		if err != nil {
			return nil, err
		}
		return s.read(ctx, dir, p)
	}
	return nil, nil
}

// notSent is not used by app-server.
var notSent = []string{"codex-resources/voice"}

var ErrNoSource = errors.New("this worker has no codex for it")

// Tree returns the package for uname's words of an operating system and a processor.
// Without one, the error wraps ErrNoSource.
func (s *CodexSource) Tree(ctx context.Context, osName, arch string) (*CodexTree, error) {
	want, err := TargetOf(osName, arch)
	if err != nil {
		return nil, err
	}
	if s == nil || len(s.dirs) == 0 {
		return nil, fmt.Errorf("%s %s: %w (none is configured)", osName, arch, ErrNoSource)
	}
	var have []string
	for _, name := range s.dirs {
		dir, err := realDir(name)
		if err != nil {
			have = append(have, name+" is not there")
			continue
		}
		p, err := readPackage(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			have = append(have, dir+" is not there")
			continue
		case err != nil:
			return nil, fmt.Errorf("codex package in %s: %w", dir, err)
		case !strings.HasPrefix(p.Target, want):
			have = append(have, dir+" is for "+p.Target)
			continue
		}
		return s.read(ctx, dir, p)
	}
	return nil, fmt.Errorf("%s %s: %w (%s)", osName, arch, ErrNoSource, strings.Join(have, "; "))
}

// TargetOf returns how the target's name begins.
func TargetOf(osName, arch string) (string, error) {
	cpu, ok := map[string]string{"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}[arch]
	system, ok2 := map[string]string{"Linux": "unknown-linux", "Darwin": "apple-darwin"}[osName]
	if !ok || !ok2 {
		return "", fmt.Errorf("codex does not exist for %s on %s: %w", osName, arch, ErrNoSource)
	}
	return cpu + "-" + system, nil
}

// realDir resolves links: `make tools` moves one to the next version.
func realDir(name string) (string, error) {
	dir, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

type codexPackage struct {
	Version string `json:"version"`
	Target  string `json:"target"`
}

func readPackage(dir string) (codexPackage, error) {
	var p codexPackage
	data, err := os.ReadFile(filepath.Join(dir, "codex-package.json"))
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("codex-package.json: %w", err)
	}
	if _, ok := kit.ParseVersion(p.Version); !ok || p.Target == "" {
		return p, fmt.Errorf("codex-package.json names no version or target")
	}
	return p, nil
}

// read digests a package once (about a second).
func (s *CodexSource) read(ctx context.Context, dir string, p codexPackage) (*CodexTree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := dir + " " + p.Version
	if t := s.trees[key]; t != nil {
		return t, nil
	}
	t := &CodexTree{Dir: dir, Version: p.Version, Target: p.Target}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if slices.Contains(notSent, rel) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", rel)
		}
		f, err := digestFile(file)
		if err != nil {
			return err
		}
		f.Path = rel
		t.Files = append(t.Files, f)
		t.Size += f.Size
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("codex package in %s: %w", dir, err)
	}
	sum := sha256.New()
	for _, f := range t.Files { // in WalkDir's order
		fmt.Fprintf(sum, "%s %o %s\n", f.Path, f.Mode, f.Digest)
	}
	t.Digest = hex.EncodeToString(sum.Sum(nil))
	if !t.has("bin/codex") {
		return nil, fmt.Errorf("codex package in %s has no bin/codex", dir)
	}
	s.trees[key] = t
	return t, nil
}

func (t *CodexTree) has(path string) bool {
	return slices.ContainsFunc(t.Files, func(f CodexFile) bool { return f.Path == path })
}

func digestFile(name string) (CodexFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return CodexFile{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return CodexFile{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return CodexFile{}, err
	}
	mode := fs.FileMode(0o644)
	if fi.Mode()&0o111 != 0 {
		mode = 0o755
	}
	return CodexFile{Mode: mode, Size: n, Digest: hex.EncodeToString(sum.Sum(nil))}, nil
}

func (t *CodexTree) Tar(w io.Writer) error {
	tw := tar.NewWriter(w)
	made := map[string]bool{}
	for _, f := range t.Files {
		for dir := range parents(f.Path) {
			if !made[dir] {
				made[dir] = true
				if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
					return err
				}
			}
		}
		if err := t.tarFile(tw, f); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return tw.Close()
}

func (t *CodexTree) tarFile(tw *tar.Writer, f CodexFile) error {
	r, err := os.Open(filepath.Join(t.Dir, filepath.FromSlash(f.Path)))
	if err != nil {
		return err
	}
	defer r.Close()
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: f.Size, Mode: int64(f.Mode)}); err != nil {
		return err
	}
	_, err = io.Copy(tw, io.LimitReader(r, f.Size))
	return err
}

// parents yields the folders above a path, the highest first.
func parents(path string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i, c := range path {
			if c == '/' && !yield(path[:i]) {
				return
			}
		}
	}
}
