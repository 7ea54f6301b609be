package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// A session can lose the lease on its seed while it runs: if the seed's workflow is
// terminated and started anew, the new one knows of no holder. Another session may then
// hold the same login, so codex is stopped. If codex has rotated the login, the newest
// login exists only on that host. The session asks for the seed again, however long that
// takes. The first activity that comes to the host under the new lease saves that login
// before it does anything else.

// A SeedPlace says on which host the login of a seed is.
type SeedPlace struct {
	Spec       protocol.HostSpec `json:"spec"`
	Generation int64             `json:"generation"`
}

// If the session has lost the lease of a login that is still on its host, leavesSeed
// records that host when the session leaves it. The seed is told of that host when the
// session asks for it again.
func (s *leasesPart) leavesSeed(clean bool) {
	st := s.st
	if st.SeedGone && !clean && st.Touched && st.Lease != nil && s.opt.Credentials != protocol.CredentialsBroker {
		st.SeedLeftOn = &SeedPlace{Spec: st.Lease.Spec, Generation: st.Generation}
	}
}

// loginStays returns the place where a session that ends without its seed may have
// left the login, or nil. The pool wipes nothing there before the login is saved.
func (s *leasesPart) loginStays() *SeedPlace {
	st := s.st
	switch {
	case st.Seed == nil || st.SeedHeld || s.opt.Credentials == protocol.CredentialsBroker || s.discarding():
		return nil
	case st.SeedLeftOn != nil:
		return st.SeedLeftOn
	case !st.SeedGone || !st.Touched || st.Lease == nil || st.Closed != nil && (st.Closed.Wiped || st.Closed.Unsaved):
		return nil
	}
	return &SeedPlace{Spec: st.Lease.Spec, Generation: st.Generation}
}

// KindSeedAway is the kind of a failure that passes when the session holds its seed again,
// for example while the seed's workflow does not run.
const KindSeedAway = "seed_away"

// seedLost stops codex after a pump has found that the lease on the seed is lost.
// A running turn counts as cut off.
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
	s.st.SeedHeld, s.st.SeedGone = false, true
	if s.st.Close != nil {
		s.turns.giveUpTurn("interrupted", f)
		return
	}
	if s.st.Alive && s.st.Retired == nil {
		s.process.retire(&protocol.Problem{Kind: f.Kind, Message: f.Message, Hint: f.Hint})
	}
}

// lacksSeed reports whether the session is on a host, with codex stopped, because
// it has lost the lease on its seed.
func (s *leasesPart) lacksSeed() bool {
	return s.st.SeedGone && !s.st.Alive && s.st.Retired == nil && s.st.Close == nil && s.st.Lease != nil
}

// closesWithoutSeed reports whether a session that closes may have the newest login on its
// host, but no lease under which the login can be saved.
func (s *leasesPart) closesWithoutSeed() bool {
	st := s.st
	return st.Close != nil && !st.Close.Discard && st.SeedGone && st.Touched && st.Lease != nil && s.opt.Credentials != protocol.CredentialsBroker
}

// mustRegainSeed reports whether the session has work to do and must get its seed
// back first. A session that has no work stands in the seed's line, and parks, moves
// or closes like any other.
func (s *leasesPart) mustRegainSeed() bool {
	return s.lacksSeed() && (s.st.Running || s.turns.canBegin())
}

// leavesTurn reports whether somebody has interrupted the turn that waits for the
// seed.
func (s *leasesPart) leavesTurn() bool { return s.st.Running && s.st.Interrupt != nil }

// standInLine asks for the seed for a session that has nothing to do, or closes, so that
// nobody is granted the login that codex may have rotated here. The session does not wait
// for the answer; see answeredInLine.
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

// answeredInLine handles the seed's answer to a session that stands in its line and
// does not wait for the answer.
func (s *leasesPart) answeredInLine(g lease.Granted) {
	switch f := g.Refused; {
	case g.Seed != nil && g.Seed.Epoch > s.st.Seed.Epoch:
		s.st.Seed = g.Seed
		s.approvals.seedPolicy(g.Policy)
		s.st.SeedAmend = g.Amend
		s.st.SeedHeld = true
		s.holdsAgain()
	case f == nil:
		s.st.Waits = g.Queued
	case g.RetryAfter > 0:
		s.st.Waits, s.st.SeedAskAt = f.Message, workflow.Now(s.ctx).Add(g.RetryAfter)
	case mayBeImported(f):
		s.st.Waits = f.Message // the seed may be imported again
	case !s.st.SeedNo: // only a person can mend this refusal; the session asks again after a message
		s.st.SeedNo, s.st.Error, s.st.Waits = true, f, ""
		s.note(conversation.Note{Type: protocol.EntryError, Text: f.Message, Data: failureData(f)})
	}
}

// holdsAgain notes that the session holds its seed again. The login on the host was
// put there under the lost lease. So the next activity that starts codex there, or
// parks, looks at the login first.
func (s *leasesPart) holdsAgain() {
	s.st.SeedGone, s.st.SeedNo, s.st.Bare, s.st.Waits = false, false, true, ""
	s.st.SeedAsks, s.st.SeedAskAt = 0, time.Time{}
	s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("holds seed %s again", s.st.Seed.Name)})
}

// leaveLine gives up the session's place in the line of the seed that it lost, and a lease
// that it may have been granted meanwhile. The argument there is the place where the login
// may be, or nil. If nobody holds the seed, the seed has the login fetched from there.
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

// regainSeed asks for the seed until the session holds it, or is told that it cannot have
// the seed, which only a person can mend. again means that the run only stopped to continue
// as new.
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
	default: // somebody asked the session to try again now
		s.tryNow()
		s.asBefore(was)
	}
	return again
}

// asBefore ends the wait for the seed: the session has the status that it had
// before if that was Interrupted and no turn runs.
func (s *leasesPart) asBefore(was protocol.SessionStatus) {
	if was == protocol.Interrupted && !s.st.Running {
		s.become(protocol.Interrupted)
		return
	}
	s.turns.settle()
}

// needsNoSeed reports whether a session that lost its seed has no work any more that
// needs the seed at once.
func (s *leasesPart) needsNoSeed() bool {
	return s.st.SeedGone && s.st.Layout != nil && (s.leavesTurn() || !s.st.Running && !s.turns.canBegin())
}

// mayBeImported reports whether f says that a seed, or a pool of seeds, does not
// exist now. A person may import it again.
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

// cannotHaveSeed gives up asking for the seed. A message makes the session ask
// again.
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
