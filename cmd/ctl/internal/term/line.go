package term

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// A Line is a line of text in one style.
type Line struct {
	Style core.Style
	Text  string
}

// Lines returns the lines of a text in one style, each with a margin.
func Lines(style core.Style, margin, text string) (all []Line) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		all = append(all, Line{style, margin + line})
	}
	return all
}

// Print prints lines.
func Print(p *core.Printer, all []Line) {
	for _, l := range all {
		p.Printf("%s\n", p.Paint(l.Style, core.Clean(l.Text)))
	}
}

// Wrap returns lines that fit into a width. The rest of a long line has its indent. Wrap writes
// hidden characters as escapes, and replaces each tab by as many blanks as a terminal shows.
func Wrap(all []Line, width int) (out []Line) {
	width = max(width, 10)
	for _, l := range all {
		text := untab(core.Clean(l.Text))
		indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
		if len(indent) > width/2 {
			indent = ""
		}
		for first := true; ; first = false {
			room := width
			if !first {
				room -= len(indent)
			}
			near := text
			if len(near) > 8*width { // so that a line of a megabyte is not measured for each row
				near = strings.ToValidUTF8(near[:8*width], "")
			}
			head := ansi.Truncate(near, room, "")
			if head == "" {
				head = near
			}
			if i := strings.LastIndexByte(head, ' '); len(head) < len(text) && text[len(head)] != ' ' && i > len(head)*2/3 {
				head = head[:i+1] // between words
			}
			rest := text[len(head):]
			if !first {
				head = indent + head
			}
			if out = append(out, Line{l.Style, head}); rest == "" {
				break
			}
			text = rest
		}
	}
	return out
}

// untab replaces tabs by blanks.
func untab(s string) string {
	if !strings.Contains(s, "\t") {
		return s
	}
	var b strings.Builder
	at := 0
	for i, part := range strings.Split(s, "\t") {
		if i > 0 {
			n := 8 - at%8
			b.WriteString(strings.Repeat(" ", n))
			at += n
		}
		b.WriteString(part)
		at += ansi.StringWidth(part)
	}
	return b.String()
}

// Width returns how many columns of a terminal a text takes.
func Width(s string) int { return ansi.StringWidth(s) }

// Fit cuts a text to a width, with … where something is cut.
func Fit(s string, width int) string { return ansi.Truncate(s, max(width, 0), "…") }

// Bounded returns the first lines, at most n as a terminal of that width shows them, and how
// many are left out. A line that would fill several rows is cut.
func Bounded(all []Line, n, width int) (some []Line, more int) {
	const mostRows = 3
	rows := 0
	for i, l := range all {
		near := l
		if most := 8 * width * mostRows; len(near.Text) > most {
			near.Text = strings.ToValidUTF8(near.Text[:most], "")
		}
		one := Wrap([]Line{near}, width)
		if len(one) > mostRows {
			cut := len([]rune(core.Clean(l.Text)))
			one = one[:mostRows]
			for _, o := range one {
				cut -= len([]rune(o.Text))
			}
			one = append(one, Line{core.Dim, fmt.Sprintf("    … about %d more characters in this line", max(cut, 1))})
		}
		if rows += len(one); rows > n && i > 0 && len(all)-i > 1 {
			return some, len(all) - i
		}
		some = append(some, one...)
	}
	return some, 0
}
