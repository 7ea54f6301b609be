package session

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// Parked says since when a session is parked, and by whom.
type Parked struct {
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
}

type warm struct {
	Spec       protocol.HostSpec `json:"spec"`
	Generation int64             `json:"generation"`
	Layout     protocol.Layout   `json:"layout"`
	Since      time.Time         `json:"since"`
}

type parkingPart struct {
	*core
	turns   *turnsPart
	bounds  *boundsPart
	snaps   *snapsPart
	process *processPart
	leases  *leasesPart
	place   *placePart
	moving  *movingPart
	views   *viewsPart
	pushes  *pushesPart

	sleep *kit.Alarm
	now   bool
}

type parkState struct {
	Parked  *Parked                `json:"parked,omitempty"`
	Warm    *warm                  `json:"warm,omitempty"`
	QuietAt time.Time              `json:"quiet_at,omitzero"` // since when there is nothing to do
	Park    *protocol.Park         `json:"park,omitempty"`
	Resume  *protocol.Resume       `json:"resume,omitempty"`
	Down    *protocol.Interrupt    `json:"down,omitempty"`  // called off coming back, parking or moving
	UpAs    protocol.SessionStatus `json:"up_as,omitempty"` // status after coming up, if not idle
	Ups     int                    `json:"ups,omitempty"`   // unreachable hosts in a row
	Was     string                 `json:"was,omitempty"`   // the former host
	Moved   *moved                 `json:"moved,omitempty"` // set until codex has been told of the move
	Lost    *protocol.LostView     `json:"lost,omitempty"`
}

// quiet reports whether codex does nothing and is not about to.
func (s *parkingPart) quiet() bool {
	st := s.st
	return st.Layout != nil && st.Lease != nil && !st.Running && st.Close == nil && len(st.Sends) == 0 && st.Retired == nil &&
		!st.Stirred && st.Status != protocol.Failed && len(s.pushes.wanted) == 0
}

// parkDue reports whether to park: on request, to leave a drained host, or after idling
// long enough.
func (s *parkingPart) parkDue() bool {
	if !s.quiet() || s.turns.canBegin() {
		return false
	}
	if s.st.Park != nil || s.st.Archived != nil {
		return true
	}
	at := s.parkAt()
	return !at.IsZero() && !workflow.Now(s.ctx).Before(at)
}

// parkAt returns when an idle session parks by itself or leaves a drained host; zero means
// never.
func (s *parkingPart) parkAt() time.Time {
	if at := s.leaveAt(); !at.IsZero() {
		return at
	}
	if s.opt.ParkAfter == 0 || s.opt.CloseAfter || !s.quiet() || s.st.QuietAt.IsZero() {
		return time.Time{}
	}
	return s.st.QuietAt.Add(s.opt.ParkAfter)
}

func (s *parkingPart) setSleep() {
	if at := s.parkAt(); !at.IsZero() {
		s.sleep.Set(at)
	}
}

// park stops codex, saves the session, and gives back its host and seed. A message calls
// park off at any step. The session then stays on its host, as it does if park fails.
func (s *parkingPart) park() *protocol.Failure {
	by := s.parkedBy()
	// A move also begins with parking, and a queued message does not call off a move. So
	// this does not ask the table of steps.
	wanted := func() bool {
		return s.st.Close != nil || s.st.Down != nil || s.st.Resume == nil && s.turns.canBegin()
	}
	// A snapshot in progress may be almost complete, and saves most of the work of the last
	// one.
	err := s.await(func() bool { return s.snaps.taking == nil || wanted() || s.full() })
	if err == nil && s.snaps.taking != nil && !wanted() {
		return nil // the next run parks
	}
	s.st.Park = nil
	if err != nil || s.snaps.taking != nil {
		return nil
	}
	defer s.snaps.hush()()
	s.now = true
	s.publish()
	name, spec := s.st.Lease.Spec.Name, s.snaps.lastSnapshot()
	s.recordReturn("the session parks")
	gone := s.st.SeedGone // it may be granted again while the activity runs
	if len(s.st.Handing) == 0 {
		s.st.Handing, s.st.Notes = s.st.Notes, nil
	}
	var out snaps.ParkSessionResult
	err = s.inLine(kit.ForAWhile(s.ctx, wanted), func() (err error) {
		s.st.PumpN++
		out, err = doingUnless(s.core, kit.Carrying(kit.SetUp(s.ctx, "park on "+name)), wanted, placeJobs.ParkSession, snaps.ParkSessionInput{
			TakeSnapshotInput: snaps.TakeSnapshotInput{Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, SnapshotSpec: *spec},
			Incarnation:       s.st.Incarnation, Seq: s.st.Pump.Seq, Notes: s.st.Handing, Workspace: s.workspace(), Audit: s.carry(),
		})
		s.carriedTo(out.Audited)
		return err
	})
	s.now = false
	last := *s.st.Snap.Last
	s.st.Snap.Last = nil // another attempt takes another snapshot
	// Even a failed attempt may have stopped codex and removed its login.
	s.st.Alive, s.st.Bare, s.st.QuietAt = false, true, workflow.Now(s.ctx)
	switch {
	case err != nil && wanted():
		return nil
	case err != nil:
		f := kit.FailureOf("park on "+name, err)
		if gone && (f.Kind == protocol.ErrTypeLoginUnsaved || f.Kind == protocol.ErrTypeSeedFenced) {
			f.Kind, f.Final = KindSeedAway, false // it passes when nobody else holds the seed, or this session does again
		}
		s.snaps.snapshotFailed(last, f)
		s.st.Error = f
		return f
	}
	s.snaps.tookSnapshot(last, out.Snapshot, false)
	s.st.Pump.Seq, s.st.Handing, s.st.Reap = out.Seq, nil, false
	s.st.Stopped = true
	if wanted() { // called off at the last moment: host and seed are still held
		return nil
	}
	s.st.Warm = &warm{Spec: s.st.Lease.Spec, Generation: s.st.Generation, Layout: *s.st.Layout, Since: workflow.Now(s.ctx)}
	s.note(conversation.Note{Type: "state", Text: "parked", Data: map[string]string{"host": name, "by": by, "snapshot": s.snaps.goodSnapshot()}})
	s.goDown(&Parked{Since: workflow.Now(s.ctx), By: by}, lease.Release{Warm: s.leases.leftWarm("")}, out.Wiped)
	return nil
}

