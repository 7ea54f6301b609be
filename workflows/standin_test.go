package workflows

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// standIn stands in for a host with codex, for sessions on a real server. It keeps
// its state, as a host does, and outlives workers. The text of a message says what
// codex does:
//
//	ask CMD…   asks for each of the commands, and ends when all are decided
//	stay       runs until it is interrupted
//	die ends its process when it has the message
//	fail       ends the turn as failed
//	lead TEXT  starts a session with this prompt, waits for it, and ends when both calls are answered
//	late       stays, but only in the second process: the first one ends before it has the message
//	spend N    uses N tokens, and is interrupted if that is over the budget
//	else       answers at once
//
// If the session tells codex to go on, codex resumes the task of its last process, and asks
// for everything again.
//
// standIn checks that the following never happens: a message that reaches codex twice, more
// than one pump at a time, a pump of an older epoch.
type standIn struct {
	t *testing.T

	mu     sync.Mutex
	teller teller
	procs  map[string]*standInProc
	turns  map[string][]ranTurn // by session, in order
	held   map[string]bool      // sessions between prepare and close
	most   int                  // the maximum of held at a time
	bad    map[string]error     // by session: the error of prepare

	watches int // how many watches run

	auditWrites int      // activities that wrote nothing but audit records
	records     []string // all audit records that came

	recovered []inquiry.RecoverSeedInput
	planted   map[string]map[string]bool // by seed: the sessions that have it
	crowds    map[string]int             // by seed: the greatest number of such sessions at a time
	granted   []string                   // the seed of each prepared session, in order

	faults map[string]fault         // by session: what happens to one pump
	gates  map[string]chan struct{} // by session: codex starts only when this is closed
	stops  map[string]int           // by session: how often codex was stopped

	away  map[string]bool                         // hosts that cannot be reached
	parks map[string][]snaps.ParkSessionInput     // by session: the inputs of parks that completed
	came  map[string][]places.PrepareSessionInput // by session
	told  map[string][]string                     // by session: what codex was told
}

// A fault is what happens to the worker of a pump.
type fault string

const (
	diesBefore fault = "dies before the pump wrote"     // the next pump's worker
	diesAfter  fault = "dies after the pump wrote"      // the next pump's worker
	diesBack   fault = "dies while called back"         // the worker of an attached pump that is cancelled
	isSilent   fault = "is killed after the pump wrote" // the next pump's worker; the server has to notice
)

// ranTurn is a turn that codex began, with the id of its message.
type ranTurn struct {
	N  int
	ID string
}

type standInProc struct {
	pumping int
	epoch   [2]int64
	had     map[string]bool // sends that reached codex
	text    string          // of the running turn
	turnID  string
	stop    bool // interrupted
	asked   []protocol.Request
	answers map[string]protocol.Outcome // by RPC id
	dead    protocol.DeliveryState      // set if the process died: the state that the next sends will have reached
	steered []string                    // messages that steered turns
	limits  []conversation.Limits       // of its pumps
	journal *pumps.RunPumpResult        // what the newest pump read, until a result has reported it
	results []string                    // how the session's pumps returned
	sends   [][]conversation.Send       // the sends that the pumps were given
}

func newStandIn(t *testing.T) *standIn {
	return &standIn{t: t, planted: map[string]map[string]bool{}, crowds: map[string]int{}, procs: map[string]*standInProc{}, turns: map[string][]ranTurn{}, held: map[string]bool{}, bad: map[string]error{},
		away: map[string]bool{}, parks: map[string][]snaps.ParkSessionInput{}, came: map[string][]places.PrepareSessionInput{}, told: map[string][]string{}, faults: map[string]fault{}, gates: map[string]chan struct{}{}, stops: map[string]int{}}
}

// kill ends a session's process. The next sends will have reached the given state.
func (h *standIn) kill(session string, state protocol.DeliveryState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proc(session).dead = state
}

// If the session's fault is one of due, befalls removes the fault and returns it.
func (h *standIn) befalls(session string, due ...fault) fault {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.faults[session]
	if !slices.Contains(due, f) {
		return ""
	}
	delete(h.faults, session)
	return f
}

func (h *standIn) set(session string, f fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults[session] = f
}

