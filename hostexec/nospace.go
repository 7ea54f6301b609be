package hostexec

import "bytes"

// saysNoSpace reports whether a program complained that the disk or the user's quota is
// full. Only the text shows that: shells and tools all exit with status 1 or 2.
func saysNoSpace(stderr []byte) bool {
	for _, words := range []string{"No space left on device", "no space left on device", "Disk quota exceeded",
		": Wrote only "} { // GNU tar, of the first write that does not fit
		if bytes.Contains(stderr, []byte(words)) {
			return true
		}
	}
	return false
}
