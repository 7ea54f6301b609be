package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

type leasesPart struct {
	*core
	turns     *turnsPart
	approvals *approvalsPart
	snaps     *snapsPart
	process   *processPart

	answers []workflow.Future // signals in flight; see rollcall.go
	line    *kit.Wake         // when to ask again for a lost seed
}

type placeState struct {
	// Lease is nil before a slot is granted.
	Lease    *HostLease        `json:"lease,omitempty"`
	Seed     *protocol.SeedRef `json:"seed,omitempty"`
	SeedHeld bool              `json:"seed_held,omitempty"`
	// SeedGone says that the lease on the seed was lost while its login was on the host.
	// Codex does not start there before the session holds the seed again. SeedNo says that
	// the session cannot have the seed; it asks again after the next message.
	SeedGone bool `json:"seed_gone,omitempty"`
	SeedNo   bool `json:"seed_no,omitempty"`
	// SeedAsks counts the requests for a lost seed. SeedAskAt is the time of the next one.
	SeedAsks  int       `json:"seed_asks,omitempty"`
	SeedAskAt time.Time `json:"seed_ask_at,omitzero"`
	// SeedLeftOn is a host that the session left, with the login there, while the lease was
	// lost.
	SeedLeftOn *SeedPlace `json:"seed_left_on,omitempty"`
	// SeedProven is the start of the newest turn that completed with this seed. SeedDoubted
	// says that a failure of the seed was reported after that.
	SeedProven  time.Time `json:"seed_proven,omitzero"`
	SeedDoubted bool      `json:"seed_doubted,omitempty"`
	// SeedMet is when the newest turn met the end of the seed's quota, if it did.
	SeedMet protocol.SeedQuota `json:"seed_met,omitzero"`
	Asked   string             `json:"asked,omitempty"`
	Answers []lease.Granted    `json:"answers,omitempty"`
	// Strays are grants of other seeds than the held one for which nobody waits any more.
	Strays      []lease.Granted  `json:"strays,omitempty"`
	Named       bool             `json:"named,omitempty"`   // a person named the host, and the session is not up there yet
	Attempt     int              `json:"attempt"`           // leases on hosts so far
	Generation  int64            `json:"generation"`        // rises with every lease; first part of the epoch
	Touched     bool             `json:"touched,omitempty"` // something of ours may be on the host
	Layout      *protocol.Layout `json:"layout,omitempty"`
	Permissions string           `json:"permissions,omitempty"`
	// Unprotected says why the agent can read the credential.
	Unprotected string            `json:"unprotected,omitempty"`
	Bare        bool              `json:"bare,omitempty"`   // the folder may have no credential
	Commit      string            `json:"commit,omitempty"` // of the repository at the start
	Fault       *protocol.Failure `json:"fault,omitempty"`  // why the host cannot be used
	Leave       *lease.LeaveHost  `json:"leave,omitempty"`  // the pool's order to leave a drained host
	// Files came with messages that codex has, the oldest first. FilesAt is the generation
	// whose pump brought them.
	Files   []protocol.Input `json:"files,omitempty"`
	FilesAt int64            `json:"files_at,omitempty"`
	ForkOf  string           `json:"fork_of,omitempty"` // thread of the snapshot at the start
	Pinned  bool             `json:"pinned,omitempty"`  // the snapshot at the start is pinned
	LeftOn  string           `json:"left_on,omitempty"` // a host left without cleaning up
}

