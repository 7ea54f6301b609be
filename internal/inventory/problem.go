package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Place is a line and a column, from 1; 0 if unknown. File is empty for the main file.
type Place struct {
	File         string
	Line, Column int
}

func (p Place) String() string {
	var parts []string
	if p.File != "" {
		parts = append(parts, p.File)
	}
	if p.Line > 0 {
		parts = append(parts, fmt.Sprintf("line %d", p.Line))
	}
	if p.Column > 0 {
		parts = append(parts, fmt.Sprintf("column %d", p.Column))
	}
	return strings.Join(parts, ", ")
}

// in returns name if the place is unknown.
func (p Place) in(name string) string {
	if s := p.String(); s != "" {
		return s
	}
	return name
}

// A Problem is one mistake, or one thing that was skipped.
type Problem struct {
	Place
	Text string

	host string // in the file, if the problem concerns one host
}

func (p Problem) String() string {
	if s := p.Place.String(); s != "" {
		return s + ": " + p.Text
	}
	return p.Text
}

// Error holds every mistake of a file, sorted by place.
type Error struct {
	Name     string
	Format   Format
	Problems []Problem
}

const shown = 50

func (e *Error) Error() string {
	name := e.Name
	if e.Format != "" {
		name += " (as " + string(e.Format) + ")"
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

// sorted also removes duplicates.
func sorted(all []Problem) []Problem {
	seen := map[Problem]bool{}
	out := slices.DeleteFunc(slices.Clone(all), func(p Problem) bool {
		p.host = ""
		defer func() { seen[p] = true }()
		return seen[p]
	})
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return out
}
