package workflows

import (
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities"
)

// What a session does when its turn is cut off: codex's process died, or had
// to be retired, while the turn ran.
const (
	InterruptAsk      = "ask"      // it is interrupted and waits for a message
	InterruptContinue = "continue" // it tells codex to go on, in a new process
	InterruptFail     = "fail"     // it closes as failed
)

// maxGoOns is how many turns in a row may be cut off and continued.
const maxGoOns = 3

// goOnText is the follow-up turn's message.
const goOnText = "Your process was interrupted and has been started again, so the last turn was cut off. " +
	"What it had begun may be half done or done: look at the present state first, do not blindly repeat what has effects, then go on with the task."

// processEnded takes note that codex is gone. What was never written goes to
// the next process; a turn that had begun is shown as interrupted, or as
// unknown where codex may or may not have had it, and nothing is repeated.
func (s *session) processEnded(gone *activities.ProcessGone, p *activities.Problem) {
	s.st.Alive = false
	f := deathOf(gone, p)
	s.st.ProcessEnd = f.Message
	if f.Kind == "auth" {
		s.doubtSeed(f.Message, f.Hint)
	}
	if s.st.Pump.Opened != s.st.Incarnation {
		s.st.EarlyEnds++
		if s.st.EarlyEnds >= 3 {
			s.cannotStart(&Failure{Kind: "process_exit", Hint: "run `ctl host check` on this host",
				Message: fmt.Sprintf("codex ended %d times in a row before it could be used: %s", s.st.EarlyEnds, f.Message)})
			return
		}
	}
	s.lostProcess(f)
}

// lostProcess does about a turn what its process leaves to be done.
func (s *session) lostProcess(f *Failure) {
	turn := s.st.sending(activities.SendTurn)
	switch {
	case !s.st.Running:
		s.note(activities.Note{Type: "state", Text: "no turn ran when codex's process ended: the next message is for a new one", Data: failureData(f)})
		s.st.Reap = true
		s.voidOpen(processGone)
		s.dropSends(processGone)
	case turn != nil && turn.maybe():
		s.cutOff("unknown", f)
	case turn != nil && s.st.Interrupt == nil && s.st.Close == nil:
		s.note(activities.Note{Type: "state", Text: "codex ended before the message reached it; it goes to a new process", Data: failureData(f)})
		s.keepMessages()
	default:
		s.cutOff("interrupted", f)
	}
}

// processGone is why something is void that waited for a process.
const processGone = "codex's process is gone"

// deathOf says how a process ended, in words that claim no more than is known.
func deathOf(gone *activities.ProcessGone, p *activities.Problem) *Failure {
	f := failureOfProblem(p)
	if f == nil {
		f = &Failure{Kind: "process_exit", Message: "codex is gone"}
	}
	if f.Hint == "" {
		f.Hint = "send a message to go on: the thread is resumed in a new process"
	}
	if gone == nil {
		return f
	}
	switch {
	case gone.State == "exited" && gone.Code > 128:
		f.Message = fmt.Sprintf("codex's process ended with status %d (killed by signal %d)", gone.Code, gone.Code-128)
	case gone.State == "exited":
		f.Message = fmt.Sprintf("codex's process ended with status %d", gone.Code)
	case gone.State == "rebooted":
		f.Message = "the host was rebooted while codex ran"
	default: // lost, absent
		f.Message = "codex's process is gone, and nobody saw how it ended"
	}
	if gone.StderrTail != "" {
		f.Message = excerpt(f.Message+": "+strings.TrimSpace(gone.StderrTail), maxFailure)
	}
	return f
}

// cutOff ends a turn that lost its process, and does what the session's policy
// says. The process may have left commands behind: they are ended at once, not
// only when somebody goes on.
func (s *session) cutOff(status string, f *Failure) {
	s.st.Reap, s.st.Cut = true, nil
	s.keepDecisions()
	f = s.whatIsKnown(status, f)
	end, goOn := s.toEnd(), s.mayGoOn(f)
	if goOn && status == "unknown" && !s.leaving {
		s.st.GoOns++
		s.askHistory(f)
		return
	}
	s.voidOpen(processGone)
	s.dropSends(processGone)
	switch {
	case s.opt.OnInterrupt == InterruptFail && !end:
		s.giveUpTurn(status, f)
		s.fail(&Failure{Kind: f.Kind, Message: f.Message, Hint: "the session was to fail when a turn is cut off (--on-interrupt fail); its work is kept"})
	case goOn:
		s.st.GoOns++
		s.goOn(status, f)
	default:
		s.interrupted(status, f)
	}
}

