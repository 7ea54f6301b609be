package pumps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/gateways"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
)

// Activities carry on conversations.
type Activities struct{ Site *site.Site }

// New makes the activities of a worker.
func New(s *site.Site) *Activities { return &Activities{Site: s} }

// PumpBeat is the heartbeat of a pump.
type PumpBeat struct {
	// Offset is how far the journal was read, for display only: no attempt resumes from it.
	Offset int64 `json:"offset"`
	// API is the address of the worker's API, for viewers.
	API string `json:"api,omitempty"`
	// Away is set while the host is out of reach.
	Away *site.OutOfReach `json:"away,omitempty"`
	// Progress is for display only.
	Progress *protocol.Progress `json:"progress,omitempty"`
}

const (
	pumpBeat = 4 * time.Second
)

// An Attempt is what Temporal gives one execution of a pump.
type Attempt struct {
	N    int32
	Stop <-chan struct{} // closed when this worker stops
	Beat func(PumpBeat)
	Last PumpBeat // the previous attempt's

	reports *reporter
	since   time.Duration // from scheduling to the start of this attempt
}

// RunPump carries on the conversation until the workflow must act. If it is cancelled, it
// returns a normal result. If the connection is lost or this worker stops, it fails, and
// the next attempt goes on at once at the same byte, on any worker. If the host was out of
// reach for longer than LostAfter, it returns HostLost (see site.OutOfReach).
func (s *Activities) RunPump(ctx context.Context, in RunPumpInput) (RunPumpResult, error) {
	var last PumpBeat
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &last); err != nil {
			s.Site.Logger.Warn("what the attempt before knew cannot be read", "session", in.Claim.Session, "error", err)
		}
	}
	wrote := site.CarryAudit(ctx, s.Site, in.Audit)
	info := activity.GetInfo(ctx)
	out, err := RunPump(ctx, s.Site, in, Attempt{
		Last: last,
		N:    info.Attempt,
		// both are the server's
		since: max(info.StartedTime.Sub(info.ScheduledTime), 0),
		Stop:  activity.GetWorkerStopChannel(ctx),
		Beat:  func(b PumpBeat) { activity.RecordHeartbeat(ctx, b) },
	})
	out.Audited = wrote()
	return out, err
}

// RunPump does the activity's work.
func RunPump(ctx context.Context, s *site.Site, in RunPumpInput, a Attempt) (RunPumpResult, error) {
	// The retry policy's delay counts only after a worker died, which is noticed late.
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, a.N), Delay: kit.NextTry(a.N, 0)}
	what := "session " + in.Claim.Session + ": talk to codex"
	hide, err := site.HidingIn(ctx, s, in.Claim, in.Seed)
	if err != nil {
		return RunPumpResult{}, f.Failure(ctx, what, err)
	}
	if in.Credentials == protocol.CredentialsGateway && in.Seed != nil {
		hide = hide.Own(in.Seed.Name) // the tokens of the gateway belong to this pump
	}
	f.Hide = hide.All
	began := s.Now()
	// Reaching a host may take longer than the heartbeat timeout.
	var offset atomic.Int64
	offset.Store(in.Pump.From())
	s.Reach.Know(in.Claim.Host, a.Last.Away, began)
	a.reports = reporterOf(s, in)
	quiet := keepBeating(s, a, in.Claim.Host, &offset)
	out, err := converse(ctx, s, in, a, hide, &offset)
	quiet()
	if err != nil {
		if lost := lostHost(ctx, s, in, a, hide, &offset, err); lost != nil {
			return RunPumpResult{HostLost: lost}, nil
		}
		f.Delay = kit.NextTry(a.N, s.Now().Sub(began))
		if errors.Is(err, kit.ErrHandOver) {
			f.Delay = kit.HandOver
		}
		lost := errors.Is(err, conversation.ErrWireLost) && !errors.Is(err, hostexec.ErrFenced) && !errors.Is(err, hostexec.ErrFlood)
		if errors.Is(err, hostexec.ErrNoSpace) {
			// codex goes on once there is room.
			err = f.UntilRoom(err)
		}
		if lost || errors.Is(err, kit.ErrHandOver) {
			err = &kit.TypedError{Kind: protocol.ErrTypeWireLost, Retry: true, Err: err}
		}
		return RunPumpResult{}, f.Failure(ctx, what, err)
	}
	kit.HideIn(hide.All, &out)
	return out, nil
}

