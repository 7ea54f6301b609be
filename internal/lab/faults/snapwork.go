package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// works changes the work folder, as codex would: it makes, changes and removes
// files, large and small, a link, a program and an empty folder.
func (s *snapRun) works() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	work := s.run.work()
	rng := scenario.Random(0, s.id, s.version) // unlike other sessions' data, which the store already has
	put := func(name string, data []byte, mode os.FileMode) error {
		path := filepath.Join(work, name)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, mode), os.Chmod(path, mode))
	}
	errs := []error{put("version", fmt.Appendf(nil, "%d\n", s.version), 0o644), put("bin/run", fmt.Appendf(nil, "#!/bin/sh\necho %d\n", s.version), 0o755)}
	for i := range 500 {
		name := fmt.Sprintf("src/%02d/file %d", i%25, i)
		switch {
		case s.version > 1 && i%3 > 0: // unchanged
		case s.version > 1 && i%50 == 0:
			errs = append(errs, os.RemoveAll(filepath.Join(work, name)))
		default:
			data := make([]byte, 1000+i*100)
			for j := range data[:len(data)/2] {
				data[j] = byte(rng.Uint32())
			}
			errs = append(errs, put(name, data, 0o644))
		}
	}
	big := make([]byte, 10<<20) // so that there is more than one pack
	for i := 0; i < len(big); i += 8 {
		binary.NativeEndian.PutUint64(big[i:], rng.Uint64())
	}
	errs = append(errs, put("big", big, 0o600), os.MkdirAll(filepath.Join(work, "empty"), 0o750))
	if s.version == 1 {
		errs = append(errs, os.Symlink("src/00/nothing", filepath.Join(work, "dangling")))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.stood[s.run.host] = s.version
	lines, err := treeLines(work)
	if err != nil {
		return err
	}
	s.now = digestOf(lines)
	s.states[s.now], s.lines[s.now] = s.version, lines
	s.run.logf("the work folder is of version %d", s.version)
	return err
}

// treeDigest returns a digest of names, kinds, modes and content.
func treeDigest(dir string) (string, error) {
	lines, err := treeLines(dir)
	return digestOf(lines), err
}

func digestOf(lines []string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])
}

// placeholders are empty folders that codex's own sandbox sometimes makes at
// paths where a command could plant files that are read later.
var placeholders = []string{".agents", ".aws", ".codex", ".git"}

func treeLines(dir string) (lines []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		switch {
		case i.Mode().IsRegular():
			content, err = os.ReadFile(path)
		case i.Mode()&fs.ModeSymlink != 0:
			var to string
			to, err = os.Readlink(path)
			content = []byte(to)
		}
		name, _ := filepath.Rel(dir, path) // always below dir
		if i.IsDir() && slices.Contains(placeholders, name) {
			return err
		}
		lines = append(lines, fmt.Sprintf("%q %v %x\n", name, i.Mode(), sha256.Sum256(content)))
		return err
	})
	return lines, err
}

// differences returns at most a few differences between two folders.
func differences(was, is []string) string {
	var out []string
	for i, side := range [][]string{was, is} {
		for _, line := range side {
			if !slices.Contains([][]string{is, was}[i], line) && len(out) < 6 {
				out = append(out, []string{"was ", "is "}[i]+strings.TrimSuffix(line, "\n"))
			}
		}
	}
	return strings.Join(out, "; ")
}

func (s *snapRun) sameWork(when string) {
	got, err := treeDigest(s.run.work())
	if v := s.states[got]; s.atLeast > 0 && v >= s.atLeast {
		s.now, s.version, s.atLeast = got, v, 0
	}
	if err != nil || got != s.now {
		s.res.Find(workLost, "at %s the work folder is of version %d, not %d (%v): %s", when, s.states[got], s.version, err, s.differs())
		s.now = got // report it once
	}
}

func (s *snapRun) differs() string {
	is, err := treeLines(s.run.work())
	if err != nil {
		return err.Error()
	}
	return differences(s.lines[s.now], is)
}
