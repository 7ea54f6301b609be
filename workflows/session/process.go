package session

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// restart starts codex as the next incarnation; the next pump resumes the thread. Without a
// failure the process runs, unless the session is to close.
func (s *processPart) restart() (f *protocol.Failure, again bool) {
	name := s.st.Lease.Spec.Name
	if s.st.Incarnation == 0 {
		s.become(protocol.Starting)
	} else {
		s.become(protocol.Resuming)
	}
	s.publish()
	s.st.PumpN++
	s.st.Alive = false // stopped now, or gone already
	if s.st.Incarnation > 0 && !s.st.Stopped {
		// What the last process left running must not work beside the new one.
		left, err := s.stopServer("clear")
		if left || err == nil && s.st.Close != nil {
			return nil, false
		}
		if err != nil {
			return kit.FailureOf("stop the former codex on "+name, err), false
		}
		s.st.PumpN++
		s.st.Stopped = true
	}
	if s.st.Bare {
		if f, again := s.prepareAgain(); f != nil || again || s.st.Close != nil {
			return f, again
		}
	}
	s.st.Stopped = false
	s.st.Incarnation++
	s.st.Pump.Cursor = protocol.Cursor{Incarnation: s.st.Incarnation}
	s.st.Pump.Rewind, s.st.Pump.Open, s.st.Pump.TokenAsks, s.st.Pump.TurnID = 0, nil, nil, ""
	for i := range s.st.Sends {
		s.st.Sends[i].Handed = false
	}
	out, err := unlessClosing(s.core, kit.SetUp(s.ctx, "start codex on "+name), placeJobs.StartServer, places.StartServerInput{
		Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Bounded: s.st.SeedBounds != nil, Audit: s.carry(),
	})
	s.carriedTo(out.Audited)
	if err != nil && s.st.Close == nil {
		return kit.FailureOf("start codex on "+name, err), false
	}
	if out.CodexRepaired != "" {
		s.note(codexRepaired(name, out.CodexRepaired))
	}
	s.st.Alive, s.st.ProcessEnd = err == nil, ""
	return nil, false
}

// prepareAgain prepares the folder again if its credential may be gone. It asks for the
// seed again, because a newer generation may be on its way.
func (s *processPart) prepareAgain() (f *protocol.Failure, again bool) {
	if s.leases.wantsSeed() {
		f, again := s.leases.askForSeedAgain()
		switch {
		case f != nil, again, s.st.Close != nil:
			return f, again
		case s.leases.leavesTurn():
			return &protocol.Failure{Kind: KindSeedAway, Message: fmt.Sprintf("seed %s was not granted before the turn was interrupted", s.st.Seed.Name)}, false
		}
	}
	s.insists = true
	defer func() { s.insists = false }()
	defer func() { s.st.PumpN++ }()
	return s.place.prepareHost(), false
}

// StartCodex names the step of starting codex on the session's host.
const StartCodex = "start codex"

func (s *processPart) startForTurn() (again bool) {
	s.st.Reap = false // starting a process begins with the same cleanup
	return s.startAgain()
}

func (s *processPart) startAgain() (again bool) {
	var last *protocol.Failure
	f, again := s.keepTrying(StartCodex, func() bool { return last != nil && s.moving.mustMove(last) }, func() (*protocol.Failure, bool) {
		f, again := s.restart()
		last = f
		return f, again
	})
	switch {
	case again || f == nil || s.st.Close != nil:
	case s.st.Resume != nil && s.st.Lost == nil && kit.FailurePasses(f):
		s.st.Resume = nil // it is on its host, and tries again at once
		s.tryNow()
	case s.st.Interrupt != nil && kit.FailurePasses(f):
		s.endUnbegun()
	default:
		s.st.Trouble = nil
		s.unableToStart(f)
	}
	return again
}

func (s *processPart) endUnbegun() {
	s.st.Trouble = nil
	if s.turns.inDoubt() {
		s.turns.giveUpTurn("unknown", s.st.Cut)
	} else {
		s.turns.giveUpTurn("interrupted", nil)
	}
	s.become(protocol.Idle)
}

// unableToStart leaves a lost host if the session may move. Otherwise it is cannotStart.
func (s *processPart) unableToStart(f *protocol.Failure) {
	if s.moving.mustMove(f) {
		s.moving.goAway(f)
		return
	}
	s.cannotStart(f)
}

