package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// A session takes its snapshots beside what it does: neither an answer nor the
// next turn waits for one. One is taken at a time. One that is wanted meanwhile
// waits, and it is enough for all who want one until it begins.

// snapState is what a session knows of its snapshots.
type snapState struct {
	N     int                       `json:"n,omitempty"` // so far, each number used once
	Good  *activities.SnapshotBrief `json:"good,omitempty"`
	GoodN int                       `json:"good_n,omitempty"`
	// Mid says that the good one was taken while its turn ran.
	Mid    bool      `json:"mid,omitempty"`
	Wish   *snapshot `json:"wish,omitempty"`   // waits to be taken
	Taking *snapshot `json:"taking,omitempty"` // is being taken
	Last   *snapshot `json:"last,omitempty"`   // taken by whoever ends what is on the host
	Tried  int       `json:"tried,omitempty"`  // the newest whose taking has ended
	Error  *Failure  `json:"error,omitempty"`  // of that one
}

// snapshot is one that is to be taken. All that is tried of it makes the same one.
type snapshot struct {
	N  int       `json:"n"`
	At time.Time `json:"at"`
}

// wantSnapshot has one taken as soon as that can be, and gives its number.
func (s *session) wantSnapshot() int {
	if s.st.Snap.Wish == nil {
		s.st.Snap.N++
		s.st.Snap.Wish = &snapshot{N: s.st.Snap.N, At: workflow.Now(s.ctx)}
	}
	return s.st.Snap.Wish.N
}

// turnToKeep is called when a turn has ended.
func (s *session) turnToKeep() {
	if s.opt.Snapshot.When == SnapshotTurn {
		s.wantSnapshot()
	}
}

// takeSnapshots takes one after another, for as long as the session lives.
func (s *session) takeSnapshots(ctx workflow.Context) {
	for {
		err := workflow.Await(ctx, s.mayTake)
		if err != nil {
			return
		}
		s.takeSnapshot(ctx)
	}
}

// mayTake says whether one is wanted, and there is something to take it of
// which nothing else is done to.
func (s *session) mayTake() bool {
	return s.st.Snap.Wish != nil && s.taking == nil && s.hushed == 0 && s.st.Layout != nil && s.st.Lease != nil &&
		s.st.Close == nil && s.st.Status != Failed
}

func (s *session) takeSnapshot(ctx workflow.Context) {
	sn := &s.st.Snap
	sn.Taking, sn.Wish = sn.Wish, nil
	mid := s.st.Running
	actx, cancel := workflow.WithCancel(inBackground(ctx, fmt.Sprintf("snapshot %d of %s", sn.Taking.N, s.st.Lease.Spec.Name)))
	defer cancel()
	s.taking = cancel
	var out activities.TakeSnapshotResult
	in := activities.TakeSnapshotInput{
		// It is one who looks: a pump that works meanwhile is not overtaken.
		Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, SnapshotSpec: s.snapshotSpec(*sn.Taking),
	}
	err := inLine(forAWhile(ctx, func() bool { return s.hushed > 0 }), func() error {
		return workflow.ExecuteActivity(actx, sessions.TakeSnapshot, in).Get(ctx, &out)
	})
	was := sn.Taking
	s.taking, sn.Taking = nil, nil
	switch {
	case err == nil:
		s.tookSnapshot(*was, out.Snapshot, mid)
	case s.hushed > 0: // called back; whoever comes next takes it up
		if sn.Wish == nil {
			sn.Wish = was
		}
	default:
		s.snapshotFailed(*was, failureOf(fmt.Sprintf("take snapshot %d on %s", was.N, s.hostName()), err))
	}
	workflow.SetCurrentDetails(ctx, s.details())
}

// tookSnapshot makes a complete snapshot the one that the session goes on from.
// There may have been nothing worth keeping yet.
func (s *session) tookSnapshot(was snapshot, got *activities.SnapshotBrief, mid bool) {
	sn := &s.st.Snap
	sn.Tried, sn.Error = was.N, nil
	if got != nil {
		s.warnOfGaps(got)
		sn.Good, sn.GoodN, sn.Mid = got, was.N, mid
	}
}

// warnOfGaps says what could not be read, unless the one before says the same.
func (s *session) warnOfGaps(got *activities.SnapshotBrief) {
	if lacks := got.Lacks(); lacks != "" && lacks != s.st.Snap.Good.Lacks() {
		s.note(activities.Note{Type: "state", Text: fmt.Sprintf("snapshot %s lacks %s; nothing of it is deleted before a snapshot has it", got.ID, lacks),
			Data: map[string]string{"snapshot": got.ID}})
	}
}