// toEnd says that somebody wanted the turn to end anyway.
func (s *session) toEnd() bool {
	cancel := func(p pendingSend) bool {
		return p.Send.Kind == activities.SendDecision && p.Send.Outcome == activities.Cancel
	}
	return s.st.Interrupt != nil || s.st.Close != nil || slices.ContainsFunc(s.st.Sends, cancel)
}

// mayGoOn says whether the session begins a follow-up turn by itself. One that
// took too long would only take longer.
func (s *session) mayGoOn(f *Failure) bool {
	switch {
	case s.opt.OnInterrupt != InterruptContinue, s.toEnd(), f.Kind == "turn_timeout", s.overBudget(), s.acting() != "":
		return false
	case s.st.GoOns >= maxGoOns:
		s.note(activities.Note{Type: "state", Text: fmt.Sprintf("%d turns in a row were cut off: the session waits for a message", s.st.GoOns)})
		return false
	}
	return true
}

// interrupted leaves it to a person to go on. What was queued was written in
// the belief that the turn would end well, so it waits for a word as well.
func (s *session) interrupted(status string, f *Failure) {
	s.giveUpTurn(status, f)
	s.st.Error = f
	s.st.Held = len(s.st.Queue) > 0
	s.become(Interrupted)
	if s.opt.CloseAfter && s.st.Close == nil {
		s.st.Close = &Close{By: s.opt.By}
	}
}

// goOn puts a message of the session's own before all others. The turns that
// were promised to those come one later.
func (s *session) goOn(status string, f *Failure) {
	s.st.GoOnN++
	m := queuedMessage{N: s.st.TurnN + 1, Message: s.st.Shape.of(Message{Text: goOnText})}
	if s.leaving {
		m.Message = s.saidAgain()
	}
	m.ID = fmt.Sprintf("%s.c%d", s.id, s.st.GoOnN)
	s.makeRoom()
	s.st.Queue = slices.Insert(s.st.Queue, 0, m)
	s.track(m.ID, kindMessage, m.N, queuedHere)
	if v := s.st.turn(s.st.TurnN); v != nil {
		v.FollowedBy = m.N
	}
	s.giveUpTurn(status, f)
	s.note(activities.Note{Type: "state", Text: fmt.Sprintf("turn %d tells codex to go on (%d of at most %d in a row)", m.N, s.st.GoOns, maxGoOns),
		Data: map[string]string{"by": "on_interrupt=continue", "set_by": s.opt.By, "message": m.ID}})
}

// askHistory hands a message of which nothing is known to the next process,
// together with that doubt: its pump looks for it in the thread's history. If it
// is there, the turn was cut off; if not, codex gets it for the first time.
func (s *session) askHistory(f *Failure) {
	s.st.Cut = f
	s.voidOpen(processGone)
	s.keepMessages()
	p := s.st.sending(activities.SendTurn)
	p.Send.Uncertain, p.Send.Incarnation = true, s.st.Incarnation
	s.note(activities.Note{Type: "state", Text: fmt.Sprintf("whether message %s reached codex is looked up in the thread's history", p.Send.ID),
		Data: failureData(f)})
}

// inDoubt says that it is not known whether codex had the running turn's message.
func (s *session) inDoubt() bool {
	turn := s.st.sending(activities.SendTurn)
	return s.st.Cut != nil || s.st.Pump.TurnID == "" && turn != nil && turn.maybe()
}

// historySaid takes the end of a turn of which codex's history had to tell. It
// says whether that was all there was to do.
func (s *session) historySaid(t *activities.TurnEnd) bool {
	f := s.st.Cut
	s.st.Cut = nil
	if f == nil || t.Status == "completed" || t.Status == "failed" || s.toEnd() {
		return false
	}
	s.st.HasTurn, s.st.Pump.TurnID = true, t.ID
	s.goOn("interrupted", f)
	return true
}

