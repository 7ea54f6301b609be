package workflows

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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
	"fairlead.dev/fairlead/workflows/session"
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

// carried takes the audit records that an activity carries, and returns the newest.
func (h *standIn) carried(b *audit.Batch) int64 {
	if b == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, b.Lines...)
	return b.Last()
}

func (h *standIn) RunPump(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	seq := h.carried(in.Audit)
	out, err := h.runPump(ctx, in)
	out.Audited = seq
	return out, err
}

func (h *standIn) runPump(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	session := in.Claim.Session
	if h.isAway(in.Claim.Host.Name) {
		return h.lost(ctx, in)
	}
	if err := h.attach(session, in); err != nil {
		return pumps.RunPumpResult{}, err
	}
	what := h.befalls(session, diesBefore, diesAfter, isSilent)
	if what == diesBefore {
		h.detach(session, string(what))
		return pumps.RunPumpResult{}, lostWorker()
	}
	out, wait := h.step(session, in, activity.GetInfo(ctx).Attempt > 1 || in.Pump.Again > 0)
	if what != "" {
		h.unheard(session, out)
	}
	switch what {
	case isSilent:
		h.detach(session, string(what))
		<-activity.GetWorkerStopChannel(ctx) // nobody receives its result
		return pumps.RunPumpResult{}, lostWorker()
	case diesAfter:
		h.detach(session, string(what))
		return pumps.RunPumpResult{}, lostWorker()
	}
	if wait {
		if err := h.stay(ctx); err != nil {
			h.detach(session, "handed over")
			return pumps.RunPumpResult{}, err
		}
		out.Pump.Reason = conversation.PumpCancelled
		if what = h.befalls(session, diesBack); what != "" {
			h.unheard(session, out)
			h.detach(session, string(what))
			return pumps.RunPumpResult{}, lostWorker()
		}
	}
	h.detach(session, string(out.Pump.Reason))
	return out, nil
}

// lost answers as a pump whose host cannot be reached. It reports the loss if LostAfter is
// set, and otherwise tries forever.
func (h *standIn) lost(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	if in.LostAfter > 0 {
		return pumps.RunPumpResult{HostLost: &protocol.HostLost{Since: time.Unix(1_800_000_000, 0).UTC(), Why: "no route to host"}}, nil
	}
	if err := h.stay(ctx); err != nil {
		return pumps.RunPumpResult{}, err
	}
	return pumps.RunPumpResult{}, ctx.Err()
}

// ProbeHosts reaches all hosts except those in away.
func (h *standIn) ProbeHosts(_ context.Context, in hosts.ProbeHostsInput) (hosts.ProbeHostsResult, error) {
	var out hosts.ProbeHostsResult
	for _, spec := range in.Hosts {
		found := hosts.HostProbed{Name: spec.Name, Facts: map[string]string{"os": "Linux"}}
		h.mu.Lock()
		if h.away[spec.Name] {
			found.Facts, found.Problem = nil, &protocol.Problem{Kind: protocol.ErrTypeUnreachable, Message: "no route to host"}
		}
		h.mu.Unlock()
		out.Hosts = append(out.Hosts, found)
	}
	return out, nil
}

func (h *standIn) WatchHost(ctx context.Context, _ pumps.WatchHostInput) error {
	h.watch(1)
	defer h.watch(-1)
	return h.stay(ctx)
}

func (h *standIn) watch(more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches += more
}

func (h *standIn) watched() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watches
}

// unheard keeps what a pump read but could not report, because the journal still
// has it.
func (h *standIn) unheard(session string, out pumps.RunPumpResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proc(session).journal = &out
}

func (h *standIn) attach(session string, in pumps.RunPumpInput) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proc(session)
	epoch := [2]int64{in.Claim.Generation, in.Claim.Pump}
	if slices.Compare(epoch[:], p.epoch[:]) < 0 {
		h.t.Errorf("%s: a pump of epoch %v came after one of %v", session, epoch, p.epoch)
	}
	if p.pumping > 0 {
		return temporal.NewApplicationError("another one is attached", protocol.ErrTypeWireLost)
	}
	p.epoch = epoch
	p.pumping++
	p.sends = append(p.sends, in.Pump.Sends)
	return nil
}

func (h *standIn) detach(session, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proc(session)
	p.pumping--
	p.results = append(p.results, how)
}