func (s *parkingPart) toldToGo() bool {
	return s.st.Park != nil || s.st.Archived != nil || s.st.Resume != nil
}

// parkAsTold parks a session on request, also in order to move. It waits out failures that
// pass.
func (s *parkingPart) parkAsTold() (f *protocol.Failure, again bool) {
	doing := s.parkOnHost()
	if t := s.st.Trouble; t != nil && t.Doing != doing {
		s.st.Trouble = nil // the fault is of the codex that the session leaves
	}
	var last *protocol.Failure
	leave := func() bool {
		return !s.toldToGo() || !s.quiet() || s.st.Resume == nil && s.turns.canBegin() || s.st.Resume != nil && s.goesAway(last)
	}
	for {
		s.obeyed = s.st.Resume
		f, again = s.keepTrying(doing, leave, func() (*protocol.Failure, bool) {
			wish, was := s.st.Park, s.st.Error
			last = s.park()
			switch {
			case last == nil && s.st.Parked == nil:
				s.st.Trouble = nil // parking was called off
			case last != nil && kit.FailurePasses(last):
				s.st.Error = was // the wait shows the failure
				if s.st.Park == nil {
					s.st.Park = wish
				}
			}
			return last, false
		})
		if again {
			return nil, true
		}
		if wish := s.st.Resume; f == nil || !s.wishes() || wish.Host != "" && wish.Host != s.hostName() {
			break
		}
		s.st.Resume = nil // the request was to try again now
		s.tryNow()
	}
	calledOff := s.st.Down != nil && s.st.Parked == nil
	s.st.Trouble, s.st.Down = nil, nil
	if f != nil && s.quiet() {
		s.st.Park = nil
	}
	if calledOff {
		s.st.Resume, s.st.Park = nil, nil
		return nil, false
	}
	return f, false
}

// waitsToLeave reports whether the session waits for another attempt to park or move on
// request.
func (s *parkingPart) waitsToLeave() bool {
	t := s.st.Trouble
	return t != nil && s.st.Layout != nil && t.Doing == s.parkOnHost() && (s.st.Park != nil || s.st.Resume != nil)
}

func (s *parkingPart) parkOnHost() string { return "park on " + s.hostName() }

// goesAway reports whether a session that is to move leaves a host that cannot be reached,
// without parking.
func (s *parkingPart) goesAway(f *protocol.Failure) bool {
	return f != nil && f.Kind == protocol.ErrTypeUnreachable && s.moving.cannotMove() == ""
}

func (s *parkingPart) parkedBy() string {
	switch {
	case s.st.Resume != nil:
		return s.st.Resume.By
	case s.st.Park != nil:
		return s.st.Park.By
	case s.st.Archived != nil:
		return s.st.Archived.By
	case s.leaves() != nil:
		return s.leaves().Who()
	}
	return "park_after"
}

