package session

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Snapshots are taken in the background: no answer and no turn waits for one. One is taken
// at a time; requests made meanwhile share the next.

type snapsPart struct {
	*core
	bounds  *boundsPart
	process *processPart
	parking *parkingPart
	views   *viewsPart

	tick   *kit.Alarm
	taking workflow.CancelFunc // cancels the snapshot in progress
	hushed int                 // callers of hush that have not called goOn
}

type snapState struct {
	N     int                  `json:"n,omitempty"` // newest number; each is used once
	Good  *snaps.SnapshotBrief `json:"good,omitempty"`
	GoodN int                  `json:"good_n,omitempty"`
	// Mid says that Good was taken while its turn ran.
	Mid    bool              `json:"mid,omitempty"`
	Wish   *snapshot         `json:"wish,omitempty"`
	Taking *snapshot         `json:"taking,omitempty"`
	Last   *snapshot         `json:"last,omitempty"`  // for parking or closing
	Tried  int               `json:"tried,omitempty"` // newest that has ended
	Error  *protocol.Failure `json:"error,omitempty"` // of snapshot Tried

	Failed  int       `json:"failed,omitempty"`  // passing failures in a row
	RetryAt time.Time `json:"retry_at,omitzero"` // when to retry, while the session idles
}

// snapshot is a snapshot to be taken. All attempts make the same one.
type snapshot struct {
	N  int       `json:"n"`
	At time.Time `json:"at"`
}

type keepState struct {
	Snap   snapState `json:"snap,omitzero"`
	TickAt time.Time `json:"tick_at,omitzero"` // when the next one within the turn is due
}

// wantSnapshot asks for a snapshot as soon as possible, and returns its number.
func (s *snapsPart) wantSnapshot() int {
	if s.st.Snap.Wish == nil {
		s.st.Snap.N++
		s.st.Snap.Wish = &snapshot{N: s.st.Snap.N, At: workflow.Now(s.ctx)}
	}
	return s.st.Snap.Wish.N
}

func (s *snapsPart) turnToKeep() {
	if s.opt.Snapshot.When == protocol.SnapshotTurn {
		s.wantSnapshot()
	}
}

func (s *snapsPart) takeSnapshots(ctx workflow.Context) {
	for {
		err := workflow.Await(ctx, func() bool { return s.mayTake() || s.mayRetry() })
		if err == nil && !s.mayTake() {
			err = s.waitToRetry(ctx)
		}
		if err != nil {
			return
		}
		if s.mayTake() {
			s.takeSnapshot(ctx)
		}
	}
}

// Pauses of an idle session after a snapshot that failed in a way that passes. They double.
// Each try has the five attempts of inBackground. The tries do not end (promise 11).
const (
	firstRetry   = time.Minute
	longestRetry = time.Hour
)

// mayRetry reports whether to retry a snapshot. The end of a running turn causes one
// anyway.
func (s *snapsPart) mayRetry() bool {
	return !s.st.Snap.RetryAt.IsZero() && s.st.Snap.Wish == nil && s.taking == nil && !s.st.Running && s.parking.quiet() && s.st.Parked == nil
}

func (s *snapsPart) waitToRetry(ctx workflow.Context) error {
	at := s.st.Snap.RetryAt
	tctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimer(tctx, max(at.Sub(workflow.Now(ctx)), time.Second))
	err := workflow.Await(ctx, func() bool { return timer.IsReady() || !s.mayRetry() })
	if err == nil && s.mayRetry() {
		s.st.Snap.RetryAt = time.Time{}
		s.wantSnapshot()
	}
	return err
}

// mayTake reports whether a wanted snapshot can be taken now.
func (s *snapsPart) mayTake() bool {
	return s.st.Snap.Wish != nil && s.taking == nil && s.hushed == 0 && s.st.Layout != nil && s.st.Lease != nil &&
		s.st.Close == nil && s.st.Status != protocol.Failed
}

