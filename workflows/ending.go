package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// closeGrace is how long codex may take to end a turn when the session closes.
const closeGrace = 15 * time.Second

// endingPart closes the session, and tells of its end.
type endingPart struct {
	*core
	turns     *turnsPart
	messages  *messagesPart
	approvals *approvalsPart
	snaps     *snapsPart
	process   *processPart
	leases    *leasesPart
	moving    *movingPart
}

// endState is how the session ends, and what it could not clean up.
type endState struct {
	Close      *protocol.Close `json:"close,omitempty"`
	CloseDue   bool            `json:"close_due,omitempty"`   // it closes once codex begins no further turn
	CloseTries int             `json:"close_tries,omitempty"` // pumps that were to end the turn
	GraceOver  bool            `json:"grace_over,omitempty"`  // codex had its time to end it
	// Failing is why the session fails once codex's journal is read: its host was
	// away when it was to fail.
	Failing    *protocol.Failure   `json:"failing,omitempty"`
	Ended      bool                `json:"ended,omitempty"`       // no message becomes a turn any more
	CleanTries int                 `json:"clean_tries,omitempty"` // times that cleaning up failed for good
	CleanError string              `json:"clean_error,omitempty"` // why, as last noted
	EndTold    bool                `json:"end_told,omitempty"`    // the end was told although it is not cleaned up
	Closed     *protocol.CloseView `json:"closed,omitempty"`
	Left       string              `json:"left,omitempty"` // why something of it may still be on the host
}

// newlyClosing reports whether a turn runs that codex was not yet told to end for the close.
func (s *endingPart) newlyClosing() bool {
	return s.st.Close != nil && s.st.Failing == nil && s.st.Running && s.st.sending(conversation.SendInterrupt) == nil
}

func (s *endingPart) queueInterruptForClose() {
	if !s.newlyClosing() {
		return
	}
	if s.st.Interrupt == nil {
		s.st.Interrupt = &protocol.Interrupt{By: s.st.Close.By, Reason: closedReason}
	}
	s.messages.queueInterrupt()
}

// interruptForClose ends the running turn before a close. It asks codex to end the
// turn. If codex does not do so in time, interruptForClose stops its process and
// reads its journal to the end, since closing deletes the journal. It goes on until
// the host can be reached; only discard ends it earlier.
func (s *endingPart) interruptForClose() error {
	s.become(protocol.Closing)
	switch stuck := s.st.GraceOver || s.st.CloseTries >= 3; {
	case !s.st.Alive: // the journal was read when the process ended
		s.moving.recordLost()
		s.giveUpForClose()
	case s.discarding() && (stuck || s.st.Retired != nil):
		s.giveUpJournal()
	case s.st.Retired != nil:
		return s.process.pump()
	case stuck:
		s.stopForClose()
	default:
		s.queueInterruptForClose()
		s.st.CloseTries++
		return s.process.pump()
	}
	return nil
}

// giveUpForClose ends the turn of a session that closes if codex did not say how
// the turn ended.
func (s *endingPart) giveUpForClose() {
	status, f := "interrupted", s.st.Failing
	if s.turns.inDoubt() {
		status = "unknown"
		if f == nil {
			f = s.st.Cut
		}
	}
	s.turns.giveUpTurn(status, f)
}

// stoppedForClose is the kind of the problem with which codex is stopped because
// the session closes and codex did not end its turn in time. It is no failure.
const stoppedForClose = "closed"

// stopForClose stops codex, so that nothing is added to its journal. The next pump
// reads the journal to the end.
func (s *endingPart) stopForClose() {
	s.publish()
	name := s.hostName()
	s.st.PumpN++
	_, err := doingUnless(s.core, s.closing("stop codex on "+name), s.discarding, sessions.StopServer, activities.StopServerInput{
		Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed,
	})
	switch {
	case err == nil:
		s.st.Retired = &protocol.Problem{Kind: stoppedForClose, Message: "codex did not end the turn before the session closed"}
	case s.discarding(): // the activity was cancelled, or nobody wants to wait for it
	default:
		f := failureOf("stop codex on "+name, err)
		if f.Kind == protocol.ErrTypeFenced {
			s.giveUpJournal() // a newer holder uses the host: there is nothing of ours to read
			return
		}
		if s.st.Failing != nil && !failurePasses(f) {
			s.giveUpJournal() // what the session fails with may keep it from reading for ever
			return
		}
		s.cannotRead(f)
	}
}

