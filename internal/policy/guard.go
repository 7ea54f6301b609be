package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/shellwords"
)

// missing says why a rule cannot accept by the facts that it looks at, or "". A condition
// on all words or all files is true if there are none, so such an accept would mean
// nothing.
func (f *facts) missing(l looks) string {
	splits := false
	if l["split"] {
		_, splits = shellwords.Split(f.Command)
	}
	switch {
	case l["words"] && !f.plain:
		return "it looks at words, and this is not a command of plain words"
	case l["split"] && !splits:
		return "it looks at words, and this command is more than a list of plain words"
	case l["paths"] && len(f.Paths) == 0:
		return "it looks at paths, and this request names none"
	case l["changes"] && len(f.Changes) == 0:
		return "it looks at changes, and this request names none"
	case l["arguments"] && f.Arguments == "":
		return "it looks at arguments, and this request has none"
	case l.any("wants.read", "wants.write", "wants.network", "wants.other") && f.wants.nothing():
		return "it looks at permissions, and this request asks for none"
	}
	return ""
}

// unsaid names a fact that the rule looks at, that every request should have, and that this
// one lacks. Two missing facts are equal, and a missing fact passes every exclusion.
func (f *facts) unsaid(l looks) string {
	for _, fact := range []struct {
		names []string
		value string
	}{
		{[]string{"host.name", "host.labels"}, f.Host.Name},
		{[]string{"work"}, f.Work}, {[]string{"session"}, f.Session}, {[]string{"requester"}, f.Requester}, {[]string{"model"}, f.Model}, {[]string{"digest"}, f.Digest},
	} {
		if fact.value == "" && l.any(fact.names...) {
			return fmt.Sprintf("it looks at %s, and this request does not say which", fact.names[0])
		}
	}
	if f.Kind == Elicitation && f.Tool != "" && f.Arguments == "" && l["arguments"] {
		return "it looks at arguments, and codex did not say with which arguments the tool is called"
	}
	return ""
}

// empty is like unsaid, but also names paths that cannot be compared.
func (f *facts) empty(l looks) string {
	if why := f.unsaid(l); why != "" {
		return why
	}
	files := l.any("paths", "changes", "grant_root", "wants.read", "wants.write")
	switch {
	case l["cwd"] && !path.IsAbs(f.CWD):
		return "it looks at cwd, and this request does not say which folder that is"
	case l["cwd"] && goesUp(f.CWD):
		return "it looks at cwd, and where .. in it leads depends on links"
	case files && slices.ContainsFunc(f.Paths, func(p string) bool { return !path.IsAbs(p) }):
		return "it looks at paths, and this request has a relative path without the folder that it is relative to"
	case files && f.up:
		return "it looks at paths, and where .. in one of them leads depends on links"
	}
	return ""
}

// unseen names something that the request would grant and the rule did not look at.
func (f *facts) unseen(l looks) string {
	for _, grant := range []struct {
		name  string
		asked bool
		what  string
	}{
		{"network_host", f.NetworkHost != "", "a host to reach"},
		{"action", f.Action != "", "something else than to run a command"},
		{"grant_root", f.GrantRoot != "", "a whole folder for the session"},
		{"wants.read", len(f.wants.read) > 0, "permission to read"},
		{"wants.write", len(f.wants.write) > 0, "permission to write"},
		{"wants.network", f.wants.network, "permission to use the network"},
	} {
		if grant.asked && !l[grant.name] {
			return fmt.Sprintf("this request asks for %s (%s), and the rule accepts without looking at that", grant.what, grant.name)
		}
	}
	switch {
	case f.wants.other:
		return "this request asks for permissions that no rule can see (wants.other)"
	case f.moves() && !l["paths"] && !(l["changes"] && l[movedTo]):
		return "this request moves files, and the rule accepts without looking at where to (paths, or moved_to of all changes)"
	case f.Kind == FileChange && len(f.beside) > 0 && !l["paths"]:
		return "this request names paths besides its changes, and the rule accepts without looking at them (paths)"
	}
	return ""
}

func (f *facts) moves() bool {
	return slices.ContainsFunc(f.Changes, func(c Change) bool { return c.MovedTo != "" })
}

// goesUp reports whether a path has "..", whose meaning depends on links.
func goesUp(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }
