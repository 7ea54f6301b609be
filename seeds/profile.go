package seeds

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// The sandboxes that codex knows.
const (
	readOnly       = "read-only"
	workspaceWrite = "workspace-write"
	fullAccess     = "danger-full-access"
)

// Our permission profiles. They extend codex's own, so commands may do what
// these sandboxes allow, less what follows.
//
// Profiles by name are known from 0.133 on. Measured with codex 0.169 on Linux,
// as root and as an ordinary user, and tried on the versions of versions_test.go
// (up to 0.147 root's commands can unmount what "deny" mounted; up to 0.140 no
// command starts under it with the work directory below /tmp or /var/tmp):
//
//   - "deny" makes open, copy, link and rename of a file fail for commands and
//     patches, while codex itself reads and writes it;
//   - "deny" of a file that is not there stops every command from starting
//     where its folder is read-only, so only what was planted is denied;
//   - it is a mount over the file: a file renamed onto the name while a command
//     runs is seen by that command, so a credential is never replaced that way
//     while codex runs (writing into the file is safe);
//   - without "read" on CODEX_HOME, a work directory (or /tmp) above it lets a
//     command write rules/default.rules and so allow itself everything, or move
//     the folder away and put one of its own in place. Hence the guards below.
const (
	profileWrite = "fairlead"
	profileRead  = "fairlead-read-only"
	profileSeed  = "fairlead-profile" // extends one of the seed's own
)

// Profile is the id of our permission profile for a sandbox: what to send as
// `permissions` in thread/start and thread/resume in place of `sandbox`. It is
// empty for danger-full-access, which no profile can confine.
func Profile(sandbox string) string {
	switch sandbox {
	case readOnly:
		return profileRead
	case workspaceWrite:
		return profileWrite
	case ByProfile:
		return profileSeed
	}
	return ""
}

// sessionSettings are ours for one session, own those of its seed among them.
func sessionSettings(spec PlantSpec, denied []string, trust trustLevel, own *Settings) ([]setting, error) {
	settings := []setting{{key: "check_for_update_on_startup", value: tomlBool(false)}}
	confined := spec.profile() != ""
	if confined {
		// Profiles without a default make codex ignore the whole file.
		settings = append(settings, setting{key: "default_permissions", value: tomlString(spec.profile())})
	}
	settings = append(settings, setting{table: []string{"analytics"}, key: "enabled", value: tomlBool(false)})
	// The seed's own next to the features: a table is opened only once.
	settings = append(settings, own.render()...)
	settings = append(settings, own.features()...)
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
		// codex takes them for wildcards and knows no way to write them.
		return nil, fmt.Errorf("codex cannot protect %s, whose name has one of * ? [ ] in it (give the host another root)", spec.CodexHome)
	}
	asked := spec.Confine.settings(spec.profile())
	profiles := []struct{ id, base string }{{profileWrite, builtIn(workspaceWrite)}, {profileRead, builtIn(readOnly)}}
	if spec.Sandbox == ByProfile {
		profiles = append(profiles, struct{ id, base string }{profileSeed, spec.Confine.profileBase(spec.Sandbox)})
	}
	guarded := guards(spec.CodexHome, spec.WorkDir)
	for _, p := range profiles {
		settings = append(settings, setting{table: []string{"permissions", p.id}, key: "extends", value: tomlString(p.base), must: true})
		rules := []string{"permissions", p.id, "filesystem"}
		for _, dir := range guarded {
			settings = append(settings, setting{table: rules, key: dir, value: tomlString("read"), must: true})
		}
		for _, name := range denied {
			settings = append(settings, setting{table: rules, key: path.Join(spec.CodexHome, name), value: tomlString("deny"), must: true})
		}
		if p.id != spec.profile() {
			continue
		}
		for _, s := range asked {
			if !slices.Equal(s.table, rules) || !slices.Contains(guarded, s.key) {
				settings = append(settings, s)
			} else if s.value != tomlString("read") {
				return nil, fmt.Errorf("--write %s: CODEX_HOME lies in it, and must stay what and where it is", s.key)
			}
		}
	}
	return settings, nil
}

// guards are the folders that commands may only read so that CODEX_HOME stays
// what and where it is: itself and, for each folder that commands may write and
// that it lies in, the next folder on the way to it. A guard is a mount of its
// own, which cannot be renamed, and the work directory inside it stays writable.
func guards(codexHome, workDir string) []string {
	found := []string{codexHome}
	for _, writable := range []string{"/tmp", "/var/tmp", workDir} {
		if writable == "" || !below(codexHome, writable) {
			continue
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(codexHome, writable), "/")
		next, _, _ := strings.Cut(rest, "/")
		guard := path.Join(writable, next)
		// The work directory is a mount already, and must stay writable.
		if guard != workDir && !slices.Contains(found, guard) {
			found = append(found, guard)
		}
	}
	slices.Sort(found)
	return found
}

// below says whether a clean path lies in another.
func below(p, dir string) bool {
	return dir == "/" && p != "/" || strings.HasPrefix(p, dir+"/")
}

// A trustLevel is what codex is told of the work directory. Without a word of
// ours codex trusts it by itself and writes that into config.toml.
//
// A trusted directory may carry a .codex of its own, and its config.toml
// starts programs outside of any sandbox and overrules our profile (measured:
// both read the credential). An untrusted one has its AGENTS.md ignored. So a
// directory is trusted unless it brings a .codex.
type trustLevel struct {
	dirs    []string // under every name it has
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
	case readOnly, workspaceWrite, fullAccess, ByProfile:
		return nil
	}
	return fmt.Errorf("%q is not a sandbox (read-only, workspace-write, danger-full-access or profile)", sandbox)
}