func (s *snapsPart) takeSnapshot(ctx workflow.Context) {
	sn := &s.st.Snap
	sn.Taking, sn.Wish = sn.Wish, nil
	mid := s.st.Running
	actx, cancel := workflow.WithCancel(inBackground(ctx, fmt.Sprintf("snapshot %d of %s", sn.Taking.N, s.st.Lease.Spec.Name)))
	defer cancel()
	s.taking = cancel
	var out snaps.TakeSnapshotResult
	in := snaps.TakeSnapshotInput{
		// The activity only reads. So its claim has no new pump number, and does not fence
		// a pump.
		Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, SnapshotSpec: s.snapshotSpec(*sn.Taking),
	}
	err := kit.InLine(kit.ForAWhile(ctx, func() bool { return s.hushed > 0 }), func() error {
		return workflow.ExecuteActivity(actx, snapJobs.TakeSnapshot, in).Get(ctx, &out)
	})
	was := sn.Taking
	s.taking, sn.Taking = nil, nil
	switch {
	case err == nil:
		s.tookSnapshot(*was, out.Snapshot, mid)
	case s.hushed > 0: // cancelled by hush, to be taken later
		if sn.Wish == nil {
			sn.Wish = was
		}
	default:
		s.snapshotFailed(*was, kit.FailureOf(fmt.Sprintf("take snapshot %d on %s", was.N, s.hostName()), err))
	}
	workflow.SetCurrentDetails(ctx, s.views.details())
}

// tookSnapshot makes a snapshot the one to go on from. got is nil if there was nothing
// worth keeping yet.
func (s *snapsPart) tookSnapshot(was snapshot, got *snaps.SnapshotBrief, mid bool) {
	sn := &s.st.Snap
	sn.Tried, sn.Error, sn.Failed, sn.RetryAt = was.N, nil, 0, time.Time{}
	if got != nil {
		s.warnOfGaps(got)
		sn.Good, sn.GoodN, sn.Mid = got, was.N, mid
	}
}

// warnOfGaps notes what could not be read, unless the last snapshot lacks the same.
func (s *snapsPart) warnOfGaps(got *snaps.SnapshotBrief) {
	if lacks := got.Lacks(); lacks != "" && lacks != s.st.Snap.Good.Lacks() {
		s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("snapshot %s lacks %s; nothing of it is deleted before a snapshot has it", got.ID, lacks),
			Data: map[string]string{"snapshot": got.ID}})
	}
}

func (s *snapsPart) snapshotFailed(was snapshot, f *protocol.Failure) {
	sn := &s.st.Snap
	if sn.RetryAt = (time.Time{}); kit.FailurePasses(f) {
		sn.RetryAt = workflow.Now(s.ctx).Add(min(firstRetry<<min(sn.Failed, 10), longestRetry))
		sn.Failed++
		f.Hint = cmp.Or(f.Hint, "it is tried again while the session idles, at "+kit.Clock(sn.RetryAt))
	} else {
		sn.Failed = 0
	}
	before := sn.Error
	sn.Tried, sn.Error = was.N, f
	if before == nil || before.Message != f.Message {
		s.note(conversation.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	}
}

// hush cancels the snapshot in progress, to be taken later. None begins until goOn is
// called.
func (s *snapsPart) hush() (goOn func()) {
	s.hushed++
	if s.taking != nil {
		s.taking()
	}
	if err := s.await(func() bool { return s.taking == nil }); err != nil {
		s.log.Error("snapshot not waited for", "error", err)
	}
	return func() { s.hushed-- }
}

// lastSnapshot returns the snapshot for parking or closing; nil if the session takes none.
func (s *snapsPart) lastSnapshot() *snaps.SnapshotSpec {
	if s.opt.Snapshot.When == protocol.SnapshotOff {
		return nil
	}
	if s.st.Snap.Last == nil {
		s.wantSnapshot()
		s.st.Snap.Last, s.st.Snap.Wish = s.st.Snap.Wish, nil
	}
	spec := s.snapshotSpec(*s.st.Snap.Last)
	return &spec
}

func (s *snapsPart) snapshotSpec(which snapshot) snaps.SnapshotSpec {
	return snaps.SnapshotSpec{Policy: s.snapshotPolicy(), N: which.N, At: which.At, Parent: s.goodSnapshot(), SessionFacts: s.facts()}
}

func (s *snapsPart) snapshotPolicy() snaps.SnapshotPolicy {
	return snaps.SnapshotPolicy{Work: s.opt.Snapshot.Work, Exclude: s.opt.Snapshot.Exclude}
}

func (s *snapsPart) goodSnapshot() string {
	if s.st.Snap.Good == nil {
		return ""
	}
	return s.st.Snap.Good.ID
}

// facts describes how the thread is set up, for a session that goes on with it.
func (s *snapsPart) facts() snaps.SessionFacts {
	f := snaps.SessionFacts{ThreadID: s.st.Pump.ThreadID, CodexVersion: s.st.Pump.CodexVersion,
		Cursor: s.st.Pump.Cursor, Turn: s.st.TurnN, Running: s.st.Running, PolicyDigest: snaps.NoPolicy, Confine: map[string]string{}, Budget: s.bounds.budgetView().Words()}
	s.confinement(f.Confine)
	if s.opt.Policy != "" {
		f.PolicyDigest = site.PolicyDigest(s.opt.Policy)
	}
	if s.st.Layout != nil {
		f.Thread = s.process.thread()
	}
	if s.st.Lease != nil {
		f.Labels = s.st.Lease.Labels
	}
	return f
}

// setTick sets the timer for a snapshot within the turn. It is called while a pump is
// attached, so no timer runs while a turn waits for a person.
func (s *snapsPart) setTick() {
	if s.opt.Snapshot.Every == 0 || s.opt.Snapshot.When == protocol.SnapshotOff || !s.st.Running || s.st.Close != nil {
		return
	}
	now := workflow.Now(s.ctx)
	switch s.tick.Off(); {
	case s.st.TickAt.IsZero():
		s.st.TickAt = now.Add(s.opt.Snapshot.Every)
	case !now.Before(s.st.TickAt):
		s.wantSnapshot()
		s.st.TickAt = now.Add(s.opt.Snapshot.Every)
	}
	s.tick.Set(s.st.TickAt)
}

// inBackground returns the context for work that nobody waits for and the next occasion
// repeats.
func inBackground(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: kit.CarryFor,
		HeartbeatTimeout:    kit.Beat,
		WaitForCancellation: true,
		Summary:             kit.Cut(summary, 100),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: 5,
		},
	})
}