// gate makes starting codex wait until open is called.
func (h *standIn) gate(session string) (open func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := make(chan struct{})
	h.gates[session] = ch
	open = sync.OnceFunc(func() { close(ch) })
	h.t.Cleanup(open)
	return open
}

func (h *standIn) pass(ctx context.Context, session string) error {
	h.mu.Lock()
	gate := h.gates[session]
	h.mu.Unlock()
	if gate == nil {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx):
			return lostWorker()
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// lostWorker returns an error that stands for a lost worker. Its retry comes at once.
func lostWorker() error {
	return temporal.NewApplicationErrorWithOptions("this worker is gone", protocol.ErrTypeWireLost,
		temporal.ApplicationErrorOptions{NextRetryDelay: 10 * time.Millisecond})
}

func (h *standIn) proc(session string) *standInProc {
	p := h.procs[session]
	if p == nil {
		p = &standInProc{had: map[string]bool{}, answers: map[string]protocol.Outcome{}}
		h.procs[session] = p
	}
	return p
}

// pumps returns how the session's pumps returned, and the sends that they were given.
func (h *standIn) pumps(session string) (results []string, sends [][]conversation.Send) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proc(session)
	return slices.Clone(p.results), slices.Clone(p.sends)
}

func (h *standIn) attached(session string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proc(session).pumping > 0
}

func (h *standIn) ran(session string) []ranTurn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.turns[session])
}

func (h *standIn) fails(session string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.bad, session); err != nil {
		h.bad[session] = err
	}
}

func (h *standIn) PrepareSession(ctx context.Context, in places.PrepareSessionInput) (places.PrepareSessionResult, error) {
	if err := h.pass(ctx, "prepare "+in.Claim.Session); err != nil {
		return places.PrepareSessionResult{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, err := range h.bad {
		if strings.HasSuffix(in.Claim.Session, name) {
			return places.PrepareSessionResult{}, err
		}
	}
	if h.away[in.Claim.Host.Name] {
		return places.PrepareSessionResult{}, unreachable()
	}
	h.held[in.Claim.Session] = true
	h.came[in.Claim.Session] = append(h.came[in.Claim.Session], in)
	h.plant(in)
	h.most = max(h.most, len(h.held))
	dir := "/r/sessions/" + in.Claim.Session
	restored := ""
	if in.Restore != nil {
		restored = "snapshot"
		for _, p := range h.parks[in.Claim.Session] {
			if p.Claim.Host.Name == in.Claim.Host.Name && p.Claim.Generation == in.Restore.Warm {
				restored = "warm"
			}
		}
	}
	return places.PrepareSessionResult{CodexVersion: "0.169.0", Permissions: "fairlead", Restored: restored,
		Layout: protocol.Layout{Root: "/r", Dir: dir, CodexHome: dir + "/codex-home", WorkDir: dir + "/work", OwnWork: true, Codex: "/r/codex"}}, nil
}

func (h *standIn) StartServer(ctx context.Context, in places.StartServerInput) (places.StartServerResult, error) {
	if err := h.pass(ctx, in.Claim.Session); err != nil {
		return places.StartServerResult{}, err
	}
	seq := h.carried(in.Audit)
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.proc(in.Claim.Session)
	h.procs[in.Claim.Session] = &standInProc{had: old.had, answers: map[string]protocol.Outcome{}, results: old.results, sends: old.sends,
		epoch: old.epoch, steered: old.steered, limits: old.limits, text: old.text}
	return places.StartServerResult{Process: "app-server", PID: 100 + in.Incarnation, Audited: seq}, nil
}

func (h *standIn) StopServer(_ context.Context, in places.StopServerInput) (places.StopServerResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stops[in.Claim.Session]++
	return places.StopServerResult{}, nil
}

// plant records where a seed is, and how many sessions have it at a time.
func (h *standIn) plant(in places.PrepareSessionInput) {
	if in.Seed == nil {
		return
	}
	if in.Seed.Epoch == 0 {
		h.t.Errorf("%s has seed %s under no epoch", in.Claim.Session, in.Seed.Name)
	}
	if h.planted[in.Seed.Name] == nil {
		h.planted[in.Seed.Name] = map[string]bool{}
	}
	h.planted[in.Seed.Name][in.Claim.Session] = true
	h.crowds[in.Seed.Name] = max(h.crowds[in.Seed.Name], len(h.planted[in.Seed.Name]))
	h.granted = append(h.granted, in.Seed.Name)
}

// wipe removes a seed, and reports whether the session had it.
func (h *standIn) wipe(session string, seed *protocol.SeedRef) bool {
	if seed == nil || !h.planted[seed.Name][session] {
		return false
	}
	delete(h.planted[seed.Name], session)
	return true
}

func (h *standIn) CloseSession(ctx context.Context, in places.CloseSessionInput) (places.CloseSessionResult, error) {
	if err := h.pass(ctx, "close "+in.Claim.Session); err != nil {
		return places.CloseSessionResult{}, err
	}
	seq := h.carried(in.Audit)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, in.Claim.Session)
	h.wipe(in.Claim.Session, in.Seed)
	return places.CloseSessionResult{Wiped: true, Removed: true, Seq: in.Seq + int64(len(in.Notes)), Audited: seq}, nil
}

func unreachable() error {
	return temporal.NewNonRetryableApplicationError("no route to host", protocol.ErrTypeUnreachable, nil)
}

func (h *standIn) leave(host string, away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away[host] = away
}

func (h *standIn) isAway(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.away[host]
}

func (h *standIn) prepared(session string) []places.PrepareSessionInput {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.came[session])
}