// acquire requests a lease and waits for the answer. It returns neither a lease nor a
// failure if the session is to close, if otherwise returns true, or with again: the next
// run asks again and keeps the place in the line. After its start timeout the session
// leaves the line.
func (s *leasesPart) acquire(from string, a lease.Acquire, otherwise func() bool) (got *lease.Granted, f *protocol.Failure, again bool) {
	s.giveBack()
	s.st.Asked = from
	a.Run = s.firstRun()
	defer func() {
		if !again { // a late answer belongs to the next run
			s.st.Asked = ""
		}
	}()
	if err := s.ask(from, a); err != nil {
		return nil, lease.NotThere(from, err), false
	}
	next := reminder{Wake: kit.NewWake(s.ctx, "ask "+from+" again"), ctx: s.ctx, by: s.startBy()}
	defer next.Off()
	for {
		err := s.await(func() bool {
			return len(s.st.Answers) > 0 || s.st.Close != nil || s.full() || otherwise() || next.Due()
		})
		switch got := s.answer(from); {
		case err != nil:
			return nil, &protocol.Failure{Kind: protocol.ErrTypeInternal, Message: fmt.Sprintf("wait for %s: %v", from, err)}, false
		case got != nil && got.Refused != nil && got.RetryAfter > 0:
			s.nowWaits(got.Refused.Message)
			next.in(got.RetryAfter)
		case got != nil && got.Refused != nil:
			return nil, got.Refused, false
		case got != nil && got.Queued != "":
			s.nowWaits(got.Queued)
			next.later()
		case got != nil && (got.Spec != nil || got.Seed != nil):
			s.st.Waits = ""
			return got, nil, false
		case got != nil:
			s.log.Warn("lease answer with nothing in it", "from", from)
		case s.st.Close != nil:
			if from == protocol.PoolID(s.opt.Zone) || !s.closesWithoutSeed() {
				s.takeBack(from, a)
			} // otherwise it stays in the line, to save its login; see leaveLine
			return nil, nil, false
		case otherwise():
			return nil, nil, false
		case s.full():
			return nil, nil, true
		case next.Due():
			next.Off()
			if late := s.tooLateToStart(); late != nil {
				s.takeBack(from, a)
				return nil, late, false
			}
			// A pool's workflow that was started anew knows no hosts yet. With Begun, it
			// lets the session wait until somebody adds hosts.
			a.Begun = true
			if err := s.ask(from, a); err != nil { // somebody may still start that workflow anew
				s.nowWaits(lease.NotThere(from, err).Message)
				next.in(askAgain)
				break
			}
			next.later()
		}
	}
}

func (s *leasesPart) takeBack(from string, a lease.Acquire) {
	if !s.st.SeedHeld {
		// A login planted under a lost lease is still on a host.
		clean := from == protocol.PoolID(s.opt.Zone) || !s.st.SeedGone && s.st.SeedLeftOn == nil
		s.signalRelease(from, lease.Release{Holder: s.id, Run: s.firstRun(), Generation: a.Generation, Clean: clean})
	}
}

func (s *leasesPart) ask(from string, a lease.Acquire) error {
	return workflow.SignalExternalWorkflow(s.ctx, from, "", lease.SignalAcquire, a).Get(s.ctx, nil)
}

func (s *leasesPart) nowWaits(why string) {
	if s.st.Waits != why {
		s.st.Waits = why
		s.publish()
	}
}

// A session that waits for a lease asks again, because a workflow that was terminated and
// started anew has no line. The intervals grow, because each request costs about ten
// events.
const (
	askAgain       = 5 * time.Minute
	askAgainAtMost = time.Hour
)

// reminder is the timer for asking again. A lease granted at once costs no timer.
type reminder struct {
	*kit.Wake
	ctx   workflow.Context
	asked int
	by    time.Time
}

func (r *reminder) later() {
	if !r.IsSet() {
		r.in(min(askAgain<<min(r.asked, 10), askAgainAtMost))
		r.asked++
	}
}

func (r *reminder) in(d time.Duration) {
	at := workflow.Now(r.ctx).Add(d)
	if !r.by.IsZero() && r.by.Before(at) {
		at = r.by
	}
	r.Set(at)
}

func (s *leasesPart) wantsSlot() lease.Acquire {
	return lease.Acquire{
		Holder: s.id, Host: s.opt.Host, Labels: s.opt.Labels, Select: s.opt.Select, Rather: s.opt.Rather, Elsewhere: s.opt.Elsewhere, Seed: s.opt.Seed,
		Tenant: s.opt.Tenant, Priority: s.opt.Priority, AskedAt: workflow.Now(s.ctx), Generation: s.st.Generation + 1,
	}
}

func (s *leasesPart) wantsSeed() bool { return s.opt.Seed != "" || s.opt.SeedPool != "" }

func (s *leasesPart) wantsSeedHere() lease.Acquire {
	at := s.st.Lease.Spec
	return lease.Acquire{Holder: s.id, At: &at, Zone: s.opt.Zone, Generation: s.st.Generation,
		Brokered: protocol.NoLoginOnHost(s.credentials())}
}