func (s *snapsPart) checkSnapshot(t protocol.TakeSnapshot) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := kit.Short([]kit.Text{{What: "by", Is: t.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "snapshot of session %s: %v", s.id, err)
	}
	switch {
	case s.opt.Snapshot.When == protocol.SnapshotOff:
		return kit.Refuse(protocol.RefusedState, "session %s was started so that it takes no snapshots", s.id)
	case s.st.Layout == nil:
		return kit.Refuse(protocol.RefusedState, "session %s is %s: there is nothing on a host to take a snapshot of", s.id, s.st.Status)
	case !s.st.hadTurn() && !s.st.Running:
		return kit.Refuse(protocol.RefusedState, "session %s has had no turn: there is nothing to keep yet", s.id)
	}
	return nil
}

func (s *snapsPart) takeTakeSnapshot(t protocol.TakeSnapshot) (protocol.SnapshotAccepted, error) {
	if err := s.checkSnapshot(t); err != nil {
		return protocol.SnapshotAccepted{}, err
	}
	return protocol.SnapshotAccepted{Session: s.id, N: s.wantSnapshot()}, nil
}

func (s *snapsPart) snapshotView() *protocol.SnapshotView {
	sn := s.st.Snap
	if sn.N == 0 {
		return nil
	}
	v := &protocol.SnapshotView{N: sn.GoodN, Tried: sn.Tried, Error: sn.Error}
	if g := sn.Good; g != nil {
		v.ID, v.Turn, v.At, v.Files, v.Bytes, v.Added, v.Lacks = g.ID, g.Turn, g.At, g.Files, g.Bytes, g.Added, g.Lacks()
	}
	if sn.Taking != nil {
		v.Taking = sn.Taking.N
	}
	return v
}

// keeping returns how to take a snapshot of what no snapshot has yet; nil if the session
// takes none.
func (s *snapsPart) keeping() *snaps.SnapshotSpec {
	if s.opt.Snapshot.When == protocol.SnapshotOff {
		return nil
	}
	return &snaps.SnapshotSpec{Policy: s.snapshotPolicy(), Parent: s.goodSnapshot(), SessionFacts: s.facts()}
}
