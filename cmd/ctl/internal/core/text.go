package core

import (
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// CutLast splits an approval's id, such as s1.2, into session and number.
func CutLast(id string) (session, n string, ok bool) { return protocol.CutApproval(id) }

// SortedKeys returns the keys of m in order.
func SortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// RandomID returns a random name of 50 bits.
func RandomID() string { return protocol.RandomID() }

// OneLine puts a text on one line of at most n characters, cleaned.
func OneLine(s string, n int) string { return escape.OneLine(s, n) }

// Age says how long ago t was.
func Age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := time.Since(t)
	switch {
	case d < 0:
		return "in " + Short(-d)
	default:
		return Short(d) + " ago"
	}
}

// Short formats a duration in its largest unit.
func Short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Clean returns s with its hidden characters, such as those of escape sequences, as visible
// escapes.
func Clean(s string) string { return escape.Text(s) }

// Size formats a number of bytes.
func Size(n int64) string {
	const units = "KMGTP"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1023.95 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}

// CountOf returns a number with its noun, or "" for 0.
func CountOf(n int, thing string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Number is CountOf, with a text for 0.
func Number(n int, thing string) string {
	if n == 0 {
		return "no " + thing + "s"
	}
	return CountOf(n, thing)
}

// PollEvery is how often ctl queries a session. A query adds no event to the history.
const PollEvery = 200 * time.Millisecond
