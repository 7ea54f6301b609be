// Package version says which build this is.
package version

import (
	"runtime/debug"
	"sync"
)

// Build is set by the linker (-X); empty in a plain `go build`.
var Build string

// String returns Build, or else the version of the module or of the commit.
var String = sync.OnceValue(func() string {
	if Build != "" {
		return Build
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel-" + commit + dirty
})
