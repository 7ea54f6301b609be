package session

import (
	"slices"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A session that changes its seed at the end of a quota may be granted a lease for which it
// does not wait any more. It gives such a lease back, unless that is the one that it holds or
// whose login may be on a host.

// maxStrays bounds the grants that the state carries. What is beyond is given back when the
// session ends.
const maxStrays = 20

// stray keeps a grant of another seed, to be given back.
func (s *leasesPart) stray(g lease.Granted) {
	if s.opt.OnLimit == protocol.LimitSwitch && g.Seed != nil && g.From == protocol.SeedID(g.Seed.Name) && !s.maybeUsed(g.Seed) && len(s.st.Strays) < maxStrays {
		s.st.Strays = append(s.st.Strays, g)
	}
}

// maybeUsed reports whether a grant is of the seed whose login the session had last, and may
// have still.
func (s *leasesPart) maybeUsed(granted *protocol.SeedRef) bool {
	had := s.st.Seed
	return had != nil && had.Name == granted.Name && (had.Epoch == granted.Epoch || s.st.SeedHeld || s.st.SeedGone || s.st.SeedLeftOn != nil)
}

// unasked reports whether leases are to be given back.
func (s *leasesPart) unasked() bool {
	return s.opt.OnLimit == protocol.LimitSwitch && (len(s.st.Strays) > 0 || s.st.Asked == "" && len(s.st.Answers) > 0)
}

// giveBack returns leases that the session never took, so their logins are on no host. Only
// their own epoch ends. It goes before the next request, since that may be answered with such a
// lease. Answers to a request that is over are given up.
func (s *leasesPart) giveBack() {
	if s.opt.OnLimit != protocol.LimitSwitch {
		return
	}
	if s.st.Asked == "" {
		for _, g := range s.st.Answers {
			s.stray(g)
		}
		s.st.Answers = nil
	}
	for len(s.st.Strays) > 0 {
		g := s.st.Strays[0]
		s.st.Strays = slices.Clone(s.st.Strays[1:])
		if !s.maybeUsed(g.Seed) {
			s.signalRelease(g.From, lease.Release{Holder: s.id, Run: s.firstRun(), Epoch: g.Seed.Epoch, Clean: true})
		}
	}
}
