package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// closeGrace is how long codex may take to end a turn when the session closes.
const closeGrace = 15 * time.Second

// endingPart closes the session, and reports its end.
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

// endState holds how the session ends, and what it could not clean up.
type endState struct {
	Close      *protocol.Close `json:"close,omitempty"`
	CloseDue   bool            `json:"close_due,omitempty"`   // the session closes when codex runs no further turn of its own
	CloseTries int             `json:"close_tries,omitempty"` // pumps that were to end the turn
	GraceOver  bool            `json:"grace_over,omitempty"`  // closeGrace has passed, and the turn still runs
	// Failing is the failure with which the session ends after codex's journal was read. It
	// is set if the host was away when the session failed.
	Failing    *protocol.Failure   `json:"failing,omitempty"`
	Ended      bool                `json:"ended,omitempty"`       // no message becomes a turn any more
	CleanTries int                 `json:"clean_tries,omitempty"` // times that closing failed and waited to try again
	CleanError string              `json:"clean_error,omitempty"` // the newest reason in the transcript
	EndTold    bool                `json:"end_told,omitempty"`    // the end was reported before the host was clean
	Closed     *protocol.CloseView `json:"closed,omitempty"`
	Left       string              `json:"left,omitempty"` // why something of the session may still be on the host
}

// newlyClosing reports whether the session is to close while a turn runs, and codex was not
// yet told to end the turn.
func (s *endingPart) newlyClosing() bool {
	return s.st.Close != nil && s.st.Failing == nil && s.st.Running && s.st.Sending(conversation.SendInterrupt) == nil
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

// interruptForClose ends the running turn before a close. It asks codex to end the turn. If
// codex does not do so in time, interruptForClose stops its process and reads its journal
// to the end, since closing deletes the journal. It repeats these steps until the host can
// be reached. Only discard ends them earlier.
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

// giveUpForClose ends the turn of a session that closes, without an end reported by codex.
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

// stoppedForClose is the kind of problem that says that codex was stopped because the
// session closes and codex did not end its turn in time. It is no failure.
const stoppedForClose = "closed"

// stopForClose stops codex, so that nothing is added to its journal. The next pump
// reads the journal to the end.
func (s *endingPart) stopForClose() {
	s.publish()
	name := s.hostName()
	s.st.PumpN++
	_, err := doingUnless(s.core, s.closing("stop codex on "+name), s.discarding, placeJobs.StopServer, places.StopServerInput{
		Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed,
	})
	switch {
	case err == nil:
		s.st.Retired = &protocol.Problem{Kind: stoppedForClose, Message: "codex did not end the turn before the session closed"}
	case s.discarding(): // discard cancelled the activity, or came after it failed
	default:
		f := kit.FailureOf("stop codex on "+name, err)
		if f.Kind == protocol.ErrTypeFenced {
			s.giveUpJournal() // a newer holder uses the host, so there is no journal of ours to read
			return
		}
		if s.st.Failing != nil && !kit.FailurePasses(f) {
			s.giveUpJournal() // the failure of the session may prevent reading for ever
			return
		}
		s.cannotRead(f)
	}
}

// cannotRead handles a failure to read the journal of a session that is to close. It shows
// the failure, reports it to the workflow that waits for the session's end, and waits
// before the next attempt, as closing does.
func (s *endingPart) cannotRead(f *protocol.Failure) {
	s.cannotClean(f)
	s.tellHeldUp(f)
	s.holdClean() // the result is not needed: the loop ends a run whose history is full
}

// giveUpJournal ends the turn of a session whose journal will not be read to the end. It
// first records what the pumps have read, as for a lost host, so that later entries of the
// transcript come after it.
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

// A session that fails within a turn stops codex and then reads its journal to the end.
// readRestFor bounds each of these two steps, because the failure of the session may make
// them fail too.
const readRestFor = 2 * time.Minute

// refusesUs are the kinds of failure after which nothing can be read on the host.
var refusesUs = []string{protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeFolderGone, protocol.ErrTypeFenced}

// readRest reads codex's journal to its end before the session fails with f within a turn,
// since closing deletes the journal. It first stops codex, so that nothing is added. It
// makes one attempt. If waiting can mend a failure of this attempt (the host is away),
// readRest returns true: the session then closes as any other, which reads the journal, and
// fails at the end. After any other failure, readRest notes that the rest was not read.
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
		if kit.FailurePasses(why) && s.st.Close == nil {
			s.failLater(f, why)
			return true
		}
	}
	s.noteUnread()
	return false
}

