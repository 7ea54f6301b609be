package strictyaml

import (
	"errors"
	"unicode/utf8"
)

// Shallow refuses data that is slow to parse as YAML: invalid UTF-8, and nesting deeper
// than most, by brackets or by "- - - -" in one line. With prose, brackets in texts need
// not balance, and each line end counts as a closing one.
func Shallow(data []byte, most int, prose bool) error {
	if !utf8.Valid(data) {
		return errors.New("it is not text in UTF-8")
	}
	depth, column := 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			column = 0
			if prose {
				depth = max(0, depth-1)
			}
			continue
		}
		if c == '-' || c == '?' || c == ' ' || c == ':' {
			column++
		} else {
			column = 0
		}
		if depth > most || column > most {
			return errors.New("it nests too deep")
		}
	}
	return nil
}