// cannotRead handles a failure to read the journal of a session that is to close:
// it shows the failure, tells whoever waits for the session's end, and waits before
// the next attempt, as closing does.
func (s *endingPart) cannotRead(f *protocol.Failure) {
	s.cannotClean(f)
	s.tellHeldUp(f)
	s.holdClean() // the loop ends a run whose history is full
}

// giveUpJournal ends the turn of a session whose journal nobody will read to the
// end. It first records what the pumps have read, as for a lost host, so that later
// entries of the transcript come after it.
func (s *endingPart) giveUpJournal() {
	s.st.Retired, s.st.Trouble = nil, nil
	end := s.moving.recordLost()
	if end != nil {
		s.turns.turnEnded(end)
		return
	}
	s.noteUnread()
	s.giveUpForClose()
}

// noteUnread writes to the transcript that the journal was not read to the end.
func (s *endingPart) noteUnread() {
	s.note(conversation.Note{Type: "error", Text: fmt.Sprintf("what codex wrote last on host %s was not read: the transcript and the record of approvals may lack the end of turn %d", s.hostName(), s.st.TurnN),
		Data: map[string]string{"host": s.hostName()}})
}

// stoppedToFail is the kind of problem that says that codex was stopped because its
// session fails within a turn.
const stoppedToFail = "failed"

// readRestFor bounds each of the two steps in which a session that fails within a
// turn stops codex and reads its journal to the end. The failure of the session may
// make these steps fail too.
const readRestFor = 2 * time.Minute

// refusesUs are the kinds of failure after which nothing can be read on the host.
var refusesUs = []string{protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeFolderGone, protocol.ErrTypeFenced}

// readRest reads codex's journal to its end before the session fails with f within
// a turn, since closing deletes the journal. It first stops codex, so that nothing
// is added. It makes one attempt. If that fails, it notes that the rest was not read.
// But if waiting can mend it, since the host is away, readRest returns later: the
// session then closes as any other, which reads the journal, and fails at the end.
func (s *endingPart) readRest(f *protocol.Failure) (later bool) {
	if !s.st.Running || !s.st.Alive || s.st.Close != nil {
		return false
	}
	if !slices.Contains(refusesUs, f.Kind) {
		why := s.stopToFail()
		if why == nil {
			var read bool
			if read, why = s.readToFail(f); read {
				return false
			}
		}
		if failurePasses(why) && s.st.Close == nil {
			s.failLater(f, why)
			return true
		}
	}
	s.noteUnread()
	return false
}

// failLater has the session read codex's journal before it fails with f. why is what
// keeps it from reading now.
func (s *endingPart) failLater(f, why *protocol.Failure) {
	s.note(conversation.Note{Type: protocol.EntryState, Text: excerpt("the session fails when codex's journal is read: "+f.Message, maxFailure), Data: failureData(f)})
	s.st.Failing, s.st.Close, s.st.GraceOver = f, &protocol.Close{}, true
	s.become(protocol.Closing)
	s.cannotRead(why)
}

func (s *endingPart) stopToFail() *protocol.Failure {
	s.st.PumpN++
	_, err := doingUnless(s.core, workflow.WithScheduleToCloseTimeout(setUp(s.ctx, "stop codex on "+s.hostName()), readRestFor), s.discarding,
		sessions.StopServer, activities.StopServerInput{Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed})
	if err != nil {
		return failureOf("stop codex on "+s.hostName(), err)
	}
	return nil
}

// onlyReads leaves out of a pump what the pump of a session that fails does not send:
// files, and messages that were to steer the turn. Codex takes no more of them, and
// they may be the cause of the failure.
func onlyReads(in *activities.RunPumpInput) {
	in.Files, in.LostAfter = nil, 0
	in.Pump.Sends = slices.DeleteFunc(in.Pump.Sends, func(p conversation.Send) bool { return p.Kind == conversation.SendSteer })
}

// readToFail reads the journal of a process that was stopped. It reports whether it
// came to the end, and why not if the pump failed.
func (s *endingPart) readToFail(f *protocol.Failure) (read bool, why *protocol.Failure) {
	s.st.Retired = &protocol.Problem{Kind: stoppedToFail, Message: f.Message}
	in := s.process.pumpInput()
	onlyReads(&in)
	out, err := doingUnless(s.core, workflow.WithScheduleToCloseTimeout(attached(s.ctx, s.process.pumpSummary()), readRestFor), s.discarding, sessions.RunPump, in)
	if err != nil {
		s.st.Retired = nil
		s.st.Again++
		return false, failureOf("read codex's journal on "+s.hostName(), err)
	}
	s.st.Handing, s.st.Again, s.st.Forget = nil, 0, nil
	s.approvals.heardOfPolicy(out)
	s.process.apply(out, true)
	read = s.st.Retired == nil
	s.st.Retired = nil
	return read, nil
}

