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

// A session takes its snapshots in the background: neither an answer nor the next turn
// waits for one. Only one snapshot is taken at a time. If more snapshots are wanted
// meanwhile, one further snapshot serves all of these requests.

// snapsPart takes snapshots.
type snapsPart struct {
	*core
	bounds  *boundsPart
	process *processPart
	parking *parkingPart
	views   *viewsPart

	tick   *kit.Alarm          // for snapshots within a long turn
	taking workflow.CancelFunc // cancels the snapshot that is being taken
	hushed int                 // how many callers of hush keep snapshots from being taken
}

// snapState is the data that a session keeps about its snapshots.
type snapState struct {
	N     int                  `json:"n,omitempty"` // the newest number; each is used once
	Good  *snaps.SnapshotBrief `json:"good,omitempty"`
	GoodN int                  `json:"good_n,omitempty"`
	// Mid says that Good was taken while its turn ran.
	Mid    bool              `json:"mid,omitempty"`
	Wish   *snapshot         `json:"wish,omitempty"`   // waits to be taken
	Taking *snapshot         `json:"taking,omitempty"` // is being taken
	Last   *snapshot         `json:"last,omitempty"`   // taken while the session parks or closes
	Tried  int               `json:"tried,omitempty"`  // the newest number whose attempts have ended
	Error  *protocol.Failure `json:"error,omitempty"`  // of snapshot Tried

	Failed  int       `json:"failed,omitempty"`  // failures in a row that pass
	RetryAt time.Time `json:"retry_at,omitzero"` // when the next one is taken, if nobody wants one before
}

// snapshot is a snapshot that is to be taken. All attempts to take it make the same
// snapshot.
type snapshot struct {
	N  int       `json:"n"`
	At time.Time `json:"at"`
}

// keepState holds the session's snapshots, and when the next one is due.
type keepState struct {
	Snap   snapState `json:"snap,omitzero"`
	TickAt time.Time `json:"tick_at,omitzero"` // when the next snapshot within the turn is due
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

// takeSnapshots takes one snapshot after another, for as long as the session lives.
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

// Pauses before a snapshot that failed in a way that passes is tried again while
// the session idles. Each is twice as long as the one before. Each try has the five
// attempts of inBackground. The tries do not end (promise 11).
const (
	firstRetry   = time.Minute
	longestRetry = time.Hour
)

// mayRetry reports whether a snapshot has failed in a way that passes, and the session
// idles. While a turn runs there is no retry, because the end of the turn causes a snapshot
// anyway.
func (s *snapsPart) mayRetry() bool {
	return !s.st.Snap.RetryAt.IsZero() && s.st.Snap.Wish == nil && s.taking == nil && !s.st.Running && s.parking.quiet() && s.st.Parked == nil
}

// waitToRetry waits until the next try is due, and asks for a snapshot if the session still
// idles then. It holds up nothing.
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

// mayTake reports whether a snapshot is wanted, and the session has something on a host on
// which nothing else works.
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
		// a pump that works at the same time.
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
	case s.hushed > 0: // cancelled by hush: it is taken later
		if sn.Wish == nil {
			sn.Wish = was
		}
	default:
		s.snapshotFailed(*was, kit.FailureOf(fmt.Sprintf("take snapshot %d on %s", was.N, s.hostName()), err))
	}
	workflow.SetCurrentDetails(ctx, s.views.details())
}

// tookSnapshot makes a complete snapshot the one that the session goes on from. got
// is nil if there was nothing worth keeping yet.
func (s *snapsPart) tookSnapshot(was snapshot, got *snaps.SnapshotBrief, mid bool) {
	sn := &s.st.Snap
	sn.Tried, sn.Error, sn.Failed, sn.RetryAt = was.N, nil, 0, time.Time{}
	if got != nil {
		s.warnOfGaps(got)
		sn.Good, sn.GoodN, sn.Mid = got, was.N, mid
	}
}

// warnOfGaps notes what could not be read, unless the snapshot before lacks the
// same.
func (s *snapsPart) warnOfGaps(got *snaps.SnapshotBrief) {
	if lacks := got.Lacks(); lacks != "" && lacks != s.st.Snap.Good.Lacks() {
		s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("snapshot %s lacks %s; nothing of it is deleted before a snapshot has it", got.ID, lacks),
			Data: map[string]string{"snapshot": got.ID}})
	}
}

// snapshotFailed records a failure. The good snapshot stays. The next occasion tries again.
// If the failure passes, an idle session also tries again, less and less often.
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

// hush cancels the snapshot that is being taken, and lets none begin until goOn is
// called. The cancelled one is taken later.
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

// lastSnapshot returns the snapshot that is taken while the session parks or closes, or nil
// if the session takes none.
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

// goodSnapshot returns the id of the newest complete snapshot.
func (s *snapsPart) goodSnapshot() string {
	if s.st.Snap.Good == nil {
		return ""
	}
	return s.st.Snap.Good.ID
}

// facts describes how the thread is set up, for whoever goes on with it.
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

// setTick sets the timer for a snapshot within the turn, while a pump is attached. So no
// timer runs while a turn waits for a person.
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

// inBackground is for work that nobody waits for, and that the next occasion repeats. If
// the host or the store cannot be reached for longer than its attempts last, the failure is
// shown.
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

// keeping returns how to take a snapshot of something of the session that no
// snapshot has yet. It is nil if the session takes no snapshots.
func (s *snapsPart) keeping() *snaps.SnapshotSpec {
	if s.opt.Snapshot.When == protocol.SnapshotOff {
		return nil
	}
	return &snaps.SnapshotSpec{Policy: s.snapshotPolicy(), Parent: s.goodSnapshot(), SessionFacts: s.facts()}
}
