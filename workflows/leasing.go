package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// The side of a lease that a session is on.

// acquire asks a pool or a seed for a lease and waits for the answer. Nothing
// is returned when the session is to close first, or to continue as new; the
// next run asks again and keeps its place in the line. So does who wants to ask
// for something else.
func (s *session) acquire(from string, a acquire, otherwise func() bool) (got *granted, f *Failure, again bool) {
	s.st.Asked = from
	a.Run = s.firstRun()
	defer func() {
		if !again { // what comes in the last moment of this run is the next one's
			s.st.Asked = ""
		}
	}()
	if err := workflow.SignalExternalWorkflow(s.ctx, from, "", signalAcquire, a).Get(s.ctx, nil); err != nil {
		return nil, notThere(from, err), false
	}
	for {
		err := s.await(func() bool { return len(s.st.Answers) > 0 || s.st.Close != nil || s.full() || otherwise() })
		switch got := s.answer(from); {
		case err != nil:
			return nil, &Failure{Kind: activities.ErrTypeInternal, Message: fmt.Sprintf("wait for %s: %v", from, err)}, false
		case got != nil && got.Refused != nil:
			return nil, got.Refused, false
		case got != nil && got.Queued != "":
			s.st.Waits = got.Queued
			s.publish()
		case got != nil && (got.Spec != nil || got.Seed != nil):
			s.st.Waits = ""
			return got, nil, false
		case got != nil:
			s.log.Warn("lease answer with nothing in it", "from", from)
		case s.st.Close != nil:
			if !s.st.SeedHeld { // else it has it, and gives it back in the end
				s.signalRelease(from, release{Holder: s.id, Run: s.firstRun(), Generation: a.Generation, Clean: true})
			}
			return nil, nil, false
		case otherwise():
			return nil, nil, false
		case s.full():
			return nil, nil, true
		}
	}
}

// firstRun tells this session from others that have its name before or after it.
func (s *session) firstRun() string { return workflow.GetInfo(s.ctx).FirstRunID }

func (s *session) wantsSeed() bool { return s.opt.Seed != "" || s.opt.SeedPool != "" }

// acquireSeed gets the seed that was asked for, or one of the pool.
func (s *session) acquireSeed() (f *Failure, again bool) {
	from, at := SeedID(s.opt.Seed), s.st.Lease.Spec
	if s.opt.Seed == "" {
		from = SeedPoolID(s.opt.SeedPool)
	}
	a := acquire{Holder: s.id, At: &at, Zone: s.opt.Zone, Generation: s.st.Generation,
		Brokered: s.opt.Credentials == activities.CredentialsBroker}
	got, f, again := s.acquire(from, a, func() bool { return false })
	if got == nil {
		return f, again
	}
	if was := s.st.Seed; was != nil && was.Name != got.Seed.Name {
		s.st.Pump.RateLimits = nil // they are another account's
	}
	s.st.Seed, s.st.SeedHeld = got.Seed, true
	s.seedPolicy(got.Policy)
	s.st.SeedAmend = got.Amend
	if s.opt.Seed == "" {
		// The host's pool has to know what is about to be brought there.
		slot := s.wantsSlot()
		slot.Seed, slot.Run, slot.Generation = got.Seed.Name, s.firstRun(), 0
		err := workflow.SignalExternalWorkflow(s.ctx, PoolID(s.opt.Zone), "", signalAcquire, slot).Get(s.ctx, nil)
		if err != nil {
			s.log.Warn("pool not told of the seed", "error", err)
		}
	}
	return nil, false
}

// answer takes the oldest one that is of a lease that was asked for.
func (s *session) answer(from string) *granted {
	for len(s.st.Answers) > 0 {
		g := s.st.Answers[0]
		s.st.Answers = s.st.Answers[1:]
		if g.from(from) {
			return &g
		}
	}
	return nil
}

// from says whether it answers what was asked of a workflow. A pool of seeds
// has one of them answer.
func (g granted) from(asked string) bool {
	return g.From == asked || g.Pool != "" && SeedPoolID(g.Pool) == asked
}

