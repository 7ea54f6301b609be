package escape

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns encoded JSON with its hidden characters as JSON's own escapes. It means the
// same: hidden characters are only in strings, because an encoder wrote it.
func JSON(data []byte) []byte {
	n := plain(string(data), Hidden)
	if n == len(data) {
		return data
	}
	out := append(make([]byte, 0, len(data)+16), data[:n]...)
	for i := n; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			out = append(out, `\ufffd`...)
		case !Hidden(r):
			out = append(out, data[i:i+n]...)
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
		i += n
	}
	return out
}