// goDown gives back the host and the seed. clean means that an activity checked that the
// credential is gone from the host and codex's changes to it are saved.
func (s *parkingPart) goDown(p *Parked, slot lease.Release, clean bool) {
	st := s.st
	if st.Status == protocol.Interrupted {
		st.UpAs = protocol.Interrupted
	}
	if st.SeedHeld {
		s.leases.signalRelease(protocol.SeedID(st.Seed.Name), lease.Release{Holder: s.id, Run: s.firstRun(), Epoch: st.Seed.Epoch,
			Generation: st.Generation, Proven: st.SeedProven, Use: s.leases.seedUse(), Served: st.tellsSeed(), Clean: clean || !st.Touched})
		st.SeedHeld = false
	}
	s.leases.leavesSeed(clean)
	if st.SeedGone {
		s.leases.leaveLine(s.st.SeedLeftOn)
		st.SeedGone = st.SeedLeftOn != nil
	}
	if st.Lease != nil {
		st.Was = st.Lease.Spec.Name
		if slot.Left != nil {
			st.LeftOn = st.Was
		}
		slot.Failed, st.Fault = st.Fault, nil
		slot.Holder, slot.Run, slot.Generation = s.id, s.firstRun(), st.Generation
		s.leases.signalRelease(protocol.PoolID(s.opt.Zone), slot)
	}
	st.Parked = p
	st.Lease, st.Layout, st.Lost, st.Leave = nil, nil, nil, nil
	st.Alive, st.Touched, st.Stopped, st.Bare, st.Reap = false, false, true, false, false
	if p != nil {
		st.Park = nil
		s.become(protocol.Parked)
	}
}

func (s *parkingPart) rest() error {
	s.become(protocol.Parked)
	s.publish()
	s.bounds.setLimit()
	return s.await(func() bool {
		return !s.still(stepRest) || s.views.outOfDate() || s.bounds.waitIsOver()
	})
}

func (s *parkingPart) wantsUp() bool { return s.st.Resume != nil || s.turns.canBegin() }

func (s *parkingPart) comeUp() (again bool) {
	s.st.Parked, s.st.Downed = nil, false
	s.become(protocol.Resuming)
	s.obeyed = s.st.Resume
	queued := s.st.Resume == nil && s.wantsUp() // a resume brings it up even with an empty queue
	f, again := s.keepTrying("come back", func() bool { return queued && !s.wantsUp() && !s.st.Running }, s.prepareSomewhere)
	if f != nil && !again && s.wishes() && s.st.Layout == nil && s.st.Down == nil && kit.FailurePasses(f) {
		s.obeyWish(f)
		return false // the loop tries again, as the new resume asks
	}
	if f != nil {
		s.st.Trouble = nil
	}
	switch {
	case again || s.st.Close != nil:
	case f != nil && s.st.Layout == nil:
		s.stayDown(f)
	case f != nil:
		s.process.unableToStart(f)
	case s.st.Layout == nil && s.leases.leavesTurn(): // interrupted in the line of a seed
		s.stayDown(&protocol.Failure{Kind: protocol.EndInterrupted, Message: interruptedBy(s.st.Interrupt) + ": the session does not come back by itself"})
	case s.st.UpAs != "":
		s.become(s.st.UpAs)
		s.st.UpAs, s.st.Ups = "", 0
	default:
		s.st.Ups = 0
		s.turns.settle()
	}
	return again
}

// MaxUps bounds the unreachable hosts that are tried in a row.
const MaxUps = 3

// mayTryElsewhere reports whether to try another host. Nothing of the session ran on this
// one, so OnHostLost does not apply. A host that a person named is tried again while its
// failure passes.
func (s *parkingPart) mayTryElsewhere(f *protocol.Failure) bool {
	return hosts.HostFault(f.Kind) && s.opt.Host == "" && !(s.st.Named && kit.FailurePasses(f)) && s.st.Lease != nil && s.st.Ups < MaxUps
}

// prepareFirst is prepare for a session that was never on a host. It waits out failures
// that pass.
func (s *parkingPart) prepareFirst() (f *protocol.Failure, again bool) {
	for {
		s.obeyed = s.st.Resume
		f, again = s.keepTrying("begin", kit.Never, s.prepareSomewhere)
		switch {
		case f == nil || again || !kit.FailurePasses(f):
			return f, again
		case s.st.Close != nil:
			return nil, false
		case !s.wishes():
			return f, false
		}
		s.obeyWish(f)
	}
}

// prepareSomewhere is prepare on any suitable host. An unusable host costs some seconds,
// after which the pool gives it to nobody else.
func (s *parkingPart) prepareSomewhere() (f *protocol.Failure, again bool) {
	if s.st.Trouble != nil {
		s.st.Ups = 0
	}
	for {
		f, again = s.place.prepare()
		if f == nil && !again {
			s.st.Ups, s.st.Named = 0, false
		}
		if f == nil || again || s.st.Close != nil || s.st.Layout != nil || !s.mayTryElsewhere(f) {
			return f, again
		}
		s.passOn(f)
		if !s.st.Begun {
			s.become(protocol.Queued)
		}
	}
}