// failLater has the session read codex's journal before it fails with f. why is the reason
// why it cannot read the journal now.
func (s *endingPart) failLater(f, why *protocol.Failure) {
	s.note(conversation.Note{Type: protocol.EntryState, Text: kit.Cut("the session fails when codex's journal is read: "+f.Message, kit.MaxFailure), Data: failureData(f)})
	s.st.Failing, s.st.Close, s.st.GraceOver = f, &protocol.Close{}, true
	s.become(protocol.Closing)
	s.cannotRead(why)
}

func (s *endingPart) stopToFail() *protocol.Failure {
	s.st.PumpN++
	_, err := doingUnless(s.core, workflow.WithScheduleToCloseTimeout(kit.SetUp(s.ctx, "stop codex on "+s.hostName()), readRestFor), s.discarding,
		placeJobs.StopServer, places.StopServerInput{Claim: s.claim(), Layout: *s.st.Layout, Incarnation: s.st.Incarnation, Seed: s.st.Seed})
	if err != nil {
		return kit.FailureOf("stop codex on "+s.hostName(), err)
	}
	return nil
}

// onlyReads removes files, and messages that were to steer the turn, from the input of a
// pump whose session fails. Codex takes no more of them, and they may be the cause of the
// failure.
func onlyReads(in *pumps.RunPumpInput) {
	in.Files, in.LostAfter = nil, 0
	in.Pump.Sends = slices.DeleteFunc(in.Pump.Sends, func(p conversation.Send) bool { return p.Kind == conversation.SendSteer })
}

// readToFail reads the journal of a process that was stopped. read says whether the pump
// came to the journal's end. why is the failure of the pump, if it failed.
func (s *endingPart) readToFail(f *protocol.Failure) (read bool, why *protocol.Failure) {
	s.st.Retired = &protocol.Problem{Kind: stoppedToFail, Message: f.Message}
	in := s.process.pumpInput()
	onlyReads(&in)
	out, err := doingUnless(s.core, workflow.WithScheduleToCloseTimeout(kit.Attached(s.ctx, s.process.pumpSummary()), readRestFor), s.discarding, pumpJobs.RunPump, in)
	if err != nil {
		s.st.Retired = nil
		s.st.Again++
		return false, kit.FailureOf("read codex's journal on "+s.hostName(), err)
	}
	s.st.Handing, s.st.Again, s.st.Forget = nil, 0, nil
	s.approvals.heardOfPolicy(out)
	s.process.apply(out, true)
	read = s.st.Retired == nil
	s.st.Retired = nil
	return read, nil
}

// cleanUp cleans the host, gives back the leases, and records what may be left on the host.
// again says that it stopped only to continue as new.
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

// leaveJournal is called when a session ends before the pumps have reported all that they
// read, or fails while a turn runs. It records what was read, so that it stands in the
// transcript before the entries that closing writes.
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
	s.st.Error = why // keep the failure of the session, not that of the turn
}

