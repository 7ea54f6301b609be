package snapshots

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec"
)

type gitPlan struct {
	Why  string   // why the folder must be kept in full, or empty
	Kept []string // of the tree Git, in scratch
	Only []string // files and empty folders of the work folder to keep
	gitState
	made gitMade
}

type gitMade struct {
	state    []byte
	packSize int64    // of gitState.Pack
	files    []string // in gitState.Dotgit
}

const (
	// maxGitState bounds what git says of a repository, in bytes, because it is held in
	// memory. It is enough for some hundred thousand changed files or refs. A repository
	// with more is kept in full.
	maxGitState = 20 << 20
	// maxSections bounds how many sections our scripts print, and maxSectionHead the line
	// before each, in bytes.
	maxSections    = 32
	maxSectionHead = 256
	// maxWhy bounds a text of the host, in bytes.
	maxWhy = 1 << 10
)

// errGitLarge means that git says more than maxGitState bytes.
var errGitLarge = fmt.Errorf("git lists more changes and refs than the policy git supports: more than %d MiB", maxGitState>>20)

// planGit examines a work folder without changing it, and prepares the content of the tree
// Git in scratch, a folder of ours on the host that the next snapshot may use too.
func planGit(ctx context.Context, h hostexec.Host, dir, scratch string) (gitPlan, error) {
	var p gitPlan
	said, err := probeGit(ctx, h, dir, scratch)
	if err == nil && said["why"] == nil {
		err = p.read(said)
	}
	if err == nil && p.Why == "" && said["why"] == nil {
		err = p.pack(ctx, h, said, dir, scratch)
	}
	var exit *hostexec.ExitError
	switch {
	case errors.Is(err, hostexec.ErrFlood):
		return p, fmt.Errorf("find out what git has of %s on %s: %w", dir, h.Name(), hostexec.SentBy(h, err))
	case errors.Is(err, errGitLarge):
		p.Why = err.Error()
	case said["why"] != nil:
		p.Why = string(said["why"][:min(len(said["why"]), maxWhy)])
	case errors.As(err, &exit) && exit.Code == exitNoGit:
		p.Why = "git is not installed on the host"
	case errors.As(err, &exit) && exit.Code == exitGone:
		return p, errCrossed
	case errors.As(err, &exit):
		// git cannot read the repository, or it changed meanwhile.
		p.Why = "git fails in it: " + strings.TrimSpace(strings.TrimPrefix(exit.Error(), fmt.Sprintf("exit status %d", exit.Code)))
	case err != nil:
		return p, fmt.Errorf("find out what git has of %s on %s: %w", dir, h.Name(), err)
	}
	return p, nil
}

func probeGit(ctx context.Context, h hostexec.Host, dir, scratch string) (map[string][]byte, error) {
	s, err := gitScript(ctx, h, gitProbe, nil, dir, scratch)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	s.CloseWrite()
	said, readErr := gitSections(s, maxGitState)
	if endsReading(readErr) {
		return nil, readErr
	}
	if err := s.Wait(); err != nil {
		return nil, err
	}
	return said, readErr
}

// endsReading reports whether the rest of a script's output was not read because of the
// output, so that the script may go on for ever.
func endsReading(err error) bool {
	return errors.Is(err, hostexec.ErrFlood) || errors.Is(err, errGitLarge) || errors.Is(err, errSections)
}

var errSections = errors.New("unexpected output of the git script on the host")