// lostHost returns a HostLost if the host is out of reach for too long.
func lostHost(ctx context.Context, s *site.Site, in RunPumpInput, a Attempt, hide site.Secrets, offset *atomic.Int64, err error) *protocol.HostLost {
	if ctx.Err() != nil {
		return nil // the next pump finds out whether the host is lost
	}
	now := s.Now()
	away := s.Reach.Missed(in.Claim.Host, err, hide.All.String(err.Error()), now)
	// The next attempt reads this heartbeat.
	a.Beat(beatOf(s, a, in.Claim.Host, offset))
	if away == nil || in.LostAfter <= 0 || now.Sub(away.Since) < in.LostAfter {
		return nil
	}
	s.Logger.Warn("host is given up as lost", "session", in.Claim.Session, "host", in.Claim.Host.Name, "since", away.Since, "error", away.Why)
	return &protocol.HostLost{Since: away.Since, Why: away.Why}
}

func beatOf(s *site.Site, a Attempt, h protocol.HostSpec, offset *atomic.Int64) PumpBeat {
	return PumpBeat{Offset: offset.Load(), API: s.APIAddress, Away: s.Reach.Now(h), Progress: a.reports.now()}
}

// fresh returns a function that measures the delay of events; nil without Lag.
func fresh(s *site.Site) func(time.Time) {
	if s.Lag == nil {
		return nil
	}
	return func(emitted time.Time) { s.Lag(s.Now().Sub(emitted)) }
}

func keepBeating(s *site.Site, a Attempt, h protocol.HostSpec, offset *atomic.Int64) (quiet func()) {
	done, joined := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(joined)
		tick := time.NewTicker(pumpBeat)
		defer tick.Stop()
		for {
			a.Beat(beatOf(s, a, h, offset))
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-joined }
}