// closeOnHost stops codex, saves the work and the login, wipes the credential, and removes
// the folder. It retries until all succeeds or somebody says discard. again says that it
// stopped only to continue as new.
func (s *endingPart) closeOnHost() (again bool) {
	switch {
	case s.st.Touched:
	case s.st.Warm != nil:
		s.closeWarm()
		return false
	default:
		s.recordNotes()
		if s.st.Begun { // the session holds no host, and its work is kept
			gone := s.st.LeftOn == "" // otherwise the pool cleans that host later
			s.st.Closed = &protocol.CloseView{Wiped: gone, Removed: gone, Archive: s.snaps.goodSnapshot()}
		}
		return false
	}
	s.snaps.hush() // closing takes the last snapshot
	for {
		// If the first prepare failed, there is nothing to save. If the prepare was to
		// bring the session back, earlier work of it may be on the host.
		unprepared := s.leases.layoutThere() == nil
		discard := s.st.Close.Discard || unprepared && !s.st.Begun
		out, err, calledBack := s.tryClose(discard)
		switch {
		case calledBack:
			continue
		case kit.WasBusy(err) && s.full():
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
				s.st.Error = kit.FailureOfProblem(out.Problem)
			}
			return false
		}
		f := kit.FailureOf(fmt.Sprintf("clean up on %s", s.st.Lease.Spec.Name), err)
		s.cannotClean(f)
		// If a newer holder of this session uses the host (fenced), closing must not clean
		// it.
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

// leavesToPool reports whether the session ends although its host is not clean. It does so
// if the host cannot be reached, or loses each connection, and somebody waits for the
// session's end. Later the pool cleans the host as closing would have: it saves the work
// before it removes any (promise 7). The seed recovers a login that codex rotated before
// anybody else gets it (promise 6).
func (s *endingPart) leavesToPool(f *protocol.Failure) bool {
	return (f.Kind == protocol.ErrTypeUnreachable || f.Kind == protocol.ErrTypeWireLost) && s.isWaitedFor()
}

// isWaitedFor reports whether somebody waits for the session's end.
func (s *endingPart) isWaitedFor() bool { return s.opt.CloseAfter || s.opt.Notify != "" }

// cannotClean shows the failure that closing waits out, and writes each new message to the
// transcript.
func (s *endingPart) cannotClean(f *protocol.Failure) {
	if f.Message != s.st.CleanError {
		s.st.CleanError = f.Message
		s.note(conversation.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	}
	if s.st.Status != protocol.Failed {
		s.st.Error = f
	}
}

// holdClean waits before the next try: a minute first, an hour in the end. If the session
// has lost the lease on its seed, it asks for the seed, and the wait ends when it holds the
// seed.
func (s *endingPart) holdClean() (again bool) {
	wait := min(time.Minute<<min(s.st.CleanTries, 6), time.Hour)
	s.st.CleanTries++
	s.publish()
	s.leases.standInLine()
	defer s.leases.line.Off()
	gone := s.st.SeedGone
	_, err := s.awaitFor(wait, func() bool { return s.st.Close.Discard || s.full() || gone && !s.st.SeedGone })
	return err == nil && s.full()
}

// Closing makes CloseTries attempts on its host, over at least three minutes, before it
// shows why they fail. Promise 11 allows this limit because closing then goes on trying.
const CloseTries = 9

// closing returns the context for an activity that closes the session on its host. The
// activity is tried without limit, except that the first call gives up after CloseTries
// attempts, so that the session can show what it waits for. If somebody waits for the
// session's end, each call gives up after CloseTries attempts, and the pool takes over if
// the host cannot be reached. Saving the work has the same time limit as for other
// snapshots.
func (s *endingPart) closing(summary string) workflow.Context {
	ctx := kit.Carrying(kit.UntilDone(s.ctx, summary))
	if s.st.CleanTries > 0 && !s.isWaitedFor() {
		return ctx
	}
	policy := *workflow.GetActivityOptions(ctx).RetryPolicy
	policy.MaximumAttempts = CloseTries
	return workflow.WithRetryPolicy(ctx, policy)
}

// tryClose runs the closing activity. If somebody says discard meanwhile, it cancels the
// activity and returns calledBack.
func (s *endingPart) tryClose(discard bool) (out places.CloseSessionResult, err error, calledBack bool) {
	opts := s.closing("close on " + s.st.Lease.Spec.Name)
	if discard || s.leases.layoutThere() == nil { // a few attempts are enough, since the pool cleans the host later
		opts = kit.SetUp(s.ctx, "discard on "+s.st.Lease.Spec.Name)
	}
	var layout protocol.Layout // empty after a failed prepare; the activity then looks for the folder
	if l := s.leases.layoutThere(); l != nil {
		layout = *l
	}
	err = s.inLine(s.full, func() (err error) {
		s.st.PumpN++ // higher than in any former attempt
		out, err = doingUnless(s.core, opts, func() bool { return s.st.Close.Discard && !discard }, placeJobs.CloseSession, places.CloseSessionInput{
			Claim: s.claim(), Layout: layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation,
			Discard: discard, ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq, Notes: s.unwritten(),
			Snapshot: s.snaps.lastSnapshot(), Workspace: s.workspace(),
		})
		return err
	})
	// The caller calls tryClose again with discard. It does not matter where this call
	// stopped.
	return out, err, err != nil && s.st.Close.Discard && !discard
}

// closeWarm removes the folder that a parked session left on a host. It needs no slot, and
// the store has all work that is in the folder. If the host is away, the pool removes the
// folder later, and the session does not wait for that.
func (s *endingPart) closeWarm() {
	w := s.st.Warm
	var out places.CloseSessionResult
	err := s.inLine(kit.ForAWhile(s.ctx, kit.Never), func() (err error) {
		s.st.PumpN++
		out, err = doing(s.core, kit.SetUp(s.ctx, "close on "+w.Spec.Name), placeJobs.CloseSession, places.CloseSessionInput{
			Claim:  protocol.Claim{Session: s.id, Host: w.Spec, Generation: w.Generation, Pump: s.st.PumpN, Told: s.st.Told},
			Layout: w.Layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation, Discard: s.st.Close.Discard,
			ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq, Notes: s.unwritten(), Snapshot: s.snaps.lastSnapshot(), Workspace: s.workspace(),
		})
		return err
	})
	if err != nil {
		f := kit.FailureOf("clean up on "+w.Spec.Name, err)
		s.note(conversation.Note{Type: "error", Text: f.Message + "; its pool goes on trying", Data: failureData(f)})
		s.st.Closed, s.st.Left = &protocol.CloseView{Wiped: true, Archive: s.snaps.goodSnapshot()}, f.Message
		s.recordNotes()
		return
	}
	s.st.Pump.Seq = out.Seq
	s.st.Notes, s.st.Handing = nil, nil
	s.st.Closed = &protocol.CloseView{Wiped: out.Wiped, Removed: out.Removed, Archive: cmp.Or(out.Archive, s.snaps.goodSnapshot()), Unsaved: out.Unsaved, Kept: out.Kept}
}

// unwritten returns the transcript entries that are not known to be written.
func (s *endingPart) unwritten() []conversation.Note {
	return append(append([]conversation.Note{}, s.st.Handing...), s.st.Notes...)
}

func (s *endingPart) recordNotes() {
	notes := s.unwritten()
	if len(notes) == 0 {
		return
	}
	var out pumps.RecordNotesResult
	err := s.keepWriting("write the transcript", func(ctx workflow.Context, leave func() bool) (err error) {
		out, err = doingUnless(s.core, ctx, leave, pumpJobs.RecordNotes, pumps.RecordNotesInput{
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

// writeFor bounds how long a session tries to write the last entries of its transcript
// to the store. Nobody else can write them. Without a limit the session would carry
// them for ever, and its attempts would fill its history. This limit does not break
// promise 11 (docs/explanation/guarantees.md), which lets a stated limit end accepted
// work.
const writeFor = 7 * 24 * time.Hour

// keepWriting calls try, which writes to the store, until it works. Between two attempts it
// shows the failure and waits. It returns the error of the last attempt if waiting cannot
// mend it, if somebody says discard, or after writeFor.
//
// keepWriting may be called in the middle of a step, where the run cannot continue as new.
// So when the history is long, keepWriting has the server repeat the activity, because such
// attempts add nothing to the history. try must cancel its activity when leave returns
// true.
func (s *endingPart) keepWriting(doing string, try func(ctx workflow.Context, leave func() bool) error) error {
	since := workflow.Now(s.ctx)
	for shown := false; ; shown = true {
		ctx, leave := kit.SetUp(s.ctx, doing), kit.Never
		if shown && s.roll.Due() && !s.discarding() {
			left := max(writeFor-workflow.Now(s.ctx).Sub(since), time.Minute)
			ctx, leave = workflow.WithScheduleToCloseTimeout(kit.UntilDone(s.ctx, doing), left), s.discarding
		}
		err := try(ctx, leave)
		if err == nil {
			if t := s.st.Trouble; t != nil && t.Doing == doing {
				s.overcome()
			}
			return nil
		}
		f := kit.FailureOf(doing, err)
		if !kit.FailurePasses(f) || s.discarding() || workflow.Now(s.ctx).Sub(since) >= writeFor {
			if t := s.st.Trouble; t != nil && t.Doing == doing {
				s.st.Trouble = nil
			}
			return err
		}
		s.meet(doing, f)
		if s.st.Close != nil || s.st.Status == protocol.Failed {
			s.tellHeldUp(f)
		}
		wait := kit.PauseAfter(s.st.Trouble.Attempt)
		s.st.Trouble.NextAt = workflow.Now(s.ctx).Add(wait)
		s.publish()
		if _, werr := s.awaitFor(wait, s.discarding); werr != nil {
			return err
		}
	}
}

func (s *endingPart) checkClose(c protocol.Close) error {
	if err := kit.Short([]kit.Text{{What: "by", Is: c.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "close session %s: %v", s.id, err)
	}
	// Discard also applies to a failed session that cannot clean up its host.
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