func (h *standIn) ParkSession(ctx context.Context, in snaps.ParkSessionInput) (snaps.ParkSessionResult, error) {
	if err := h.pass(ctx, "park "+in.Claim.Session); err != nil {
		return snaps.ParkSessionResult{}, err
	}
	seq := h.carried(in.Audit)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away[in.Claim.Host.Name] {
		return snaps.ParkSessionResult{}, unreachable()
	}
	if h.proc(in.Claim.Session).pumping > 0 {
		h.t.Errorf("%s parks while a pump is attached", in.Claim.Session)
	}
	delete(h.held, in.Claim.Session)
	h.wipe(in.Claim.Session, in.Seed)
	h.parks[in.Claim.Session] = append(h.parks[in.Claim.Session], in)
	return snaps.ParkSessionResult{Snapshot: briefOf(in.Claim.Session, in.SnapshotSpec), Wiped: true, Seq: in.Seq + int64(len(in.Notes)), Audited: seq}, nil
}

func (h *standIn) TakeSnapshot(ctx context.Context, in snaps.TakeSnapshotInput) (snaps.TakeSnapshotResult, error) {
	if err := h.pass(ctx, "snapshot "+in.Claim.Session); err != nil {
		return snaps.TakeSnapshotResult{}, err
	}
	return snaps.TakeSnapshotResult{Snapshot: briefOf(in.Claim.Session, in.SnapshotSpec)}, nil
}

func (h *standIn) RecordLost(_ context.Context, in pumps.RecordLostInput) (pumps.RecordLostResult, error) {
	return pumps.RecordLostResult{Seq: in.State.Seq}, nil
}

func (h *standIn) wroteAudit() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.auditWrites
}

func (h *standIn) WriteAudit(_ context.Context, in audit.Batch) (audit.Written, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.auditWrites++
	h.records = append(h.records, in.Lines...)
	return audit.Written{Entity: in.Entity, Seq: in.Last()}, nil
}

func (h *standIn) RecordNotes(_ context.Context, in pumps.RecordNotesInput) (pumps.RecordNotesResult, error) {
	return pumps.RecordNotesResult{Seq: in.Seq + int64(len(in.Notes)), Audited: h.carried(in.Audit)}, nil
}

func (h *standIn) WipeLeftover(_ context.Context, in places.WipeLeftoverInput) (places.WipeLeftoverResult, error) {
	if h.isAway(in.Claim.Host.Name) {
		return places.WipeLeftoverResult{}, unreachable()
	}
	return places.WipeLeftoverResult{Wiped: true, At: time.Unix(1_800_000_000, 0).UTC(), Removed: true}, nil
}