// converse runs one attempt. Its error wraps ErrHandOver when the worker stops.
func converse(ctx context.Context, s *site.Site, in RunPumpInput, a Attempt, hide site.Secrets, offset *atomic.Int64) (RunPumpResult, error) {
	if err := folder.CheckLayout(in.Layout, in.Claim.Session); err != nil {
		return RunPumpResult{}, err
	}
	if err := logins.CheckBroker(in.Credentials, in.Seed); err != nil {
		return RunPumpResult{}, err
	}
	if err := gateways.Check(in.Credentials, in.Seed, in.Claim.Host); err != nil {
		return RunPumpResult{}, err
	}
	if in.Pump.Limits.Line == 0 {
		in.Pump.Limits.Line = s.MaxLine
	}
	in.Pump.Sends = slices.Clone(in.Pump.Sends)
	if err := FillTexts(ctx, s, in.Pump.Sends); err != nil {
		return RunPumpResult{}, err
	}
	if err := FillSchemas(ctx, s, in.Pump.Sends); err != nil {
		return RunPumpResult{}, err
	}
	if err := FillBase(ctx, s, &in.Pump.Thread); err != nil {
		return RunPumpResult{}, err
	}
	if err := FillTeam(ctx, s, &in); err != nil {
		return RunPumpResult{}, err
	}
	if err := PlantInputs(ctx, s, in, a.N); err != nil {
		return RunPumpResult{}, err
	}
	if err := site.FillAnswers(ctx, s, in.Claim.Session, in.Pump.Sends); err != nil {
		return RunPumpResult{}, err
	}
	if err := KeepVerdicts(ctx, s, in.Claim.Session, in.Pump.Sends); err != nil {
		return RunPumpResult{}, err
	}
	judge, broken, err := Judge(ctx, s, in, a.N)
	if err != nil {
		return RunPumpResult{}, err
	}
	// The transcript and the conversation's end outlive a cancelled ctx.
	held := context.WithoutCancel(ctx)
	t := &records.Transcript{
		Store: s.Store, Session: in.Claim.Session, Now: s.Now,
		Owner: records.Owner{Generation: in.Claim.Generation, Pump: in.Claim.Pump}, Stored: in.Pump.State.Seq,
	}

	runCtx, callBack := context.WithCancelCause(held)
	defer callBack(nil)
	// A cancelled conversation still reads and writes.
	life, end := context.WithCancel(held)
	defer end()
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return RunPumpResult{}, err
	}
	var keep *logins.Keeper // nil if the host has no login
	if !protocol.NoLoginOnHost(in.Credentials) && !in.Unkept {
		keep = logins.NewKeeper(s, h, in.Claim.Session, in.Layout.CodexHome, in.Seed, hide)
	}
	w, err := attachTo(ctx, s, life, in, a, offset)
	if err != nil {
		return RunPumpResult{}, err
	}
	defer w.Close()
	wellEnded, inTurn := false, false // the pump has a result; a turn goes on
	gate, err := openGate(ctx, s, h, in, a, w.over, hide, callBack)
	if err != nil {
		return RunPumpResult{}, err
	}
	defer func() {
		if !wellEnded || errors.Is(context.Cause(runCtx), kit.ErrHandOver) {
			gate.Close()
		} else {
			gate.Leave(inTurn)
		}
	}()
	s.Reach.Reached(in.Claim.Host)
	// The host was reached until the wire broke, even if new connections failed.
	defer s.Reach.Reached(in.Claim.Host)

	notices := keep.Noticing(held, w.Size(), offset)
	// If the lease has ended, callBack ends the pump: another session may have the login.
	stopKeeping := keep.Beside(held, callBack)
	defer stopKeeping()
	trimming := trimAside(held, s, in, a)
	here := attachedTo(s, in.Claim.Session, in.Pump.State)
	done := make(chan struct{})
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		attend(ctx, s, held, a.Stop, t, here, callBack, done)
	}()
	reporting, noReports := context.WithCancel(held)
	defer noReports()
	reported := a.reports.begin(reporting)
	var lost *conversation.Lost
	broker := logins.Broker(s, in.Claim.Session, in.Credentials, in.Seed, in.Unkept, hide, callBack)
	res, err := conversation.Run(runCtx, w, in.Pump, site.SinkOf(held, s, t, hide.All), conversation.Options{
		Attempt: int(a.N) + in.Pump.Again, Since: a.since, Serves: gate != nil, Nonce: fmt.Sprintf("%d-%d", in.Claim.Pump, a.N), Redactor: hide.Pump, Exit: w.exit, Over: w.over, Now: s.Now,
		Log: s.Logger.With("session", in.Claim.Session), AnyVersion: s.AnyVersion,
		Broker:  broker.Asked(),
		Judge:   judge,
		Tool:    toolsOf(s, in, hide),
		Zone:    hosts.ZoneOf(held, h, s.Logger),
		Before:  notices.Before(held),
		Lost:    func(l conversation.Lost) { lost = &l },
		Settled: here.settled, Moved: func(p conversation.Place) { here.moved(p); a.reports.moved(p.Progress) }, Used: func(u conversation.Use) { gate.Told(tokensOf(u.Usage)); here.used(u) }, Fresh: fresh(s),
	})
	if err == nil && res.Reason == conversation.TimedOut {
		res.Problem = explainTimeout(held, s, in, hide.Pump, res.Problem)
	}
	if err == nil {
		traceTurn(ctx, in.Claim.Session, res.Turn)
		addTouched(runCtx, s, h, in, res.Turn)
	}
	trimming.add(&res.State)
	close(done)
	noReports()
	<-joined
	<-reported
	if ferr := t.Flush(held); ferr != nil && err == nil {
		err = ferr
	}
	if lost != nil && t.Err == nil {
		KeepHeard(held, s, in, *lost, hide) // after its entries
	}
	if t.Strange != "" {
		s.Logger.Error("transcript differs between attempts", "session", in.Claim.Session, "what", t.Strange)
	}
	if err == nil {
		here.gone(res.Reason, res.State.Seq)
	} else {
		here.gone("", in.Pump.State.Seq)
	}
	if err == nil && res.Reason == conversation.PumpCancelled && errors.Is(context.Cause(runCtx), kit.ErrHandOver) && ctx.Err() == nil {
		err = kit.ErrHandOver
	}
	if cause := context.Cause(runCtx); err == nil && res.Reason == conversation.PumpCancelled && errors.Is(cause, gateways.ErrLost) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", conversation.ErrWireLost, cause)
	}
	if err == nil && len(res.State.Open) > 0 && res.Reason != conversation.ProcessEnded {
		err = leaveWatch(held, s, in, a.N, res.State.Cursor, keep)
	} else if err == nil && res.State.Restless && res.State.TurnID == "" && res.Reason != conversation.ProcessEnded {
		// codex may begin a turn while no pump is attached.
		if werr := leaveWatch(held, s, in, a.N, res.State.Cursor, keep); werr != nil {
			s.Logger.Warn("turns that codex begins by itself are seen late", "session", in.Claim.Session, "error", werr)
		}
	} else if err == nil && res.Reason == conversation.TurnEnded {
		leaveLogin(held, s, in, a.N, res.State.Cursor, keep)
	}
	stopKeeping()
	if err != nil {
		if !movesOn(err) {
			// If the next attempts fail early, too, a rotated login would stay unsaved.
			// Last at least reports it.
			keep.Last(held)
		}
		return RunPumpResult{}, err
	}
	site.DropAnswers(held, s, in.Pump.Sends, res.Deliveries, in.Forget)
	// The watch was left before; it sees later changes.
	out := RunPumpResult{Pump: res, SeedLost: keep.Last(held), PolicyBroken: broken, Model: gate.Used(held), Egress: gate.Carried()}
	if out.SeedLost == nil {
		out.SeedLost = broker.SeedLost()
	}
	for i := range out.Pump.Requests {
		out.Pump.Requests[i].Whole = nil
	}
	if res.Reason == conversation.ProcessEnded {
		out.Process = w.gone()
	}
	wellEnded, inTurn = true, res.State.TurnID != "" && res.Reason != conversation.ProcessEnded
	return out, nil
}

