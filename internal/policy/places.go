package policy

import "slices"

// Rules see names. A name leads elsewhere if a folder in it is a symbolic link, and the
// model can make one. So the caller asks the host where the paths of a request lead, and
// decides the request also for these.

// A Place is where a path leads on the host, absolute and without links.
type Place struct {
	Entry  string // only the folder is resolved: what a call changes that removes or renames the path
	Target string // the last name, too: what a call changes that writes to the path
}

// places are the facts that a host can say better than their names do.
var places = []string{"cwd", "work", "paths", "changes", "grant_root", "wants.read", "wants.write"}

// Places returns the paths whose places matter for the verdict. There are none if no rule
// up to the deciding one looks at a path, or if the request is declined anyway.
func (p *Policy) Places(r Request) []string {
	v, _, f := p.decide(r)
	if f == nil || !f.looked || v.Outcome == Decline {
		return nil
	}
	named := slices.Sorted(slices.Values(f.named))
	return slices.Compact(named)
}

// Placed returns r as the host sees it: once with what would be removed or renamed, and
// once with what would be written. A request may be accepted only if r and both of these
// are. at must have all Places of all policies.
func (r Request) Placed(at map[string]Place) []Request {
	entries, targets := r, r
	entries.where = func(path string, changed bool) string {
		if changed {
			return at[path].Entry
		}
		return at[path].Target
	}
	targets.where = func(path string, _ bool) string { return at[path].Target }
	return []Request{entries, targets}
}
