package session

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

type processPart struct {
	*core
	turns     *turnsPart
	messages  *messagesPart
	approvals *approvalsPart
	bounds    *boundsPart
	choices   *choicesPart
	snaps     *snapsPart
	leases    *leasesPart
	place     *placePart
	parking   *parkingPart
	moving    *movingPart
	ending    *endingPart
	children  *childrenPart

	stirs   workflow.ReceiveChannel
	reports workflow.ReceiveChannel
	stir    pumps.Stirred    // came while a pump was attached
	wished  *protocol.Resume // does not cancel the running pump
}

// processState is what is known of codex's process. The process may have ended although
// Alive is set. One pump is attached at a time.
type processState struct {
	PumpN       int64                  `json:"pump_n"` // second part of the epoch; never reused
	Incarnation int                    `json:"incarnation"`
	Alive       bool                   `json:"alive"`
	ProcessEnd  string                 `json:"process_end,omitempty"`
	EarlyEnds   int                    `json:"early"`              // processes in a row that no pump had opened
	OwnEnds     int                    `json:"own_ends,omitempty"` // of these, the newest in which codex exited by itself
	EarlyAt     time.Time              `json:"early_at,omitzero"`
	Retired     *protocol.Problem      `json:"retired,omitempty"` // why it was stopped; its journal is not yet read
	Reap        bool                   `json:"reap,omitempty"`    // a dead process may have left something behind
	Stopped     bool                   `json:"stopped,omitempty"` // no codex runs on the host, as an activity verified
	Pump        conversation.PumpState `json:"pump"`
	Prefix      string                 `json:"prefix,omitempty"` // of the newest pump's request ids
	Again       int                    `json:"again,omitempty"`  // pumps with this Prefix that returned no result
	Busy        bool                   `json:"busy,omitempty"`   // other items of the turn run meanwhile
	// Served is what the model gateway did; nil without one.
	Served *protocol.ModelUse `json:"served,omitempty"`
	// Carried is what programs of the session reached through workers, or nil.
	Carried *protocol.EgressUse `json:"carried,omitempty"`
	// SeedServed is the part of it that the seed is not told yet: it learns it with the release of its
	// lease.
	SeedServed *protocol.ModelUse `json:"seed_served,omitempty"`
	// Stirred says that something happened while no pump was attached.
	Stirred   bool `json:"stirred,omitempty"`
	Fruitless int  `json:"fruitless,omitempty"` // pumps in a row without progress
}

func (s *processPart) wantsPump() bool {
	if !s.st.Alive || s.st.Status == protocol.Failed {
		return false
	}
	if s.st.Stirred || s.st.Retired != nil {
		return true
	}
	for _, p := range s.st.Sends {
		if !p.Handed || p.Send.Uncertain {
			return true
		}
	}
	if !s.st.Running {
		return s.choices.wantsAnswers()
	}
	if len(s.st.Pump.TokenAsks) > 0 || s.st.Pump.Owes() {
		return true
	}
	if len(s.st.Pump.Calls) > 0 {
		return true
	}
	return len(s.st.Open()) == 0 && !s.st.waitsForChildren() || s.st.Busy
}

func (s *processPart) hasNews() bool {
	if s.st.BudgetNews || s.st.Resume != nil && s.st.Resume != s.wished {
		return true
	}
	for _, p := range s.st.Sends {
		if !p.Handed {
			return true
		}
	}
	return false
}

