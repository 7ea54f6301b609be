package hostexec

import (
	"fmt"
	"regexp"
	"strings"
)

// newlineVar begins every line for the shell. It puts a newline into $_n without a fork,
// from the default IFS, so that one line can contain newlines.
const newlineVar = `_n=${IFS#??};_n=${_n%"${_n#?}"};`

// quote returns s as one word of POSIX shell on one line, which needs newlineVar before it.
// s must not contain NUL, which no shell can carry.
func quote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	s = strings.ReplaceAll(s, "\n", `'"$_n"'`)
	// bash uses these two bytes internally, and loses one that follows the first byte of a
	// multibyte character unless the quotes are closed in between.
	s = strings.ReplaceAll(s, "\x01", "''\x01")
	s = strings.ReplaceAll(s, "\x7f", "''\x7f")
	return "'" + s + "'"
}

// shellQuote returns s as one word of POSIX shell for use in a Script. Newlines are kept.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, `'`, `'\''`) + "'"
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check rejects what no shell can carry, before anything is sent. Errors do not repeat
// values, which may be secret.
func (c Command) check() error {
	if c.Script == "" {
		return fmt.Errorf("command has no script")
	}
	if strings.ContainsRune(c.Script, 0) {
		return fmt.Errorf("script holds a NUL byte")
	}
	for i, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("argument %d holds a NUL byte", i+1)
		}
	}
	for k, v := range c.Env {
		if !envName.MatchString(k) {
			return fmt.Errorf("environment name %q is not a shell name", k)
		}
		if strings.ContainsRune(v, 0) {
			return fmt.Errorf("environment value of %s holds a NUL byte", k)
		}
	}
	if c.Fence != nil {
		return c.Fence.check()
	}
	return nil
}
