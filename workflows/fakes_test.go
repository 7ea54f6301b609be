package workflows

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// fakeSessions stands in for a host with codex. The next function of pumps answers the next
// pump. If there is none left, rest answers; if rest is nil, the test fails.
type fakeSessions struct {
	t     *testing.T
	step  steps
	mu    sync.Mutex
	pumps []func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error)
	ran   []pumps.RunPumpInput
	calls []string

	rest  func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) // answers the pumps after those in pumps
	hangs map[string]chan struct{}                                                      // activities that wait until their channel is closed or they are cancelled
	fails map[string]error
	spans map[string]int // number of calls that fail; 0 means all

	ends func(places.CloseSessionInput) (places.CloseSessionResult, error) // answers every close, if set

	closeErrs []error // results of the first closes
	closed    []places.CloseSessionInput
	// unprotected is what PrepareSession reports of its host.
	unprotected string
	rules       []protocol.FollowUp // that PrepareSession reports of the seed
	recorded    []pumps.RecordNotesInput
	recordedIn  []int32 // the attempt number of each
	starts      int
	begun       []places.StartServerInput
	gone        map[string]bool // hosts that cannot be reached
	snaps       []snaps.TakeSnapshotInput
	differs     string   // how a restored work folder differs
	unread      []string // what snapshots could not read
	parks       []snaps.ParkSessionInput
	prepared    []places.PrepareSessionInput
	way         string // the organisation's default of credentials, for the first preparation
	losts       []pumps.RecordLostInput
	audited     []audit.Batch                                      // by activities of their own
	records     []string                                           // all audit records, in the order in which they came
	heard       func(pumps.RecordLostInput) pumps.RecordLostResult // what pumps had read on a lost host; nil means nothing
}

func (f *fakeSessions) call(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

// act records a call of an activity, and fails or hangs as the test wants.
func (f *fakeSessions) act(ctx context.Context, name, format string, args ...any) error {
	f.call(format, args...)
	f.mu.Lock()
	hang, err := f.hangs[name], f.fails[name]
	if f.spans[name] > 0 {
		if f.spans[name]--; f.spans[name] == 0 {
			delete(f.fails, name)
		}
	}
	f.mu.Unlock()
	if hang != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hang:
		}
	}
	return err
}

// hang makes an activity wait until the test calls let or the test ends.
func (f *fakeSessions) hang(name string) (let func()) {
	ch := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs == nil {
		f.hangs = map[string]chan struct{}{}
	}
	f.hangs[name] = ch
	let = sync.OnceFunc(func() { close(ch) })
	f.t.Cleanup(let)
	return let
}

func (f *fakeSessions) fail(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails == nil {
		f.fails = map[string]error{}
	}
	f.fails[name] = err
}

// failTimes makes the next n calls fail, and no more.
func (f *fakeSessions) failTimes(name string, n int, err error) {
	f.fail(name, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spans == nil {
		f.spans = map[string]int{}
	}
	f.spans[name] = n
}

func (f *fakeSessions) PrepareSession(ctx context.Context, in places.PrepareSessionInput) (places.PrepareSessionResult, error) {
	f.mu.Lock()
	f.prepared = append(f.prepared, in)
	first := len(f.prepared) == 1
	f.mu.Unlock()
	if err := f.act(ctx, "prepare", "prepare %s on %s", in.Claim.Session, in.Claim.Host.Name); err != nil {
		return places.PrepareSessionResult{}, err
	}
	f.mu.Lock()
	gone, rules := f.gone[in.Claim.Host.Name], f.rules
	f.mu.Unlock()
	if gone {
		return places.PrepareSessionResult{}, finally(protocol.ErrTypeUnreachable)
	}
	dir := "/r/sessions/" + in.Claim.Session
	restored, thread, way := "", "", ""
	if in.Credentials == "" && first {
		way = f.way
	}
	if r := in.Restore; r != nil {
		if restored = "snapshot"; r.Warm > 0 && f.holds(in.Claim.Host.Name, r.Warm) {
			restored = "warm"
		}
		if r.Fork {
			thread = "thread-0"
		}
	}
	return places.PrepareSessionResult{CodexVersion: "0.169.0", Permissions: "fairlead", Unprotected: f.unprotected, Restored: restored, ThreadID: thread, Differs: f.differs, FollowUps: rules, Credentials: way,
		Layout: protocol.Layout{Root: "/r", Dir: dir, CodexHome: dir + "/codex-home", WorkDir: dir + "/work", OwnWork: true, Codex: "/r/codex"}}, nil
}

func (f *fakeSessions) holds(host string, generation int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.parks {
		if p.Claim.Host.Name == host && p.Claim.Generation == generation {
			return true
		}
	}
	return false
}

func (f *fakeSessions) StartServer(ctx context.Context, in places.StartServerInput) (places.StartServerResult, error) {
	f.mu.Lock()
	f.starts++
	f.begun = append(f.begun, in)
	f.mu.Unlock()
	return places.StartServerResult{Process: "app-server", PID: 100 + in.Incarnation, Audited: f.carried(in.Audit)}, f.act(ctx, "start", "start %d", in.Incarnation)
}

// RunPump plays the next pump. If one step of the test sends several messages, the first
// starts a pump and the others cancel it. Whether a cancelled activity runs at all depends
// on the machine. So RunPump waits until the step is done, and does not count a pump that
// was cancelled meanwhile.
func (f *fakeSessions) RunPump(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	f.step.wait()
	if activity.RecordHeartbeat(ctx); ctx.Err() != nil {
		return pumps.RunPumpResult{}, ctx.Err()
	}
	f.mu.Lock()
	f.ran = append(f.ran, in)
	n := len(f.ran)
	next := f.rest
	if n <= len(f.pumps) {
		next = f.pumps[n-1]
	}
	f.mu.Unlock()
	if next == nil {
		f.t.Errorf("pump %d was not expected: %+v", n, in.Pump)
		// The session does not wait out this kind of error, so the test ends.
		return pumps.RunPumpResult{}, temporal.NewNonRetryableApplicationError(fmt.Sprintf("pump %d was not expected", n), protocol.ErrTypeBadInput, nil)
	}
	out, err := next(ctx, in)
	out.Audited = f.carried(in.Audit)
	return out, err
}

// carried takes the audit records that an activity carries, and returns the newest.
func (f *fakeSessions) carried(b *audit.Batch) int64 {
	if b == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails["audit"] != nil {
		return 0
	}
	f.records = append(f.records, b.Lines...)
	return b.Last()
}

func (f *fakeSessions) startedSoFar() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

func (f *fakeSessions) parkedSoFar() []snaps.ParkSessionInput {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.parks)
}

