package kit

import (
	"regexp"
	"strconv"
)

// ParseVersion reads major, minor and patch, as in "codex-cli 0.169.0".
func ParseVersion(s string) (v [3]int, ok bool) {
	m := VersionRule.FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	for i := range v {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// Less reports whether version a is before b.
func Less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

var VersionRule = regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?`)
