package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// A Column is a column of a table of results.
type Column struct {
	Title string
	// Cell returns the cell of a line that sums up results.
	Cell func([]*Result) string
}

// Count returns the column that counts the findings of one kind.
func Count(title, finding string) Column {
	return Column{title, func(rs []*Result) string {
		n := 0
		for _, r := range rs {
			n += len(r.Found[finding])
		}
		return fmt.Sprint(n)
	}}
}

// Counts returns the columns that count findings of these kinds.
func Counts(findings []string) []Column {
	var out []Column
	for _, f := range findings {
		out = append(out, Count(f, f))
	}
	return out
}

// Runs is the column that counts the runs that took place.
var Runs = Column{"runs", func(rs []*Result) string {
	took := 0
	for _, r := range rs {
		if r.Took {
			took++
		}
	}
	if took != len(rs) {
		return fmt.Sprintf("%d of %d", took, len(rs))
	}
	return fmt.Sprint(took)
}}

// A Table is a head and the lines below it.
type Table [][]string

// NewTable returns a table that has the titles, and then the columns, as its
// head. The titles name what Add takes as labels.
func NewTable(titles []string, columns []Column) Table {
	head := slices.Clone(titles)
	for _, c := range columns {
		head = append(head, c.Title)
	}
	return Table{head}
}

// Add adds a line that sums up results, unless there are none.
func (t *Table) Add(labels []string, columns []Column, results []*Result) {
	if len(results) == 0 {
		return
	}
	line := slices.Clone(labels)
	for _, c := range columns {
		line = append(line, c.Cell(results))
	}
	*t = append(*t, line)
}

// Markdown returns the table as Markdown.
func (t Table) Markdown() string {
	var b strings.Builder
	for i, line := range t {
		b.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", len(line)) + "\n")
		}
	}
	return b.String()
}

// Plain returns the table for a terminal. The first two columns are aligned
// left, the others right.
func (t Table) Plain() string {
	widths := make([]int, len(t[0]))
	for _, line := range t {
		for i, c := range line {
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	var b strings.Builder
	for _, line := range t {
		for i, c := range line {
			pad := strings.Repeat(" ", widths[i]-len([]rune(c)))
			if i < 2 {
				c, pad = pad, c
			}
			b.WriteString(pad + c + "  ")
		}
		b.WriteString("\n")
	}
	return b.String()
}
