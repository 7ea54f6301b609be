package seed

import (
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// used takes what a session saw of the use of the login's account, with the release of its
// lease. proven is the start of the newest turn that completed.
func (s *seedCore) used(u *protocol.SeedUse, proven time.Time) {
	switch {
	case u == nil && s.st.Account == nil:
		return
	case u == nil:
		u = &protocol.SeedUse{}
	case s.st.Account == nil:
		s.st.Account = new(protocol.SeedAccount)
	}
	s.st.Account.Learn(*u, proven)
	s.work = true
}

// belongsTo takes what a verification read of a generation.
func (s *seedCore) belongsTo(of protocol.SeedRef, a *protocol.SeedAccount) {
	if a == nil || s.st.Ref == nil || s.st.Ref.Generation != of.Generation {
		return
	}
	if s.st.Account == nil {
		s.st.Account = new(protocol.SeedAccount)
	}
	s.st.Account.Read(*a)
	s.work = true
}

// putAccount takes the account of a login that a person brings. The use of another account
// is forgotten.
func (s *seedCore) putAccount(a *protocol.SeedAccount) {
	was := s.st.Account
	s.st.Account = nil
	if a == nil {
		return
	}
	s.st.Account = new(protocol.SeedAccount)
	if was != nil && was.Identity == a.Identity {
		*s.st.Account = *was
	}
	s.st.Account.Read(*a)
}
