package escape

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Hidden reports whether a character is shown as an escape: control characters except line
// feed and tab, marks that change the direction of writing, invisible characters, separators
// of lines and paragraphs, and tags.
func Hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f: // C0, DEL, C1
		return true
	case r < 0xad:
		return false
	}
	switch {
	case r == 0xad, r == 0x61c, r == 0x180e, r == 0xfeff,
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, // the fillers of Hangul, which look like a space or nothing
		r >= 0x200b && r <= 0x200f,
		r >= 0x2028 && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f,
		r >= 0xfff9 && r <= 0xfffb,
		r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// Text returns s with its hidden characters as escapes.
func Text(s string) string {
	n := plain(s, Hidden)
	if n == len(s) {
		return s
	}
	return string(Append(append(make([]byte, 0, len(s)+16), s[:n]...), s[n:]))
}

// OneLine puts a text on one line of at most n characters, with its hidden characters as
// escapes.
func OneLine(s string, n int) string {
	s = strings.Join(strings.Fields(Text(s)), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Line is Text for one line: line feeds and tabs are escaped, too.
func Line(s string) string {
	n := plain(s, beside)
	if n == len(s) {
		return s
	}
	return string(appendEscaped(append(make([]byte, 0, len(s)+16), s[:n]...), s[n:], beside))
}

func beside(r rune) bool { return r == '\n' || r == '\t' || Hidden(r) }

// Append appends Text(s) to b.
func Append(b []byte, s string) []byte { return appendEscaped(b, s, Hidden) }

// plain returns the length of the beginning of s that needs no escape.
func plain(s string, hidden func(rune) bool) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || hidden(r) {
			return i
		}
		i += n
	}
	return len(s)
}

func appendEscaped(b []byte, s string, hidden func(rune) bool) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, s[i])
		case !hidden(r):
			b = append(b, s[i:i+n]...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < 0x80:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
		i += n
	}
	return b
}