// cannotStart ends the turn for which codex could not be started. A session that never had
// a turn fails; any other holds its queue until the next message. If an earlier process may
// have the turn's message, the turn is unknown.
func (s *processPart) cannotStart(f *protocol.Failure) {
	status := "failed"
	if s.turns.inDoubt() {
		status = "unknown"
	}
	if s.st.Cut != nil {
		f.Message = kit.Cut(f.Message+". Before that: "+s.st.Cut.Message, kit.MaxFailure)
	}
	s.turns.giveUpTurn(status, f)
	if !s.st.hadTurn() {
		s.fail(f)
		return
	}
	s.st.Error, s.st.Held = f, true
	s.become(protocol.Interrupted)
	if s.opt.CloseAfter && s.st.Close == nil {
		s.st.Close = &protocol.Close{By: s.opt.By}
	}
}

// refusedByCodex handles a refused handshake or thread. A thread that had a turn is never
// replaced.
func (s *processPart) refusedByCodex(p *protocol.Problem) {
	f := kit.FailureOfProblem(p)
	if f == nil {
		f = &protocol.Failure{Kind: "protocol", Message: "codex refused to begin"}
	}
	if f.Kind == "auth" {
		s.leases.doubtSeed(f.Message, f.Hint)
	}
	if f.Kind == "thread_busy" {
		s.notNow(p)
		return
	}
	if f.Kind == "thread_missing" && !s.st.HasTurn && s.st.MayHaveTurn {
		// The thread lacks the uncertain message: it never had a turn, and there is nothing
		// to lose.
		s.st.MayHaveTurn = false
		s.note(conversation.Note{Type: "state", Text: "the thread never had a turn and cannot be resumed: a new one is started",
			Data: map[string]string{"thread": s.st.Pump.ThreadID}})
		return
	}
	s.cannotStart(f)
}

// stopServer stops codex, however long that takes. No pump runs, so it reports a lost host
// itself. left says that it gave up because the session is to close, or to leave the lost
// host.
func (s *processPart) stopServer(doing string) (left bool, err error) {
	leave := func() bool { return s.st.Close != nil || s.st.Resume != nil && s.st.Lost != nil }
	since, name := workflow.Now(s.ctx), s.hostName()
	for {
		_, err := doingUnless(s.core, s.moving.untilLost(kit.UntilDone(s.ctx, doing+" "+name)), leave, placeJobs.StopServer, places.StopServerInput{
			Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed,
		})
		f := kit.FailureOf(doing+" "+name, err)
		switch {
		case err == nil:
			s.moving.hostBack()
			return false, nil
		case leave():
			return true, nil
		case f.Kind == kit.KindTimeout: // no worker finished: nothing is known of the host
		case f.Kind != protocol.ErrTypeUnreachable || s.moving.mayMove():
			return false, err
		case s.st.Lost == nil:
			s.moving.hostLost(protocol.HostLost{Since: since, Why: f.Message})
			s.publish()
		default:
			if _, err := s.awaitFor(time.Minute, leave); err != nil {
				return false, err
			}
		}
		if leave() {
			return true, nil
		}
		s.st.PumpN++
	}
}

func (s *processPart) processEnded(gone *pumps.ProcessGone, p *protocol.Problem) {
	s.st.Alive = false
	f := deathOf(gone, p)
	s.st.ProcessEnd = f.Message
	if f.Kind == "auth" {
		s.leases.doubtSeed(f.Message, f.Hint)
	}
	if s.st.Pump.Opened != s.st.Incarnation && s.endedEarly(gone, f) {
		return
	}
	s.lostProcess(f)
}

// MaxOwnEnds bounds how many times in a row codex may exit by itself before it could be
// used: codex then rejects how it is started, and waiting does not help. A codex that was
// killed or too slow is started again without limit (promise 11).
const MaxOwnEnds = 3

// endedEarly handles a process that ended before it could be used, and reports whether the
// session gives up.
func (s *processPart) endedEarly(gone *pumps.ProcessGone, f *protocol.Failure) bool {
	s.st.EarlyEnds++
	if s.st.EarlyEnds == 1 {
		s.st.EarlyAt = workflow.Now(s.ctx)
	}
	if gone == nil || gone.State != "exited" || gone.Code == 0 || gone.Code > 128 {
		s.st.OwnEnds = 0
	} else if s.st.OwnEnds++; s.st.OwnEnds >= MaxOwnEnds {
		hint := "run `ctl host check` on this host"
		if f.Kind != protocol.EndProcessExit {
			hint = f.Hint
		}
		s.cannotStart(&protocol.Failure{Kind: f.Kind, Final: true, Hint: hint,
			Message: fmt.Sprintf("codex ended %d times in a row before it could be used: %s", s.st.OwnEnds, f.Message)})
		return true
	}
	if s.st.Running && s.st.OwnEnds == 0 {
		s.st.Trouble = &kit.Trouble{Since: s.st.EarlyAt, Attempt: s.st.EarlyEnds - 1}
		s.meet(StartCodex, f)
	}
	return false
}

