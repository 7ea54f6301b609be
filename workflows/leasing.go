package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/protocol"
)

// leasesPart asks pools and seeds for leases, and gives them back.
type leasesPart struct {
	*core
	turns     *turnsPart
	approvals *approvalsPart
	snaps     *snapsPart
	process   *processPart

	answers []workflow.Future // to pools that asked what it holds, as they are sent
	line    *wake             // for an idle session that asks again for the seed that it lost
}

// placeState is the host, the seed and the folder that the session has, and how it
// gets them.
type placeState struct {
	// Lease is the slot on a host; nil before it is granted.
	Lease    *hostLease        `json:"lease,omitempty"`
	Seed     *protocol.SeedRef `json:"seed,omitempty"`
	SeedHeld bool              `json:"seed_held,omitempty"`
	// SeedGone says that the lease on the seed was lost while its login was on the
	// host. Codex does not start there before the session holds the seed again.
	// SeedNo says that the session cannot have it; a message tries again.
	SeedGone bool `json:"seed_gone,omitempty"`
	SeedNo   bool `json:"seed_no,omitempty"`
	// SeedAsks counts the requests for the seed while the session had nothing to
	// do. SeedAskAt is when it asks next.
	SeedAsks  int       `json:"seed_asks,omitempty"`
	SeedAskAt time.Time `json:"seed_ask_at,omitzero"`
	// SeedLeftOn is a host that the session left while the lease was lost.
	SeedLeftOn *seedPlace `json:"seed_left_on,omitempty"`
	// SeedProven is the start of the newest turn that completed with this seed.
	// SeedDoubted says that a failure of the seed was reported after that.
	SeedProven  time.Time `json:"seed_proven,omitzero"`
	SeedDoubted bool      `json:"seed_doubted,omitempty"`
	// Asked is the workflow that was asked for a lease. Answers are its answers
	// that are not taken yet.
	Asked       string           `json:"asked,omitempty"`
	Answers     []granted        `json:"answers,omitempty"`
	Named       bool             `json:"named,omitempty"`   // a person named the host that it was granted last, and it is not up there yet
	Attempt     int              `json:"attempt"`           // leases of a host so far
	Generation  int64            `json:"generation"`        // rises with every lease: the first part of the epoch
	Touched     bool             `json:"touched,omitempty"` // something of ours may be on the host
	Layout      *protocol.Layout `json:"layout,omitempty"`
	Permissions string           `json:"permissions,omitempty"`
	// Unprotected says why the agent can read its credential there.
	Unprotected string            `json:"unprotected,omitempty"`
	Bare        bool              `json:"bare,omitempty"`   // the folder may have no credential: it has to be prepared again
	Commit      string            `json:"commit,omitempty"` // of the repository that it began with
	Fault       *protocol.Failure `json:"fault,omitempty"`  // why nothing can be done on the host; for its pool
	Leave       *leaveHost        `json:"leave,omitempty"`  // its host is being drained
	// Files came with messages that codex has, the oldest first; FilesAt is the
	// generation that brought them to its host.
	Files   []protocol.Input `json:"files,omitempty"`
	FilesAt int64            `json:"files_at,omitempty"`
	ForkOf  string           `json:"fork_of,omitempty"` // the thread of the snapshot that it began with
	Pinned  bool             `json:"pinned,omitempty"`  // that snapshot is kept from being dropped
	LeftOn  string           `json:"left_on,omitempty"` // the host that it left without cleaning up, while it is on no other
}

// acquire requests a lease from a pool or a seed and waits for the answer. It returns neither a
// lease nor a failure if the session is to close, if otherwise returns true, or if the run must
// continue as new (again): the next run asks again and keeps its place in the line. A session
// that waits longer than its start timeout leaves the line.
func (s *leasesPart) acquire(from string, a acquire, otherwise func() bool) (got *granted, f *protocol.Failure, again bool) {
	s.st.Asked = from
	a.Run = s.firstRun()
	defer func() {
		if !again { // a late answer belongs to the next run
			s.st.Asked = ""
		}
	}()
	if err := s.ask(from, a); err != nil {
		return nil, notThere(from, err), false
	}
	next := reminder{wake: wake{ctx: s.ctx, what: "ask " + from + " again"}, by: s.startBy()}
	defer next.off()
	for {
		err := s.await(func() bool {
			return len(s.st.Answers) > 0 || s.st.Close != nil || s.full() || otherwise() || next.due()
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
			} // otherwise it stays in line, so that its login can be saved; see leaveLine
			return nil, nil, false
		case otherwise():
			return nil, nil, false
		case s.full():
			return nil, nil, true
		case next.due():
			next.off()
			if late := s.tooLateToStart(); late != nil {
				s.takeBack(from, a)
				return nil, late, false
			}
			// It was in line already. A pool that was begun anew knows no hosts yet, and lets
			// such a session wait until somebody adds them.
			a.Begun = true
			if err := s.ask(from, a); err != nil { // it may yet be begun anew
				s.nowWaits(notThere(from, err).Message)
				next.in(askAgain)
				break
			}
			next.later()
		}
	}
}

