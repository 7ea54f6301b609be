package snapshots

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/tree"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// gitTrees replaces a work folder with the policy git by the trees Git and Work or, if
// these would not cover it, sets its policy to full.
func (t *taking) gitTrees(trees []TreeSpec) ([]TreeSpec, error) {
	var out []TreeSpec
	for _, tree := range trees {
		if tree.Name != Work || tree.Policy != WorkGit {
			out = append(out, tree)
			continue
		}
		p, err := t.gitPlan(tree.Dir)
		if err != nil {
			return nil, err
		}
		if p.Why != "" {
			tree.Policy = WorkFull
			t.manifest.Work, t.manifest.WorkWhy = WorkFull, p.Why
			t.spec.Logger.Warn("work folder is kept in full, since git would not cover it", "snapshot", t.spec.ID, "dir", tree.Dir, "why", p.Why)
			out = append(out, tree)
			continue
		}
		t.manifest.Work, t.git = WorkGit, &p
		tree.Only = append(p.Only, ".") // "." alone adds no content
		out = append(out, TreeSpec{Name: Git, Dir: t.scratch(), Only: p.Kept}, tree)
	}
	return out, nil
}

func (t *taking) scratch() string {
	for _, tree := range t.spec.Trees {
		if tree.Name == Rollouts {
			return path.Join(path.Dir(tree.Dir), "git")
		}
	}
	return ""
}

func (t *taking) gitPlan(dir string) (gitPlan, error) {
	scratch := t.scratch()
	if scratch == "" {
		return gitPlan{Why: "the session has no folder on the host to prepare it in"}, nil
	}
	return planGit(t.ctx, t.host, dir, scratch)
}

// kept takes a tree. It fails if the tree Git has a secret, because overwriting it would
// damage the repository, or lacks a file that Fairlead has just made.
func (t *taking) kept(tree TreeSpec) error {
	if tree.Name != Git {
		return t.tree(tree)
	}
	before := t.manifest.Masked
	t.noted, t.noting = map[string]Entry{}, map[string]bool{t.git.Pack: true, stateFile: true}
	for _, name := range t.git.made.files {
		t.noting[path.Join(t.git.Dotgit, name)] = true
	}
	defer func() { t.noted, t.noting = nil, nil }()
	switch err := t.tree(tree); {
	case err != nil:
		return err
	case t.manifest.Masked > before:
		return &GitSecretError{Host: t.host.Name()}
	}
	return t.hasGit()
}

func (t *taking) hasGit() error {
	for _, name := range t.git.made.files {
		if _, there := t.noted[path.Join(t.git.Dotgit, name)]; !there {
			return errCrossed
		}
	}
	// A pack's name implies its content, so the size is enough.
	if pack, there := t.noted[t.git.Pack]; !there || pack.Kind != File || pack.Size != t.git.made.packSize {
		return errCrossed
	}
	state, there := t.noted[stateFile]
	if !there {
		return errCrossed
	}
	want, err := t.contentOf(t.git.made.state)
	if err == nil && (state.Size != int64(len(t.git.made.state)) || !slices.Equal(state.Content, want)) {
		err = errCrossed
	}
	return err
}

func (t *taking) contentOf(data []byte) ([]Ref, error) {
	refs := refWriter{put: t.batch.PutList}
	add := func(chunk []byte, hole int64) error {
		if hole > 0 {
			return refs.add(Ref{Hole: hole})
		}
		d, err := t.batch.Put(chunk)
		if err != nil {
			return err
		}
		return refs.add(Ref{Digest: d})
	}
	var err error
	if len(data) <= chunks.WholeFile {
		err = add(data, 0)
	} else {
		err = chunks.Split(bytes.NewReader(data), -1, add)
	}
	var e Entry
	if err == nil {
		err = refs.done(&e)
	}
	return e.Content, err
}

