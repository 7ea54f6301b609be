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

// FirstLine returns a colon and the beginning of the first line of b, to be appended to the
// text of an error. It returns nothing if that line is empty.
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

// SaysNoSpace reports whether a program complained that the disk or the user's quota is
// full. Only the text shows the cause, because shells and tools exit with status 1 or 2 for
// any error.
func SaysNoSpace(stderr []byte) bool {
	for _, words := range []string{"No space left on device", "no space left on device", "Disk quota exceeded",
		": Wrote only "} { // GNU tar says this of the first write that does not fit
		if bytes.Contains(stderr, []byte(words)) {
			return true
		}
	}
	return false
}

// ErrGarbled means that the host's report cannot be parsed, for example because the script
// was cut short.
var ErrGarbled = errors.New("the host's report is garbled")

// ExitNotExist is the exit status of our scripts if a file does not exist.
const ExitNotExist = 94
