package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A matrix counts results by fault and moment.
type matrix struct {
	results []result
}

func newMatrix(results []result) matrix { return matrix{results} }

func (m matrix) runs() (n int) {
	for _, r := range m.results {
		if r.took {
			n++
		}
	}
	return n
}

func (m matrix) clean() bool {
	for _, r := range m.results {
		if !r.clean() {
			return false
		}
	}
	return len(m.results) > 0
}

var head = []string{"fault", "moment", "runs", "events lost", "repeated", "answers lost", "repeated", "flows again", "left over", "wrong"}

// whole returns the matrix in the order of faults and moments.
func (m matrix) whole() [][]string {
	rows := [][]string{head}
	for _, f := range faults {
		for _, mo := range moments {
			c := m.count(func(r result) bool { return r.fault == f.name && r.moment == mo.name })
			if c.tried > 0 {
				rows = append(rows, c.row(f.name, mo.name))
			}
		}
	}
	all := m.count(func(result) bool { return true })
	return append(rows, all.row("all", ""))
}

func (m matrix) brief() [][]string {
	rows := [][]string{slices.Clone(head)}
	rows[0][1] = "moments"
	for _, f := range faults {
		c := m.count(func(r result) bool { return r.fault == f.name })
		if c.tried > 0 {
			rows = append(rows, c.row(f.name, fmt.Sprint(len(c.moments))))
		}
	}
	all := m.count(func(result) bool { return true })
	return append(rows, all.row("all", fmt.Sprint(len(all.moments))))
}

func (m matrix) count(of func(result) bool) cellOf {
	c := cellOf{moments: map[string]bool{}}
	for _, r := range m.results {
		if of(r) {
			c.add(r)
		}
	}
	return c
}

// cellOf is the sum over the runs of a cell.
type cellOf struct {
	tried, took             int
	el, er, al, ar, left, w int
	flows                   []time.Duration
	moments                 map[string]bool
}

func (c *cellOf) add(r result) {
	c.tried++
	c.moments[r.moment] = true
	if r.took {
		c.took++
	}
	c.el += len(r.eventsLost)
	c.er += len(r.eventsRepeated)
	c.al += len(r.answersLost)
	c.ar += len(r.answersRepeated)
	c.left += len(r.left)
	c.w += len(r.wrong)
	if r.flow > 0 {
		c.flows = append(c.flows, r.flow)
	}
}

func (c *cellOf) row(fault, moment string) []string {
	runs := fmt.Sprint(c.took)
	if c.took != c.tried {
		runs = fmt.Sprintf("%d of %d", c.took, c.tried)
	}
	flow := "–"
	if len(c.flows) > 0 {
		slices.Sort(c.flows)
		flow = fmt.Sprintf("%.1f s", c.flows[len(c.flows)/2].Seconds())
	}
	return []string{fault, moment, runs, fmt.Sprint(c.el), fmt.Sprint(c.er), fmt.Sprint(c.al), fmt.Sprint(c.ar), flow, fmt.Sprint(c.left), fmt.Sprint(c.w)}
}

func markdownTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
		}
	}
	return b.String()
}

func plainTable(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(c)))
			switch {
			case i < 2:
				b.WriteString(c + pad + "  ")
			default:
				b.WriteString(pad + c + "  ")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
