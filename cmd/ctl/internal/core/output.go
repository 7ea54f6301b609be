package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/fairlead/internal/escape"
)

// A Style is the parameter of an SGR escape sequence. It is written only to terminals.
type Style string

const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "34"
	Cyan   Style = "36"
)

// A Printer writes results as text or as JSON. It is not safe for concurrent use.
type Printer struct {
	W     io.Writer
	JSON  bool
	color bool
}

// NewPrinter returns a printer to w. Only terminals get colour.
func NewPrinter(w io.Writer, asJSON bool) *Printer {
	return &Printer{W: Screen(w), JSON: asJSON, color: Colours(w) && !asJSON}
}

// Show prints v as JSON, or the output of text.
func (p *Printer) Show(v any, text func(p *Printer)) error {
	if !p.JSON {
		text(p)
		return nil
	}
	return WriteJSON(p.W, v)
}

// WriteJSON writes v as a line of JSON. Hidden characters in it are JSON's escapes.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escape.JSON(b.Bytes()))
	return err
}

// ShowAll prints a list as one JSON object per line, or the output of text.
func ShowAll[T any](p *Printer, list []T, text func(p *Printer)) error {
	if !p.JSON {
		text(p)
		return nil
	}
	for _, v := range list {
		if err := p.Show(v, nil); err != nil {
			return err
		}
	}
	return nil
}

// Printf writes as fmt.Printf does, with all hidden characters as escapes: terminals get no
// others, and who prints a file later does not, either.
func (p *Printer) Printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !IsTerminal(p.W) {
		text = escape.Text(text)
	}
	_, _ = io.WriteString(p.W, text) // as with fmt.Printf, nobody looks
}

// Exact writes text for programs: files and pipes get it as it is, terminals escaped.
func (p *Printer) Exact(text string) { _, _ = io.WriteString(p.W, text) }

// Paint returns text in a style, which only terminals get.
func (p *Printer) Paint(s Style, text string) string {
	if !p.color || s == "" || text == "" {
		return text
	}
	return inked(s, text)
}

// Table prints aligned columns under a header.
func (p *Printer) Table(header []string, rows [][]Cell) {
	width := make([]int, len(header))
	for i, h := range header {
		width[i] = utf8.RuneCountInString(h)
	}
	for _, row := range rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	line := func(cells []Cell) {
		var b strings.Builder
		for i, c := range cells {
			b.WriteString(p.Paint(c.style, c.text))
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		p.Printf("%s\n", strings.TrimRight(b.String(), " "))
	}
	head := make([]Cell, len(header))
	for i, h := range header {
		head[i] = Cell{h, Dim}
	}
	line(head)
	for _, row := range rows {
		line(row)
	}
}

// Fields prints aligned pairs of names and values, without empty values.
func (p *Printer) Fields(pairs ...Cell) {
	width := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1].text != "" {
			width = max(width, utf8.RuneCountInString(pairs[i].text))
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if name, value := pairs[i], pairs[i+1]; value.text != "" {
			p.Printf("%s%s  %s\n", p.Paint(Dim, name.text),
				strings.Repeat(" ", width-utf8.RuneCountInString(name.text)), p.Paint(value.style, value.text))
		}
	}
}

// A Cell is a text on one line, with a style.
type Cell struct {
	text  string
	style Style
}

// Plain returns a cell for any value.
func Plain(v any) Cell { return Painted("", v) }

// Painted returns a cell with a style. Times are shown as ages.
func Painted(s Style, v any) Cell {
	text := ""
	switch v := v.(type) {
	case nil:
	case string:
		text = v
	case time.Time:
		text = Age(v)
	case *time.Time:
		if v != nil {
			text = Age(*v)
		}
	default:
		text = fmt.Sprint(v)
	}
	return Cell{strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Clean(text)), s}
}