func (s *leasesPart) acquireSeed() (f *protocol.Failure, again bool) {
	from := protocol.SeedID(s.opt.Seed)
	switch {
	case s.st.SeedGone || s.st.SeedHeld: // that seed's credential is on the host
		from = protocol.SeedID(s.st.Seed.Name)
	case s.opt.Seed == "":
		from = protocol.SeedPoolID(s.opt.SeedPool)
	}
	a := s.wantsSeedHere()
	leave := func() bool { return s.needsNoSeed() || s.leavesTurn() && (s.st.SeedGone || s.st.Layout != nil) }
	if there := s.st.SeedLeftOn; there != nil {
		was := a
		was.At, was.Generation = &there.Spec, there.Generation
		got, f, again := s.acquire(from, was, leave)
		if got == nil {
			return f, again
		}
		// The seed first fetches the login from that host.
		s.signalRelease(from, lease.Release{Holder: s.id, Run: s.firstRun(), Epoch: got.Epoch, Generation: there.Generation})
		s.st.SeedLeftOn = nil
	}
	got, f, again := s.acquire(from, a, leave)
	if got == nil {
		return f, again
	}
	s.st.SeedGone, s.st.SeedNo = false, false
	if was := s.st.Seed; was != nil && was.Name != got.Seed.Name {
		s.st.Pump.RateLimits, s.st.SeedMet = nil, protocol.SeedQuota{} // these are of another account
	}
	s.st.Seed, s.st.SeedHeld = got.Seed, true
	s.tellSwitched()
	s.recordSeed(audit.CredentialLend, "the session may use it")
	s.approvals.seedPolicy(got.Policy)
	s.st.SeedAmend, s.st.SeedBounds, s.st.SeedWay = got.Amend, got.Bounds, got.Credentials
	if s.opt.Seed == "" {
		// The pool must know which seed is planted on its host.
		slot := s.wantsSlot()
		slot.Seed, slot.Run, slot.Generation = got.Seed.Name, s.firstRun(), 0
		err := workflow.SignalExternalWorkflow(s.ctx, protocol.PoolID(s.opt.Zone), "", lease.SignalAcquire, slot).Get(s.ctx, nil)
		if err != nil {
			s.log.Warn("pool not told of the seed", "error", err)
		}
	}
	return nil, false
}

func (s *leasesPart) answer(from string) *lease.Granted {
	for len(s.st.Answers) > 0 {
		g := s.st.Answers[0]
		s.st.Answers = s.st.Answers[1:]
		if g.Answers(from) {
			return &g
		}
	}
	return nil
}

// leased handles answers of pools and seeds, and newer generations of the held seed.
func (s *leasesPart) leased(g lease.Granted) {
	switch held := s.st.Seed; {
	case g.Run != "" && g.Run != s.firstRun(): // for a former session of this name
	case s.st.Asked != "" && g.Answers(s.st.Asked): // also for a held lease that was requested again
		s.st.Answers = append(s.st.Answers, g)
	case s.st.SeedGone && s.st.Lease != nil && g.From == protocol.SeedID(held.Name):
		s.answeredInLine(g)
	case s.st.SeedHeld && g.Seed != nil && g.From == protocol.SeedID(held.Name):
		if g.Seed.Epoch == held.Epoch && g.Seed.Generation > held.Generation {
			s.st.Seed = g.Seed
		}
	default:
		s.stray(g)
	}
}

func (s *leasesPart) signalRelease(from string, r lease.Release) {
	err := workflow.SignalExternalWorkflow(s.ctx, from, "", lease.SignalRelease, r).Get(s.ctx, nil)
	if err != nil {
		// The pool or seed finds out by itself that the holder has ended.
		s.log.Warn("lease not given back", "from", from, "error", err)
	}
}

func (s *leasesPart) releaseLeases() {
	s.giveBack()
	s.leaveLine(s.loginStays())
	if s.st.SeedHeld {
		s.signalRelease(protocol.SeedID(s.st.Seed.Name), s.seedRelease())
		s.st.SeedHeld = false
	}
	if s.st.Lease != nil || s.st.Left != "" || s.st.Warm != nil {
		s.signalRelease(protocol.PoolID(s.opt.Zone), s.slotRelease())
	}
}

