package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// A session that is parked holds nothing: no process, no slot, no seed. What it
// takes to go on is in the store, and its folder stays on the host, without a
// credential, so that nothing has to travel if it comes back there.

// parked is since when it is so.
type parked struct {
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
}

// warm is the folder that a session left where it was parked.
type warm struct {
	Spec       activities.HostSpec `json:"spec"`
	Generation int64               `json:"generation"`
	Layout     activities.Layout   `json:"layout"`
	Since      time.Time           `json:"since"`
}

// quiet says that nothing goes on with codex, and nothing is about to.
func (s *session) quiet() bool {
	st := s.st
	return st.Layout != nil && st.Lease != nil && !st.Running && st.Close == nil && len(st.Sends) == 0 && st.Retired == nil &&
		!st.Stirred && st.Status != Failed && len(s.pushes) == 0
}

// parkDue says whether it is to park now: since somebody said so, or because
// nobody has wanted anything of it for long.
func (s *session) parkDue() bool {
	if !s.quiet() || s.canBegin() {
		return false
	}
	if s.st.Park != nil || s.st.Archived != nil {
		return true
	}
	at := s.parkAt()
	return !at.IsZero() && !workflow.Now(s.ctx).Before(at)
}

// parkAt is when an idle session parks by itself; zero for never.
func (s *session) parkAt() time.Time {
	if at := s.leaveAt(); !at.IsZero() {
		return at
	}
	if s.opt.ParkAfter == 0 || s.opt.CloseAfter || !s.quiet() || s.st.QuietAt.IsZero() {
		return time.Time{}
	}
	return s.st.QuietAt.Add(s.opt.ParkAfter)
}

func (s *session) setSleep() {
	if at := s.parkAt(); !at.IsZero() {
		s.sleep.set(at)
	}
}

// park stops codex, keeps all, and gives back host and seed. A message that
// comes meanwhile stops it, wherever it is; the session then goes on where it
// is. A failure leaves it on its host.
func (s *session) park() *Failure {
	by := s.parkedBy()
	wanted := func() bool { return s.st.Close != nil || s.st.Resume == nil && s.canBegin() }
	// One that is about to be complete saves most of the work of the last one.
	err := s.await(func() bool { return s.taking == nil || wanted() || s.full() })
	if err == nil && s.taking != nil && !wanted() {
		return nil // the next run does
	}
	s.st.Park = nil
	if err != nil || s.taking != nil {
		return nil
	}
	defer s.hush()()
	s.parking = true
	s.publish()
	name, spec := s.st.Lease.Spec.Name, s.lastSnapshot()
	if len(s.st.Handing) == 0 {
		s.st.Handing, s.st.Notes = s.st.Notes, nil
	}
	var out activities.ParkSessionResult
	err = s.inLine(forAWhile(s.ctx, wanted), func() (err error) {
		s.st.PumpN++ // above what an attempt may have said to the host before
		out, err = doingUnless(s, carrying(setUp(s.ctx, "park on "+name)), wanted, sessions.ParkSession, activities.ParkSessionInput{
			TakeSnapshotInput: activities.TakeSnapshotInput{Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, SnapshotSpec: *spec},
			Incarnation:       s.st.Incarnation, Seq: s.st.Pump.Seq, Notes: s.st.Handing, Workspace: s.workspace(),
		})
		return err
	})
	s.parking = false
	last := *s.st.Snap.Last
	s.st.Snap.Last = nil // another try is another one
	// However far it came: what codex had may be gone, and its login with it.
	s.st.Alive, s.st.Bare, s.st.QuietAt = false, true, workflow.Now(s.ctx)
	switch {
	case err != nil && wanted():
		return nil
	case err != nil:
		f := failureOf("park on "+name, err)
		s.snapshotFailed(last, f)
		s.st.Error = f
		return f
	}
	s.tookSnapshot(last, out.Snapshot, false)
	s.st.Pump.Seq, s.st.Handing, s.st.Reap = out.Seq, nil, false
	s.st.Stopped = true
	if wanted() { // in the last moment: it has its host and its seed still
		return nil
	}
	s.st.Warm = &warm{Spec: s.st.Lease.Spec, Generation: s.st.Generation, Layout: *s.st.Layout, Since: workflow.Now(s.ctx)}
	s.note(activities.Note{Type: "state", Text: "parked", Data: map[string]string{"host": name, "by": by, "snapshot": s.goodSnapshot()}})
	s.goDown(&parked{Since: workflow.Now(s.ctx), By: by}, release{Warm: s.leftWarm("")}, out.Wiped)
	return nil
}