func (s *processPart) pump() error {
	if waits, err := s.waitToTalk(); waits || err != nil {
		return err
	}
	looks, idle := s.looks(), !s.st.Running
	if !looks && s.st.Status != protocol.Starting && !s.onlyAsks() {
		s.become(protocol.Running)
	}
	if s.st.Close != nil {
		s.become(protocol.Closing)
	}
	s.publish()
	in := s.pumpInput()
	s.wished = s.st.Resume
	began := workflow.Now(s.ctx)
	actx, cancel := workflow.WithCancel(kit.Attached(s.ctx, s.pumpSummary()))
	defer cancel()
	fut := workflow.ExecuteActivity(actx, pumpJobs.RunPump, in)
	called, err := s.follow(fut, cancel)
	if err != nil {
		return err
	}
	var out pumps.RunPumpResult
	err = fut.Get(s.ctx, &out)
	s.carriedTo(out.Audited)
	s.modelUsed(out.Model)
	s.carried(out.Egress)
	s.st.TurnSpent += max(workflow.Now(s.ctx).Sub(began)-out.Pump.Waited, 0)
	switch {
	case err == nil && out.HostLost != nil:
		s.unheard(looks)
		s.moving.hostLost(*out.HostLost)
	case err == nil:
		s.talked()
		s.moving.hostBack()
		s.messages.filesBrought(in)
		s.st.Handing, s.st.Again, s.st.Forget = nil, 0, nil
		s.approvals.heardOfPolicy(out)
		s.apply(out, called || out.Pump.State.Cursor != in.Pump.State.Cursor)
		if in.Pump.Models && idle && !called && out.Pump.Reason != conversation.ProcessEnded {
			s.choices.unlisted(out.Pump.Problem)
		}
		s.stirredBehind(out.Pump.Begun)
		s.leases.seedLost(out.SeedLost)
	case temporal.IsCanceledError(err) || temporal.IsTimeoutError(err) || worthAnother(err):
		// The server does not retry a cancelled pump that was between two attempts, or
		// whose worker or connection was lost. The next pump finds in the journal what this
		// one delivered.
		s.unheard(looks)
	default:
		s.unheard(looks)
		s.pumpFailed(err)
	}
	return nil
}

// unheard follows a pump without a result: codex may have what it was to deliver.
func (s *processPart) unheard(looks bool) {
	s.st.Again++
	for i := range s.st.Sends {
		p := &s.st.Sends[i]
		if !p.Handed {
			continue
		}
		p.Send.Uncertain = true
		s.mayHave(*p)
	}
	if t := s.st.Tell; t != nil && t.Incarnation == 0 {
		t.Incarnation = s.st.Incarnation
	}
	s.st.Stirred = looks || s.st.Stirred
}

func (s *processPart) mayHave(p pendingSend) {
	s.track(p.Send.ID, kindOf(p.Send.Kind), p.Send.Turn, SentThere)
	if a := s.st.approval(p.Approval); a != nil {
		a.Delivery = SentThere
		if a.State == protocol.ApprovalDecided {
			a.State = protocol.ApprovalSent
		}
	}
	if p.Send.Kind == conversation.SendTurn {
		s.st.MayHaveTurn = true
	}
}

// follow cancels the pump to deliver something new. The pump then returns a normal result.
func (s *processPart) follow(fut workflow.Future, cancel workflow.CancelFunc) (called bool, err error) {
	// The table of steps does not decide this, because most events of a session come from
	// the pump. The journal of a stopped process is read to its end unless the close says
	// discard.
	over := func() bool { return s.st.GraceOver && s.st.Retired == nil || s.st.Retired != nil && s.discarding() }
	awake := func() bool {
		return fut.IsReady() || s.ending.newlyClosing() || !called && !s.st.Running && s.discarding() || !called && (s.hasNews() || s.full() || s.st.Retired != nil && s.discarding())
	}
	for !fut.IsReady() {
		if s.st.Close != nil && s.st.Running && !s.st.GraceOver {
			var ok bool
			ok, err = s.awaitFor(closeGrace, awake)
			s.st.GraceOver = err == nil && !ok
		} else {
			s.approvals.setAlarm()
			s.snaps.setTick()
			s.children.setWake()
			err = s.await(func() bool { return awake() || s.approvals.alarm.Due() || s.snaps.tick.Due() || s.children.wake.Due() })
		}
		if err != nil {
			return called, err
		}
		if fut.IsReady() {
			break
		}
		s.approvals.alarm.Off()
		s.approvals.expire()
		s.children.answerWaits()
		s.ending.queueInterruptForClose()
		if !called && (s.hasNews() || s.full() || over() || !s.st.Running && s.discarding()) {
			called = true
			cancel()
		}
	}
	return called, nil
}

