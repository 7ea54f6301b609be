package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// wantsPump says whether somebody has to be attached to codex.
func (s *session) wantsPump() bool {
	if !s.st.Alive || s.st.Status == Failed {
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
		return s.wantsAnswers()
	}
	if len(s.st.Pump.TokenAsks) > 0 || s.st.Pump.Owes() {
		return true // codex does not wait for long
	}
	if len(s.st.Pump.Calls) > 0 {
		return true // somebody has to carry them out
	}
	return len(s.st.open()) == 0 || s.st.Busy
}

// hasNews says whether a running pump should be called back for something new.
func (s *session) hasNews() bool {
	if s.st.BudgetNews || s.st.Resume != nil {
		return true
	}
	for _, p := range s.st.Sends {
		if !p.Handed {
			return true
		}
	}
	return false
}

// pump runs one pump activity and applies what it brings.
func (s *session) pump() error {
	looks, idle := s.looks(), !s.st.Running
	if !looks && s.st.Status != Starting && !s.onlyAsks() {
		s.become(Running)
	}
	if s.st.Close != nil {
		s.become(Closing)
	}
	s.publish()
	in := s.pumpInput()
	began := workflow.Now(s.ctx)
	actx, cancel := workflow.WithCancel(attached(s.ctx, s.pumpSummary()))
	defer cancel()
	fut := workflow.ExecuteActivity(actx, sessions.RunPump, in)
	called, err := s.follow(fut, cancel)
	if err != nil {
		return err
	}
	s.st.TurnSpent += workflow.Now(s.ctx).Sub(began)
	var out activities.RunPumpResult
	err = fut.Get(s.ctx, &out)
	switch {
	case err == nil && out.HostLost != nil:
		s.unheard(looks)
		s.hostLost(*out.HostLost)
	case err == nil:
		s.hostBack()
		s.filesBrought(in)
		s.st.Handing, s.st.Again, s.st.Forget = nil, 0, nil
		s.heardOfPolicy(out)
		s.apply(out, called || out.Pump.State.Cursor != in.Pump.State.Cursor)
		if in.Pump.Models && idle && !called && out.Pump.Reason != activities.ProcessEnded {
			s.unlisted(out.Pump.Problem)
		}
		s.stirredBehind()
		s.seedLost(out.SeedLost)
	case temporal.IsCanceledError(err) || temporal.IsTimeoutError(err) || worthAnother(err):
		// Called back between two attempts, while its worker was dead, or while
		// its wire was lost: the server tries no more once a cancellation was
		// asked for. What it delivered is in the journal, for the next one to find.
		s.unheard(looks)
	default:
		s.pumpFailed(err)
	}
	return nil
}

// unheard is after a pump that told nothing: codex may have what it was given.
func (s *session) unheard(looks bool) {
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
	s.st.Stirred = looks || s.st.Stirred // nobody has looked
}

// mayHave takes note that codex may have a message.
func (s *session) mayHave(p pendingSend) {
	s.track(p.Send.ID, kindOf(p.Send.Kind), p.Send.Turn, sentThere)
	if a := s.st.approval(p.Approval); a != nil {
		a.Delivery = sentThere
		if a.State == ApprovalDecided {
			a.State = ApprovalSent
		}
	}
	if p.Send.Kind == activities.SendTurn {
		s.st.MayHaveTurn = true
	}
}

// follow waits for the pump. When there is something new to say, it calls the
// pump back, which then returns a normal result.
func (s *session) follow(fut workflow.Future, cancel workflow.CancelFunc) (called bool, err error) {
	awake := func() bool {
		return fut.IsReady() || s.newlyClosing() || !called && (s.hasNews() || s.full())
	}
	for !fut.IsReady() {
		if s.st.Close != nil && s.st.Running && !s.st.GraceOver {
			var ok bool
			ok, err = s.awaitFor(closeGrace, awake)
			s.st.GraceOver = err == nil && !ok
		} else {
			s.setAlarm()
			s.setTick()
			err = s.await(func() bool { return awake() || s.alarm.due() || s.tick.due() })
		}
		if err != nil {
			return called, err
		}
		if fut.IsReady() {
			break
		}
		s.alarm.off()
		s.expire()
		s.queueInterruptForClose()
		if !called && (s.hasNews() || s.full() || s.st.GraceOver) {
			called = true
			cancel()
		}
	}
	return called, nil
}

// pumpInput hands everything that is due to the next pump.
func (s *session) pumpInput() activities.RunPumpInput {
	s.st.PumpN++
	var out []activities.Send
	for i := range s.st.Sends {
		p := &s.st.Sends[i]
		out = append(out, p.Send)
		p.Handed = true
	}
	// A pump that brought no result may have written these already: then the
	// next one writes the very same ones, and newer ones wait their turn.
	if len(s.st.Handing) == 0 {
		s.st.Handing, s.st.Notes = s.st.Notes, nil
	}
	if s.st.BudgetNews {
		s.st.BudgetNews = false
		s.budgetReached(sentThere)
	}
	if s.st.Again == 0 {
		s.st.Prefix = fmt.Sprintf("g%d.p%d", s.st.Generation, s.st.PumpN)
	}
	in := activities.RunPumpInput{
		Files: s.filesToBring(),
		Claim: s.claim(), Layout: *s.st.Layout, Seed: s.st.Seed, Credentials: s.opt.Credentials,
		LostAfter: s.lostAfter(), Workflow: s.reportsTo(), Forget: s.st.Forget,
		Pump: activities.PumpInput{
			Session: s.id, State: s.pumpState(), Thread: s.thread(), Resume: s.st.hadTurn(),
			Fork: s.st.ForkOf != "", Tell: s.st.Tell, Models: s.st.Chosen.Ask,
			Sends: out, Notes: s.st.Handing,
			Prefix: s.st.Prefix, Again: s.st.Again,
			Limits: s.limits(), Amend: s.st.SeedAmend,
		},
	}
	s.judged(&in)
	return in
}

