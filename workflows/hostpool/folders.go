package hostpool

import (
	"slices"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

const (
	// maxUnknown is how many unknown folders a pool lists, at 100 to 200 bytes each.
	maxUnknown = 500
)

// WhyFound is the reason of a leftover that maintenance found.
const WhyFound = "its folder was found there, and its session has ended"

func (p *leftoversPart) drainLooked() {
	for _, all := range kit.Unread[inquiry.HostsLooked](p.lkd) {
		for _, l := range all.Hosts {
			if h := p.host(l.Host.Name); h != nil && !elsewhere(h.Spec, l.Host) {
				p.looked(h, l)
			}
		}
	}
}

// looked records the folders that an activity found on a host. It compares them again with
// what the pool knows, which may have changed.
func (p *leftoversPart) looked(h *Host, l inquiry.HostLooked) {
	name := h.Spec.Name
	h.Folders, h.Unknown = &protocol.HostFolders{At: l.At, Dir: kit.Cut(l.Dir, kit.MaxReason), Unknown: l.Others}, nil
	for _, f := range l.Unknown {
		if p.knowsFolder(f.Session, name) {
			continue
		}
		h.Folders.Unknown++
		if protocol.NamePattern.MatchString(f.Session) && p.unknownFolders() < maxUnknown {
			h.Unknown = append(h.Unknown, protocol.UnknownFolder{Session: f.Session, Generation: f.Generation, Since: f.Since, Why: kit.Cut(f.Why, kit.MaxWord)})
		}
	}
	for _, f := range l.Ended {
		if protocol.NamePattern.MatchString(f.Session) && f.Generation > 0 && !p.knowsFolder(f.Session, name) {
			p.leave(Lease{Holder: f.Session, Host: name}, lease.LeftBehind{Why: WhyFound, Generation: f.Generation})
		}
	}
}

func (p *leftoversPart) knowsFolder(session, host string) bool {
	return slices.ContainsFunc(p.st.Queue, func(t lease.Ticket) bool { return t.Holder == session }) ||
		slices.ContainsFunc(p.folders(), func(k inquiry.LeftThere) bool {
			return k.Session == session && (k.Held || k.Host == host)
		})
}

// folders lists the sessions that may have a folder on a host.
func (p *leftoversPart) folders() []inquiry.LeftThere {
	all := p.leftThere()
	for i := range p.st.Leftovers {
		if l := &p.st.Leftovers[i]; !l.open() && l.Kept != "" {
			all = append(all, inquiry.LeftThere{Session: l.Session, Host: l.Host})
		}
	}
	return all
}

func (p *leftoversPart) unknownFolders() (n int) {
	for i := range p.st.Hosts {
		n += len(p.st.Hosts[i].Unknown)
	}
	return n
}