func (s *processPart) pumpInput() pumps.RunPumpInput {
	s.st.PumpN++
	var out []conversation.Send
	for i := range s.st.Sends {
		p := &s.st.Sends[i]
		out = append(out, p.Send)
		p.Handed = true
	}
	// A pump without a result may have written the notes in Handing. The next one writes
	// exactly these again; newer notes wait.
	if len(s.st.Handing) == 0 {
		s.st.Handing, s.st.Notes = s.st.Notes, nil
	}
	if s.st.BudgetNews {
		s.st.BudgetNews = false
		s.bounds.budgetReached(SentThere)
	}
	if s.st.Again == 0 {
		s.st.Prefix = fmt.Sprintf("g%d.p%d", s.st.Generation, s.st.PumpN)
	}
	in := pumps.RunPumpInput{
		Team:  s.opt.TeamTools,
		Files: s.messages.filesToBring(),
		Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, Unkept: s.st.SeedGone && s.st.Retired != nil, Credentials: s.credentials(),
		Account: s.account(), LostAfter: s.moving.lostAfter(), Workflow: s.reportsTo(), Forget: s.st.Forget,
		Pump: conversation.PumpInput{
			Session: s.id, State: s.pumpState(), Thread: s.thread(), Resume: s.st.hadTurn(),
			NextTurn: s.turns.nextTurn(),
			Fork:     s.st.ForkOf != "", Tell: s.st.Tell, Models: s.st.Chosen.Ask,
			Sends: out, Notes: s.st.Handing,
			Prefix: s.st.Prefix, Again: s.st.Again,
			Limits: s.limits(), Amend: s.st.SeedAmend, Watched: s.watched(),
		},
	}
	if s.st.Failing != nil {
		onlyReads(&in)
	}
	if s.credentials() == protocol.CredentialsGateway {
		in.Egress = s.opt.Egress
	}
	if in.Account != "" {
		in.Tenant = s.opt.Tenant
	}
	s.approvals.judged(&in)
	in.Audit = s.carry()
	return in
}

// account is under which name the model gateway counts what the session uses. A later session of
// the same id has another one.
func (s *processPart) account() string {
	if s.credentials() != protocol.CredentialsGateway {
		return ""
	}
	return fmt.Sprintf("%s.%x", s.id, s.st.CreatedAt.UnixMilli())
}

// proxy is where commands find the way out through the worker; empty if they have none.
func (s *processPart) proxy() string {
	if len(s.opt.Egress) == 0 || s.st.Layout.ModelPort == 0 {
		return ""
	}
	return fmt.Sprintf("http://127.0.0.1:%d", s.st.Layout.ModelPort)
}

func (s *processPart) pumpState() conversation.PumpState {
	st := s.st.Pump
	st.Skipped = s.st.Skipped
	return st
}

func (s *processPart) thread() conversation.ThreadSpec {
	base, blob := s.baseInstructions()
	return conversation.ThreadSpec{
		CWD: s.st.Layout.WorkDir, Sandbox: s.opt.Sandbox, Permissions: s.st.Permissions,
		ApprovalPolicy: s.opt.ApprovalPolicy, Model: s.choices.model(), Effort: s.choices.effort(), Instructions: s.instructions(), Base: base, BaseBlob: blob, Personality: s.opt.Personality, Mark: folder.Mark(s.id, *s.st.Layout),
		Proxy: s.proxy(), Name: s.st.Chosen.Name,
		Tools: s.opt.tools(), Verdict: s.opt.Verdict, Children: s.opt.childrenWords(),
	}
}

