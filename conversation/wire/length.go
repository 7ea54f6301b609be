package wire

import (
	"encoding/json"
	"unicode/utf8"
)

// The bounds of a result count bytes of JSON: one byte of text may become six.

// Len returns how many bytes s takes in JSON, without the quotes.
func Len(s string) int {
	n := 0
	for i := 0; i < len(s); {
		wide, size := RuneLen(s[i:])
		i += size
		n += wide
	}
	return n
}

// JSONLen returns the length of v as JSON; 0 for null.
func JSONLen(v any) int {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("conversation: JSON of plain values: " + err.Error())
	}
	if string(raw) == "null" {
		return 0
	}
	return len(raw)
}

// RuneLen returns how many bytes the first character of s takes in JSON, as encoding/json
// writes it with HTML escapes, and in s.
func RuneLen(s string) (wide, size int) {
	switch c := s[0]; {
	case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
		return 2, 1
	case c < ' ', c == '<', c == '>', c == '&':
		return 6, 1
	case c < utf8.RuneSelf:
		return 1, 1
	}
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
		return 6, size
	}
	return size, size
}

// Excerpt returns the longest prefix of s that takes at most max bytes in JSON and has only
// whole characters.
func Excerpt(s string, max int) string {
	if 6*len(s) <= max {
		return s
	}
	for i := 0; i < len(s); {
		wide, size := RuneLen(s[i:])
		if max -= wide; max < 0 {
			return s[:i]
		}
		i += size
	}
	return s
}
