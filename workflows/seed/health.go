package seed

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// Health is the known state of a credential, and why.
type Health struct {
	State  string    `json:"state,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Hint   string    `json:"hint,omitempty"`
	Since  time.Time `json:"since"`
	// Elsewhere is where a captured login may be in use, if nothing else is wrong.
	Elsewhere string `json:"elsewhere,omitempty"`
}

func hintBurnt(name string) string {
	return fmt.Sprintf("log in anew and import it, or `ctl seed revive %s` to try the stored login", name)
}

// judge records a verdict. It makes serve run, because holders and waiting sessions may be
// concerned.
func (s *seedCore) judge(state, reason, hint string) {
	since, was := workflow.Now(s.ctx), s.st.Health.State
	if was == state {
		since = s.st.Health.Since
	}
	s.recordHealth(was, state, reason)
	s.st.Health = Health{State: state, Reason: kit.Cut(reason, kit.MaxReason), Hint: kit.Cut(hint, kit.MaxReason), Since: since}
	s.work = true
}

// recordHealth puts on record that a seed became suspect or dead, or was seen to work again.
func (s *seedCore) recordHealth(was, now, reason string) {
	bad := func(state string) bool { return state == protocol.Suspect || state == protocol.Dead }
	switch {
	case was == now:
	case now == protocol.Suspect:
		s.record(audit.CredentialDoubt, reason)
	case now == protocol.Dead:
		s.record(audit.CredentialDead, reason)
	case bad(was):
		s.record(audit.CredentialRevive, fmt.Sprintf("it was %s: %s", was, s.st.Health.Reason))
	}
}

// record puts a credential event on record that no command asked for.
func (s *seedCore) record(verb access.Verb, reason string) {
	s.ledger.Did(access.Worker, verb, kit.Cut(reason, kit.MaxReason))
}

// recordSaved puts on record that the newest generation was rotated.
func (s *seedCore) recordSaved(how string) {
	s.record(audit.CredentialSave, fmt.Sprintf("generation %d: %s", s.st.Ref.Generation, how))
}

func (s *seedCore) suspect(reason, hint string) {
	if s.st.Health.State != protocol.Dead {
		s.judge(protocol.Suspect, reason, hint)
	}
}

// burnt records that somebody else has used the stored refresh token, or may. To use it
// again would make the login invalid for all, so only a person can end this suspicion. A
// turn that succeeds proves only that the access token works.
func (s *seedCore) burnt(reason, hint string) {
	s.st.Spent = true
	s.suspect(reason, hint)
}

// alive records that an action with the credential began at began and was seen to succeed
// at seen. It does not end a suspicion that arose after began.
func (s *seedCore) alive(began, seen time.Time) {
	switch {
	case s.st.Health.State == protocol.Dead, s.st.Spent:
		return
	case s.st.Health.State == protocol.Suspect:
		if !began.After(s.st.Health.Since) {
			return
		}
	}
	if s.st.Health.State != protocol.Healthy {
		s.judge(protocol.Healthy, "", "")
	}
	if now := workflow.Now(s.ctx); seen.After(now) { // a host wrote it
		seen = now
	}
	if seen.After(s.st.VerifiedAt) {
		s.st.VerifiedAt = seen
	}
}

// reported ignores a session that does not hold the seed any more.
func (s *holdersPart) reported(r lease.Report) {
	if s.holds(r.Holder, r.Epoch) == nil {
		return
	}
	switch r.Verdict {
	case lease.VerdictSuspect:
		s.suspect(r.Reason, r.Hint)
	case lease.VerdictAlive:
		s.alive(r.Began, workflow.Now(s.ctx))
	}
}

func (s *holdersPart) checkRevive(protocol.ReviveSeed) error {
	switch {
	case s.st.Ref == nil || s.st.Deleted:
		return kit.Refuse(protocol.RefusedNotFound, "there is no seed %q", s.name)
	case s.asking && s.exclusive():
		return s.busyVerifying()
	case s.st.Health.State == protocol.Dead:
		return kit.Refuse(protocol.RefusedState, "seed %s is dead: %s (%s; `ctl seed verify %s --force` asks its issuer once more)", s.name, s.st.Health.Reason, s.st.Health.Hint, s.name)
	case s.st.Rotated != nil && s.holds(s.st.Rotated.Holder, s.st.Rotated.Epoch) != nil:
		return kit.Refuse(protocol.RefusedState, "seed %s: %s, and that session has it still: close the session first", s.name, s.st.Rotated.notSaved())
	}
	return nil
}

// revive takes a person's word that no login is newer than the stored one. What was left
// under leases of an earlier workflow is given up only if nothing else is in doubt: the
// person may not know of it.
func (s *holdersPart) revive(protocol.ReviveSeed) protocol.SeedView {
	s.settle()
	ended := slices.ContainsFunc(s.st.Leases, func(l Lease) bool { return l.Ended != "" })
	if s.st.Health.State != protocol.Suspect && !s.st.Spent && !ended && s.st.Rotated == nil {
		s.st.First, s.st.Lost, s.grants = 0, nil, grants{after: s.st.Epoch}
		return s.view()
	}
	s.giveUpFetching()
	s.st.Rotated, s.st.Spent = nil, false
	s.st.Health = Health{Since: workflow.Now(s.ctx)}
	return s.view()
}

// giveUpFetching leaves the logins of ended holders on their hosts.
func (s *holdersPart) giveUpFetching() {
	if s.rec != nil {
		s.rec.cancel()
	}
	s.st.Leases = slices.DeleteFunc(s.st.Leases, func(l Lease) bool { return l.Ended != "" })
}