// cleanUp returns the host and the leases to their state before the session, and reports what it
// cannot prove. again says that it stopped only to continue as new.
func (s *endingPart) cleanUp() (again bool) {
	failed := s.st.Status == protocol.Failed
	if !failed {
		s.become(protocol.Closing)
	}
	s.leaveJournal()
	if !s.st.Ended {
		s.st.Ended = true
		if s.st.Close == nil {
			s.st.Close = &protocol.Close{}
		}
		if !failed {
			s.note(conversation.Note{Type: "state", Text: "closed", Data: map[string]string{"by": s.st.Close.By}})
		}
	}
	s.publish()
	if s.closeOnHost() {
		return true
	}
	s.leases.releaseLeases()
	if !failed {
		s.become(protocol.Closed)
	}
	s.publish()
	return false
}

// leaveJournal is called when a session ends before the pumps have reported all
// that they read, or fails while a turn runs. It records what was read, so that
// what closing writes to the transcript comes after it.
func (s *endingPart) leaveJournal() {
	if s.st.Lease != nil && s.st.Layout != nil {
		s.moving.recordLost()
	}
	if !s.st.Running {
		return
	}
	why := s.st.Error
	if s.st.Alive {
		s.noteUnread()
	}
	s.turns.giveUpTurn("unknown", why)
	s.st.Error = why // the session's own, not the turn's
}

// closeOnHost stops codex, saves, wipes and removes. What fails is retried until it succeeds or
// somebody says discard. again says that it stopped only to continue as new.
func (s *endingPart) closeOnHost() (again bool) {
	switch {
	case s.st.Touched:
	case s.st.Warm != nil:
		s.closeWarm()
		return false
	default:
		s.recordNotes()
		if s.st.Begun { // it holds nothing, and its work is kept
			gone := s.st.LeftOn == "" // otherwise its pool does that later
			s.st.Closed = &protocol.CloseView{Wiped: gone, Removed: gone, Archive: s.snaps.goodSnapshot()}
		}
		return false
	}
	s.snaps.hush() // closing takes the last snapshot
	for {
		// If the first prepare failed, there is nothing to save. A prepare that was to bring the
		// session back may have found earlier work there.
		unprepared := s.leases.layoutThere() == nil
		discard := s.st.Close.Discard || unprepared && !s.st.Begun
		out, err, calledBack := s.tryClose(discard)
		switch {
		case calledBack:
			continue
		case wasBusy(err) && s.full():
			return true
		}
		if err == nil {
			s.st.Pump.Seq = out.Seq
			s.st.Notes, s.st.Handing = nil, nil
			s.st.Alive = false
			s.st.Closed = &protocol.CloseView{Wiped: out.Wiped, Removed: out.Removed, Archive: out.Archive, Unsaved: out.Unsaved, Kept: out.Kept}
			if s.st.Error != nil && s.st.Error.Message == s.st.CleanError {
				s.st.Error = nil // no longer true
			}
			if out.Problem != nil && s.st.Error == nil {
				s.st.Error = failureOfProblem(out.Problem)
			}
			return false
		}
		f := failureOf(fmt.Sprintf("clean up on %s", s.st.Lease.Spec.Name), err)
		s.cannotClean(f)
		// A host that a newer holder of this session uses is not ours to clean.
		if discard || unprepared || f.Kind == protocol.ErrTypeFenced {
			s.st.Closed = &protocol.CloseView{}
			if f.Kind != protocol.ErrTypeFenced {
				s.st.Left = f.Message
			}
			s.recordNotes()
			return false
		}
		s.tellHeldUp(f)
		if s.leavesToPool(f) {
			s.st.Closed, s.st.Left = &protocol.CloseView{Archive: s.snaps.goodSnapshot()}, f.Message
			// The kind is unreachable also if the host can be reached but loses each connection:
			// the pool's probes find out which of the two it is.
			s.st.Fault = &protocol.Failure{Kind: protocol.ErrTypeUnreachable, Message: f.Message}
			s.recordNotes()
			return false
		}
		if s.holdClean() {
			return true
		}
	}
}