// stay heartbeats until the workflow cancels the pump. It returns an error if the worker
// stops.
func (h *standIn) stay(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			return lostWorker()
		case <-ctx.Done():
			return nil
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// step takes the sends of a pump and does what the running turn's text says. A retry of the
// same pump gets the same sends.
func (h *standIn) step(session string, in pumps.RunPumpInput, again bool) (out pumps.RunPumpResult, wait bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proc(session)
	st := in.Pump.State
	st.Opened, st.ThreadID, st.CodexVersion, st.Model = st.Cursor.Incarnation, "thread-"+session, "0.169.0", "model"
	st.Seq += int64(len(in.Pump.Notes))
	out.Pump.Reason = conversation.Bound
	p.limits = append(p.limits, in.Pump.Limits)
	if t := in.Pump.Tell; t != nil {
		h.told[session] = append(h.told[session], t.Text)
		out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: t.ID, State: protocol.Acknowledged})
	}
	if p.text == "" && len(in.Pump.Sends) > 0 && strings.HasPrefix(in.Pump.Sends[0].Text, "late") && st.Cursor.Incarnation == 1 {
		p.dead = protocol.Decided
	}
	if p.dead != "" {
		for _, s := range in.Pump.Sends {
			out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: s.ID, State: p.dead})
			p.had[s.ID] = p.had[s.ID] || p.dead != protocol.Decided
		}
		out.Pump.Reason, out.Pump.State = conversation.ProcessEnded, st
		out.Process = &pumps.ProcessGone{State: "exited", Code: 137}
		return out, false
	}
	before := p.journal
	p.journal = nil
	if before != nil && before.Pump.Reason == conversation.TurnEnded {
		for _, s := range in.Pump.Sends {
			state := protocol.Void // the turn had ended when this send came
			if p.had[s.ID] {
				state = protocol.Acknowledged
			}
			out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: s.ID, State: state})
		}
		out.Pump.Reason, out.Pump.Turn, out.Pump.State = before.Pump.Reason, before.Pump.Turn, before.Pump.State
		return out, false
	}
	for _, s := range in.Pump.Sends {
		out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: s.ID, State: protocol.Acknowledged})
		if p.had[s.ID] {
			if !s.Uncertain && !again {
				h.t.Errorf("%s: %s %s was sent twice", session, s.Kind, s.ID)
			}
			continue
		}
		p.had[s.ID] = true
		switch s.Kind {
		case conversation.SendTurn:
			if s.Text == toGoOn {
				s.Text = p.text // the text of the turn that its last process ran
			}
			p.text, p.turnID, p.stop, p.asked = s.Text, fmt.Sprintf("turn-%d", s.Turn), false, nil
			h.turns[session] = append(h.turns[session], ranTurn{s.Turn, s.ID})
			st.Turn = s.Turn
		case conversation.SendDecision:
			p.answers[string(s.RPC)] = s.Outcome
		case conversation.SendInterrupt:
			p.stop = true
		case conversation.SendSteer:
			p.steered = append(p.steered, s.ID)
		}
	}
	st.Cursor.Offset += 100
	st.TurnID = p.turnID
	end := func(status string) {
		out.Pump.Reason = conversation.TurnEnded
		out.Pump.Turn = &conversation.TurnEnd{N: st.Turn, ID: p.turnID, Status: status, FinalText: "you said: " + p.text, Items: 1}
		st.TurnID, p.turnID, p.text = "", "", ""
	}
	word, rest, _ := strings.Cut(p.text, " ")
	switch {
	case p.turnID == "":
	case p.stop:
		end("interrupted")
	case word == "stay", word == "late":
		wait = true
	case word == "spend":
		n, _ := strconv.ParseInt(rest, 10, 64)
		st.Usage.Input += n
		if end("completed"); in.Pump.Limits.Budget.Tokens > 0 && st.Usage.Input > in.Pump.Limits.Budget.Tokens {
			out.Pump.Turn.Status, out.Pump.Turn.Problem = "interrupted", &protocol.Problem{Kind: "budget", Message: "more than it was given"}
		}
	case word == "die":
		p.turnID, p.text = "", "hello" // do not die again when the turn is continued
		out.Pump.Reason = conversation.ProcessEnded
		out.Process = &pumps.ProcessGone{State: "exited", Code: 137}
	case word == "fail":
		end("failed")
	case word == "ask":
		out.Pump.Reason = conversation.RequestsOpen
		if p.asked == nil {
			for i, c := range strings.Fields(rest) {
				p.asked = append(p.asked, protocol.Request{
					RPC: json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(p.turnID, ".", i))), Incarnation: st.Cursor.Incarnation,
					Kind: protocol.KindCommand, Command: c, Summary: c, Digest: "digest of " + c, TurnID: p.turnID,
					Offered: []string{"accept", "accept_for_session", "decline", "cancel"}})
			}
			out.Pump.Requests = p.asked
			break
		}
		if before != nil {
			out.Pump.Requests = before.Pump.Requests
		}
		open := false
		for _, a := range p.asked {
			open = open || p.answers[string(a.RPC)] == ""
		}
		if !open {
			end("completed")
		}
	case word == "lead":
		call := func(n int, tool string, args any) protocol.Request {
			text, err := json.Marshal(args)
			if err != nil {
				h.t.Error(err)
			}
			return protocol.Request{RPC: json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(p.turnID, ".", n))), Incarnation: st.Cursor.Incarnation,
				Kind: protocol.KindChild, Tool: tool, Args: string(text), TurnID: p.turnID}
		}
		switch n := len(p.asked); {
		case n == 0:
			p.asked = append(p.asked, call(0, protocol.ToolStartSession, map[string]string{"prompt": rest}))
		case p.answers[string(p.asked[n-1].RPC)] == "":
		case n == 1:
			p.asked = append(p.asked, call(1, protocol.ToolWaitSession, map[string]any{}))
		default:
			end("completed")
		}
		if out.Pump.Turn == nil {
			out.Pump.Reason, out.Pump.Requests = conversation.RequestsOpen, p.asked[len(p.asked)-1:]
		}
	default:
		end("completed")
	}
	out.Pump.State = st
	return out, wait
}

// toGoOn is the text of a turn in which codex is told to go on.
const toGoOn = session.GoOnText
