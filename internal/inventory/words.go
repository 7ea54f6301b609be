package inventory

import (
	"errors"
	"strings"
	"unicode"
)

type word struct {
	text   string
	column int
}

// split splits a line into words, quoted as in a POSIX shell, up to a comment.
func split(line string) ([]word, error) {
	var out []word
	var b strings.Builder
	var quote rune
	in, begun, escaped := false, 0, false
	column := 0
	end := func() {
		if in {
			out = append(out, word{b.String(), begun})
		}
		b.Reset()
		in = false
	}
	for _, c := range line {
		column++
		if !in && !unicode.IsSpace(c) {
			begun = column
		}
		switch {
		case escaped:
			if quote == '"' && c != '"' && c != '\\' {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
			escaped = false
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '\\':
			b.WriteRune(c)
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\':
			escaped, in = true, true
		case c == '"' || c == '\'':
			quote, in = c, true
		case c == '#':
			end()
			return out, nil
		case unicode.IsSpace(c):
			end()
		default:
			in = true
			b.WriteRune(c)
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quotation is not closed")
	case escaped:
		return nil, errors.New("the line ends with a backslash")
	}
	end()
	return out, nil
}