// RecoverSeed finds the login on the host, because nobody closes a session whose workflow
// was terminated.
func (h *standIn) RecoverSeed(_ context.Context, in inquiry.RecoverSeedInput) (inquiry.RecoverSeedResult, error) {
	if h.isAway(in.Claim.Host.Name) {
		return inquiry.RecoverSeedResult{}, unreachable()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recovered = append(h.recovered, in)
	delete(h.held, in.Claim.Session)
	there := h.wipe(in.Claim.Session, &in.Seed)
	return inquiry.RecoverSeedResult{Absent: !there, Wiped: there}, nil
}

func (h *standIn) DeleteSeedBlobs(context.Context, logins.DeleteSeedInput) error { return nil }

func (h *standIn) ProvisionCodex(context.Context, hosts.ProvisionCodexInput) (protocol.ProvisionCodexResult, error) {
	return protocol.ProvisionCodexResult{Path: "/r/codex", Version: "0.169.0", How: "present"}, nil
}

func (h *standIn) CheckHost(context.Context, hosts.CheckHostInput) (protocol.CheckHostResult, error) {
	return protocol.CheckHostResult{OK: true, Checks: []protocol.Check{{Name: "os", OK: true, Detail: "linux"}},
		Facts: map[string]string{"sandbox": "yes", "codex": "0.169.0"}, CheckedAt: time.Unix(1_800_000_000, 0).UTC()}, nil
}

func (h *standIn) RecoverSeeds(_ context.Context, in protocol.RecoverInput) (protocol.RecoverResult, error) {
	return protocol.RecoverResult{DryRun: in.DryRun, Seeds: []protocol.RecoveredSeed{}}, nil
}

func (h *standIn) RotateKeys(context.Context, protocol.RotateKeysInput) (protocol.RotateKeysResult, error) {
	return protocol.RotateKeysResult{Blobs: 3, Renewed: 3, Unneeded: true}, nil
}

func (h *standIn) RunExec(context.Context, protocol.ExecInput) (protocol.ExecResult, error) {
	return protocol.ExecResult{State: "exited", Stdout: 3}, nil
}

func (h *standIn) ScanHostKeys(context.Context, protocol.ScanHostKeysInput) (protocol.ScanHostKeysResult, error) {
	return protocol.ScanHostKeysResult{}, nil
}

func (h *standIn) CaptureSeed(_ context.Context, in logins.CaptureSeedInput) (logins.CaptureSeedResult, error) {
	return logins.CaptureSeedResult{Home: cmp.Or(in.Home, "/h/codex-home"), Ref: protocol.SeedRef{Name: in.Name, Blob: "seeds/" + in.Name + "/b1", Digest: "d1", Kind: "chatgpt"},
		Files: auth("1"), Auth: "sum of auth.json"}, nil
}

func (h *standIn) ForgetLogin(context.Context, logins.ForgetLoginInput) error { return nil }

func (h *standIn) MakeLogin(_ context.Context, in logins.LoginInput) (logins.MakeLoginResult, error) {
	return logins.MakeLoginResult{Home: "/r/logins/" + in.ID + "/codex-home", Argv: []string{"/r/codex", "login", "--device-auth"}}, nil
}

func (h *standIn) RemoveLogin(context.Context, logins.LoginInput) error { return nil }

func (h *standIn) FindLeftovers(context.Context, places.FindLeftoversInput) (places.FindLeftoversResult, error) {
	return places.FindLeftoversResult{Hosts: 1, Folders: 2, Unknown: 1}, nil
}

func (h *standIn) PruneSnapshots(context.Context, protocol.PruneSnapshotsInput) (protocol.PruneSnapshotsResult, error) {
	return protocol.PruneSnapshotsResult{Snapshots: []string{"s/1"}, Packs: 1, Freed: 100}, nil
}

func (h *standIn) CheckSnapshots(context.Context, protocol.CheckSnapshotsInput) (protocol.CheckSnapshotsResult, error) {
	return protocol.CheckSnapshotsResult{Snapshots: 2, Chunks: 3, Packs: 1, Problems: []string{"snapshot s/2: a pack is missing"}, Damaged: []string{"s/2"}}, nil
}

func (h *standIn) TidyStore(context.Context) (batches.TidyStoreResult, error) {
	return batches.TidyStoreResult{Problems: []string{"batch b: nobody answers"}}, nil
}

// engineOf is an Engine that ignores the seeds of other tests on the same server.
type engineOf struct{ *overseer.Engine }

func (engineOf) VerifySeeds(context.Context, overseer.VerifySeedsInput) (overseer.VerifySeedsResult, error) {
	return overseer.VerifySeedsResult{Seen: 2, Verified: []string{"team"}, Left: 1}, nil
}
