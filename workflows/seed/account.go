package seed

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
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
	s.st.Account.Learn(*u, proven, workflow.Now(s.ctx))
	s.work = true
}

// served takes what the model gateway did for a holder that gives the seed back.
func (s *seedCore) served(more *protocol.ModelUse) {
	if more == nil {
		return
	}
	if s.st.Served == nil {
		s.st.Served = &protocol.ModelUse{}
	}
	more.LastError, more.LastFellBack = kit.Cut(more.LastError, kit.MaxReason), kit.Cut(more.LastFellBack, kit.MaxReason)
	for _, word := range []*string{&more.LastKind, &more.LastRebuilt, &more.Upstream, &more.Model} {
		*word = kit.Cut(*word, kit.MaxWord)
	}
	more.Spent = 0
	s.st.Served.Add(more)
}

// belongsTo takes what a verification read of a generation.
func (s *seedCore) belongsTo(of protocol.SeedRef, a *protocol.SeedAccount) {
	if a == nil || s.st.Ref == nil || s.st.Ref.Generation != of.Generation {
		return
	}
	if s.st.Account == nil {
		s.st.Account = new(protocol.SeedAccount)
	}
	s.st.Account.Read(*a, workflow.Now(s.ctx))
	s.work = true
}

// putAccount takes the account of a login that a person brings. All that sessions saw is
// forgotten, also if it is the same account.
func (s *seedCore) putAccount(a *protocol.SeedAccount) {
	s.st.Account = nil
	if a != nil {
		s.st.Account = new(protocol.SeedAccount)
		s.st.Account.Read(*a, workflow.Now(s.ctx))
	}
}
