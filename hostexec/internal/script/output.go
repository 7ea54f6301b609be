package script

import (
	"bytes"
	"errors"
)

// LastBytes returns the last n bytes of b, or all of it.
func LastBytes(b []byte, n int) []byte {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return b
}

// FirstLine returns a colon and the beginning of the first line of b, for the end of an
// error's text, or nothing if that line is empty.
func FirstLine(b []byte) string {
	for i, c := range b {
		if c == '\n' {
			b = b[:i]
			break
		}
	}
	if len(b) == 0 {
		return ""
	}
	if len(b) > 200 {
		b = b[:200]
	}
	return ": " + string(b)
}

// SaysNoSpace reports whether a program complained of a full disk or quota. Shells and
// tools use the same exit status for any error.
func SaysNoSpace(stderr []byte) bool {
	for _, words := range []string{"No space left on device", "no space left on device", "Disk quota exceeded",
		": Wrote only "} { // GNU tar, of the first write that does not fit
		if bytes.Contains(stderr, []byte(words)) {
			return true
		}
	}
	return false
}

// ErrGarbled means that the host's report cannot be parsed. The script may have been cut
// short.
var ErrGarbled = errors.New("the host's report is garbled")

// ExitNotExist is the exit status of our scripts if a file does not exist.
const ExitNotExist = 94