// leased takes what pools and seeds say: answers to what was asked, and newer
// generations of the seed that is held.
func (s *session) leased(g granted) {
	switch held := s.st.Seed; {
	case g.Run != "" && g.Run != s.firstRun(): // to a session that had this name before
	case s.st.Asked != "" && g.from(s.st.Asked): // also of what is held, where it was asked for again
		s.st.Answers = append(s.st.Answers, g)
	case s.st.SeedHeld && g.Seed != nil && g.From == SeedID(held.Name):
		if g.Seed.Epoch == held.Epoch && g.Seed.Generation > held.Generation {
			s.st.Seed = g.Seed
		}
	}
}

func (s *session) signalRelease(from string, r release) {
	err := workflow.SignalExternalWorkflow(s.ctx, from, "", signalRelease, r).Get(s.ctx, nil)
	if err != nil {
		// The owner finds out by itself that the holder has ended.
		s.log.Warn("lease not given back", "from", from, "error", err)
	}
}

func (s *session) releaseLeases() {
	if s.st.SeedHeld {
		s.signalRelease(SeedID(s.st.Seed.Name), s.seedRelease())
		s.st.SeedHeld = false
	}
	if s.st.Lease != nil || s.st.Left != "" || s.st.Warm != nil {
		s.signalRelease(PoolID(s.opt.Zone), s.slotRelease())
	}
}

// slotRelease tells the pool what stays on the host.
func (s *session) slotRelease() release {
	r := release{Holder: s.id, Run: s.firstRun(), Generation: s.st.Generation, Failed: s.st.Fault}
	switch {
	case s.st.Left == "":
	case s.st.Lease == nil && s.st.Warm != nil:
		r.Left = s.leftWarm(s.st.Left)
		r.Left.Discard = s.st.Close != nil && s.st.Close.Discard
	default:
		r.Left = s.leftNow(s.st.Left)
		r.Left.Discard = r.Left.Discard || r.Left.Layout == nil && !s.st.Begun
	}
	return r
}

// seedRelease says what is certain about the credential: no more.
func (s *session) seedRelease() release {
	r := release{Holder: s.id, Run: s.firstRun(), Epoch: s.st.Seed.Epoch, Generation: s.st.Generation, Proven: s.st.SeedProven}
	switch c := s.st.Closed; {
	case !s.st.Touched:
		r.Clean = true // it was never brought there
	case c != nil:
		r.Clean, r.Discarded = c.Wiped, c.Unsaved
	}
	return r
}

// seedShown takes what a turn's end shows of the seed. That it was refused is
// told at once; that it works, with the release, or when somebody doubts it.
func (s *session) seedShown(began time.Time, status string, p *activities.Problem) {
	if !s.st.SeedHeld {
		return
	}
	switch {
	case p != nil && p.Kind == "auth" && p.Passing: // nothing is known of the seed
	case p != nil && p.Kind == "auth":
		s.doubtSeed(p.Message, p.Hint)
	case status == "completed" && p == nil:
		s.st.SeedProven = began
		if s.st.SeedDoubted {
			s.st.SeedDoubted = false
			s.reportSeed(report{Verdict: VerdictAlive, Began: began})
		}
	}
}

// seedLost ends a session whose lease on its seed has ended: its codex works on
// with a login that may be somebody else's by now. It is stopped, and there is
// no further turn.
func (s *session) seedLost(p *activities.Problem) {
	if p == nil || s.st.Status == Failed {
		return
	}
	f := failureOfProblem(p)
	f.Message = excerpt("codex was stopped, since its session does not hold its seed any more: "+f.Message, maxFailure)
	f.Hint = "see `ctl seed show` for who holds it and why; the work is kept: go on in a new session"
	s.giveUpTurn("interrupted", f)
	if s.st.Close == nil {
		s.fail(f)
	}
}

// doubtSeed tells the seed that codex could not log in with it.
func (s *session) doubtSeed(reason, hint string) {
	if !s.st.SeedHeld {
		return
	}
	s.st.SeedDoubted = true
	s.reportSeed(report{Verdict: VerdictSuspect, Reason: excerpt(fmt.Sprintf("in session %s, %s", s.id, reason), maxReason), Hint: excerpt(hint, maxReason)})
}

// reportSeed does not wait: what it costs if it does not arrive is that nobody
// else is warned.
func (s *session) reportSeed(r report) {
	r.Holder, r.Epoch = s.id, s.st.Seed.Epoch
	workflow.SignalExternalWorkflow(s.ctx, SeedID(s.st.Seed.Name), "", signalReport, r)
}