// leavesToPool reports whether the session ends although its host is not clean. It
// does so if the host cannot be reached, or loses each connection, and somebody
// waits for the session's end. The pool later does on the host what closing would
// have done: it saves the work before it removes any (promise 7). The seed recovers
// a login that codex rotated before anybody else gets it (promise 6).
func (s *endingPart) leavesToPool(f *protocol.Failure) bool {
	return (f.Kind == protocol.ErrTypeUnreachable || f.Kind == protocol.ErrTypeWireLost) && s.isWaitedFor()
}

// isWaitedFor reports whether somebody waits for the session's end.
func (s *endingPart) isWaitedFor() bool { return s.opt.CloseAfter || s.opt.Notify != "" }

// cannotClean shows what closing waits for, and records it once.
func (s *endingPart) cannotClean(f *protocol.Failure) {
	if f.Message != s.st.CleanError {
		s.st.CleanError = f.Message
		s.note(conversation.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	}
	if s.st.Status != protocol.Failed {
		s.st.Error = f
	}
}

// holdClean waits before the next try: a minute first, an hour in the end. If the
// session has lost its seed, it stands in line, and tries as soon as it holds it.
func (s *endingPart) holdClean() (again bool) {
	wait := min(time.Minute<<min(s.st.CleanTries, 6), time.Hour)
	s.st.CleanTries++
	s.publish()
	s.leases.standInLine()
	defer s.leases.line.off()
	gone := s.st.SeedGone
	_, err := s.awaitFor(wait, func() bool { return s.st.Close.Discard || s.full() || gone && !s.st.SeedGone })
	return err == nil && s.full()
}

// closeTries is how many attempts closing makes on its host, over at least three
// minutes, before it shows why they fail. Promise 11 allows this limit because
// closing then goes on trying.
const closeTries = 9

// closing returns the context for an activity that closes the session on its host.
// The activity is tried without limit, except that the first call gives up after
// closeTries attempts, so that the session can show what it waits for. If somebody
// waits for the session's end, each call gives up so, and the pool takes over if the
// host cannot be reached. An attempt may take as long to save the work as elsewhere.
func (s *endingPart) closing(summary string) workflow.Context {
	ctx := carrying(untilDone(s.ctx, summary))
	if s.st.CleanTries > 0 && !s.isWaitedFor() {
		return ctx
	}
	policy := *workflow.GetActivityOptions(ctx).RetryPolicy
	policy.MaximumAttempts = closeTries
	return workflow.WithRetryPolicy(ctx, policy)
}

// tryClose runs the closing activity. It is called back if somebody says discard meanwhile.
func (s *endingPart) tryClose(discard bool) (out activities.CloseSessionResult, err error, calledBack bool) {
	opts := s.closing("close on " + s.st.Lease.Spec.Name)
	if discard || s.leases.layoutThere() == nil { // nobody waits: the pool does it later
		opts = setUp(s.ctx, "discard on "+s.st.Lease.Spec.Name)
	}
	var layout protocol.Layout // empty after a failed prepare: the activity finds it
	if l := s.leases.layoutThere(); l != nil {
		layout = *l
	}
	err = s.inLine(s.full, func() (err error) {
		s.st.PumpN++ // above that of any former attempt
		out, err = doingUnless(s.core, opts, func() bool { return s.st.Close.Discard && !discard }, sessions.CloseSession, activities.CloseSessionInput{
			Claim: s.claim(), Layout: layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation,
			Discard: discard, ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq, Notes: s.unwritten(),
			Snapshot: s.snaps.lastSnapshot(), Workspace: s.workspace(),
		})
		return err
	})
	// The next call begins again, wherever this one stopped.
	return out, err, err != nil && s.st.Close.Discard && !discard
}

// closeWarm removes the folder that a parked session left. It takes no slot, and all that is in
// the folder is kept. If the host is away, the pool removes the folder later, and nobody waits
// for that.
func (s *endingPart) closeWarm() {
	w := s.st.Warm
	var out activities.CloseSessionResult
	err := s.inLine(forAWhile(s.ctx, never), func() (err error) {
		s.st.PumpN++
		out, err = doing(s.core, setUp(s.ctx, "close on "+w.Spec.Name), sessions.CloseSession, activities.CloseSessionInput{
			Claim:  protocol.Claim{Session: s.id, Host: w.Spec, Generation: w.Generation, Pump: s.st.PumpN, Told: s.st.Told},
			Layout: w.Layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation, Discard: s.st.Close.Discard,
			ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq, Notes: s.unwritten(), Snapshot: s.snaps.lastSnapshot(), Workspace: s.workspace(),
		})
		return err
	})
	if err != nil {
		f := failureOf("clean up on "+w.Spec.Name, err)
		s.note(conversation.Note{Type: "error", Text: f.Message + "; its pool goes on trying", Data: failureData(f)})
		s.st.Closed, s.st.Left = &protocol.CloseView{Wiped: true, Archive: s.snaps.goodSnapshot()}, f.Message
		s.recordNotes()
		return
	}
	s.st.Pump.Seq = out.Seq
	s.st.Notes, s.st.Handing = nil, nil
	s.st.Closed = &protocol.CloseView{Wiped: out.Wiped, Removed: out.Removed, Archive: cmp.Or(out.Archive, s.snaps.goodSnapshot()), Unsaved: out.Unsaved, Kept: out.Kept}
}

// unwritten returns the transcript entries that no pump is certain to have written.
func (s *endingPart) unwritten() []conversation.Note {
	return append(append([]conversation.Note{}, s.st.Handing...), s.st.Notes...)
}

func (s *endingPart) recordNotes() {
	notes := s.unwritten()
	if len(notes) == 0 {
		return
	}
	var out activities.RecordNotesResult
	err := s.keepWriting("write the transcript", func(ctx workflow.Context, leave func() bool) (err error) {
		out, err = doingUnless(s.core, ctx, leave, sessions.RecordNotes, activities.RecordNotesInput{
			Session: s.id, Seq: s.st.Pump.Seq, Notes: notes,
		})
		return err
	})
	if err != nil {
		s.log.Error("last transcript entries not written", "error", err)
		return
	}
	s.st.Pump.Seq = out.Seq
	s.st.Notes, s.st.Handing = nil, nil
}

// writeFor bounds how long a session waits for the store to write the last entries
// of its transcript, which nobody else can write. Without a limit the session would
// carry them for ever, and its attempts would fill its history. This is a stated
// limit as promise 11 allows.
const writeFor = 7 * 24 * time.Hour

// keepWriting calls try, which writes to the store, until it works. Between two
// attempts it shows the failure and waits. It returns the error of the last attempt
// if that does not pass, if somebody discards, or after writeFor.
//
// It may be called in the middle of a step, where a run cannot end. So once the
// history is long enough, the server repeats the activity, and the attempts are not
// in the history. try must cancel its activity when leave returns true.
func (s *endingPart) keepWriting(doing string, try func(ctx workflow.Context, leave func() bool) error) error {
	since := workflow.Now(s.ctx)
	for shown := false; ; shown = true {
		ctx, leave := setUp(s.ctx, doing), never
		if shown && s.roll.due() && !s.discarding() {
			left := max(writeFor-workflow.Now(s.ctx).Sub(since), time.Minute)
			ctx, leave = workflow.WithScheduleToCloseTimeout(untilDone(s.ctx, doing), left), s.discarding
		}
		err := try(ctx, leave)
		if err == nil {
			if t := s.st.Trouble; t != nil && t.Doing == doing {
				s.overcome()
			}
			return nil
		}
		f := failureOf(doing, err)
		if !failurePasses(f) || s.discarding() || workflow.Now(s.ctx).Sub(since) >= writeFor {
			if t := s.st.Trouble; t != nil && t.Doing == doing {
				s.st.Trouble = nil
			}
			return err
		}
		s.meet(doing, f)
		if s.st.Close != nil || s.st.Status == protocol.Failed {
			s.tellHeldUp(f)
		}
		wait := pauseAfter(s.st.Trouble.Attempt)
		s.st.Trouble.NextAt = workflow.Now(s.ctx).Add(wait)
		s.publish()
		if _, werr := s.awaitFor(wait, s.discarding); werr != nil {
			return err
		}
	}
}

func (s *endingPart) checkClose(c protocol.Close) error {
	if err := short([]text{{"by", c.By, maxWord}}); err != nil {
		return refuse(protocol.RefusedBadInput, "close session %s: %v", s.id, err)
	}
	// A failed session, too, may be held up by what it left on its host.
	if c.Discard && s.st.Close != nil && !s.st.Close.Discard && s.st.Closed == nil && s.st.Status != protocol.Closed {
		return nil
	}
	return s.ends()
}

func (s *endingPart) takeClose(c protocol.Close) (protocol.SessionView, error) {
	if err := s.checkClose(c); err != nil {
		return protocol.SessionView{}, err
	}
	if c.By == "" && s.st.Close != nil {
		c.By = s.st.Close.By
	}
	s.st.Close = &c
	return s.view(), nil
}