// pumpState is what the next pump goes on from.
func (s *session) pumpState() activities.PumpState {
	st := s.st.Pump
	st.Skipped = s.st.Skipped
	return st
}

// thread is all that a thread is set up with, and again whenever it is resumed.
func (s *session) thread() activities.ThreadSpec {
	return activities.ThreadSpec{
		CWD: s.st.Layout.WorkDir, Sandbox: s.opt.Sandbox, Permissions: s.st.Permissions,
		ApprovalPolicy: s.opt.ApprovalPolicy, Model: s.model(), Effort: s.effort(), Instructions: s.instructions(), Personality: s.opt.Personality, Mark: activities.Mark(s.id, *s.st.Layout),
		Name:  s.st.Chosen.Name,
		Tools: s.opt.Tools,
	}
}

func (s *session) claim() activities.Claim {
	return activities.Claim{Session: s.id, Host: s.st.Lease.Spec, Generation: s.st.Generation, Pump: s.st.PumpN, Told: s.st.Told}
}

func (s *session) pumpSummary() string {
	if s.st.Running {
		return fmt.Sprintf("turn %d on %s", s.st.TurnN, s.st.Lease.Spec.Name)
	}
	return "deliver on " + s.st.Lease.Spec.Name
}

// pumpFailed is a pump that no retry can help: the host refuses us.
func (s *session) pumpFailed(err error) {
	f := failureOf(fmt.Sprintf("talk to codex on %s", s.st.Lease.Spec.Name), err)
	s.giveUpTurn("unknown", f)
	s.fail(f)
}

// apply takes over what a pump learnt. moved says that it was called back or
// read anything.
func (s *session) apply(out activities.RunPumpResult, moved bool) {
	r := out.Pump
	s.st.Pump, s.st.Progress = r.State, r.State.Progress
	s.listed(r.Models)
	// Other items are worth staying for only while they bring something: a
	// pump that came back with nothing new leaves a person to decide.
	s.st.Busy = r.Busy && len(r.Requests) > 0
	if r.State.Opened == s.st.Incarnation {
		s.st.EarlyEnds = 0
	}
	if !s.st.BudgetNews {
		s.budgetReached(acknowledged)
	}
	sends := len(s.st.Sends)
	for _, d := range r.Deliveries {
		s.delivered(d)
	}
	for _, rpc := range r.Resolved {
		s.withdrawn(rpc, whyResolved(r))
	}
	for _, req := range r.Requests {
		s.asked(req)
	}
	if s.st.Cut != nil && r.Reason != activities.TurnEnded && s.st.sending(activities.SendTurn) == nil {
		s.st.Cut = nil // it runs now: codex had never had it
	}
	if s.st.Retired != nil {
		s.retired(r)
		return
	}
	switch r.Reason {
	case activities.TurnEnded:
		s.turnEnded(r.Turn)
	case activities.ProcessEnded:
		s.processEnded(out.Process, r.Problem)
	case activities.TimedOut:
		s.retire(r.Problem)
	case activities.Refused:
		s.refusedByCodex(r.Problem)
	default:
		s.lookForProgress(r, moved || len(r.Requests)+len(r.Resolved) > 0 || len(s.st.Sends) < sends)
	}
}

// whyResolved says why codex asks no more for what it asked for.
func whyResolved(r activities.PumpResult) string {
	switch {
	case r.Reason == activities.ProcessEnded:
		return processGone + " before it was answered"
	case r.Turn != nil:
		return fmt.Sprintf("turn %d ended (%s) before it was answered", r.Turn.N, r.Turn.Status)
	}
	return "codex withdrew the question"
}

// fruitless is how many pumps in a row may bring nothing.
const fruitless = 3

// lookForProgress keeps a session from sending pump after pump to a codex that
// has nothing for them: it is taken to have lost the turn, and retired.
func (s *session) lookForProgress(r activities.PumpResult, some bool) {
	s.st.Fruitless++
	if some {
		s.st.Fruitless = 0
	}
	lost := r.State.TurnID == "" && s.st.sending(activities.SendTurn) == nil && len(s.st.open()) == 0
	switch {
	case !s.st.Running:
	case lost:
		s.retire(&activities.Problem{Kind: "protocol", Message: "codex took the message and runs no turn for it",
			Hint: "send a message to go on: the thread is resumed in a new process"})
	case s.st.Fruitless >= fruitless:
		s.retire(&activities.Problem{Kind: "protocol", Message: fmt.Sprintf("%d times in a row there was nothing to learn from codex (%s), although a turn runs", s.st.Fruitless, r.Reason),
			Hint: "send a message to go on: the thread is resumed in a new process"})
	}
}

// worthAnother says whether a pump's error is one that the server would have
// retried for ever, had the pump not been called back.
func worthAnother(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && !app.NonRetryable()
}