func (s *processPart) pumpSummary() string {
	if s.st.Running {
		return fmt.Sprintf("turn %d on %s", s.st.TurnN, s.st.Lease.Spec.Name)
	}
	return "deliver on " + s.st.Lease.Spec.Name
}

// TalkToCodex names the step that is retried after a pump failed.
const TalkToCodex = "talk to codex"

// pumpFailed handles an error that retries did not mend. Only a failure that waiting cannot
// mend ends the session: another worker may be set up correctly, or people may repair this
// one.
func (s *processPart) pumpFailed(err error) {
	f := kit.FailureOf(fmt.Sprintf("talk to codex on %s", s.st.Lease.Spec.Name), err)
	switch {
	case f.Kind == protocol.ErrTypeFenced && s.st.Close == nil:
		s.overtaken(f)
		return
	case kit.FailurePasses(f) || workersFault(f):
		if s.st.Close != nil {
			s.ending.tellHeldUp(f)
		}
		s.meet(TalkToCodex, f)
		if f = s.tooLateToStart(); f == nil {
			return
		}
	case s.st.Close != nil && s.st.Failing == nil && !s.discarding() && f.Kind != protocol.ErrTypeFenced:
		s.ending.cannotRead(f)
		return
	}
	if s.st.Close != nil {
		s.ending.giveUpJournal()
		return
	}
	s.st.Trouble = nil
	if s.ending.readRest(f) {
		return
	}
	if s.st.Alive || s.turns.inDoubt() {
		s.turns.giveUpTurn("unknown", f)
	} else {
		s.turns.giveUpTurn("interrupted", f)
	}
	s.fail(f)
}

// workersFault reports whether the fault may be of one worker, such as a missing key.
func workersFault(f *protocol.Failure) bool {
	return f.Kind == protocol.ErrTypeInternal || f.Kind == protocol.ErrTypeStore || f.Kind == protocol.ErrTypeSeed
}

// waitToTalk waits, after a pump failed, until the next one is due. It waits at most once,
// so that the caller can handle what ended the wait. A close, an interrupt or a message
// that can begin a turn makes the pump due at once.
func (s *processPart) waitToTalk() (waited bool, err error) {
	t, closing, asked, discards, could := s.st.Trouble, s.st.Close != nil, s.st.Interrupt, s.discarding(), s.turns.canBegin()
	if !s.waitsToTalk() {
		return false, nil
	}
	due := t.NextAt
	wait := due.Sub(workflow.Now(s.ctx))
	if wait <= 0 {
		return false, nil
	}
	s.publish()
	news := func() bool {
		return (s.st.Close != nil) != closing || s.discarding() != discards || s.st.Interrupt != asked && !closing ||
			s.turns.canBegin() != could || t.NextAt != due
	}
	if _, err = s.awaitFor(wait, func() bool { return news() || s.full() }); err == nil && news() {
		t.NextAt = workflow.Now(s.ctx)
	}
	return true, err
}

func (s *processPart) waitsToTalk() bool {
	t := s.st.Trouble
	return t != nil && (t.Doing == TalkToCodex || t.Doing == haveCodexTake)
}

func (s *processPart) talked() {
	if t := s.st.Trouble; t != nil && t.Doing == TalkToCodex {
		s.overcome()
	}
}

