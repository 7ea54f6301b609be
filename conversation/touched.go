package conversation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"fairlead.dev/fairlead/conversation/wire"
)

// touched returns the names of the WatchedFiles of which the turn's diff changes a file. cwd is the
// thread's folder.
func touched(diff, cwd string, watched []WatchedFiles) (names []string) {
	if len(watched) == 0 {
		return nil
	}
	for line := range strings.Lines(diff) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "diff --git ")
		if !ok {
			continue
		}
		for _, w := range watched {
			if !slices.Contains(names, w.Name) && w.match(seenFrom(cwd, pathsOf(rest))) {
				names = append(names, w.Name)
			}
		}
	}
	return names
}

// Bounds of a "diff --git" line, which a host wrote: a longer line touches nothing, and of a
// line with more " b/" only the first are tried.
const (
	maxDiffLine = 16 << 10
	maxDiffCuts = 16
)

// pathsOf returns the paths in the rest of a "diff --git" line: a/old b/new. If a path
// contains " b/", the line can be cut in several ways, and one of them is right.
func pathsOf(rest string) (paths []string) {
	if len(rest) > maxDiffLine || !strings.HasPrefix(rest, "a/") {
		return nil
	}
	for at, n := 0, 0; n < maxDiffCuts; n++ {
		i := strings.Index(rest[at:], " b/")
		if i < 0 {
			break
		}
		paths = append(paths, rest[len("a/"):max(at+i, len("a/"))], rest[at+i+len(" b/"):])
		at += i + len(" b/")
	}
	return paths
}

// seenFrom adds to the paths of a diff those that they have seen from cwd. codex names files from the
// nearest folder above cwd that holds a .git (0.125 to 0.169), and elsewhere by absolute paths.
// Which folder that is, the diff does not say: a path that begins with the last names of cwd may be
// meant from above cwd.
func seenFrom(cwd string, paths []string) []string {
	for _, p := range slices.Clone(paths) {
		if rest, ok := strings.CutPrefix(p, strings.TrimSuffix(cwd, "/")+"/"); ok {
			paths = append(paths, rest)
			continue
		}
		for above := strings.Trim(cwd, "/"); above != ""; _, above, _ = strings.Cut(above, "/") {
			if rest, ok := strings.CutPrefix(p, above+"/"); ok {
				paths = append(paths, rest)
			}
		}
	}
	return paths
}

// CheckPatterns returns what is wrong with the patterns of watched files.
func CheckPatterns(patterns []string) error {
	for _, pattern := range patterns {
		if !doublestar.ValidatePattern(pattern) {
			return fmt.Errorf("%q is not a pattern", wire.Excerpt(pattern, 200))
		}
	}
	return nil
}

// Matches reports whether a file matches a pattern. Its path is relative to the work folder.
func (w WatchedFiles) Matches(path string) bool { return w.match([]string{path}) }

// match reports whether a path matches a pattern. A pattern without a slash matches the name
// of a file in any folder.
func (w WatchedFiles) match(paths []string) bool {
	for _, pattern := range w.Patterns {
		if !strings.Contains(pattern, "/") {
			pattern = "**/" + pattern
		}
		pattern = strings.TrimPrefix(pattern, "/")
		if slices.ContainsFunc(paths, func(p string) bool { return doublestar.MatchUnvalidated(pattern, p) }) {
			return true
		}
	}
	return false
}
