package batchfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one mistake in a file. Line or Column is 0 if unknown.
type Problem struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"message"`
}

func (p Problem) String() string {
	switch {
	case p.Line == 0:
		return p.Text
	case p.Column == 0:
		return fmt.Sprintf("line %d: %s", p.Line, p.Text)
	}
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Text)
}

// Error holds every mistake of a file, sorted by place.
type Error struct {
	Name     string
	Problems []Problem
}

const shown = 50

func (e *Error) Error() string {
	name := e.Name
	if name == "" {
		name = "the batch"
	}
	if len(e.Problems) == 1 {
		return fmt.Sprintf("%s: %s", name, e.Problems[0])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d mistakes:", name, len(e.Problems))
	for i, p := range e.Problems {
		if i == shown {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Problems)-shown)
			break
		}
		fmt.Fprintf(&b, "\n  %s", p)
	}
	return b.String()
}

func mistake(at place, format string, args ...any) error {
	return &Error{Problems: []Problem{{at.line, at.column, fmt.Sprintf(format, args...)}}}
}

// sorted also removes duplicates: many items may inherit a mistake.
func sorted(all []Problem) []Problem {
	seen := map[Problem]bool{}
	out := slices.DeleteFunc(slices.Clone(all), func(p Problem) bool {
		defer func() { seen[p] = true }()
		return seen[p]
	})
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return out
}