func (s *session) parkedBy() string {
	switch {
	case s.st.Resume != nil:
		return s.st.Resume.By
	case s.st.Park != nil:
		return s.st.Park.By
	case s.st.Archived != nil:
		return s.st.Archived.By
	case s.leaves() != nil:
		return s.leaves().by()
	}
	return "park_after"
}

// goDown gives back host and seed. Clean says that the credential is gone from
// the host, which was looked at, and what codex made of it is saved.
func (s *session) goDown(p *parked, slot release, clean bool) {
	st := s.st
	if st.Status == Interrupted {
		st.UpAs = Interrupted
	}
	if st.SeedHeld {
		s.signalRelease(SeedID(st.Seed.Name), release{Holder: s.id, Run: s.firstRun(), Epoch: st.Seed.Epoch,
			Generation: st.Generation, Proven: st.SeedProven, Clean: clean || !st.Touched})
		st.SeedHeld = false
	}
	if st.Lease != nil {
		st.Was = st.Lease.Spec.Name
		if slot.Left != nil {
			st.LeftOn = st.Was
		}
		slot.Failed, st.Fault = st.Fault, nil
		slot.Holder, slot.Run, slot.Generation = s.id, s.firstRun(), st.Generation
		s.signalRelease(PoolID(s.opt.Zone), slot)
	}
	st.Parked = p
	st.Lease, st.Layout, st.Lost, st.Leave = nil, nil, nil, nil
	st.Alive, st.Touched, st.Stopped, st.Bare, st.Reap = false, false, true, false, false
	if p != nil {
		s.become(Parked)
	}
}

// rest waits, parked, until somebody wants something.
func (s *session) rest() error {
	s.become(Parked)
	s.publish()
	s.setLimit()
	return s.await(func() bool { return s.st.Close != nil || s.wantsUp() || s.full() || s.outOfDate() || s.waitIsOver() })
}

// wantsUp says that a parked session is to come back.
func (s *session) wantsUp() bool { return s.st.Resume != nil || s.canBegin() }

// comeUp gets a host and a seed again and goes on there. It says whether it only
// stopped to continue as new.
func (s *session) comeUp() (again bool) {
	s.st.Parked, s.st.Downed = nil, false
	s.become(Resuming)
	f, again := s.prepare()
	switch {
	case again || s.st.Close != nil:
	case f != nil && s.st.Layout == nil && s.mayTryElsewhere(f):
		s.passOn(f)
	case f != nil && s.st.Layout == nil:
		s.stayDown(f)
	case f != nil:
		s.unableToStart(f)
	case s.st.UpAs != "":
		s.become(s.st.UpAs)
		s.st.UpAs, s.st.Ups = "", 0
	default:
		s.st.Ups = 0
		s.settle()
	}
	return again
}

// maxUps is how many hosts in a row are tried that cannot be reached.
const maxUps = 3

// mayTryElsewhere says whether another host may do, after one that was granted
// could not be reached: nothing of the session ran there, so no policy is asked.
func (s *session) mayTryElsewhere(f *Failure) bool {
	return activities.HostFault(f.Kind) && s.opt.Host == "" && s.st.Lease != nil && s.st.Ups < maxUps
}

// prepareFirst is prepare for a session that never was on a host, where any one
// will do that has what it asks for: one that cannot be used costs it some
// seconds, and its pool gives it to nobody else.
func (s *session) prepareFirst() (f *Failure, again bool) {
	for {
		f, again = s.prepare()
		if f == nil && !again {
			s.st.Ups = 0
		}
		if f == nil || again || s.st.Close != nil || !s.mayTryElsewhere(f) {
			return f, again
		}
		s.passOn(f)
		s.become(Queued)
	}
}

// passOn gives back a host that could not be reached, and has another one tried.
func (s *session) passOn(f *Failure) {
	s.st.Ups++
	s.note(activities.Note{Type: "error", Text: f.Message + "; another host is tried", Data: failureData(f)})
	left := s.leftNow(f.Message)
	left.Discard = left.Discard || left.Layout == nil && !s.st.Begun // nothing of it was ever there
	s.st.Warm = nil
	s.goDown(nil, release{Left: left}, !s.st.Touched)
}

