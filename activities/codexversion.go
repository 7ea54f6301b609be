package activities

import (
	"strings"

	"fairlead.dev/fairlead/conversation"
)

// The range of versions for a codex that is found on a host. It does not apply to a codex
// that the worker copies there.
const (
	oldestCodex = conversation.OldestVersion
	newestCodex = conversation.TestedVersion
)

// plainVersion is the version in s as it is written there, or empty.
func plainVersion(s string) string { return strings.TrimSpace(versionRule.FindString(s)) }

// inWindow returns the reason why a version cannot be used; nil if it can.
func inWindow(s *site, version string) error {
	if _, ok := parseVersion(version); s.AnyVersion && ok {
		return nil
	}
	return conversation.CheckVersion(version)
}