// overtaken handles a host that knows a newer holder of this session, most likely because
// the server or a worker was restored from an old state. The session ends nothing there.
func (s *processPart) overtaken(f *protocol.Failure) {
	defer s.snaps.hush()()
	s.st.Trouble = nil
	s.turns.leaving = true
	s.lostProcess(f)
	s.turns.leaving = false
	if s.st.Status == protocol.Failed {
		return
	}
	if s.st.Running && !s.turns.putBack() {
		s.turns.giveUpTurn("unknown", f)
	}
	f.Hint = fmt.Sprintf("make sure that nobody else works with this session on %s; then `ctl session resume %s`, or a message, has it go on from %s", s.hostName(), s.id, s.moving.fromWhat())
	s.note(conversation.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	s.st.Downed = len(s.st.Queue) > 0
	s.st.Error, s.st.Held, s.st.Resume, s.st.Warm, s.st.Retired = f, len(s.st.Queue) > 0, nil, nil, nil
	s.parking.goDown(&Parked{Since: workflow.Now(s.ctx)}, lease.Release{}, false)
	if s.opt.CloseAfter && len(s.st.Queue) == 0 && s.st.Close == nil {
		s.st.Close = &protocol.Close{By: s.opt.By}
	}
}

func (s *processPart) modelUsed(more *protocol.ModelUse) {
	if more == nil {
		return
	}
	if s.st.Served == nil {
		s.st.Served = &protocol.ModelUse{}
	}
	more.LastError, more.LastFellBack = kit.Cut(more.LastError, kit.MaxReason), kit.Cut(more.LastFellBack, kit.MaxReason)
	more.Upstream, more.Model = kit.Cut(more.Upstream, kit.MaxWord), kit.Cut(more.Model, kit.MaxWord)
	if more.FellBack > 0 && more.Upstream != "" && more.LastFellBack != s.st.Served.LastFellBack {
		s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("the model gateway asks %s for the model: %s", more.Upstream, more.LastFellBack),
			Data: map[string]string{"upstream": more.Upstream, "model": more.Model, "why": more.LastFellBack}})
	}
	s.st.Served.Add(more)
	if s.st.SeedServed == nil {
		s.st.SeedServed = &protocol.ModelUse{}
	}
	s.st.SeedServed.Add(more)
	s.st.SeedServed.Spent = 0 // the count of the session's budget
}

// tellsSeed returns what the seed is not told yet. It is told once.
func (s *processState) tellsSeed() (u *protocol.ModelUse) {
	u, s.SeedServed = s.SeedServed, nil
	return u
}

// carried puts on record what programs of the session reached through the worker.
func (s *processPart) carried(more *protocol.EgressUse) {
	if more == nil {
		return
	}
	if s.st.Carried == nil {
		s.st.Carried = &protocol.EgressUse{}
	}
	s.st.Carried.Add(more)
	s.note(conversation.Note{Type: protocol.EntryState, Text: "programs reached through the worker: " + kit.Cut(more.Text(), kit.MaxReason)})
}

// apply applies a pump's result. moved says that the pump was cancelled or has read
// something.
func (s *processPart) apply(out pumps.RunPumpResult, moved bool) {
	r := out.Pump
	s.st.Pump, s.st.Progress = r.State, r.State.Progress
	s.choices.listed(r.Models)
	// Another pump follows for the turn's other items only if this one brought new
	// requests. Otherwise the session waits for a decision without a pump.
	s.st.Busy = r.Busy && len(r.Requests) > 0
	if t := s.st.Trouble; t != nil && t.Doing == haveCodexTake && r.Reason != conversation.Overloaded && r.Reason != conversation.Refused && r.Reason != conversation.PumpCancelled {
		s.overcome()
	}
	if r.State.Opened == s.st.Incarnation {
		s.st.EarlyEnds, s.st.OwnEnds, s.st.Started = 0, 0, true
	}
	if !s.st.BudgetNews {
		s.bounds.budgetReached(Acknowledged)
	}
	sends := len(s.st.Sends)
	for _, d := range r.Deliveries {
		s.turns.delivered(d)
	}
	for _, rpc := range r.Resolved {
		s.approvals.withdrawn(rpc, whyResolved(r))
		s.st.withdrawCall(s.st.Incarnation, rpc)
	}
	if r.Reason != conversation.TurnEnded {
		s.turns.foreignRuns(r)
	}
	for _, req := range r.Requests {
		if req.Kind == protocol.KindChild {
			s.children.called(req)
		} else {
			s.approvals.asked(req)
		}
	}
	if s.st.Cut != nil && r.Reason != conversation.TurnEnded && s.st.Sending(conversation.SendTurn) == nil {
		s.st.Cut = nil // so the former process did not have the message
	}
	if s.st.Retired != nil {
		if r.Reason != conversation.PumpCancelled { // not read to the end
			s.retired(r)
		}
		return
	}
	switch r.Reason {
	case conversation.TurnEnded:
		s.turns.another = r.Begun || r.State.Foreign
		s.turns.turnEnded(r.Turn)
		s.turns.another = false
		s.turns.foreignRuns(r)
	case conversation.TurnBegun:
	case conversation.Overloaded:
		s.notNow(r.Problem)
		return
	case conversation.ProcessEnded:
		s.processEnded(out.Process, r.Problem)
	case conversation.TimedOut:
		s.retire(r.Problem)
	case conversation.Refused:
		if out.SeedLost != nil && s.credentials() == protocol.CredentialsBroker {
			break
		}
		s.refusedByCodex(r.Problem)
	default:
		s.lookForProgress(r, moved || len(r.Requests)+len(r.Resolved) > 0 || len(s.st.Sends) < sends)
	}
}

