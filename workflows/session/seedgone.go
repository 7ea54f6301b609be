package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// If a seed's workflow is terminated and started anew, the new one knows of no holder.
// Another session may then hold the same login, so codex is stopped. If codex has rotated
// the login, the newest one is only on that host. The session asks for the seed again,
// however long that takes. The first activity on the host under the new lease saves that
// login before anything else.

// SeedPlace is the host on which a seed's login is.
type SeedPlace struct {
	Spec       protocol.HostSpec `json:"spec"`
	Generation int64             `json:"generation"`
}

// leavesSeed records the host on which the session leaves a login whose lease is lost. The
// next request for the seed names that host.
func (s *leasesPart) leavesSeed(clean bool) {
	st := s.st
	if st.SeedGone && !clean && st.Touched && st.Lease != nil && !protocol.NoLoginOnHost(s.credentials()) {
		st.SeedLeftOn = &SeedPlace{Spec: st.Lease.Spec, Generation: st.Generation}
	}
}

// loginStays returns where a session that ends without its seed may have left the login, or
// nil. The pool wipes nothing there before the login is saved.
func (s *leasesPart) loginStays() *SeedPlace {
	st := s.st
	switch {
	case st.Seed == nil || st.SeedHeld || protocol.NoLoginOnHost(s.credentials()) || s.discarding():
		return nil
	case st.SeedLeftOn != nil:
		return st.SeedLeftOn
	case !st.SeedGone || !st.Touched || st.Lease == nil || st.Closed != nil && (st.Closed.Wiped || st.Closed.Unsaved):
		return nil
	}
	return &SeedPlace{Spec: st.Lease.Spec, Generation: st.Generation}
}

// KindSeedAway is the kind of a failure that passes when the session holds its seed again.
const KindSeedAway = "seed_away"

// seedLost stops codex after a pump found that the seed's lease is lost.
func (s *leasesPart) seedLost(p *protocol.Problem) {
	if p == nil || s.st.Status == protocol.Failed {
		return
	}
	f := kit.FailureOfProblem(p)
	f.Message = kit.Cut("codex was stopped, since its session does not hold its seed any more: "+f.Message, kit.MaxFailure)
	f.Hint = "see `ctl seed show` for who holds it and why; the session asks for it again, and goes on when it has it"
	if !s.st.SeedGone {
		s.note(conversation.Note{Type: protocol.EntryState, Text: f.Message, Data: failureData(f)})
	}
	if !s.st.SeedGone {
		s.recordSeed(audit.CredentialLost, "the session lost its lease")
	}
	s.st.SeedHeld, s.st.SeedGone = false, true
	if s.st.Close != nil {
		s.turns.giveUpTurn("interrupted", f)
		return
	}
	if s.st.Alive && s.st.Retired == nil {
		s.process.retire(&protocol.Problem{Kind: f.Kind, Message: f.Message, Hint: f.Hint})
	}
}

// lacksSeed reports whether codex is stopped on the host because the seed's lease is lost.
func (s *leasesPart) lacksSeed() bool {
	return s.st.SeedGone && !s.st.Alive && s.st.Retired == nil && s.st.Close == nil && s.st.Lease != nil
}

// closesWithoutSeed reports whether a closing session may have the newest login on its
// host, but no lease to save it.
func (s *leasesPart) closesWithoutSeed() bool {
	st := s.st
	return st.Close != nil && !st.Close.Discard && st.SeedGone && st.Touched && st.Lease != nil && !protocol.NoLoginOnHost(s.credentials())
}

// mustRegainSeed reports whether the session has work that needs the seed. Without work it
// parks, moves or closes as any other.
func (s *leasesPart) mustRegainSeed() bool {
	return s.lacksSeed() && (s.st.Running || s.turns.canBegin())
}

func (s *leasesPart) leavesTurn() bool { return s.st.Running && s.st.Interrupt != nil }

// standInLine asks for the seed for a session that closes or has nothing to do, so that
// nobody else gets a login that codex may have rotated here. See answeredInLine.
func (s *leasesPart) standInLine() {
	now := workflow.Now(s.ctx)
	if !s.lacksSeed() && !s.closesWithoutSeed() || s.st.SeedNo {
		s.line.Off()
		return
	}
	if !now.Before(s.st.SeedAskAt) {
		wait := min(askAgain<<min(s.st.SeedAsks, 10), askAgainAtMost)
		s.st.SeedAsks, s.st.SeedAskAt = s.st.SeedAsks+1, now.Add(wait)
		from := protocol.SeedID(s.st.Seed.Name)
		a := s.wantsSeedHere()
		a.Run = s.firstRun()
		if err := s.ask(from, a); err != nil {
			s.nowWaits(lease.NotThere(from, err).Message)
		}
	}
	s.line.Set(s.st.SeedAskAt)
}

