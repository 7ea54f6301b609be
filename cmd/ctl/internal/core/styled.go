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

// TerminalSize returns the size of the terminal w. If w is not a terminal, or does not report a
// size, it returns 80 columns and 24 rows.
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

// TerminalFile returns w as a file, if w is a terminal. It is for a program that draws a full
// screen. All that the program writes must come from Styled.
func TerminalFile(w any) (*os.File, bool) {
	if s, ok := w.(*screen); ok {
		w = s.w
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}