// stayDown is a session that cannot come up where it was to. All of it is in
// the store, so it is parked and says why; the next message tries again, and so
// does who resumes it: what was to run then runs.
func (s *session) stayDown(f *Failure) {
	if f.Hint == "" {
		f.Hint = fmt.Sprintf("a message tries again; `ctl session resume %s --host H` goes on on another host", s.id)
	}
	var slot release
	clean := !s.st.Touched
	switch {
	case s.st.Lease == nil:
	case s.st.Touched:
		slot.Left, s.st.Warm = s.leftNow(f.Message), nil
	case s.st.Warm != nil:
		slot.Warm = s.leftWarm("")
	}
	status := "failed"
	if s.inDoubt() {
		status = "unknown"
	}
	s.giveUpTurn(status, f)
	s.note(activities.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	s.st.Downed = len(s.st.Queue) > 0 && !s.st.Held
	s.st.Error, s.st.Held, s.st.Resume = f, len(s.st.Queue) > 0, nil
	s.goDown(&parked{Since: workflow.Now(s.ctx)}, slot, clean)
	if s.opt.CloseAfter && s.st.Close == nil {
		s.st.Close = &Close{By: s.opt.By}
	}
}

// leftWarm tells a pool what a parked session's folder is.
func (s *session) leftWarm(why string) *leftBehind {
	w := s.st.Warm
	return &leftBehind{Host: w.Spec.Name, Why: why, Generation: w.Generation, ThreadID: s.st.Pump.ThreadID, Wiped: true,
		Snapshot: &activities.SnapshotSpec{Policy: s.snapshotPolicy(), Parent: s.goodSnapshot()}}
}

// leftNow tells a pool what is on the host of a session that cannot clean up there.
func (s *session) leftNow(why string) *leftBehind {
	l := &leftBehind{Why: why, Generation: s.st.Generation, Seed: s.st.Seed, Layout: s.layoutThere(),
		ThreadID: s.st.Pump.ThreadID, Discard: s.st.Close != nil && s.st.Close.Discard}
	if s.st.Lease != nil {
		l.Host = s.st.Lease.Spec.Name
	}
	l.Snapshot = s.keeping()
	return l
}

// keeping is for who finds something of the session's that no snapshot has; nil
// where it takes none.
func (s *session) keeping() *activities.SnapshotSpec {
	if s.opt.Snapshot.When == SnapshotOff {
		return nil
	}
	return &activities.SnapshotSpec{Policy: s.snapshotPolicy(), Parent: s.goodSnapshot(), SessionFacts: s.facts()}
}

// layoutThere is where the session lives on its host; nil where nobody knows.
func (s *session) layoutThere() *activities.Layout {
	switch w := s.st.Warm; {
	case s.st.Layout != nil:
		return s.st.Layout
	case w != nil && (s.st.Lease == nil || s.st.Lease.Spec.Name == w.Spec.Name):
		return &w.Layout
	}
	return nil
}

func (s *session) checkPark(p Park) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := short([]text{{"by", p.By, maxWord}}); err != nil {
		return refuse(RefusedBadInput, "park session %s: %v", s.id, err)
	}
	switch {
	case s.st.Parked != nil:
		return nil // so it is
	case s.opt.Snapshot.When == SnapshotOff:
		return refuse(RefusedState, "session %s takes no snapshots, so nothing of it would outlive its host", s.id)
	case len(s.st.open()) > 0:
		return refuse(RefusedState, "session %s waits for a decision: decide, or interrupt the turn, then park it", s.id)
	case s.st.Running:
		return refuse(RefusedState, "session %s runs a turn: wait for its end, or interrupt it, then park it", s.id)
	case len(s.pushes) > 0:
		return refuse(RefusedState, "session %s pushes its work: park it when that is done", s.id)
	case !s.quiet() || s.st.Status != Idle && s.st.Status != Interrupted && !s.limited():
		return refuse(RefusedState, "session %s is %s: it can park when it is idle", s.id, s.st.Status)
	case s.canBegin():
		return refuse(RefusedState, "session %s is about to begin a turn", s.id)
	}
	return nil
}

func (s *session) takePark(p Park) (SessionView, error) {
	if err := s.checkPark(p); err != nil {
		return SessionView{}, err
	}
	if s.st.Parked == nil {
		s.st.Park = &p
		s.forgetTrouble()
	}
	return s.view(), nil
}

// forgetTrouble takes what kept an earlier try from going well off the view,
// so that who asks again sees what becomes of this one. Why a turn was
// interrupted stays.
func (s *session) forgetTrouble() {
	if s.st.Status == Idle || s.st.Status == Parked {
		s.st.Error = nil
	}
}