func (s *leasesPart) slotRelease() lease.Release {
	r := lease.Release{Holder: s.id, Run: s.firstRun(), Generation: s.st.Generation, Failed: s.st.Fault}
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

// seedRelease states only what is certain about the credential.
func (s *leasesPart) seedRelease() lease.Release {
	r := lease.Release{Holder: s.id, Run: s.firstRun(), Epoch: s.st.Seed.Epoch, Generation: s.st.Generation, Proven: s.st.SeedProven, Use: s.seedUse(),
		Served: s.st.tellsSeed()}
	switch c := s.st.Closed; {
	case !s.st.Touched:
		r.Clean = true
	case c != nil:
		r.Clean, r.Discarded = c.Wiped, c.Unsaved
	}
	return r
}

// seedUse returns what the seed learns, with the release of its lease, of the use of its
// account.
func (s *leasesPart) seedUse() *protocol.SeedUse {
	if s.st.Pump.RateLimits == nil && s.st.SeedMet.Met.IsZero() {
		return nil
	}
	return &protocol.SeedUse{Limits: s.st.Pump.RateLimits, SeedQuota: s.st.SeedMet}
}

// seedShown reports to the seed that codex could not log in, at once. That the seed works
// is reported with the release, or at once after a reported failure.
func (s *leasesPart) seedShown(began time.Time, status string, p *protocol.Problem) {
	if !s.st.SeedHeld {
		return
	}
	if p != nil && p.Kind == protocol.EndQuota {
		s.st.SeedMet = protocol.SeedQuota{Met: workflow.Now(s.ctx), Until: p.ResetAt}
	} else if status == "completed" {
		s.st.SeedMet = protocol.SeedQuota{}
	}
	switch {
	case p != nil && p.Kind == "auth" && p.Passing: // this shows nothing about the seed
	case p != nil && p.Kind == "auth":
		s.doubtSeed(p.Message, p.Hint)
	case status == "completed" && p == nil, p != nil && p.Kind == protocol.EndAgentFailed:
		s.st.SeedProven = began
		if s.st.SeedDoubted {
			s.st.SeedDoubted = false
			s.reportSeed(lease.Report{Verdict: lease.VerdictAlive, Began: began})
		}
	}
}

func (s *leasesPart) doubtSeed(reason, hint string) {
	if !s.st.SeedHeld {
		return
	}
	s.st.SeedDoubted = true
	s.reportSeed(lease.Report{Verdict: lease.VerdictSuspect, Reason: kit.Cut(fmt.Sprintf("in session %s, %s", s.id, reason), kit.MaxReason), Hint: kit.Cut(hint, kit.MaxReason)})
}

// reportSeed does not wait for the delivery. A lost report only leaves other sessions
// unwarned.
func (s *leasesPart) reportSeed(r lease.Report) {
	r.Holder, r.Epoch = s.id, s.st.Seed.Epoch
	workflow.SignalExternalWorkflow(s.ctx, protocol.SeedID(s.st.Seed.Name), "", lease.SignalReport, r)
}

func (s *leasesPart) leftWarm(why string) *lease.LeftBehind {
	w := s.st.Warm
	return &lease.LeftBehind{Host: w.Spec.Name, Why: why, Generation: w.Generation, ThreadID: s.st.Pump.ThreadID, Wiped: true,
		Snapshot: &snaps.SnapshotSpec{Policy: s.snaps.snapshotPolicy(), Parent: s.snaps.goodSnapshot()}}
}

// leftNow describes what the session leaves on its host without cleaning up.
func (s *leasesPart) leftNow(why string) *lease.LeftBehind {
	l := &lease.LeftBehind{Why: why, Generation: s.st.Generation, Seed: s.st.Seed, Layout: s.layoutThere(),
		ThreadID: s.st.Pump.ThreadID, Discard: s.st.Close != nil && s.st.Close.Discard}
	if s.st.Lease != nil {
		l.Host = s.st.Lease.Spec.Name
	}
	l.Snapshot = s.snaps.keeping()
	return l
}

func (s *leasesPart) layoutThere() *protocol.Layout {
	switch w := s.st.Warm; {
	case s.st.Layout != nil:
		return s.st.Layout
	case w != nil && (s.st.Lease == nil || s.st.Lease.Spec.Name == w.Spec.Name):
		return &w.Layout
	}
	return nil
}
