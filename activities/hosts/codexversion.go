package hosts

import (
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation/wire"
)

// The versions of codex that are used if found on a host. A worker may copy others there.
const (
	oldestCodex = wire.OldestVersion
	NewestCodex = wire.TestedVersion
)

func plainVersion(s string) string { return strings.TrimSpace(kit.VersionRule.FindString(s)) }

// inWindow returns why a version cannot be used, or nil.
func inWindow(s *site.Site, version string) error {
	if _, ok := kit.ParseVersion(version); s.AnyVersion && ok {
		return nil
	}
	return wire.CheckVersion(version)
}
