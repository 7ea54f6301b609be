package snapshots

import (
	"path"
	"strings"

	"fairlead.dev/fairlead/hostexec/tree"
)

type treeFilter struct {
	excluder *excluder
	skip     *pathFilter // left out and listed
	why      func(path string) string
	only     map[string]bool // folders to keep (true), and their parents (false)
}

type verdict int

const (
	kept     verdict = iota
	ignored          // or in a folder that is left out
	leftThis         // and listed
)

func newTreeFilter(t TreeSpec, others []TreeSpec) (*treeFilter, error) {
	x, err := newExcluder(t.Exclude)
	if err != nil {
		return nil, err
	}
	own := ownFolders(t, others)
	why := func(p string) string {
		switch {
		case credential(t.Name, p):
			return whyCredential
		case own[p]:
			return whyOtherTree
		case t.Skip != nil && t.Skip(p):
			return whySkipped
		}
		return ""
	}
	return &treeFilter{excluder: x, only: onlyOf(t.Only), why: why,
		skip: &pathFilter{match: func(p string, _ bool) bool { return why(p) != "" }}}, nil
}

func (f *treeFilter) judge(p string, dir bool) verdict {
	if !f.wanted(p) {
		return ignored
	}
	if p == "." {
		return kept // to keep its mode and time
	}
	if f.skip.inMatch(path.Dir(p)) {
		return ignored
	}
	if f.skip.match(p, dir) {
		return leftThis
	}
	if f.excluder.excluded(p, dir) {
		return ignored
	}
	return kept
}

func onlyOf(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	only := map[string]bool{}
	for _, name := range names {
		only[name] = true
		for dir := path.Dir(name); dir != "." && !only[dir]; dir = path.Dir(dir) {
			only[dir] = false
		}
	}
	return only
}

func (f *treeFilter) wanted(p string) bool {
	if f.only == nil {
		return true
	}
	if _, there := f.only[p]; there {
		return true
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if f.only[dir] {
			return true
		}
	}
	return false
}

// credential reports whether a file of a CODEX_HOME holds a credential. The work folder may
// contain a CODEX_HOME in a folder .codex. A project's own config.toml or .env is not a
// credential.
func credential(tree, p string) bool {
	if tree != Rollouts && path.Base(path.Dir(p)) != ".codex" {
		return false
	}
	switch name := path.Base(p); name {
	case "auth.json", ".credentials.json", "config.toml":
		return true
	default:
		return strings.HasSuffix(name, ".env")
	}
}

// ownFolders returns the folders below this tree that are other trees. Files that these
// leave out must not be kept here.
func ownFolders(t TreeSpec, others []TreeSpec) map[string]bool {
	own := map[string]bool{}
	for _, o := range others {
		if p, inside := strings.CutPrefix(o.Dir, t.Dir+"/"); inside && o.Name != t.Name {
			own[p] = true
		}
	}
	return own
}

// A pathFilter remembers the results for the folders of the last path.
type pathFilter struct {
	match func(p string, dir bool) bool
	dirs  []matchedDir // outermost first
}

type matchedDir struct {
	path    string
	matched bool
}

func (f *pathFilter) inMatch(dir string) bool {
	if dir == "." {
		return false
	}
	keep := 0
	for keep < len(f.dirs) && (f.dirs[keep].path == dir || strings.HasPrefix(dir, f.dirs[keep].path+"/")) {
		keep++
	}
	f.dirs = f.dirs[:keep]
	done, matched := "", false
	if keep > 0 {
		done, matched = f.dirs[keep-1].path, f.dirs[keep-1].matched
	}
	for done != dir {
		from := 0
		if done != "" {
			from = len(done) + 1
		}
		done = dir
		if i := strings.IndexByte(dir[from:], '/'); i >= 0 {
			done = dir[:from+i]
		}
		matched = matched || f.match(done, true)
		f.dirs = append(f.dirs, matchedDir{done, matched})
	}
	return matched
}

// prunes returns the patterns that the host's find interprets as we do, so that it does not
// list excluded folders.
func (f *treeFilter) prunes() []string {
	var out []string
	for _, p := range f.excluder.patterns {
		if p.not {
			return nil // p may include what another pattern excludes
		}
		glob := strings.ContainsAny(p.text, `*?[\`)
		if glob && (!p.baseOnly || strings.ContainsAny(p.text, `[\`)) || !utf8Clean(p.text) {
			continue
		}
		if p.baseOnly == strings.Contains(p.text, "/") || path.Clean(p.text) != p.text || strings.HasPrefix(p.text, "../") {
			continue
		}
		text := p.text
		if p.dirOnly {
			text += "/"
		}
		out = append(out, text)
	}
	return out
}

// utf8Clean reports whether s is printable ASCII, whose meaning does not depend on the
// locale.
func utf8Clean(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func kindOfEntry(k tree.Kind) (kind Kind, why string) {
	switch k {
	case tree.RegularFile:
		return File, ""
	case tree.Folder:
		return Dir, ""
	case tree.Symlink:
		return Symlink, ""
	case tree.FIFO:
		return 0, "fifo"
	case tree.Socket:
		return 0, "socket"
	}
	return 0, "device"
}
