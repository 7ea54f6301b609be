package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Wrong counts what has no column of its own.
const Wrong = "wrong"

// A Result is the outcome of one thing that is judged.
type Result struct {
	Subject string // what struck, or what is judged
	Moment  string // when it struck
	Note    string // what was examined, in numbers
	Nth     int    // which repetition
	ID      string // what was struck
	Took    bool   // the fault struck at that moment, and the run finished
	// Recovered is the time from the fault until all was well again; 0: unknown.
	Recovered time.Duration
	// Found has what must not happen, by column.
	Found map[string][]string
}

// Clean reports whether the run took place and nothing was found.
func (r *Result) Clean() bool {
	for _, words := range r.Found {
		if len(words) > 0 {
			return false
		}
	}
	return r.Took
}

// Find adds a finding to a column.
func (r *Result) Find(column, format string, args ...any) {
	if r.Found == nil {
		r.Found = map[string][]string{}
	}
	r.Found[column] = append(r.Found[column], fmt.Sprintf(format, args...))
}

// Must adds err to the column Wrong, unless it is nil.
func (r *Result) Must(what string, err error) {
	if err != nil {
		r.Find(Wrong, "%s: %v", what, err)
	}
}

// Report returns lines with the findings, the command that repeats the run,
// and the trace of what happened. Long findings are cut.
func (r *Result) Report(columns []string, command string, trace []string) string {
	var b strings.Builder
	for _, column := range columns {
		for _, words := range r.Found[column] {
			fmt.Fprintf(&b, "\n    %s: %.1500s", column, words)
		}
	}
	fmt.Fprintf(&b, "\n    again: %s", command)
	for _, line := range trace {
		b.WriteString("\n      " + line)
	}
	return b.String()
}

// Clean reports whether there are results, and all are clean.
func Clean(results []*Result) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(r *Result) bool { return !r.Clean() })
}

// Select returns the results for which of is true.
func Select(results []*Result, of func(*Result) bool) []*Result {
	return slices.DeleteFunc(slices.Clone(results), func(r *Result) bool { return !of(r) })
}