func (s *leasesPart) takeBack(from string, a acquire) {
	if !s.st.SeedHeld { // a held seed is released at the end
		// A login planted under a lost lease is still on a host.
		clean := from == protocol.PoolID(s.opt.Zone) || !s.st.SeedGone && s.st.SeedLeftOn == nil
		s.signalRelease(from, release{Holder: s.id, Run: s.firstRun(), Generation: a.Generation, Clean: clean})
	}
}

func (s *leasesPart) ask(from string, a acquire) error {
	return workflow.SignalExternalWorkflow(s.ctx, from, "", signalAcquire, a).Get(s.ctx, nil)
}

func (s *leasesPart) nowWaits(why string) {
	if s.st.Waits != why {
		s.st.Waits = why
		s.publish()
	}
}

// How often a session that waits for a lease asks again. A line may be lost with its workflow;
// asking again makes the session known to a workflow that was begun anew. Each time costs about
// ten events, so the interval grows.
const (
	askAgain       = 5 * time.Minute
	askAgainAtMost = time.Hour
)

// reminder is the timer for asking again. It is not set before the session is told to wait, so a
// lease that is granted at once costs no timer.
type reminder struct {
	wake
	asked int
	by    time.Time // the latest time, if not zero
}

func (r *reminder) later() {
	if r.timer == nil {
		r.in(min(askAgain<<min(r.asked, 10), askAgainAtMost))
		r.asked++
	}
}

func (r *reminder) in(d time.Duration) {
	at := workflow.Now(r.ctx).Add(d)
	if !r.by.IsZero() && r.by.Before(at) {
		at = r.by
	}
	r.set(at)
}

func (s *leasesPart) wantsSeed() bool { return s.opt.Seed != "" || s.opt.SeedPool != "" }

func (s *leasesPart) wantsSeedHere() acquire {
	at := s.st.Lease.Spec
	return acquire{Holder: s.id, At: &at, Zone: s.opt.Zone, Generation: s.st.Generation,
		Brokered: s.opt.Credentials == protocol.CredentialsBroker}
}

// acquireSeed acquires the chosen seed, or one of the chosen pool.
func (s *leasesPart) acquireSeed() (f *protocol.Failure, again bool) {
	from := protocol.SeedID(s.opt.Seed)
	switch {
	case s.st.SeedGone || s.st.SeedHeld: // the host has that seed's credential
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
		// The seed fetches the login from there before it grants it to anybody.
		s.signalRelease(from, release{Holder: s.id, Run: s.firstRun(), Epoch: got.Epoch, Generation: there.Generation})
		s.st.SeedLeftOn = nil
	}
	got, f, again := s.acquire(from, a, leave)
	if got == nil {
		return f, again
	}
	s.st.SeedGone, s.st.SeedNo = false, false
	if was := s.st.Seed; was != nil && was.Name != got.Seed.Name {
		s.st.Pump.RateLimits = nil // those are another account's
	}
	s.st.Seed, s.st.SeedHeld = got.Seed, true
	s.approvals.seedPolicy(got.Policy)
	s.st.SeedAmend = got.Amend
	if s.opt.Seed == "" {
		// The host's pool must know which seed is about to be planted there.
		slot := s.wantsSlot()
		slot.Seed, slot.Run, slot.Generation = got.Seed.Name, s.firstRun(), 0
		err := workflow.SignalExternalWorkflow(s.ctx, protocol.PoolID(s.opt.Zone), "", signalAcquire, slot).Get(s.ctx, nil)
		if err != nil {
			s.log.Warn("pool not told of the seed", "error", err)
		}
	}
	return nil, false
}

func (s *leasesPart) answer(from string) *granted {
	for len(s.st.Answers) > 0 {
		g := s.st.Answers[0]
		s.st.Answers = s.st.Answers[1:]
		if g.from(from) {
			return &g
		}
	}
	return nil
}

// from reports whether g answers a request to the workflow asked. A pool of seeds lets one of its
// seeds answer.
func (g granted) from(asked string) bool {
	return g.From == asked || g.Pool != "" && protocol.SeedPoolID(g.Pool) == asked
}

