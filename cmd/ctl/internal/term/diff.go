package term

import (
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// Diff returns a unified diff, line by line, in its colours.
func Diff(diff string) (all []Line) {
	diff = strings.TrimSuffix(diff, "\n")
	if diff == "" {
		return nil
	}
	for line := range strings.SplitSeq(diff, "\n") {
		all = append(all, Line{styleOf(line), line})
	}
	return all
}

func styleOf(line string) core.Style {
	switch {
	case strings.HasPrefix(line, "+"):
		return core.Green
	case strings.HasPrefix(line, "-"):
		return core.Red
	case strings.HasPrefix(line, "@@"):
		return core.Cyan
	}
	return ""
}

// Change returns what a change does to its file. For a new or a deleted file, codex gives its
// text instead of a diff: each of its lines gets the sign of a diff.
func Change(kind, diff string) (all []Line) {
	sign := map[string]string{"add": "+", "delete": "-"}[kind]
	if sign == "" {
		return Diff(diff)
	}
	if diff == "" {
		return []Line{{core.Dim, "(an empty file)"}}
	}
	all = Lines(styleOf(sign), sign, diff)
	if !strings.HasSuffix(diff, "\n") {
		all = append(all, Line{core.Dim, `\ no newline at the end`})
	}
	if n := len(diff) - len(strings.TrimRight(diff, "\n")); n > 1 { // empty lines at the end count, too
		for range n - 1 {
			all = append(all, Line{styleOf(sign), sign})
		}
	}
	return all
}