// haveCodexTake names the step that is retried while codex refuses messages.
const haveCodexTake = "have codex take what is due"

// notNow waits when codex refuses a message for now: codex is overloaded, or the former
// process has not released the thread. The message had no effects. An interrupt or a close
// ends the turn before the message is sent.
func (s *processPart) notNow(p *protocol.Problem) {
	f := kit.FailureOfProblem(p)
	turn := s.st.Sending(conversation.SendTurn)
	if s.st.Running && s.turns.toEnd() && turn != nil && !turn.maybe() && !s.turns.inDoubt() {
		s.turns.giveUpTurn("interrupted", nil)
		s.become(protocol.Idle)
		return
	}
	s.meet(haveCodexTake, f)
	if late := s.tooLateToStart(); late != nil {
		s.cannotStart(late)
	}
}

func whyResolved(r conversation.PumpResult) string {
	switch {
	case r.Reason == conversation.ProcessEnded:
		return processGone + " before it was answered"
	case r.Turn != nil:
		return fmt.Sprintf("turn %d ended (%s) before it was answered", r.Turn.N, r.Turn.Status)
	}
	return "codex withdrew the question"
}

// fruitless is how many pumps in a row may make no progress before the turn is interrupted
// (promise 3). A pump does not count if it fails, if codex is overloaded, or if its worker
// cannot reach the server.
const fruitless = 3

// lookForProgress stops codex if it seems to have lost the turn. some says that this pump
// made progress.
func (s *processPart) lookForProgress(r conversation.PumpResult, some bool) {
	switch {
	case some:
		s.st.Fruitless = 0
	case r.Reason == conversation.PumpCancelled: // its worker could not reach the server
	default:
		s.st.Fruitless++
	}
	lost := r.State.TurnID == "" && s.st.Sending(conversation.SendTurn) == nil && len(s.st.Open()) == 0 && !s.st.waitsForChildren()
	switch {
	case !s.st.Running:
	case lost:
		s.retire(&protocol.Problem{Kind: "protocol", Message: "codex acknowledged the message but began no turn for it, so it was stopped",
			Hint: "send a message to go on: the thread is resumed in a new process"})
	case s.st.Fruitless >= fruitless:
		s.retire(&protocol.Problem{Kind: "protocol", Message: fmt.Sprintf("codex was stopped: %d times in a row it reported no progress of the running turn (%s)", s.st.Fruitless, r.Reason),
			Hint: "send a message to go on: the thread is resumed in a new process"})
	}
}

// worthAnother reports whether the server would have retried err if the pump had not been
// cancelled.
func worthAnother(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && !app.NonRetryable()
}

func (s *processPart) onlyAsks() bool {
	return !s.st.Running && len(s.st.Sends) == 0 && s.st.Retired == nil && s.choices.wantsAnswers()
}