// openGate opens the model gateway; nil if the session has none, or if codex needs none any
// more.
func openGate(ctx context.Context, s *site.Site, h hostexec.Host, in RunPumpInput, a Attempt, over bool, hide site.Secrets, lost func(error)) (*gateways.Gate, error) {
	if in.Credentials != protocol.CredentialsGateway || over || in.Unkept {
		return nil, nil
	}
	return gateways.Open(ctx, s, h, gateways.Opening{Claim: in.Claim, Layout: in.Layout, Seed: in.Seed, Attempt: a.N, Hide: hide, Lost: lost,
		Tenant: in.Tenant, Account: in.Account, Money: in.Pump.Limits.Budget.Money, Tokens: in.Pump.Limits.Budget.Tokens, Used: tokensOf(in.Pump.State.Usage), Egress: in.Egress})
}

func movesOn(err error) bool {
	return errors.Is(err, kit.ErrHandOver) || errors.Is(err, conversation.ErrWireLost) || errors.Is(err, hostexec.ErrFenced)
}

// KeepVerdicts writes the verdicts among the sends beside what was delivered.
func KeepVerdicts(ctx context.Context, s *site.Site, session string, sends []conversation.Send) error {
	for _, send := range sends {
		if send.Verdict != nil {
			if err := records.KeepVerdict(ctx, s.Store, session, *send.Verdict); err != nil {
				return err
			}
		}
	}
	return nil
}

