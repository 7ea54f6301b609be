package seeds

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// Our permission profiles extend codex's own with the rules below.
//
// codex knows profiles by name from 0.133 on. Measured with codex 0.169 on Linux, as root
// and as an ordinary user, and tried on the versions of versions_test.go (up to 0.147
// root's commands can unmount what "deny" mounted; up to 0.140 no command starts under a
// profile with the work folder below /tmp or /var/tmp):
//
//   - "deny" makes open, copy, link and rename of a file fail for commands and patches, not
//     for codex itself.
//   - "deny" of a missing file in a read-only folder stops every command from starting, so
//     only planted files are denied.
//   - "deny" is a mount over the file. If a file is renamed onto the name, a running
//     command sees it. So a credential is never replaced that way while codex runs (writing
//     into the file is safe).
//   - Without "read" on CODEX_HOME, a work folder (or /tmp) above it lets a command write
//     rules/default.rules and so allow itself everything, or put another folder in its
//     place. The folders of guards prevent this.
//
// The notes at checkPrivate are on other paths that are denied.
const (
	profileWrite = "fairlead"
	profileRead  = "fairlead-read-only"
	profileSeed  = "fairlead-profile" // extends a profile of the seed
)

// Profile returns the `permissions` of thread/start and thread/resume for a sandbox, to
// send instead of `sandbox`. It is empty for danger-full-access, which no profile can
// confine.
func Profile(sandbox string) string {
	switch sandbox {
	case protocol.ReadOnly:
		return profileRead
	case protocol.WorkspaceWrite:
		return profileWrite
	case protocol.ByProfile:
		return profileSeed
	}
	return ""
}

func sessionSettings(spec PlantSpec, denied []string, trust trustLevel, own *Settings) ([]setting, error) {
	settings := []setting{{key: "check_for_update_on_startup", value: tomlBool(false)}}
	var provider []setting
	if spec.Gateway != 0 {
		var top []setting
		top, provider = gatewaySettings(spec.CodexHome, spec.Gateway)
		settings = append(settings, top...)
	}
	confined := spec.profile() != ""
	if confined {
		// Without it, codex ignores a file that has profiles.
		settings = append(settings, setting{key: "default_permissions", value: tomlString(spec.profile())})
	}
	settings = append(settings, setting{table: []string{"analytics"}, key: "enabled", value: tomlBool(false)})
	// A table can be opened only once, so these stand together.
	settings = append(settings, own.render()...)
	settings = append(settings, own.features()...)
	settings = append(settings, provider...)
	if confined {
		settings = append(settings, spec.Confine.proxySetting(spec.Bundle)...)
	}
	for _, dir := range trust.dirs {
		settings = append(settings, setting{table: []string{"projects", dir}, key: "trust_level", value: tomlString(trust.word())})
	}
	if !confined {
		return settings, nil
	}
	if strings.ContainsAny(spec.CodexHome, "*?[]") {
		// codex takes these for wildcards.
		return nil, fmt.Errorf("codex cannot protect %s, whose name has one of * ? [ ] in it (give the host another root)", spec.CodexHome)
	}
	asked := spec.Confine.settings(spec.profile())
	profiles := []struct{ id, base string }{{profileWrite, builtIn(protocol.WorkspaceWrite)}, {profileRead, builtIn(protocol.ReadOnly)}}
	if spec.Sandbox == protocol.ByProfile {
		profiles = append(profiles, struct{ id, base string }{profileSeed, spec.Confine.profileBase(spec.Sandbox)})
	}
	guarded := guards(spec)
	for _, p := range profiles {
		settings = append(settings, setting{table: []string{"permissions", p.id}, key: "extends", value: tomlString(p.base), must: true})
		rules := []string{"permissions", p.id, "filesystem"}
		for _, dir := range guarded {
			settings = append(settings, setting{table: rules, key: dir, value: tomlString("read"), must: true})
		}
		for _, name := range denied {
			settings = append(settings, setting{table: rules, key: path.Join(spec.CodexHome, name), value: tomlString("deny"), must: true})
		}
		for _, p := range spec.Private {
			settings = append(settings, setting{table: rules, key: p, value: tomlString("deny"), must: true})
		}
		if p.id != spec.profile() {
			continue
		}
		for _, s := range asked {
			if slices.Equal(s.table, rules) && slices.Contains(spec.Private, s.key) {
				return nil, fmt.Errorf("--read or --write %s: commands must not read it", s.key)
			}
			if !slices.Equal(s.table, rules) || !slices.Contains(guarded, s.key) {
				settings = append(settings, s)
			} else if s.value != tomlString("read") {
				return nil, fmt.Errorf("--write %s: CODEX_HOME, or what commands must not read, lies in this folder, and commands must not move it", s.key)
			}
		}
	}
	return settings, nil
}

// guards returns the folders that commands may only read, so that CODEX_HOME and private
// paths stay in place, and CODEX_HOME unchanged: CODEX_HOME and, in each writable folder
// above one of them, the next folder on the path to it. A guard is a mount and cannot be
// renamed. A work folder inside it stays writable.
func guards(spec PlantSpec) []string {
	found := []string{spec.CodexHome}
	for _, kept := range append([]string{spec.CodexHome}, spec.Private...) {
		for _, writable := range spec.freeOf() {
			if writable == "" || !below(kept, writable) {
				continue
			}
			rest := strings.TrimPrefix(strings.TrimPrefix(kept, writable), "/")
			next, _, _ := strings.Cut(rest, "/")
			guard := path.Join(writable, next)
			// The work folder and a private path are mounts already.
			if guard != spec.WorkDir && !slices.Contains(found, guard) && !slices.Contains(spec.Private, guard) {
				found = append(found, guard)
			}
		}
	}
	slices.Sort(found)
	return found
}

func below(p, dir string) bool {
	return dir == "/" && p != "/" || strings.HasPrefix(p, dir+"/")
}

// A trustLevel is our setting for the work folder. Without one, codex trusts the folder and
// writes that into config.toml.
//
// A .codex in a trusted folder starts programs outside of any sandbox and overrides our
// profile (measured: both read the credential). In an untrusted folder codex ignores
// AGENTS.md. So a folder is trusted unless it has a .codex.
type trustLevel struct {
	dirs    []string // all paths of the folder
	trusted bool
}

func (t trustLevel) word() string {
	if t.trusted {
		return "trusted"
	}
	return "untrusted"
}

func checkSandbox(sandbox string) error {
	switch sandbox {
	case protocol.ReadOnly, protocol.WorkspaceWrite, protocol.FullAccess, protocol.ByProfile:
		return nil
	}
	return fmt.Errorf("%q is not a sandbox (read-only, workspace-write, danger-full-access or profile)", sandbox)
}