// wishes reports whether somebody asked a waiting session to try again, here or elsewhere.
func (s *parkingPart) wishes() bool {
	return s.st.Resume != nil && s.st.Resume != s.obeyed && s.st.Close == nil
}

func (s *parkingPart) obeyWish(f *protocol.Failure) {
	s.tryNow()
	if wish := s.st.Resume; s.st.Lease == nil || wish.Host == "" || wish.Host == s.st.Lease.Spec.Name {
		if s.st.Lease != nil {
			s.st.Resume = nil
		}
		return
	}
	s.passOn(f)
}

func (s *parkingPart) passOn(f *protocol.Failure) {
	s.st.Ups++
	s.st.Named = false
	s.note(conversation.Note{Type: "error", Text: f.Message + "; another host is tried", Data: failureData(f)})
	left := s.leases.leftNow(f.Message)
	left.Discard = left.Discard || left.Layout == nil && !s.st.Begun
	s.st.Warm = nil
	s.goDown(nil, lease.Release{Left: left}, !s.st.Touched)
}

// stayDown parks a session that could not come up. The next message or resume makes it try
// again, and then runs what was to run.
func (s *parkingPart) stayDown(f *protocol.Failure) {
	s.st.Trouble, s.st.Down, s.st.Ups, s.st.Named = nil, nil, 0, false
	if f.Hint == "" {
		f.Hint = fmt.Sprintf("a message tries again; `ctl session resume %s --host H` goes on on another host", s.id)
	}
	var slot lease.Release
	clean := !s.st.Touched
	switch {
	case s.st.Lease == nil:
	case s.st.Touched:
		slot.Left, s.st.Warm = s.leases.leftNow(f.Message), nil
	case s.st.Warm != nil:
		slot.Warm = s.leases.leftWarm("")
	}
	status := "failed"
	if s.turns.inDoubt() {
		status = "unknown"
	}
	if s.opt.CloseAfter || !s.turns.putBack() {
		s.turns.giveUpTurn(status, f)
	}
	s.note(conversation.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	s.st.Downed = len(s.st.Queue) > 0 && !s.st.Held
	s.st.Error, s.st.Held, s.st.Resume = f, len(s.st.Queue) > 0, nil
	s.goDown(&Parked{Since: workflow.Now(s.ctx)}, slot, clean)
	if s.opt.CloseAfter && s.st.Close == nil {
		s.st.Close = &protocol.Close{By: s.opt.By}
	}
}

func (s *parkingPart) checkPark(p protocol.Park) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := kit.Short([]kit.Text{{What: "by", Is: p.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "park session %s: %v", s.id, err)
	}
	switch {
	case s.st.Parked != nil:
		return nil
	case s.opt.Snapshot.When == protocol.SnapshotOff:
		return kit.Refuse(protocol.RefusedState, "session %s cannot park: it takes no snapshots, so its work exists only on its host", s.id)
	case !s.bounds.asksBudgetAlone():
		return kit.Refuse(protocol.RefusedState, "session %s waits for a decision: decide, or interrupt the turn, then park it", s.id)
	case s.st.Running:
		return kit.Refuse(protocol.RefusedState, "session %s runs a turn: wait for its end, or interrupt it, then park it", s.id)
	case len(s.pushes.wanted) > 0:
		return kit.Refuse(protocol.RefusedState, "session %s pushes its work: park it when that is done", s.id)
	case !s.quiet() || s.st.Status != protocol.Idle && s.st.Status != protocol.Interrupted && !s.bounds.limited():
		return kit.Refuse(protocol.RefusedState, "session %s is %s: it can park when it is idle", s.id, s.st.Status)
	case s.turns.canBegin():
		return kit.Refuse(protocol.RefusedState, "session %s is about to begin a turn", s.id)
	}
	return nil
}

func (s *parkingPart) takePark(p protocol.Park) (protocol.SessionView, error) {
	if err := s.checkPark(p); err != nil {
		return protocol.SessionView{}, err
	}
	if s.st.Parked == nil {
		s.st.Park = &p
		s.forgetTrouble()
	}
	return s.view(), nil
}

// forgetTrouble removes the error of an earlier attempt from the view, unless it says why a
// turn was interrupted.
func (s *parkingPart) forgetTrouble() {
	if s.st.Status == protocol.Idle || s.st.Status == protocol.Parked {
		s.st.Error = nil
	}
}
