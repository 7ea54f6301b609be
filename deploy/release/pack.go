package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/deploy/internal/bom"
	"fairlead.dev/fairlead/deploy/internal/bundle"
	"fairlead.dev/fairlead/deploy/internal/programs"
	"fairlead.dev/fairlead/deploy/systemd"
)

const (
	sumsFile    = "SHA256SUMS"
	changesFile = "CHANGELOG.md"
	// level is a middle one: higher ones take several times as long for a few percent.
	level = 6
)

//go:embed man/fairlead-worker.1
var workerPage []byte

// A release is one that is being made.
type release struct {
	version string
	at      time.Time
	dist    string
	help    []bundle.File
	changes []byte
	made    []string // names of files in dist
}

// tagged is a version that is a tag of a release.
var tagged = regexp.MustCompile(`^v[0-9]+(\.[0-9]+)+$`)

// checkChanges refuses a tagged release that the changelog does not know.
func checkChanges(changes, version string) error {
	if tagged.MatchString(version) && !slices.Contains(strings.Split(changes, "\n"), "## "+version) {
		return fmt.Errorf("release %s: CHANGELOG.md has no section %q: give the changes since the last release that title", version, "## "+version)
	}
	return nil
}

// completions are the shells that the program has completions for, with their usual places.
var completions = []struct{ shell, file string }{
	{"bash", "share/bash-completion/completions/fairlead"},
	{"zsh", "share/zsh/site-functions/_fairlead"},
	{"fish", "share/fish/vendor_completions.d/fairlead.fish"},
}

// helpOf asks a program for its manual pages and completions.
func helpOf(ctx context.Context, fairlead string) (files []bundle.File, err error) {
	ask := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, fairlead, args...)
		cmd.Env = []string{"HOME=/nonexistent", "PATH=/nonexistent"} // whose machine it is must not show
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("ask the program for its help: %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
		}
		return out.Bytes(), nil
	}
	dir, err := os.MkdirTemp("", "fairlead-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, err := ask("man", dir); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(dir, page.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, bundle.File{Name: path.Join("share/man/man1", page.Name()), Mode: 0o644, Data: text})
	}
	for _, c := range completions {
		text, err := ask("completion", c.shell)
		if err != nil {
			return nil, err
		}
		files = append(files, bundle.File{Name: c.file, Mode: 0o644, Data: text})
	}
	return append(files, bundle.File{Name: "share/man/man1/fairlead-worker.1", Mode: 0o644, Data: workerPage}), nil
}

// unitFiles are the files for systemd, in the places where it looks below /usr/local.
func unitFiles() (files []bundle.File, err error) {
	names, err := fs.ReadDir(systemd.Units, ".")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		text, err := fs.ReadFile(systemd.Units, n.Name())
		if err != nil {
			return nil, err
		}
		to := path.Join("lib/systemd/system", n.Name())
		if n.Name() == "sysusers.conf" {
			to = "lib/sysusers.d/fairlead.conf"
		}
		files = append(files, bundle.File{Name: to, Mode: 0o644, Data: text})
	}
	return files, nil
}

// pack writes the archive of a platform, and the list of what is in it.
func (r *release) pack(p programs.Platform, pair programs.Pair) error {
	name := fmt.Sprintf("fairlead_%s_%s_%s", r.version, p.OS, p.Arch)
	bill, err := bom.Of(bom.Content{Name: "fairlead", Version: r.version, Programs: []string{pair.Fairlead, pair.Worker}}, r.at)
	if err != nil {
		return err
	}
	files := append([]bundle.File{
		bundle.Program("bin/fairlead", pair.Fairlead),
		bundle.Program("bin/fairlead-worker", pair.Worker),
		{Name: "share/doc/fairlead/" + changesFile, Mode: 0o644, Data: r.changes},
	}, r.help...)
	units, err := unitFiles()
	if err != nil {
		return err
	}
	files = append(files, units...)
	for i, f := range files {
		files[i].Name = path.Join("fairlead-"+r.version, f.Name)
	}
	if err := r.write(name+".tar.gz", func(w io.Writer) error { return bundle.WriteGzip(w, files, r.at, level) }); err != nil {
		return err
	}
	return r.write(name+".cdx.json", func(w io.Writer) error { _, err := w.Write(bill); return err })
}

// finish writes the changelog and the digests of all files.
func (r *release) finish() error {
	if err := r.write(changesFile, func(w io.Writer) error { _, err := w.Write(r.changes); return err }); err != nil {
		return err
	}
	slices.Sort(r.made)
	var sums strings.Builder
	for _, name := range r.made {
		sum, err := digest(filepath.Join(r.dist, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(r.dist, sumsFile), []byte(sums.String()), 0o644)
}

func (r *release) write(name string, content func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.dist, name))
	if err != nil {
		return err
	}
	if err := errors.Join(content(f), f.Close()); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	r.made = append(r.made, name)
	return nil
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
