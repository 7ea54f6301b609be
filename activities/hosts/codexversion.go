package hosts

import (
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation/wire"
)

// The range of versions for a codex that is found on a host. It does not apply to a codex
// that the worker copies there.
const (
	oldestCodex = wire.OldestVersion
	NewestCodex = wire.TestedVersion
)

// plainVersion is the version in s as it is written there, or empty.
func plainVersion(s string) string { return strings.TrimSpace(kit.VersionRule.FindString(s)) }

// inWindow returns the reason why a version cannot be used; nil if it can.
func inWindow(s *site.Site, version string) error {
	if _, ok := kit.ParseVersion(version); s.AnyVersion && ok {
		return nil
	}
	return wire.CheckVersion(version)
}