// gitSections parses the output of our scripts. A section is a line with name and size, and
// the content. If the host announces more than most bytes, the error is errGitLarge, and if
// it sends more than it announced, a *hostexec.FloodError.
func gitSections(r io.Reader, most int) (map[string][]byte, error) {
	in, said := bufio.NewReader(r), map[string][]byte{}
	for {
		line, err := hostexec.ReadLine(in, maxSectionHead, "the head of a section of the git script")
		if err == io.EOF && line == "" {
			return said, nil
		}
		if err != nil {
			return said, err
		}
		name, size, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.Atoi(size)
		if _, again := said[name]; err != nil || n < 0 || again {
			return said, fmt.Errorf("%w: %.100q, expected %q, each name once", errSections, line, "name size")
		}
		if len(said) == maxSections {
			return said, &hostexec.FloodError{What: "the output of the git script", Limit: maxSections, Unit: "sections"}
		}
		if most -= len(line) + n; most < 0 {
			return said, errGitLarge
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(in, data); err != nil {
			return said, err
		}
		said[name] = data
	}
}

func (p *gitPlan) read(said map[string][]byte) error {
	line := func(name string) string { return strings.TrimSpace(string(said[name])) }
	p.gitState = gitState{
		Format: gitFormat, Version: line("version"), Objects: line("format"), Dotgit: line("dotgit"), Heads: append(said["heads"], said["stash"]...),
		gitReport: gitReport{Head: said["head"], Refs: said["refs"], Stash: said["stash"], Staged: said["staged"], Status: said["status"]},
	}
	if p.Head == nil || p.Refs == nil || p.Staged == nil || p.Status == nil || p.Dotgit == "" {
		return errors.New("the output of the git script on the host is incomplete")
	}
	p.Config, p.Dropped = gitConfig(said["config"], said["effective"])
	for line := range bytes.SplitSeq(said["urls"], []byte{0}) {
		name, raw, ok := strings.Cut(string(line), "\n")
		if u := cleanURL(raw); ok && u.remote {
			p.Remotes = append(p.Remotes, gitRemote{name, u.text})
		}
	}
	for name := range bytes.SplitSeq(said["files"], []byte{0}) {
		if len(name) > 0 {
			p.made.files = append(p.made.files, path.Clean(string(name)))
		}
	}
	ignored := map[string]bool{}
	for name := range bytes.SplitSeq(said["emptyignored"], []byte{0}) {
		ignored[string(name)] = true
	}
	for name := range bytes.SplitSeq(said["empty"], []byte{0}) {
		if len(name) > 0 && !ignored[string(name)] {
			p.Only = append(p.Only, path.Clean(string(name)))
		}
	}
	for name := range bytes.SplitSeq(said["hidden"], []byte{0}) {
		if len(name) > 0 {
			p.Only = append(p.Only, string(name))
		}
	}
	p.Deleted = said["hiddengone"]
	return p.differences()
}

func (p *gitPlan) differences() error {
	for record := range bytes.SplitSeq(p.Status, []byte{0}) {
		if len(record) == 0 {
			continue
		}
		fields, kind := 0, record[0]
		switch kind {
		case '1':
			fields = 8
		case 'u':
			fields = 10
		case '?':
			fields = 1
		default:
			return fmt.Errorf("cannot parse a record of git status: %.100q", record)
		}
		parts := strings.SplitN(string(record), " ", fields+1)
		if len(parts) != fields+1 {
			return fmt.Errorf("cannot parse a record of git status: %.100q", record)
		}
		name := parts[fields]
		var work byte
		switch kind {
		case '1':
			work = parts[1][1]
		case 'u':
			if work = 'M'; parts[6] == "000000" {
				work = '.' // the file does not exist and will not be written
			}
		case '?':
			if work = 'M'; strings.HasSuffix(name, "/") {
				p.Why = "it holds another git repository, in " + strconv.Quote(name)
				return nil
			}
		}
		if work == 'D' || work == 'T' {
			p.Deleted = append(append(p.Deleted, name...), 0)
		}
		if work != 'D' && work != '.' {
			p.Only = append(p.Only, name)
		}
	}
	return nil
}

func (st *gitState) upstream(ref string) bool {
	return slices.ContainsFunc(st.Remotes, func(r gitRemote) bool { return strings.HasPrefix(ref, "refs/remotes/"+r.Name+"/") })
}

// pack makes the host pack what upstream does not have, and writes the state.
func (p *gitPlan) pack(ctx context.Context, h hostexec.Host, said map[string][]byte, dir, scratch string) error {
	var want, have []string
	for line := range strings.Lines(string(p.Refs)) {
		sha, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		ref, _, _ := strings.Cut(rest, " ")
		if p.upstream(ref) {
			have = append(have, "^"+sha)
		} else {
			want = append(want, sha)
		}
	}
	if len(have) == 0 {
		p.Why = "no remote of its git repository could be reached by another host, or nothing was fetched from it"
		return nil
	}
	want = append(append(want, strings.Fields(string(p.Heads))...), staged(said["differ"])...)
	if head := strings.TrimSpace(string(p.Head)); !strings.HasPrefix(head, "refs/") {
		want = append(want, head)
	}
	slices.Sort(want)
	slices.Sort(have)
	revs := strings.Join(append(slices.Compact(want), slices.Compact(have)...), "\n") + "\n"
	sum := sha256.Sum256([]byte(revs))
	p.Pack = "whole-" + hex.EncodeToString(sum[:8]) + ".pack"
	s, err := gitScript(ctx, h, gitPack, nil, dir, scratch, p.Pack, p.Objects)
	if err != nil {
		return err
	}
	defer s.Close()
	_, writeErr := io.WriteString(s, revs)
	s.CloseWrite()
	size, readErr := hostexec.ReadAll(s, 100, "the size of a pack")
	if errors.Is(readErr, hostexec.ErrFlood) {
		return readErr
	}
	if err := s.Wait(); err != nil {
		return err
	}
	if err := errors.Join(writeErr, readErr); err != nil {
		return err
	}
	if p.made.packSize, err = strconv.ParseInt(strings.TrimSpace(string(size)), 10, 64); err != nil {
		return fmt.Errorf("unexpected output of the git script on the host: %.100q, expected the size of a pack", size)
	}
	if p.made.state, err = json.Marshal(p.gitState); err != nil {
		return err
	}
	if err := hostexec.WriteFile(ctx, h, path.Join(scratch, stateFile), p.made.state, 0o600, nil); err != nil {
		return err
	}
	p.Kept = []string{p.Dotgit, p.Pack, stateFile}
	return nil
}

// staged returns the blobs in the index that HEAD does not have. differ is a raw diff
// followed by git's list of unmerged entries.
func staged(differ []byte) (shas []string) {
	for record := range bytes.SplitSeq(differ, []byte{0}) {
		f := strings.Fields(string(record))
		switch {
		case len(f) == 5 && strings.HasPrefix(f[0], ":") && strings.Trim(f[3], "0") != "":
			shas = append(shas, f[3])
		case len(f) >= 4 && len(f[0]) == 6 && len(f[1]) >= 40 && len(f[2]) == 1 && strings.Contains(string(record), "\t"):
			shas = append(shas, f[1])
		}
	}
	return shas
}
