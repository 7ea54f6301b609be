package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// HostFolders is of the newest look at what sessions have on a host.
type HostFolders struct {
	At      time.Time `json:"at"`
	Dir     string    `json:"dir,omitempty"`     // where their folders lie
	Unknown int       `json:"unknown,omitempty"` // how many are not known to be of sessions of ours
}

// An UnknownFolder is one that nobody here touches: it may be of another
// installation that shares the host, or from before the database was lost.
type UnknownFolder struct {
	Session    string    `json:"session"`
	Generation int64     `json:"generation"`     // 0 where it does not say
	Since      time.Time `json:"since,omitzero"` // that generation began
	Why        string    `json:"why"`            // it is not known to be ours
}

const (
	// foldersOlder is how long a mark was not written before its folder can be
	// one that was left: whoever made it has long told its pool.
	foldersOlder = 10 * time.Minute
	// foldersHosts is how many hosts one run looks at.
	foldersHosts = 200
	// maxUnknown is how many unknown folders a pool names, a hundred bytes or two
	// each; it counts the others.
	maxUnknown = 500
)

// signalLooked tells a pool what lies on its hosts.
const signalLooked = "folders"

// whyFound is why something is left that only a look at the host has found.
const whyFound = "its folder was found there, and its session has ended"

// findLeftovers finds what sessions left that have ended, and that their pool
// does not know of. The pool wipes it, as all that it knows of.
func findLeftovers(ctx workflow.Context, what string, in MaintenanceInput, out *MaintenanceResult) error {
	found, err := do(setUp(ctx, what), hosts.FindLeftovers, activities.FindLeftoversInput{
		Pool: PoolID(in.Zone), Signal: signalLooked, Older: foldersOlder, Limit: foldersHosts,
	})
	if err != nil {
		return err
	}
	out.Leftovers = &found
	out.Problems = append(out.Problems, found.Problems...)
	return nil
}

// drainLooked takes what was found on hosts.
func (p *pool) drainLooked() {
	for _, all := range unread[activities.HostsLooked](p.lkd) {
		for _, l := range all.Hosts {
			if h := p.host(l.Host.Name); h != nil && !elsewhere(h.Spec, l.Host) {
				p.looked(h, l)
			}
		}
	}
}

// looked takes what lies on a host. Whoever looked asked before what the pool
// knows; only now is it certain that it has not come to know since. A session
// that begins there from now on waits until what is left of it is seen to.
func (p *pool) looked(h *poolHost, l activities.HostLooked) {
	name := h.Spec.Name
	h.Folders, h.Unknown = &HostFolders{At: l.At, Dir: excerpt(l.Dir, maxReason), Unknown: l.Others}, nil
	for _, f := range l.Unknown {
		if p.knowsFolder(f.Session, name) {
			continue
		}
		h.Folders.Unknown++
		if NamePattern.MatchString(f.Session) && p.unknownFolders() < maxUnknown {
			h.Unknown = append(h.Unknown, UnknownFolder{f.Session, f.Generation, f.Since, excerpt(f.Why, maxWord)})
		}
	}
	for _, f := range l.Ended {
		if NamePattern.MatchString(f.Session) && f.Generation > 0 && !p.knowsFolder(f.Session, name) {
			p.leave(poolLease{Holder: f.Session, Host: name}, leftBehind{Why: whyFound, Generation: f.Generation})
		}
	}
}

// knowsFolder says that a session has a folder on a host, or may have, for all
// that the pool knows.
func (p *pool) knowsFolder(session, host string) bool {
	return slices.ContainsFunc(p.st.Queue, func(t ticket) bool { return t.Holder == session }) ||
		slices.ContainsFunc(p.folders(), func(k activities.LeftThere) bool {
			return k.Session == session && (k.Held || k.Host == host)
		})
}

// folders are the sessions of which a host may have a folder, or has one that is
// there to stay.
func (p *pool) folders() []activities.LeftThere {
	all := p.leftThere()
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; !l.open() && l.Kept != "" {
			all = append(all, activities.LeftThere{Session: l.Session, Host: l.Host})
		}
	}
	return all
}

func (p *pool) unknownFolders() (n int) {
	for i := range p.st.Hosts {
		n += len(p.st.Hosts[i].Unknown)
	}
	return n
}
