package conversation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"fairlead.dev/fairlead/conversation/wire"
)

// touched names those watched files of which a turn's diff changes one.
func touched(diff string, watched []WatchedFiles) (names []string) {
	if len(watched) == 0 {
		return nil
	}
	for line := range strings.Lines(diff) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "diff --git ")
		if !ok {
			continue
		}
		for _, w := range watched {
			if !slices.Contains(names, w.Name) && w.match(pathsOf(rest)) {
				names = append(names, w.Name)
			}
		}
	}
	return names
}

// pathsOf returns the paths in the rest of a "diff --git" line: a/old b/new.
func pathsOf(rest string) (paths []string) {
	for i := range len(rest) {
		if old, renamed := strings.CutPrefix(rest[:i], "a/"); renamed && strings.HasPrefix(rest[i:], " b/") {
			paths = append(paths, old, rest[i+len(" b/"):]) // a path may contain " b/": then one cut of several is right
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
