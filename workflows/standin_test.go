package workflows

import (
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

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/conversation"
)

// standIn stands in for a host with codex, for sessions on a real server. It
// remembers, as a host does, and outlives workers. What codex does is said by
// the text of the message:
//
//	ask CMD…   asks for each of the commands, and ends when all are decided
//	stay       runs until it is interrupted
//	die        ends its process once it has the message
//	fail       ends the turn as failed
//	late       stays, but only in the second process: the first one ends before it has the message
//	spend N    uses N tokens, and is interrupted where it may not
//	else       answers at once
//
// Told by the session to go on, it takes up what its last process was at, and
// asks anew for all of it.
//
// It notices what must not happen: a message that reaches codex twice, more
// than one pump at a time, a pump of an older epoch.
type standIn struct {
	t *testing.T

	mu    sync.Mutex
	procs map[string]*standInProc
	turns map[string][]ranTurn // of a session, in order
	held  map[string]bool      // sessions between prepare and close
	most  int                  // of those at a time
	bad   map[string]error     // by session: what prepare fails with

	watches int // that run

	recovered []activities.RecoverSeedInput
	planted   map[string]map[string]bool // by seed, where it is: sessions
	crowds    map[string]int             // by seed, the most of those at a time
	granted   []string                   // the seed of each session that was prepared, in order

	faults map[string]fault         // by session: what happens to a pump, once
	gates  map[string]chan struct{} // by session: starting codex waits
	stops  map[string]int           // times that a session's codex was stopped

	away  map[string]bool                             // hosts that cannot be reached
	parks map[string][]activities.ParkSessionInput    // of a session, that came to their end
	came  map[string][]activities.PrepareSessionInput // of a session
	told  map[string][]string                         // what codex was told
}

// A fault is what happens to the worker of a pump.
type fault string

const (
	diesBefore fault = "dies before the pump wrote"     // the next pump's
	diesAfter  fault = "dies after the pump wrote"      // the next pump's
	diesBack   fault = "dies while called back"         // that of the attached pump
	isSilent   fault = "is killed after the pump wrote" // the next pump's; the server has to notice
)

// ranTurn is a turn that codex ran.
type ranTurn struct {
	N  int
	ID string
}

type standInProc struct {
	pumping int
	epoch   [2]int64
	had     map[string]bool // sends
	text    string          // of the running turn
	turnID  string
	stop    bool // interrupted
	asked   []activities.Request
	answers map[string]activities.Outcome // by RPC
	dead    conversation.DeliveryState    // it died while what is sent next had come so far
	steered []string                      // messages that came into turns
	limits  []activities.Limits           // of its pumps
	journal *activities.RunPumpResult     // what the newest pump read, until a result has told it
	results []string                      // how its pumps returned
	sends   [][]activities.Send           // what they were given
}

func newStandIn(t *testing.T) *standIn {
	return &standIn{t: t, planted: map[string]map[string]bool{}, crowds: map[string]int{}, procs: map[string]*standInProc{}, turns: map[string][]ranTurn{}, held: map[string]bool{}, bad: map[string]error{},
		away: map[string]bool{}, parks: map[string][]activities.ParkSessionInput{}, came: map[string][]activities.PrepareSessionInput{}, told: map[string][]string{}, faults: map[string]fault{}, gates: map[string]chan struct{}{}, stops: map[string]int{}}
}

// kill ends a session's process. What is sent to it next will have come so far.
func (h *standIn) kill(session string, state conversation.DeliveryState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proc(session).dead = state
}

// befalls says whether a fault is due, and that is all there is of it.
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

// gate makes starting codex wait.
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

// lostWorker is what the server makes of a worker that is gone, at once.
func lostWorker() error {
	return temporal.NewApplicationErrorWithOptions("this worker is gone", activities.ErrTypeWireLost,
		temporal.ApplicationErrorOptions{NextRetryDelay: 10 * time.Millisecond})
}

func (h *standIn) proc(session string) *standInProc {
	p := h.procs[session]
	if p == nil {
		p = &standInProc{had: map[string]bool{}, answers: map[string]activities.Outcome{}}
		h.procs[session] = p
	}
	return p
}

