package seeds

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// An Enclosure hides a folder from commands as a whole: what is in it now, and what others
// put there later. Only the boxes can be seen.
//
// All paths exist, and are free of symbolic links. Measured with codex 0.133 to 0.169:
//
//   - A folder in a denied one can only be seen if commands may write it. A folder in that
//     one may be "read" again. So a box is "write", and what is in it is "read" where
//     commands must not write. Commands may write what nobody put into the box.
//   - bwrap mounts an empty folder over the denied one and binds the boxes into that. So
//     neither another name nor another namespace leads to what is hidden, and commands see
//     not even its names.
//   - If a folder above the hidden one is "write" (/tmp, or a work folder), no command
//     starts if a file in a box is "deny". So a credential lies outside of the boxes.
type Enclosure struct {
	// Holder is the folder that is hidden.
	Holder string
	// Boxes lie in Holder.
	Boxes []string
	// Fixed are folders in boxes that commands may only read.
	Fixed []string
	// Free are folders in boxes that commands may write if the sandbox's mode lets them
	// write the work folder.
	Free []string
}

func (s PlantSpec) checkEnclosure() error {
	e := s.Enclosure
	if e == nil {
		return nil
	}
	if !s.Apart {
		return fmt.Errorf("auth.json and config.toml must lie apart if %s is hidden", e.Holder)
	}
	if s.NoProfile {
		return fmt.Errorf("without a permission profile %s cannot be hidden", e.Holder)
	}
	for _, p := range append([]string{e.Holder}, slices.Concat(e.Boxes, e.Fixed, e.Free)...) {
		switch {
		case !path.IsAbs(p) || path.Clean(p) != p || !writable(p):
			return fmt.Errorf("hidden path %q is not a clean absolute path in UTF-8", p)
		case strings.ContainsAny(p, "*?[]"):
			return fmt.Errorf("codex cannot hide %s, whose name has one of * ? [ ] in it", p)
		}
	}
	for _, p := range e.Boxes {
		if !below(p, e.Holder) {
			return fmt.Errorf("%s does not lie in %s", p, e.Holder)
		}
	}
	for _, p := range slices.Concat(e.Fixed, e.Free, []string{s.CodexHome}) {
		if !slices.ContainsFunc(e.Boxes, func(b string) bool { return below(p, b) }) {
			return fmt.Errorf("%s lies in no folder that commands can see in %s", p, e.Holder)
		}
	}
	return nil
}

// mounted reports whether a rule of the Enclosure names p, so that it cannot be moved.
func (s PlantSpec) mounted(p string) bool {
	e := s.Enclosure
	return e != nil && (p == e.Holder || slices.Contains(e.Boxes, p) || slices.Contains(e.Fixed, p) || slices.Contains(e.Free, p))
}

// rules returns the rules of a profile, except those of guards.
func (e *Enclosure) rules(spec PlantSpec, profile string) []rule {
	if e == nil {
		return nil
	}
	rules := []rule{{e.Holder, "deny"}}
	for _, p := range e.Boxes {
		rules = append(rules, rule{p, "write"})
	}
	for _, p := range e.Fixed {
		rules = append(rules, rule{p, "read"})
	}
	for _, p := range e.Free {
		access := "read"
		if profile == profileWrite || profile == profileSeed && spec.seedWritesAbove(p) {
			access = "write"
		}
		rules = append(rules, rule{p, access})
	}
	return rules
}

type rule struct{ path, access string }

// seedWritesAbove reports whether the seed's profile may let commands write a folder above p.
// What it says of the work folder itself needs no rule of ours: its "write" is stronger than
// our "read" (measured).
func (s PlantSpec) seedWritesAbove(p string) bool {
	if s.Bundle == nil {
		return false
	}
	profiles, err := profilesOf(s.Bundle)
	if err != nil {
		return false // Plant reports it
	}
	for name, hops := s.Confine.Profile, 0; hops < 32 && name != ""; hops++ {
		profile, _ := profiles[name].(map[string]any)
		files, _ := profile["filesystem"].(map[string]any)
		for dir, access := range files {
			above := dir == ":root" || strings.HasPrefix(dir, "~") || path.IsAbs(dir) && below(p, path.Clean(dir))
			if at, is := access.(map[string]any); is {
				access = at["."]
			}
			if above && access == "write" {
				return true
			}
		}
		name, _ = profile["extends"].(string)
	}
	return false
}
