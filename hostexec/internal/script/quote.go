package script

import "strings"

// NewlineVar begins every line for the shell. It takes a newline from the default IFS and
// puts it into $_n, without a fork, so that words on one line can contain newlines.
const NewlineVar = `_n=${IFS#??};_n=${_n%"${_n#?}"};`

// Quote returns s as one word of POSIX shell on one line, which needs NewlineVar before it.
// s must not contain NUL, which a shell's word cannot contain.
func Quote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	s = strings.ReplaceAll(s, "\n", `'"$_n"'`)
	// bash uses these two bytes internally, and drops such a byte after the first byte of a
	// multibyte character unless the quotes are closed in between.
	s = strings.ReplaceAll(s, "\x01", "''\x01")
	s = strings.ReplaceAll(s, "\x7f", "''\x7f")
	return "'" + s + "'"
}

// QuoteInScript returns s as one word of POSIX shell for use in a script. Newlines are kept.
func QuoteInScript(s string) string {
	return "'" + strings.ReplaceAll(s, `'`, `'\''`) + "'"
}