// pumps says how the pumps of a session returned, and what they were given.
func (h *standIn) pumps(session string) (results []string, sends [][]activities.Send) {
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

func (h *standIn) PrepareSession(ctx context.Context, in activities.PrepareSessionInput) (activities.PrepareSessionResult, error) {
	if err := h.pass(ctx, "prepare "+in.Claim.Session); err != nil {
		return activities.PrepareSessionResult{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, err := range h.bad {
		if strings.HasSuffix(in.Claim.Session, name) {
			return activities.PrepareSessionResult{}, err
		}
	}
	if h.away[in.Claim.Host.Name] {
		return activities.PrepareSessionResult{}, unreachable()
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
	return activities.PrepareSessionResult{CodexVersion: "0.169.0", Permissions: "fairlead", Restored: restored,
		Layout: activities.Layout{Root: "/r", Dir: dir, CodexHome: dir + "/codex-home", WorkDir: dir + "/work", OwnWork: true, Codex: "/r/codex"}}, nil
}

func (h *standIn) StartServer(ctx context.Context, in activities.StartServerInput) (activities.StartServerResult, error) {
	if err := h.pass(ctx, in.Claim.Session); err != nil {
		return activities.StartServerResult{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.proc(in.Claim.Session)
	h.procs[in.Claim.Session] = &standInProc{had: old.had, answers: map[string]activities.Outcome{}, results: old.results, sends: old.sends,
		epoch: old.epoch, steered: old.steered, limits: old.limits, text: old.text}
	return activities.StartServerResult{Process: "app-server", PID: 100 + in.Incarnation}, nil
}

func (h *standIn) StopServer(_ context.Context, in activities.StopServerInput) (activities.StopServerResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stops[in.Claim.Session]++
	return activities.StopServerResult{}, nil
}

// plant notes where a seed is, and how often it is there at a time.
func (h *standIn) plant(in activities.PrepareSessionInput) {
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

// wipe says whether anything of a seed was there.
func (h *standIn) wipe(session string, seed *activities.SeedRef) bool {
	if seed == nil || !h.planted[seed.Name][session] {
		return false
	}
	delete(h.planted[seed.Name], session)
	return true
}

func (h *standIn) CloseSession(ctx context.Context, in activities.CloseSessionInput) (activities.CloseSessionResult, error) {
	if err := h.pass(ctx, "close "+in.Claim.Session); err != nil {
		return activities.CloseSessionResult{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, in.Claim.Session)
	h.wipe(in.Claim.Session, in.Seed)
	return activities.CloseSessionResult{Wiped: true, Removed: true, Seq: in.Seq + int64(len(in.Notes))}, nil
}

func unreachable() error {
	return temporal.NewNonRetryableApplicationError("no route to host", activities.ErrTypeUnreachable, nil)
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

func (h *standIn) prepared(session string) []activities.PrepareSessionInput {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.came[session])
}

func (h *standIn) ParkSession(ctx context.Context, in activities.ParkSessionInput) (activities.ParkSessionResult, error) {
	if err := h.pass(ctx, "park "+in.Claim.Session); err != nil {
		return activities.ParkSessionResult{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away[in.Claim.Host.Name] {
		return activities.ParkSessionResult{}, unreachable()
	}
	if h.proc(in.Claim.Session).pumping > 0 {
		h.t.Errorf("%s parks while a pump is attached", in.Claim.Session)
	}
	delete(h.held, in.Claim.Session)
	h.wipe(in.Claim.Session, in.Seed)
	h.parks[in.Claim.Session] = append(h.parks[in.Claim.Session], in)
	return activities.ParkSessionResult{Snapshot: briefOf(in.Claim.Session, in.SnapshotSpec), Wiped: true, Seq: in.Seq + int64(len(in.Notes))}, nil
}

func (h *standIn) TakeSnapshot(ctx context.Context, in activities.TakeSnapshotInput) (activities.TakeSnapshotResult, error) {
	if err := h.pass(ctx, "snapshot "+in.Claim.Session); err != nil {
		return activities.TakeSnapshotResult{}, err
	}
	return activities.TakeSnapshotResult{Snapshot: briefOf(in.Claim.Session, in.SnapshotSpec)}, nil
}

func (h *standIn) RecordLost(_ context.Context, in activities.RecordLostInput) (activities.RecordLostResult, error) {
	return activities.RecordLostResult{Seq: in.State.Seq}, nil
}

func (h *standIn) RecordNotes(_ context.Context, in activities.RecordNotesInput) (activities.RecordNotesResult, error) {
	return activities.RecordNotesResult{Seq: in.Seq + int64(len(in.Notes))}, nil
}

func (h *standIn) WipeLeftover(_ context.Context, in activities.WipeLeftoverInput) (activities.WipeLeftoverResult, error) {
	if h.isAway(in.Claim.Host.Name) {
		return activities.WipeLeftoverResult{}, unreachable()
	}
	return activities.WipeLeftoverResult{Wiped: true, At: time.Unix(1_800_000_000, 0).UTC(), Removed: true}, nil
}

// RecoverSeed finds what it was sent for: nobody closes a session whose
// workflow was killed.
func (h *standIn) RecoverSeed(_ context.Context, in activities.RecoverSeedInput) (activities.RecoverSeedResult, error) {
	if h.isAway(in.Claim.Host.Name) {
		return activities.RecoverSeedResult{}, unreachable()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recovered = append(h.recovered, in)
	delete(h.held, in.Claim.Session)
	there := h.wipe(in.Claim.Session, &in.Seed)
	return activities.RecoverSeedResult{Absent: !there, Wiped: there}, nil
}

func (h *standIn) DeleteSeedBlobs(context.Context, activities.DeleteSeedInput) error { return nil }

func (h *standIn) ProvisionCodex(context.Context, activities.ProvisionCodexInput) (activities.ProvisionCodexResult, error) {
	return activities.ProvisionCodexResult{Path: "/r/codex", Version: "0.169.0", How: "present"}, nil
}

func (h *standIn) CheckHost(context.Context, activities.CheckHostInput) (activities.CheckHostResult, error) {
	return activities.CheckHostResult{OK: true, Checks: []activities.Check{{Name: "os", OK: true, Detail: "linux"}},
		Facts: map[string]string{"sandbox": "yes", "codex": "0.169.0"}, CheckedAt: time.Unix(1_800_000_000, 0).UTC()}, nil
}

func (h *standIn) RotateKeys(context.Context, activities.RotateKeysInput) (activities.RotateKeysResult, error) {
	return activities.RotateKeysResult{Blobs: 3, Renewed: 3, Unneeded: true}, nil
}

func (h *standIn) RunExec(context.Context, activities.ExecInput) (activities.ExecResult, error) {
	return activities.ExecResult{State: "exited", Stdout: 3}, nil
}

func (h *standIn) ScanHostKeys(context.Context, activities.ScanHostKeysInput) (activities.ScanHostKeysResult, error) {
	return activities.ScanHostKeysResult{}, nil
}

func (h *standIn) RunPump(ctx context.Context, in activities.RunPumpInput) (activities.RunPumpResult, error) {
	session := in.Claim.Session
	if h.isAway(in.Claim.Host.Name) {
		return h.lost(ctx, in)
	}
	if err := h.attach(session, in); err != nil {
		return activities.RunPumpResult{}, err
	}
	what := h.befalls(session, diesBefore, diesAfter, isSilent)
	if what == diesBefore {
		h.detach(session, string(what))
		return activities.RunPumpResult{}, lostWorker()
	}
	out, wait := h.step(session, in, activity.GetInfo(ctx).Attempt > 1 || in.Pump.Again > 0)
	if what != "" {
		h.unheard(session, out)
	}
	switch what {
	case isSilent:
		h.detach(session, string(what))
		<-activity.GetWorkerStopChannel(ctx) // nobody hears of it again
		return activities.RunPumpResult{}, lostWorker()
	case diesAfter:
		h.detach(session, string(what))
		return activities.RunPumpResult{}, lostWorker()
	}
	if wait {
		if err := h.stay(ctx); err != nil {
			h.detach(session, "handed over")
			return activities.RunPumpResult{}, err
		}
		out.Pump.Reason = conversation.PumpCancelled
		if what = h.befalls(session, diesBack); what != "" {
			h.unheard(session, out)
			h.detach(session, string(what))
			return activities.RunPumpResult{}, lostWorker()
		}
	}
	h.detach(session, string(out.Pump.Reason))
	return out, nil
}

// lost is a pump whose host is away: it says so, or tries for ever.
func (h *standIn) lost(ctx context.Context, in activities.RunPumpInput) (activities.RunPumpResult, error) {
	if in.LostAfter > 0 {
		return activities.RunPumpResult{HostLost: &activities.HostLost{Since: time.Unix(1_800_000_000, 0).UTC(), Why: "no route to host"}}, nil
	}
	if err := h.stay(ctx); err != nil {
		return activities.RunPumpResult{}, err
	}
	return activities.RunPumpResult{}, ctx.Err()
}

// WatchHost runs until nobody wants it any more.
// ProbeHosts reaches the hosts that are there.
func (h *standIn) ProbeHosts(_ context.Context, in activities.ProbeHostsInput) (activities.ProbeHostsResult, error) {
	var out activities.ProbeHostsResult
	for _, spec := range in.Hosts {
		found := activities.HostProbed{Name: spec.Name, Facts: map[string]string{"os": "Linux"}}
		h.mu.Lock()
		if h.away[spec.Name] {
			found.Facts, found.Problem = nil, &activities.Problem{Kind: activities.ErrTypeUnreachable, Message: "no route to host"}
		}
		h.mu.Unlock()
		out.Hosts = append(out.Hosts, found)
	}
	return out, nil
}

func (h *standIn) WatchHost(ctx context.Context, _ activities.WatchHostInput) error {
	h.watch(1)
	defer h.watch(-1)
	return h.stay(ctx)
}

func (h *standIn) watch(more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches += more
}

// watched is how many watches run.
func (h *standIn) watched() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watches
}

// unheard keeps what a pump read that nobody heard of: the journal has it still.
func (h *standIn) unheard(session string, out activities.RunPumpResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proc(session).journal = &out
}

func (h *standIn) attach(session string, in activities.RunPumpInput) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proc(session)
	epoch := [2]int64{in.Claim.Generation, in.Claim.Pump}
	if slices.Compare(epoch[:], p.epoch[:]) < 0 {
		h.t.Errorf("%s: a pump of epoch %v came after one of %v", session, epoch, p.epoch)
	}
	if p.pumping > 0 {
		return temporal.NewApplicationError("another one is attached", activities.ErrTypeWireLost)
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

// stay beats until the workflow calls the pump back; with an error when the
// worker stops.
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

// step takes what is sent and does what the running turn's text says. Another
// attempt at the same pump is given the same.
func (h *standIn) step(session string, in activities.RunPumpInput, again bool) (out activities.RunPumpResult, wait bool) {
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
		out.Pump.Deliveries = append(out.Pump.Deliveries, activities.Delivery{ID: t.ID, State: conversation.Acknowledged})
	}
	if p.text == "" && len(in.Pump.Sends) > 0 && strings.HasPrefix(in.Pump.Sends[0].Text, "late") && st.Cursor.Incarnation == 1 {
		p.dead = conversation.Decided
	}
	if p.dead != "" {
		for _, s := range in.Pump.Sends {
			out.Pump.Deliveries = append(out.Pump.Deliveries, activities.Delivery{ID: s.ID, State: p.dead})
			p.had[s.ID] = p.had[s.ID] || p.dead != conversation.Decided
		}
		out.Pump.Reason, out.Pump.State = conversation.ProcessEnded, st
		out.Process = &activities.ProcessGone{State: "exited", Code: 137}
		return out, false
	}
	before := p.journal
	p.journal = nil
	if before != nil && before.Pump.Reason == conversation.TurnEnded {
		for _, s := range in.Pump.Sends {
			state := conversation.Void // the turn had ended when this came
			if p.had[s.ID] {
				state = conversation.Acknowledged
			}
			out.Pump.Deliveries = append(out.Pump.Deliveries, activities.Delivery{ID: s.ID, State: state})
		}
		out.Pump.Reason, out.Pump.Turn, out.Pump.State = before.Pump.Reason, before.Pump.Turn, before.Pump.State
		return out, false
	}
	for _, s := range in.Pump.Sends {
		out.Pump.Deliveries = append(out.Pump.Deliveries, activities.Delivery{ID: s.ID, State: conversation.Acknowledged})
		if p.had[s.ID] {
			if !s.Uncertain && !again {
				h.t.Errorf("%s: %s %s was sent twice", session, s.Kind, s.ID)
			}
			continue
		}
		p.had[s.ID] = true
		switch s.Kind {
		case conversation.SendTurn:
			if s.Text == goOnText {
				s.Text = p.text // what its last process was at
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
		out.Pump.Turn = &activities.TurnEnd{N: st.Turn, ID: p.turnID, Status: status, FinalText: "you said: " + p.text, Items: 1}
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
			out.Pump.Turn.Status, out.Pump.Turn.Problem = "interrupted", &activities.Problem{Kind: "budget", Message: "more than it was given"}
		}
	case word == "die":
		p.turnID, p.text = "", "hello" // enough of that
		out.Pump.Reason = conversation.ProcessEnded
		out.Process = &activities.ProcessGone{State: "exited", Code: 137}
	case word == "fail":
		end("failed")
	case word == "ask":
		out.Pump.Reason = conversation.RequestsOpen
		if p.asked == nil {
			for i, c := range strings.Fields(rest) {
				p.asked = append(p.asked, activities.Request{
					RPC: json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(p.turnID, ".", i))), Incarnation: st.Cursor.Incarnation,
					Kind: conversation.KindCommand, Command: c, Summary: c, Digest: "digest of " + c, TurnID: p.turnID,
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
	default:
		end("completed")
	}
	out.Pump.State = st
	return out, wait
}
