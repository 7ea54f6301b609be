package term

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"charm.land/glamour/v2"
	"charm.land/glamour/v2/ansi"
	"charm.land/glamour/v2/styles"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// Bounds of Markdown: a longer text is printed as it is, and no line is wider.
const (
	maxMarkdown  = 64 << 10
	maxTextWidth = 100
	// The renderer takes long for many lines at once, for what is nested deeply and for very
	// many marks.
	maxLines   = 200
	maxNesting = 24
	maxMarks   = 4000
)

// simple reports whether a text can be rendered quickly, even if its author wants to slow ctl
// down.
func simple(text string) bool {
	marks := 0
	for i := 0; i < len(text); i++ {
		if strings.IndexByte("*_[]`~!|<&\\", text[i]) >= 0 {
			marks++
		}
	}
	if len(text) > maxMarkdown || marks > maxMarks {
		return false
	}
	for line := range strings.Lines(text) {
		if len(line)-len(strings.TrimLeft(line, "> \t-*+.)0123456789")) > maxNesting {
			return false
		}
	}
	return true
}

// Markdown prints a text of the model as Markdown, in styles and wrapped to a width. The
// text decides nothing but the styles of its parts: addresses are shown, not hidden behind
// words, HTML and entities are shown as they are written, and no sequence of a terminal gets
// through.
func Markdown(p *core.Printer, text string, width int) {
	if len(text) > maxMarkdown { // even in parts it would take long
		p.Printf("%s\n", core.Clean(strings.TrimRight(text, "\n")))
		return
	}
	for {
		head := firstLines(text, maxLines)
		if len(head) == len(text) {
			break
		}
		if whole, _ := Blocks(head); whole != "" {
			head = whole
		}
		markdown(p, head, width)
		p.Printf("\n")
		text = strings.TrimLeft(text[len(head):], "\n")
	}
	markdown(p, text, width)
}

// firstLines returns the first n lines of a text.
func firstLines(text string, n int) string {
	at := 0
	for ; n > 0; n-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return text
		}
		at += i + 1
	}
	return text[:at]
}

// markdown prints a part of bounded length.
func markdown(p *core.Printer, text string, width int) {
	text = strings.TrimRight(text, "\n")
	out, err := rendered(text, min(width, maxTextWidth))
	if err != nil {
		p.Printf("%s\n", core.Clean(text))
		return
	}
	for line := range strings.SplitSeq(out, "\n") {
		printStyled(p, line)
	}
}

// Goldmark would decode entities, which can hide what a terminal obeys, and glamour would drop
// HTML. These letters stand for & and < meanwhile.
const ampersand, less = "\ue126", "\ue13c"

var (
	hide = strings.NewReplacer("&", ampersand, "<", less, ampersand, `\ue126`, less, `\ue13c`)
	show = strings.NewReplacer(ampersand, "&", less, "<", "%EE%84%A6", "&", "%EE%84%BC", "<")
)

func rendered(text string, width int) (out string, err error) {
	if !simple(text) {
		return "", errors.New("it is too long, nested too deeply or has too many marks")
	}
	defer func() { // the model chooses what the parser reads
		if v := recover(); v != nil {
			err = fmt.Errorf("render Markdown: %v", v)
		}
	}()
	r, err := glamour.NewTermRenderer(glamour.WithStyles(look), glamour.WithWordWrap(max(width, 20)), glamour.WithInlineTableLinks(true))
	if err != nil {
		return "", err
	}
	out, err = r.Render(hide.Replace(core.Clean(text)))
	return strings.Trim(out, "\n"), err
}

// look has styles that are readable on light and dark terminals.
var look = func() ansi.StyleConfig {
	s := styles.ASCIIStyleConfig
	yes, cyan, blue := true, "6", "4"
	none := uint(0)
	s.Document = ansi.StyleBlock{Margin: &none}
	s.Heading = ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Bold: &yes, Color: &blue, BlockSuffix: "\n"}}
	s.Strong = ansi.StylePrimitive{Bold: &yes}
	s.Emph = ansi.StylePrimitive{Italic: &yes}
	s.Code = ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Color: &cyan}}
	two := uint(2)
	s.CodeBlock = ansi.StyleCodeBlock{StyleBlock: ansi.StyleBlock{Margin: &two, StylePrimitive: ansi.StylePrimitive{Color: &cyan}}}
	s.Link = ansi.StylePrimitive{Underline: &yes}
	return s
}()

// printStyled prints a line of glamour's. Its styles go the way of all styles, links of
// terminals are dropped, and whatever else it has is text.
func printStyled(p *core.Printer, line string) {
	var parts []Line
	for _, span := range core.Spans(line) {
		parts = append(parts, Line{span.Style, core.Clean(show.Replace(span.Text))})
	}
	for len(parts) > 0 { // glamour fills lines up with blanks
		last := &parts[len(parts)-1]
		if last.Text = strings.TrimRight(last.Text, " "); last.Text != "" {
			break
		}
		parts = parts[:len(parts)-1]
	}
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(p.Paint(part.Style, part.Text))
	}
	p.Printf("%s\n", b.String())
}

// Blocks splits a text that still grows. whole has the complete blocks of Markdown, which look
// the same when they are rendered without the rest.
func Blocks(text string) (whole, rest string) {
	var g Growing
	n := g.Whole([]byte(text))
	return text[:n], text[n:]
}

// Growing looks for the whole blocks of a text that grows. It reads each line once. The zero value
// is for an empty text.
type Growing struct {
	fence string
	blank bool // the last line was
	at    int  // where the first line begins that was not read to its end
	cut   int
}

// Whole returns how many bytes of a text are whole blocks. The text must begin with the one of the
// call before.
func (g *Growing) Whole(text []byte) int {
	for g.at < len(text) {
		line := text[g.at:]
		end := bytes.IndexByte(line, '\n') + 1
		if end > 0 {
			line = line[:end]
		}
		if g.fence == "" && g.blank && begins(string(line[:min(len(line), 100)])) {
			g.cut = g.at
		}
		if end == 0 {
			break
		}
		bare := string(bytes.TrimSpace(line))
		if mark := fenceOf(bare); mark != "" && (g.fence == "" || strings.HasPrefix(mark, g.fence) && strings.Trim(bare, mark[:1]) == "") {
			if g.fence == "" {
				g.fence = mark
			} else {
				g.fence = ""
			}
		}
		g.blank = bare == "" && g.fence == ""
		g.at += end
	}
	return g.cut
}

// Forget says that the first n bytes of the text, at most those that are whole, are cut off.
func (g *Growing) Forget(n int) { g.at, g.cut = g.at-n, g.cut-n }

// begins reports whether a line after a blank line begins a block of its own. An item, an
// indented line, a quotation and a row of a table may continue an earlier block.
func begins(line string) bool {
	if strings.TrimSpace(line) == "" || strings.ContainsAny(line[:1], " \t>|-*+0123456789[") {
		return false
	}
	return true
}

func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}