// placedScript reports whether the tree with id $2 is in place $1. placeScript moves $1 to
// $2 under the id $3. They store the id as tree.Write does.
const (
	placedScript = placeInode + `d=${1%/*}/ b=${1##*/}
if [ -e "$d.fl-placed-$b" ] && inode "$1" && [ "$(cat "$d.fl-placed-$b")" = "$2 $i" ]; then echo placed; fi
if [ -L "$1" ] || { [ -e "$1" ] && [ ! -d "$1" ]; } || [ -n "$(ls -A -- "$1" 2>/dev/null)" ]; then echo taken; fi`
	placeScript = placeInode + `d=${2%/*}/ b=${2##*/}
if { [ -L "$2" ] || [ -e "$2" ]; } && ! rmdir -- "$2" 2>/dev/null; then
	echo "$2: something is there" >&2
	exit 95
fi
inode "$1" && echo "$3 $i" >"$d.fl-placed-$b" && mv -- "$1" "$2"`
	placeInode = `LC_ALL=C; export LC_ALL
inode() { i=$(ls -di -- "$1" 2>/dev/null) && i=${i#"${i%%[0-9]*}"} && i=${i%%[!0-9]*}; }
`
)

// exitExists means that something is in the place.
const exitExists = 95

// gitDirs are the folders of a repository's parts. They lie beside its place, so that one
// rename moves it there.
type gitDirs struct{ work, root, id string }

func (r *restoring) gitDirs() (gitDirs, bool) {
	work := r.spec.Dirs[Work]
	if _, there := r.out.Manifest.Tree(Git); !there || work == "" {
		return gitDirs{}, false
	}
	return gitDirs{work, path.Join(path.Dir(work), ".fl-git-"+path.Base(work)), r.out.Manifest.ID + ":" + Git}, true
}

func (d gitDirs) part(name string) string { return path.Join(d.root, name) }

// partsFirst makes Restore write the trees Git and Work to separate folders or, if an
// earlier call has built the repository, not at all. If something else is in the place of
// the work folder, the error is tree.ErrExists.
func (r *restoring) partsFirst(d gitDirs) (due bool, err error) {
	res, err := r.host.Run(r.ctx, hostexec.Command{Script: placedScript, Args: []string{d.work, d.id}})
	switch said := string(res.Stdout); {
	case err != nil:
		return false, err
	case said == "taken\n":
		return false, fmt.Errorf("%w: %s", tree.ErrExists, d.work)
	default:
		due = !strings.HasPrefix(said, "placed\n")
	}
	r.spec.Dirs = maps.Clone(r.spec.Dirs)
	delete(r.spec.Dirs, Work)
	if due {
		r.spec.Dirs[Git], r.spec.Dirs[Work] = d.part("parts"), d.part("overlay")
	}
	return due, nil
}

// gitState reads the file stateFile of the snapshot's tree Git.
func (r *restoring) gitState() (state []byte, err error) {
	t, _ := r.out.Manifest.Tree(Git)
	reader := r.c.NewReader(r.ctx)
	defer reader.Close()
	found := false
	err = t.each(reader.Get, func(e Entry) error {
		if e.Path != stateFile {
			return nil
		}
		found = true
		err := e.content(reader.Get, reader.Get, func(chunk []byte, hole int64) error {
			state = append(append(state, chunk...), make([]byte, hole)...)
			return nil
		})
		return cmp.Or(err, errStop)
	})
	switch {
	case err != nil && !errors.Is(err, errStop):
		return nil, err
	case !found:
		return nil, fmt.Errorf("%w: it lacks the state of the git repository", ErrIncomplete)
	}
	return state, nil
}

func (r *restoring) rebuild(d gitDirs) error {
	state, err := r.gitState()
	if err != nil {
		return err
	}
	made, differs, err := rebuildGit(r.ctx, r.host, gitRebuild{Parts: d.part("parts"), Overlay: d.part("overlay"), Root: d.root, State: state, Fence: r.spec.Fence})
	if err != nil {
		return err
	}
	r.out.Differs = differs
	for _, line := range differs {
		r.spec.Logger.Warn("restored work folder is not quite as it was", "snapshot", r.out.Manifest.ID, "dir", d.work, "difference", line)
	}
	_, err = r.host.Run(r.ctx, hostexec.Command{Script: placeScript, Args: []string{made, d.work, d.id}, Fence: r.spec.Fence})
	var exit *hostexec.ExitError
	if errors.As(err, &exit) && exit.Code == exitExists {
		err = fmt.Errorf("%w: %s", tree.ErrExists, d.work)
	}
	if err != nil {
		return err
	}
	return hostexec.RemoveTree(r.ctx, r.host, d.root, path.Dir(d.work), r.spec.Fence)
}