// snapshotFailed says so. The good one stays what it is, and with the next
// occasion it is tried again.
func (s *session) snapshotFailed(was snapshot, f *Failure) {
	sn := &s.st.Snap
	before := sn.Error
	sn.Tried, sn.Error = was.N, f
	if before == nil || before.Message != f.Message {
		s.note(activities.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	}
}

// hush calls back the snapshot that is being taken, and has none taken until
// it is told to go on. What was wanted is not forgotten.
func (s *session) hush() (goOn func()) {
	s.hushed++
	if s.taking != nil {
		s.taking()
	}
	if err := s.await(func() bool { return s.taking == nil }); err != nil {
		s.log.Error("snapshot not waited for", "error", err)
	}
	return func() { s.hushed-- }
}

// lastSnapshot is one that is taken by whoever ends what is on the host; nil
// where the session takes none at all.
func (s *session) lastSnapshot() *activities.SnapshotSpec {
	if s.opt.Snapshot.When == SnapshotOff {
		return nil
	}
	if s.st.Snap.Last == nil {
		s.wantSnapshot()
		s.st.Snap.Last, s.st.Snap.Wish = s.st.Snap.Wish, nil
	}
	spec := s.snapshotSpec(*s.st.Snap.Last)
	return &spec
}

func (s *session) snapshotSpec(which snapshot) activities.SnapshotSpec {
	return activities.SnapshotSpec{Policy: s.snapshotPolicy(), N: which.N, At: which.At, Parent: s.goodSnapshot(), SessionFacts: s.facts()}
}

func (s *session) snapshotPolicy() activities.SnapshotPolicy {
	return activities.SnapshotPolicy{Work: s.opt.Snapshot.Work, Exclude: s.opt.Snapshot.Exclude}
}

// goodSnapshot is the id of the newest one that is complete.
func (s *session) goodSnapshot() string {
	if s.st.Snap.Good == nil {
		return ""
	}
	return s.st.Snap.Good.ID
}

// facts is how the thread is set up, for who goes on with it.
func (s *session) facts() activities.SessionFacts {
	f := activities.SessionFacts{ThreadID: s.st.Pump.ThreadID, CodexVersion: s.st.Pump.CodexVersion,
		Cursor: s.st.Pump.Cursor, Turn: s.st.TurnN, Running: s.st.Running, PolicyDigest: activities.NoPolicy, Confine: map[string]string{}, Budget: s.budgetView().Words()}
	s.confinement(f.Confine)
	if s.opt.Policy != "" {
		f.PolicyDigest = activities.PolicyDigest(s.opt.Policy)
	}
	if s.st.Layout != nil {
		f.Thread = s.thread()
	}
	if s.st.Lease != nil {
		f.Labels = s.st.Lease.Labels
	}
	return f
}

// setTick sets the timer for a snapshot within the turn, while a pump is
// attached: a turn that waits for a person costs nothing.
func (s *session) setTick() {
	if s.opt.Snapshot.Every == 0 || s.opt.Snapshot.When == SnapshotOff || !s.st.Running || s.st.Close != nil {
		return
	}
	now := workflow.Now(s.ctx)
	switch s.tick.off(); {
	case s.st.TickAt.IsZero():
		s.st.TickAt = now.Add(s.opt.Snapshot.Every)
	case !now.Before(s.st.TickAt):
		s.wantSnapshot()
		s.st.TickAt = now.Add(s.opt.Snapshot.Every)
	}
	s.tick.set(s.st.TickAt)
}

// inBackground is for work that nobody waits for, and that the next occasion
// repeats: a host or a store that is away for longer is a failure to be seen.
func inBackground(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: carryFor,
		HeartbeatTimeout:    beat,
		WaitForCancellation: true,
		Summary:             excerpt(summary, 100),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: 5,
		},
	})
}

// checkSnapshot says why none can be taken now.
func (s *session) checkSnapshot(t TakeSnapshot) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := short([]text{{"by", t.By, maxWord}}); err != nil {
		return refuse(RefusedBadInput, "snapshot of session %s: %v", s.id, err)
	}
	switch {
	case s.opt.Snapshot.When == SnapshotOff:
		return refuse(RefusedState, "session %s was started so that it takes no snapshots", s.id)
	case s.st.Layout == nil:
		return refuse(RefusedState, "session %s is %s: there is nothing on a host to take a snapshot of", s.id, s.st.Status)
	case !s.st.hadTurn() && !s.st.Running:
		return refuse(RefusedState, "session %s has had no turn: there is nothing to keep yet", s.id)
	}
	return nil
}

func (s *session) takeTakeSnapshot(t TakeSnapshot) (SnapshotAccepted, error) {
	if err := s.checkSnapshot(t); err != nil {
		return SnapshotAccepted{}, err
	}
	return SnapshotAccepted{Session: s.id, N: s.wantSnapshot()}, nil
}

// snapshotView is what people see of it; nil as long as there is nothing to see.
func (s *session) snapshotView() *SnapshotView {
	sn := s.st.Snap
	if sn.N == 0 {
		return nil
	}
	v := &SnapshotView{N: sn.GoodN, Tried: sn.Tried, Error: sn.Error}
	if g := sn.Good; g != nil {
		v.ID, v.Turn, v.At, v.Files, v.Bytes, v.Added, v.Lacks = g.ID, g.Turn, g.At, g.Files, g.Bytes, g.Added, g.Lacks()
	}
	if sn.Taking != nil {
		v.Taking = sn.Taking.N
	}
	return v
}