// FillTexts reads long texts of messages from the store. The sender names the blob, so it
// reads only blobs of messages.
func FillTexts(ctx context.Context, s *site.Site, sends []conversation.Send) error {
	for i, send := range sends {
		if send.Blob == "" || send.Text != "" {
			continue
		}
		if !owned.Is(send.Blob, owned.Messages) {
			return kit.BadInput("message %s: %q is not the blob of a message", send.ID, send.Blob)
		}
		data, err := s.Store.Get(ctx, send.Blob)
		if err != nil {
			return fmt.Errorf("read message %s: %w", send.ID, err)
		}
		sends[i].Text = string(data)
	}
	return nil
}

type pumpWire struct {
	conversation.Wire
	over bool                // before the attach
	gone func() *ProcessGone // called when the process has ended
}

func (w *pumpWire) exit() (how, tail string) {
	g := w.gone()
	if g.State == string(process.Exited) {
		return fmt.Sprintf("exited with status %d", g.Code), g.StderrTail
	}
	return g.State, g.StderrTail
}

// attachTo attaches until life ends; ctx bounds only the attaching.
func attachTo(ctx context.Context, s *site.Site, life context.Context, in RunPumpInput, a Attempt, offset *atomic.Int64) (*pumpWire, error) {
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return nil, err
	}
	dir := folder.ServerDir(in.Layout, in.Pump.State.Cursor.Incarnation)
	from := in.Pump.From()
	stopped := make(chan struct{})
	defer close(stopped)
	life, giveUp := context.WithCancelCause(life)
	go func() {
		select {
		case <-stopped:
		case <-ctx.Done():
			giveUp(ctx.Err())
		case <-a.Stop:
			giveUp(kit.ErrHandOver)
		}
	}()
	att, err := process.Attach(life, h, dir, process.AttachOptions{
		Offset: from, Lines: true, Fence: folder.FenceOf(in.Claim, in.Layout.Dir, a.N),
	})
	switch {
	case errors.Is(err, hostexec.ErrNotExist):
		defer giveUp(nil)
		if _, err := hosts.LookSession(life, s, h, in.Claim, in.Layout, true); err != nil {
			return nil, fmt.Errorf("attach to %s on %s: %w", dir, h.Name(), err)
		}
		return noJournal(in, ProcessGone{State: string(process.Absent)}), nil
	case errors.Is(err, process.ErrJournalLost):
		giveUp(nil)
		return noJournal(in, ProcessGone{State: string(process.Lost),
			StderrTail: "its journal was deleted or cut short on the host"}), nil
	case err != nil:
		defer giveUp(nil)
		if cause := context.Cause(life); cause != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("attach to %s on %s: %w", dir, h.Name(), err)
	}
	over := att.Status().State != process.Running
	gone := func() *ProcessGone { return goneWithStderr(life, s, h, dir, att.Status()) }
	return &pumpWire{Wire: &journalWire{att, offset}, over: over, gone: sync.OnceValue(gone)}, nil
}

func noJournal(in RunPumpInput, g ProcessGone) *pumpWire {
	return &pumpWire{Wire: goneWire{in.Pump.State.Cursor.Offset}, over: true, gone: func() *ProcessGone { return &g }}
}

// GoneOf describes how a process ended. It redacts nothing.
func GoneOf(st process.Status) *ProcessGone {
	return &ProcessGone{State: string(st.State), Code: st.Code, StderrTail: kit.LastOf(st.StderrTail, 2<<10)}
}

// attend stores entries that have waited, tells viewers how far the pump is, and ends the
// conversation when the activity is cancelled or the worker stops.
func attend(ctx context.Context, s *site.Site, held context.Context, stop <-chan struct{}, t *records.Transcript, here *presence, callBack context.CancelCauseFunc, done <-chan struct{}) {
	flush := time.NewTicker(records.SegmentAge / 2)
	defer flush.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case <-done:
			return
		case <-flush.C:
			// The transcript keeps the error.
			_ = t.FlushOld(held)
			here.tell()
		case <-cancelled:
			callBack(context.Canceled)
			cancelled = nil
		case <-stop:
			callBack(kit.ErrHandOver)
			stop = nil
		}
	}
}
