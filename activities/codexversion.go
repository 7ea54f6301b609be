package activities

import (
	"regexp"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/conversation"
)

// The range of versions for a codex that is found on a host. It does not apply to a codex
// that the worker copies there.
const (
	oldestCodex = conversation.OldestVersion
	newestCodex = conversation.TestedVersion
)

var versionRule = regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?`)

// parseVersion reads major, minor and patch out of, for instance, "codex-cli 0.169.0".
func parseVersion(s string) (v [3]int, ok bool) {
	m := versionRule.FindStringSubmatch(s)
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

// plainVersion is the version in s as it is written there, or empty.
func plainVersion(s string) string { return strings.TrimSpace(versionRule.FindString(s)) }

// inWindow returns the reason why a version cannot be used; nil if it can.
func (s *site) inWindow(version string) error {
	if _, ok := parseVersion(version); s.AnyVersion && ok {
		return nil
	}
	return conversation.CheckVersion(version)
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}