func (f *fakeSessions) closedSoFar() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.closed)
}

func (f *fakeSessions) StopServer(ctx context.Context, in places.StopServerInput) (places.StopServerResult, error) {
	return places.StopServerResult{}, f.act(ctx, "stop", "stop %d", in.Incarnation)
}

func (f *fakeSessions) CloseSession(ctx context.Context, in places.CloseSessionInput) (places.CloseSessionResult, error) {
	f.mu.Lock()
	f.closed = append(f.closed, in)
	n := len(f.closed)
	if f.ends != nil {
		f.mu.Unlock()
		return f.ends(in)
	}
	var err error
	if n <= len(f.closeErrs) {
		err = f.closeErrs[n-1]
	}
	f.mu.Unlock()
	if in.Discard { // discard gives up a host that hangs
		f.call("close discard=true")
	} else if herr := f.act(ctx, "close", "close discard=false"); herr != nil {
		err = herr
	}
	if err != nil {
		return places.CloseSessionResult{}, err
	}
	return places.CloseSessionResult{Wiped: true, Removed: true, Seq: in.Seq + int64(len(in.Notes)), Audited: f.carried(in.Audit)}, nil
}

func (f *fakeSessions) PinSnapshot(ctx context.Context, in snaps.PinSnapshotInput) (snaps.PinSnapshotResult, error) {
	return snaps.PinSnapshotResult{Session: "s0", Turn: 4}, f.act(ctx, "pin", "pin %s for %s of %s", in.Snapshot, in.Session, in.Run)
}

func (f *fakeSessions) ParkSession(ctx context.Context, in snaps.ParkSessionInput) (snaps.ParkSessionResult, error) {
	f.mu.Lock()
	f.parks = append(f.parks, in)
	f.mu.Unlock()
	if err := f.act(ctx, "park", "park on %s", in.Claim.Host.Name); err != nil {
		return snaps.ParkSessionResult{}, err
	}
	return snaps.ParkSessionResult{Snapshot: briefOf(in.Claim.Session, in.SnapshotSpec), Wiped: true, Seq: in.Seq + int64(len(in.Notes)), Audited: f.carried(in.Audit)}, nil
}

func (f *fakeSessions) TakeSnapshot(ctx context.Context, in snaps.TakeSnapshotInput) (snaps.TakeSnapshotResult, error) {
	f.mu.Lock()
	f.snaps = append(f.snaps, in)
	f.mu.Unlock()
	if err := f.act(ctx, "snapshot", "snapshot %d", in.N); err != nil {
		return snaps.TakeSnapshotResult{}, err
	}
	got := briefOf(in.Claim.Session, in.SnapshotSpec)
	f.mu.Lock()
	defer f.mu.Unlock()
	got.Unreadable, got.Unread = int64(len(f.unread)), f.unread
	return snaps.TakeSnapshotResult{Snapshot: got}, nil
}

func briefOf(session string, in snaps.SnapshotSpec) *snaps.SnapshotBrief {
	return &snaps.SnapshotBrief{ID: fmt.Sprintf("%s.snap-%d", session, in.N), Turn: in.Turn, At: in.At, Files: 2, Bytes: 20, Added: 10}
}

func (f *fakeSessions) RecordLost(ctx context.Context, in pumps.RecordLostInput) (pumps.RecordLostResult, error) {
	f.mu.Lock()
	f.losts = append(f.losts, in)
	heard := f.heard
	f.mu.Unlock()
	if err := f.act(ctx, "lost", "record what was heard"); err != nil || heard == nil {
		return pumps.RecordLostResult{Seq: in.State.Seq}, err
	}
	return heard(in), nil
}

func (f *fakeSessions) RecordNotes(ctx context.Context, in pumps.RecordNotesInput) (pumps.RecordNotesResult, error) {
	seq := f.carried(in.Audit)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorded = append(f.recorded, in)
	f.recordedIn = append(f.recordedIn, activity.GetInfo(ctx).Attempt)
	if err := f.fails["notes"]; err != nil {
		return pumps.RecordNotesResult{}, err
	}
	return pumps.RecordNotesResult{Seq: in.Seq + int64(len(in.Notes)), Audited: seq}, nil
}

func (f *fakeSessions) WriteAudit(ctx context.Context, in audit.Batch) (audit.Written, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.audited = append(f.audited, in)
	if err := f.fails["audit"]; err != nil {
		return audit.Written{}, err
	}
	f.records = append(f.records, in.Lines...)
	return audit.Written{Entity: in.Entity, Seq: in.Last()}, nil
}
