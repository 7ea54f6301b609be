package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"fairlead.dev/fairlead/activities"
)

// A style is the parameter of a terminal escape sequence (SGR). It is written only to
// terminals.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "34"
	cyan   style = "36"
)

// A printer writes results as text or as JSON. It is not safe for concurrent use.
type printer struct {
	w     io.Writer
	json  bool
	color bool
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func newPrinter(w io.Writer, asJSON bool) *printer {
	color := isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &printer{w: w, json: asJSON, color: color && !asJSON}
}

// show prints one object or one line of a stream: v as JSON, or the output of text.
func (p *printer) show(v any, text func(p *printer)) error {
	if !p.json {
		text(p)
		return nil
	}
	enc := json.NewEncoder(p.w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// showAll prints a list: one JSON object per line, or the output of text for all.
func showAll[T any](p *printer, list []T, text func(p *printer)) error {
	if !p.json {
		text(p)
		return nil
	}
	for _, v := range list {
		if err := p.show(v, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

// paint puts text into a style, on a terminal.
func (p *printer) paint(s style, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// table prints aligned columns under a header. A cell can have a style.
func (p *printer) table(header []string, rows [][]cell) {
	width := make([]int, len(header))
	for i, h := range header {
		width[i] = utf8.RuneCountInString(h)
	}
	for _, row := range rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	line := func(cells []cell) {
		var b strings.Builder
		for i, c := range cells {
			b.WriteString(p.paint(c.style, c.text))
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		p.printf("%s\n", strings.TrimRight(b.String(), " "))
	}
	head := make([]cell, len(header))
	for i, h := range header {
		head[i] = cell{h, dim}
	}
	line(head)
	for _, row := range rows {
		line(row)
	}
}

// fields prints aligned pairs of names and values. It omits empty values.
func (p *printer) fields(pairs ...cell) {
	width := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1].text != "" {
			width = max(width, utf8.RuneCountInString(pairs[i].text))
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if name, value := pairs[i], pairs[i+1]; value.text != "" {
			p.printf("%s%s  %s\n", p.paint(dim, name.text),
				strings.Repeat(" ", width-utf8.RuneCountInString(name.text)), p.paint(value.style, value.text))
		}
	}
}

// A cell is a text on one line, with a style.
type cell struct {
	text  string
	style style
}

// plain returns a cell for any value, without a style.
func plain(v any) cell { return painted("", v) }

// painted returns a cell with a style. Times are shown as ages.
func painted(s style, v any) cell {
	text := ""
	switch v := v.(type) {
	case nil:
	case string:
		text = v
	case time.Time:
		text = age(v)
	case *time.Time:
		if v != nil {
			text = age(*v)
		}
	default:
		text = fmt.Sprint(v)
	}
	return cell{strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, clean(text)), s}
}

// age says how long ago t was.
func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := time.Since(t)
	switch {
	case d < 0:
		return "in " + short(-d)
	default:
		return short(d) + " ago"
	}
}

func short(d time.Duration) string {
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

// clean removes what a terminal would act on from text of hosts, models and other people.
func clean(s string) string { return activities.Harmless(s) }
