package script

import "strings"

// NewlineVar begins every line for the shell. It takes a newline for $_n from the default
// IFS, without a fork, so that words on one line can contain newlines.
const NewlineVar = `_n=${IFS#??};_n=${_n%"${_n#?}"};`

// Quote returns s, which has no NUL, as one word of POSIX shell on one line after
// NewlineVar.
func Quote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	s = strings.ReplaceAll(s, "\n", `'"$_n"'`)
	// bash uses these two bytes internally. It drops one after the first byte of a
	// multibyte character unless the quotes are closed in between.
	s = strings.ReplaceAll(s, "\x01", "''\x01")
	s = strings.ReplaceAll(s, "\x7f", "''\x7f")
	return "'" + s + "'"
}

// QuoteInScript returns s as one word of POSIX shell, with newlines kept.
func QuoteInScript(s string) string {
	return "'" + strings.ReplaceAll(s, `'`, `'\''`) + "'"
}