func (s *processPart) lostProcess(f *protocol.Failure) {
	turn := s.st.Sending(conversation.SendTurn)
	switch {
	case !s.st.Running:
		s.note(conversation.Note{Type: "state", Text: "no turn ran when codex's process ended: the next message is for a new one", Data: failureData(f)})
		s.st.Reap = true
		s.approvals.voidOpen(processGone)
		s.turns.dropSends(processGone)
	case turn != nil && turn.maybe():
		s.turns.cutOff("unknown", f)
	case turn != nil && s.st.Interrupt == nil && s.st.Close == nil:
		s.note(conversation.Note{Type: "state", Text: "codex ended before the message reached it; it goes to a new process", Data: failureData(f)})
		s.turns.keepMessages()
	default:
		s.turns.cutOff("interrupted", f)
	}
}

const processGone = "codex's process is gone"

// deathOf describes how a process ended, and claims no more than is known.
func deathOf(gone *pumps.ProcessGone, p *protocol.Problem) *protocol.Failure {
	f := kit.FailureOfProblem(p)
	if f == nil {
		f = &protocol.Failure{Kind: "process_exit", Message: "codex is gone"}
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
		f.Message = kit.Cut(f.Message+": "+strings.TrimSpace(gone.StderrTail), kit.MaxFailure)
	}
	return f
}

// reap ends what a dead process left running. It gives up if something else is due: the
// next start, or closing, does the same.
func (s *processPart) reap() {
	s.st.Reap = false
	s.turns.settle()
	s.publish()
	name := s.st.Lease.Spec.Name
	s.st.PumpN++
	// Unlike in the table of steps, a push waits for reap, which it begins with, and a
	// session leaves a lost host after reap.
	needed := func() bool {
		return s.st.Close != nil || s.turns.canBegin() || s.full() || s.st.Resume != nil && s.parking.quiet() || s.parking.parkDue()
	}
	out, err := doingUnless(s.core, kit.UntilDone(s.ctx, "clear "+name), needed, placeJobs.StopServer, places.StopServerInput{
		Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed,
	})
	switch {
	case err != nil && needed():
		s.st.Reap = s.st.Close == nil && !s.turns.canBegin() // reap stopped to continue as new
	case err != nil:
		s.note(conversation.Note{Type: "error", Text: kit.FailureOf("end what codex left on "+name, err).Message})
	case len(out.Survivors) > 0:
		s.note(conversation.Note{Type: "state", Text: fmt.Sprintf("%d processes that codex left on %s were ended", len(out.Survivors), name)})
	}
}

// retire stops a codex that does not answer, or whose turn takes too long.
func (s *processPart) retire(p *protocol.Problem) {
	name := s.st.Lease.Spec.Name
	s.st.PumpN++
	left, err := s.stopServer("retire codex on")
	if left {
		return
	}
	if err != nil {
		f := kit.FailureOf("stop codex on "+name, err)
		switch {
		case f.Kind == protocol.ErrTypeUnreachable && s.moving.mayMove():
			s.moving.goAway(f)
		case f.Kind == protocol.ErrTypeFenced && s.st.Close == nil:
			s.overtaken(f)
		case s.st.Close == nil && (kit.FailurePasses(f) || workersFault(f)):
			// The turn runs on until another pump finds that it must be stopped.
			s.meet(TalkToCodex, f)
		default:
			s.fail(f)
		}
		return
	}
	// The turn ends when the next pump has read the rest of the journal.
	s.st.Retired = p
}

// retired is called when the journal of a retired process was read.
func (s *processPart) retired(r conversation.PumpResult) {
	p := s.st.Retired
	s.st.Retired = nil
	if r.Reason == conversation.TurnEnded {
		s.turns.turnEnded(r.Turn) // the turn ended before codex was stopped
	}
	if p.Kind == stoppedToFail {
		s.st.Alive = false
		return
	}
	if p.Kind == stoppedForClose {
		s.st.Alive = false
		s.ending.giveUpForClose()
		return
	}
	s.processEnded(nil, p)
	s.st.Reap = false // done by stopping the process
}