func (s *leasesPart) answeredInLine(g lease.Granted) {
	switch f := g.Refused; {
	case g.Seed != nil && g.Seed.Epoch > s.st.Seed.Epoch:
		s.st.Seed = g.Seed
		s.approvals.seedPolicy(g.Policy)
		s.st.SeedAmend, s.st.SeedBounds, s.st.SeedWay = g.Amend, g.Bounds, g.Credentials
		s.st.SeedHeld = true
		s.recordSeed(audit.CredentialLend, "the session may use it again")
		s.holdsAgain()
	case f == nil:
		s.st.Waits = g.Queued
	case g.RetryAfter > 0:
		s.st.Waits, s.st.SeedAskAt = f.Message, workflow.Now(s.ctx).Add(g.RetryAfter)
	case mayBeImported(f):
		s.st.Waits = f.Message
	case !s.st.SeedNo: // only a person can mend this; a message makes the session ask again
		s.st.SeedNo, s.st.Error, s.st.Waits = true, f, ""
		s.note(conversation.Note{Type: protocol.EntryError, Text: f.Message, Data: failureData(f)})
	}
}

// holdsAgain notes that the session holds its seed again. The next activity that starts
// codex on the host, or parks, first looks at the login from the lost lease.
func (s *leasesPart) holdsAgain() {
	s.st.SeedGone, s.st.SeedNo, s.st.Bare, s.st.Waits = false, false, true, ""
	s.st.SeedAsks, s.st.SeedAskAt = 0, time.Time{}
	s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("holds seed %s again", s.st.Seed.Name)})
}

// leaveLine gives up the place in the line of the lost seed, and a lease that may have been
// granted meanwhile. there is where the login may be, or nil. If nobody holds the seed, the
// seed fetches the login from there.
func (s *leasesPart) leaveLine(there *SeedPlace) {
	if s.st.Seed == nil || !s.st.SeedGone && there == nil {
		return
	}
	seed := protocol.SeedID(s.st.Seed.Name)
	r := lease.Release{Holder: s.id, Run: s.firstRun(), Generation: s.st.Generation, Clean: there == nil}
	s.signalRelease(seed, r)
	if there != nil {
		r.Epoch, r.Generation, r.At, r.Zone = s.st.Seed.Epoch, there.Generation, &there.Spec, s.opt.Zone
		s.signalRelease(seed, r)
	}
	s.st.Waits, s.st.SeedAsks, s.st.SeedAskAt = "", 0, time.Time{}
}

// regainSeed asks for the seed until the session holds it, or until only a person can help.
func (s *leasesPart) regainSeed() (again bool) {
	s.obeyed = s.st.Resume
	was := s.st.Status
	s.become(protocol.Resuming)
	f, again := s.keepTrying("get its seed back", s.needsNoSeed, s.askForSeedAgain)
	s.st.Waits = ""
	switch {
	case again || s.st.Close != nil:
	case s.st.SeedHeld:
		s.holdsAgain()
		s.asBefore(was)
	case s.leavesTurn():
		s.process.endUnbegun()
	case s.needsNoSeed():
		s.st.Trouble = nil
		s.asBefore(was)
	case s.st.Down != nil || f != nil && !kit.FailurePasses(f):
		if f == nil {
			f = &protocol.Failure{Kind: protocol.EndInterrupted, Message: interruptedBy(s.st.Down) + ": the session does not ask for its seed"}
		}
		s.cannotHaveSeed(f)
	default:
		s.tryNow()
		s.asBefore(was)
	}
	return again
}

// asBefore ends the wait for the seed. Without a running turn, the session is interrupted
// again if it was.
func (s *leasesPart) asBefore(was protocol.SessionStatus) {
	if was == protocol.Interrupted && !s.st.Running {
		s.become(protocol.Interrupted)
		return
	}
	s.turns.settle()
}

// needsNoSeed reports whether no work is left that needs the lost seed.
func (s *leasesPart) needsNoSeed() bool {
	return s.st.SeedGone && s.st.Layout != nil && (s.leavesTurn() || !s.st.Running && !s.turns.canBegin())
}

// mayBeImported reports whether a seed, or a pool of seeds, does not exist now.
func mayBeImported(f *protocol.Failure) bool {
	return (f.Kind == "seed_not_found" || f.Kind == "seed_pool_not_found") && !f.Final
}

func (s *leasesPart) askForSeedAgain() (*protocol.Failure, bool) {
	f, again := s.acquireSeed()
	if f != nil && mayBeImported(f) {
		f.Kind = KindSeedAway
	}
	return f, again
}

// cannotHaveSeed gives up asking for the seed until the next message.
func (s *leasesPart) cannotHaveSeed(f *protocol.Failure) {
	s.st.Trouble, s.st.Down, s.st.SeedNo = nil, nil, true
	if s.st.Running {
		s.process.cannotStart(f)
		return
	}
	s.note(conversation.Note{Type: protocol.EntryError, Text: f.Message, Data: failureData(f)})
	s.st.Error, s.st.Held = f, len(s.st.Queue) > 0
	s.become(protocol.Interrupted)
	if s.opt.CloseAfter && s.st.Close == nil {
		s.st.Close = &protocol.Close{By: s.opt.By}
	}
}