// leased handles messages of pools and seeds: answers to requests, and newer generations of the
// held seed.
func (s *leasesPart) leased(g granted) {
	switch held := s.st.Seed; {
	case g.Run != "" && g.Run != s.firstRun(): // for a former session of this name
	case s.st.Asked != "" && g.from(s.st.Asked): // also for a held lease that was requested again
		s.st.Answers = append(s.st.Answers, g)
	case s.st.SeedGone && s.st.Lease != nil && g.From == protocol.SeedID(held.Name):
		s.answeredInLine(g)
	case s.st.SeedHeld && g.Seed != nil && g.From == protocol.SeedID(held.Name):
		if g.Seed.Epoch == held.Epoch && g.Seed.Generation > held.Generation {
			s.st.Seed = g.Seed
		}
	}
}

func (s *leasesPart) signalRelease(from string, r release) {
	err := workflow.SignalExternalWorkflow(s.ctx, from, "", signalRelease, r).Get(s.ctx, nil)
	if err != nil {
		// The owner finds out by itself that the holder has ended.
		s.log.Warn("lease not given back", "from", from, "error", err)
	}
}

func (s *leasesPart) releaseLeases() {
	s.leaveLine(s.loginStays())
	if s.st.SeedHeld {
		s.signalRelease(protocol.SeedID(s.st.Seed.Name), s.seedRelease())
		s.st.SeedHeld = false
	}
	if s.st.Lease != nil || s.st.Left != "" || s.st.Warm != nil {
		s.signalRelease(protocol.PoolID(s.opt.Zone), s.slotRelease())
	}
}

func (s *leasesPart) slotRelease() release {
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

// seedRelease claims only what is certain about the credential.
func (s *leasesPart) seedRelease() release {
	r := release{Holder: s.id, Run: s.firstRun(), Epoch: s.st.Seed.Epoch, Generation: s.st.Generation, Proven: s.st.SeedProven}
	switch c := s.st.Closed; {
	case !s.st.Touched:
		r.Clean = true // the credential was never planted
	case c != nil:
		r.Clean, r.Discarded = c.Wiped, c.Unsaved
	}
	return r
}

// seedShown handles what the end of a turn shows of the seed. A refusal is reported at once. That
// the seed works is reported with the release, or at once if it was doubted.
func (s *leasesPart) seedShown(began time.Time, status string, p *protocol.Problem) {
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

func (s *leasesPart) doubtSeed(reason, hint string) {
	if !s.st.SeedHeld {
		return
	}
	s.st.SeedDoubted = true
	s.reportSeed(report{Verdict: VerdictSuspect, Reason: excerpt(fmt.Sprintf("in session %s, %s", s.id, reason), maxReason), Hint: excerpt(hint, maxReason)})
}

// reportSeed does not wait: a lost report only means that others are not warned.
func (s *leasesPart) reportSeed(r report) {
	r.Holder, r.Epoch = s.id, s.st.Seed.Epoch
	workflow.SignalExternalWorkflow(s.ctx, protocol.SeedID(s.st.Seed.Name), "", signalReport, r)
}

// leftWarm describes the folder of a parked session to its pool.
func (s *leasesPart) leftWarm(why string) *leftBehind {
	w := s.st.Warm
	return &leftBehind{Host: w.Spec.Name, Why: why, Generation: w.Generation, ThreadID: s.st.Pump.ThreadID, Wiped: true,
		Snapshot: &activities.SnapshotSpec{Policy: s.snaps.snapshotPolicy(), Parent: s.snaps.goodSnapshot()}}
}

// leftNow describes to a pool what a session that cannot clean up leaves on its
// host.
func (s *leasesPart) leftNow(why string) *leftBehind {
	l := &leftBehind{Why: why, Generation: s.st.Generation, Seed: s.st.Seed, Layout: s.layoutThere(),
		ThreadID: s.st.Pump.ThreadID, Discard: s.st.Close != nil && s.st.Close.Discard}
	if s.st.Lease != nil {
		l.Host = s.st.Lease.Spec.Name
	}
	l.Snapshot = s.snaps.keeping()
	return l
}

// layoutThere returns where the session lives on its host, or nil if that is not
// known.
func (s *leasesPart) layoutThere() *protocol.Layout {
	switch w := s.st.Warm; {
	case s.st.Layout != nil:
		return s.st.Layout
	case w != nil && (s.st.Lease == nil || s.st.Lease.Spec.Name == w.Spec.Name):
		return &w.Layout
	}
	return nil
}