// keepMessages leaves of what was to be sent the messages of a turn that has
// yet to begin.
func (s *session) keepMessages() {
	var keep, drop []pendingSend
	for _, p := range s.st.Sends {
		if p.Send.Kind == activities.SendTurn || p.Send.Kind == activities.SendSteer && !p.maybe() {
			keep = append(keep, p)
		} else {
			drop = append(drop, p)
		}
	}
	s.st.Sends = drop
	s.dropSends(processGone)
	s.st.Sends = keep
}

// whatIsKnown adds to a failure what is certain of the turn that it cut off,
// and what is not.
func (s *session) whatIsKnown(status string, f *Failure) *Failure {
	var sure, unsure []string
	id := ""
	if v := s.st.turn(s.st.TurnN); v != nil {
		id = v.MessageID
	}
	if status == "unknown" {
		unsure = append(unsure, "whether message "+id+" reached codex")
	} else if s.st.sending(activities.SendTurn) == nil {
		sure = append(sure, "message "+id+" reached codex")
	}
	for _, a := range s.st.Approvals {
		if a.Turn != s.st.TurnN {
			continue
		}
		switch name := s.approvalID(a.N); {
		case a.State == ApprovalOpen:
			sure = append(sure, name+" was not answered")
		case a.Decision == nil || a.State == ApprovalVoid:
		case s.reached(a) == decidedHere:
			sure = append(sure, "the decision on "+name+" never reached codex")
		case a.Decision.Outcome == string(activities.Accept):
			unsure = append(unsure, "what became of "+name+", which was accepted")
		}
	}
	for _, p := range s.st.Sends {
		if p.Send.Kind == activities.SendSteer && p.maybe() {
			unsure = append(unsure, "whether message "+p.Send.ID+" reached the turn")
		}
	}
	out := *f
	if len(sure) > 0 {
		out.Message += ". Certain: " + strings.Join(sure, "; ")
	}
	if len(unsure) > 0 {
		out.Message += ". Not known: " + strings.Join(unsure, "; ")
	}
	out.Message = excerpt(out.Message, maxFailure)
	return &out
}

// reap ends what a dead process left behind, without keeping anybody waiting:
// starting the next one, or closing, does so again.
func (s *session) reap() {
	s.st.Reap = false
	s.settle()
	s.publish()
	name := s.st.Lease.Spec.Name
	s.st.PumpN++
	needed := func() bool {
		return s.st.Close != nil || s.canBegin() || s.full() || s.st.Resume != nil && s.quiet() || s.parkDue()
	}
	out, err := doingUnless(s, untilDone(s.ctx, "clear "+name), needed, sessions.StopServer, activities.StopServerInput{
		Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed,
	})
	switch {
	case err != nil && needed():
		s.st.Reap = s.st.Close == nil && !s.canBegin() // it stopped only to continue as new
	case err != nil:
		s.note(activities.Note{Type: "error", Text: failureOf("end what codex left on "+name, err).Message})
	case len(out.Survivors) > 0:
		s.note(activities.Note{Type: "state", Text: fmt.Sprintf("%d processes that codex left on %s were ended", len(out.Survivors), name)})
	}
}

// retire stops a codex that does not answer, or a turn that takes too long.
func (s *session) retire(p *activities.Problem) {
	name := s.st.Lease.Spec.Name
	s.st.PumpN++
	left, err := s.stopServer("retire codex on")
	if left && s.st.Close == nil {
		return // it goes on elsewhere
	}
	if err != nil {
		f := failureOf("stop codex on "+name, err)
		if f.Kind == activities.ErrTypeUnreachable && s.mayMove() {
			s.goAway(f)
			return
		}
		s.fail(f)
		return
	}
	// What it wrote until it was stopped is read before anything is concluded.
	s.st.Retired = p
}

// retired concludes once all that a retired process had written was read.
func (s *session) retired(r activities.PumpResult) {
	p := s.st.Retired
	s.st.Retired = nil
	if r.Reason == activities.TurnEnded {
		s.turnEnded(r.Turn) // it ended in the last moment
	}
	s.processEnded(nil, p)
	s.st.Reap = false // stopping it was thorough
}
