package core

import (
	"os"
	"strings"

	"golang.org/x/term"
)

// Colours reports whether w is a terminal that is to show colours.
func Colours(w any) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && !Accessible()
}

// Accessible reports whether ctl is to be read aloud or the terminal cannot move its
// cursor: then ctl prints lines and asks for lines, with no colours, no spinner and no screen
// of its own.
func Accessible() bool {
	return os.Getenv("TERM") == "dumb" || on("FAIRLEAD_ACCESSIBLE") || on("ACCESSIBLE")
}

func on(variable string) bool {
	switch strings.ToLower(os.Getenv(variable)) {
	case "", "0", "false", "no":
		return false
	}
	return true
}

// TerminalSize returns the size of the terminal w. Of what is none, or says none, it is 80 columns and 24 rows.
func TerminalSize(w any) (columns, rows int) {
	if s, ok := w.(*screen); ok {
		w = s.w
	}
	if f, ok := w.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return 80, 24
}

// TerminalFile returns the terminal that w is, for a program with a screen of its own. What
// that program writes must come from Styled.
func TerminalFile(w any) (*os.File, bool) {
	if s, ok := w.(*screen); ok {
		w = s.w
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// Styled returns the lines that text prints, as a terminal must get them: escaped, with
// styles if colour is true. No style goes on beyond the end of its line.
func Styled(colour bool, text func(p *Printer)) []string {
	var b strings.Builder
	s := &screen{w: &b}
	text(&Printer{W: s, color: colour})
	s.flush()
	all := strings.TrimSuffix(b.String(), "\n")
	if all == "" {
		return nil
	}
	lines, style := strings.Split(all, "\n"), ""
	for i, line := range lines {
		begun := style
		for rest := line; ; { // only a screen's own styles are left in there
			at := strings.Index(rest, "\x1b[")
			if at < 0 {
				break
			}
			end := strings.IndexByte(rest[at:], 'm')
			if end < 0 {
				break
			}
			if style = rest[at : at+end+1]; style == "\x1b[0m" {
				style = ""
			}
			rest = rest[at+end+1:]
		}
		lines[i] = begun + line
		if style != "" {
			lines[i] += "\x1b[0m"
		}
	}
	return lines
}
