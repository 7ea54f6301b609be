package snapshots

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/tree"
)

const (
	exitFetch = 61 // the remote cannot be reached
	exitLacks = 62 // the remote lacks a needed object
)

// A gitRebuild names folders of ours on one file system.
type gitRebuild struct {
	Parts   string // the tree Git
	Overlay string // the tree Work, to copy over the work tree; may be missing
	Root    string // the repository is built in a new folder in Root
	State   []byte // the content of stateFile, from the snapshot: the host is not asked
	Fence   *hostexec.Fence
}

// rebuildGit rebuilds a repository and its work tree in a new folder dir. differs lists
// differences in the status, for example because of files that were left out. If HEAD,
// refs, stashes or index differ from the original, rebuildGit fails.
func rebuildGit(ctx context.Context, h hostexec.Host, r gitRebuild) (dir string, differs []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a git repository in %s on %s: %w", r.Root, h.Name(), hostexec.SentBy(h, err))
		}
	}()
	made := path.Join(r.Root, "made-"+rand.Text())
	var st gitState
	if err := json.Unmarshal(r.State, &st); err != nil || st.Format != gitFormat {
		return "", nil, fmt.Errorf("%w: its recorded state has format %d: %w", ErrGit, st.Format, errors.Join(err, fmt.Errorf("this version knows format %d", gitFormat)))
	}
	in, dir := path.Join(made, "in"), path.Join(made, "new")
	if err := tree.Put(ctx, h, in, st.inputs(), r.Fence); err != nil {
		return "", nil, err
	}
	s, err := gitScript(ctx, h, gitRestore, r.Fence, r.Parts, r.Overlay, dir, in)
	if err != nil {
		return "", nil, err
	}
	defer s.Close()
	s.CloseWrite()
	most := maxGitState + len(r.State)
	said, readErr := gitSections(s, most)
	if errors.Is(readErr, errGitLarge) {
		readErr = &hostexec.FloodError{What: "the state of the restored git repository", Limit: int64(most)}
	}
	if endsReading(readErr) {
		return "", nil, readErr
	}
	if err := s.Wait(); err != nil {
		return "", nil, st.failure(h, said, err)
	}
	if readErr != nil {
		return "", nil, readErr
	}
	differs, err = st.compare(said)
	return dir, differs, err
}

func (st *gitState) failure(h hostexec.Host, said map[string][]byte, err error) error {
	var exit *hostexec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	switch full := []byte("No space left on device"); {
	case bytes.Contains(exit.Stderr, full), bytes.Contains(said["why"], full):
		return fmt.Errorf("%w: %w", hostexec.ErrNoSpace, err)
	}
	switch exit.Code {
	case exitNoGit:
		return fmt.Errorf("%w: git is not installed on host %s: install it there, or take snapshots with --snapshot full", ErrGit, h.Name())
	case exitFetch, exitLacks:
		e := &UpstreamError{Remote: string(said["remote"]), Host: h.Name(), Why: string(said["why"][:min(len(said["why"]), maxWhy)])}
		for _, r := range st.Remotes {
			if r.Name == e.Remote {
				e.URL = r.URL
			}
		}
		return e
	}
	return fmt.Errorf("%w: %w", ErrGit, err)
}

func (st *gitState) inputs() *bytes.Buffer {
	var refs, symrefs, want, tips, remotes bytes.Buffer
	for line := range strings.Lines(string(st.Refs)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 3:
			fmt.Fprintf(&symrefs, "%s %s\n", f[1], f[2])
		case len(f) == 2:
			fmt.Fprintf(&refs, "create %s %s\n", f[1], f[0])
			if st.upstream(f[1]) {
				fmt.Fprintln(&tips, f[0])
			} else {
				fmt.Fprintln(&want, f[0])
			}
		}
	}
	want.Write(st.Heads)
	if head := strings.TrimSpace(string(st.Head)); !strings.HasPrefix(head, "refs/") {
		fmt.Fprintln(&want, head)
	}
	for _, r := range st.Remotes {
		fmt.Fprintln(&remotes, r.Name)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, data := range map[string][]byte{
		"config": st.Config, "objects": []byte(st.Objects + "\n"), "pack": []byte(st.Pack + "\n"), "dotgit": []byte(st.Dotgit + "\n"), "head": st.Head,
		"refs": refs.Bytes(), "symrefs": symrefs.Bytes(), "want": want.Bytes(), "tips": tips.Bytes(), "remotes": remotes.Bytes(), "deleted": st.deleted(),
	} {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data))})
		_, _ = w.Write(data)
	}
	_ = w.Close()
	return &b
}

func (st *gitState) deleted() (list []byte) {
	for name := range bytes.SplitSeq(st.Deleted, []byte{0}) {
		if len(name) > 0 {
			list = append(append(append(list, "./"...), name...), 0)
		}
	}
	return list
}

func (st *gitState) compare(said map[string][]byte) (differs []string, err error) {
	for name, was := range map[string][]byte{"head": st.Head, "stash": st.Stash, "staged": st.Staged} {
		if now, ok := said[name]; !ok || !bytes.Equal(now, was) {
			return nil, fmt.Errorf("%w: %s is %.200q, but was %.200q in the snapshot", ErrGit, name, now, was)
		}
	}
	gone, more := unlike(st.Refs, said["refs"], "\n")
	for i, line := range append(gone, more...) {
		f := strings.Fields(line)
		if i >= len(gone) || len(f) < 2 || !st.upstream(f[1]) {
			return nil, fmt.Errorf("%w: its refs are not those of the snapshot: %s", ErrGit, line)
		}
		differs = append(differs, "upstream no longer has "+f[1]+" as it was then")
	}
	gone, more = unlike(st.Status, said["status"], "\x00")
	for _, line := range gone {
		differs = append(differs, "its status was: "+line)
	}
	for _, line := range more {
		differs = append(differs, "its status is: "+line)
	}
	return differs, nil
}

// unlike returns the lines that only was has, and those that only now has.
func unlike(was, now []byte, end string) (gone, more []string) {
	before, after := lines(was, end), lines(now, end)
	only := func(here, there []string) (all []string) {
		for _, line := range here {
			if _, same := slices.BinarySearch(there, line); !same {
				all = append(all, line)
			}
		}
		return all
	}
	return only(before, after), only(after, before)
}

func lines(text []byte, end string) []string {
	if len(text) == 0 {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(string(text), end), end)
	slices.Sort(all)
	return all
}
