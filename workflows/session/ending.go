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

// closeGrace is how long codex may take to end a turn before a close.
const closeGrace = 15 * time.Second

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

type endState struct {
	Close      *protocol.Close `json:"close,omitempty"`
	CloseDue   bool            `json:"close_due,omitempty"` // closes when codex runs no further turn of its own
	CloseTries int             `json:"close_tries,omitempty"`
	GraceOver  bool            `json:"grace_over,omitempty"`
	// Failing is the failure with which the session ends once codex's journal was read.
	Failing    *protocol.Failure   `json:"failing,omitempty"`
	Ended      bool                `json:"ended,omitempty"`
	CleanTries int                 `json:"clean_tries,omitempty"`
	CleanError string              `json:"clean_error,omitempty"`
	EndTold    bool                `json:"end_told,omitempty"` // the end was reported before the host was clean
	Closed     *protocol.CloseView `json:"closed,omitempty"`
	Left       string              `json:"left,omitempty"` // why something may still be on the host
}

// newlyClosing reports whether codex has yet to be told to end a turn for a close.
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

// interruptForClose ends the running turn before a close.
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

// giveUpForClose ends a turn whose end codex did not report.
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

// stoppedForClose is the kind of problem of a codex that did not end its turn before the
// close. It is no failure.
const stoppedForClose = "closed"

// stopForClose stops codex, so that the next pump can read its journal to the end.
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
			s.giveUpJournal() // a newer holder uses the host: no journal of ours is there
			return
		}
		if s.st.Failing != nil && !kit.FailurePasses(f) {
			s.giveUpJournal() // the session's failure may prevent reading for ever
			return
		}
		s.cannotRead(f)
	}
}

// cannotRead shows and reports a failure to read the journal of a closing session, and
// waits before the next attempt.
func (s *endingPart) cannotRead(f *protocol.Failure) {
	s.cannotClean(f)
	s.tellHeldUp(f)
	s.holdClean() // the loop ends a run whose history is full
}

// giveUpJournal ends the turn of a session whose journal is not read to the end. It first
// records what the pumps read, to keep the transcript's order.
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

func (s *endingPart) noteUnread() {
	s.note(conversation.Note{Type: "error", Text: fmt.Sprintf("what codex wrote last on host %s was not read: the transcript and the record of approvals may lack the end of turn %d", s.hostName(), s.st.TurnN),
		Data: map[string]string{"host": s.hostName()}})
}

// stoppedToFail is the kind of problem of a codex whose session fails.
const stoppedToFail = "failed"

// readRestFor bounds each of stopping codex and reading its journal for a session that
// fails within a turn. The session's failure may make both fail too.
const readRestFor = 2 * time.Minute

// refusesUs are the failures after which nothing can be read on the host.
var refusesUs = []string{protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeHostFlood, protocol.ErrTypeFolderGone, protocol.ErrTypeFenced}

// readRest stops codex and reads its journal to the end before the session fails with f
// within a turn, since closing deletes the journal. It makes one attempt. If waiting can
// mend a failure of the attempt (the host is away), it returns true: the session then
// closes as any other, and fails at the end.
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

// failLater has the session fail with f once codex's journal was read. why says why it
// cannot be read now.
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

// onlyReads removes files and steers from a pump's input. They may be the cause of the
// session's failure.
func onlyReads(in *pumps.RunPumpInput) {
	in.Files, in.LostAfter = nil, 0
	in.Pump.Sends = slices.DeleteFunc(in.Pump.Sends, func(p conversation.Send) bool { return p.Kind == conversation.SendSteer })
}

// readToFail reads the journal of a stopped process. read says whether it came to the end.
func (s *endingPart) readToFail(f *protocol.Failure) (read bool, why *protocol.Failure) {
	s.st.Retired = &protocol.Problem{Kind: stoppedToFail, Message: f.Message}
	in := s.process.pumpInput()
	onlyReads(&in)
	out, err := doingUnless(s.core, workflow.WithScheduleToCloseTimeout(kit.Attached(s.ctx, s.process.pumpSummary()), readRestFor), s.discarding, pumpJobs.RunPump, in)
	s.carriedTo(out.Audited)
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

func (s *endingPart) cleanUp() (again bool) {
	failed := s.st.Status == protocol.Failed
	if !failed {
		s.become(protocol.Closing)
	}
	s.leaveJournal()
	if !s.st.Ended {
		s.st.Ended = true
		s.recordReturn("the session ends")
		s.approvals.noMoreAsked("the session ends")
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

// leaveJournal records what pumps read and did not report, before closing writes to the
// transcript. It ends a running turn.
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
	s.st.Error = why // not the failure of the turn
}

// closeOnHost cleans the host. It retries until all succeeds, somebody says discard, or the
// pool takes over.
func (s *endingPart) closeOnHost() (again bool) {
	switch {
	case s.st.Touched:
	case s.st.Warm != nil:
		s.closeWarm()
		return false
	default:
		s.recordNotes()
		if s.st.Begun { // it has no host, and its work is kept
			gone := s.st.LeftOn == "" // otherwise the pool cleans that host
			s.st.Closed = &protocol.CloseView{Wiped: gone, Removed: gone, Archive: s.snaps.goodSnapshot()}
		}
		return false
	}
	s.snaps.hush() // closing takes the last snapshot
	for {
		// After a failed first prepare there is nothing to save. After a later one, earlier
		// work may be there.
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
		// A newer holder uses the host (fenced): closing must not clean it.
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
			// The host may also be reachable and lose each connection; the pool's probes
			// find out.
			s.st.Fault = &protocol.Failure{Kind: protocol.ErrTypeUnreachable, Message: f.Message}
			s.recordNotes()
			return false
		}
		if s.holdClean() {
			return true
		}
	}
}

// leavesToPool reports whether the session ends although its host is not clean, because the
// host cannot be reached and somebody waits for the session's end. The pool saves the work
// before it removes any (promise 7). The seed recovers a rotated login before anybody else
// gets it (promise 6).
func (s *endingPart) leavesToPool(f *protocol.Failure) bool {
	return (f.Kind == protocol.ErrTypeUnreachable || f.Kind == protocol.ErrTypeWireLost) && s.isWaitedFor()
}

func (s *endingPart) isWaitedFor() bool { return s.opt.CloseAfter || s.opt.Notify != "" }

func (s *endingPart) cannotClean(f *protocol.Failure) {
	if f.Message != s.st.CleanError {
		s.st.CleanError = f.Message
		s.note(conversation.Note{Type: "error", Text: f.Message, Data: failureData(f)})
	}
	if s.st.Status != protocol.Failed {
		s.st.Error = f
	}
}

// holdClean waits before the next try: first a minute, finally an hour. If the session
// regains a lost seed, the wait ends.
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

// CloseTries is how many attempts closing makes, over at least three minutes, before it
// shows why they fail. Closing then goes on trying (promise 11).
const CloseTries = 9

// closing returns the context for closing the session on its host. The first call gives up
// after CloseTries attempts, to show why the session waits; later calls do not give up. If
// somebody waits for the session's end, every call gives up, so that the pool can take
// over.
func (s *endingPart) closing(summary string) workflow.Context {
	ctx := kit.Carrying(kit.UntilDone(s.ctx, summary))
	if s.st.CleanTries > 0 && !s.isWaitedFor() {
		return ctx
	}
	policy := *workflow.GetActivityOptions(ctx).RetryPolicy
	policy.MaximumAttempts = CloseTries
	return workflow.WithRetryPolicy(ctx, policy)
}

// tryClose runs the closing activity. calledBack says that it was cancelled for discard.
func (s *endingPart) tryClose(discard bool) (out places.CloseSessionResult, err error, calledBack bool) {
	opts := s.closing("close on " + s.st.Lease.Spec.Name)
	if discard || s.leases.layoutThere() == nil { // the pool cleans the host later
		opts = kit.SetUp(s.ctx, "discard on "+s.st.Lease.Spec.Name)
	}
	var layout protocol.Layout // empty after a failed prepare: the activity looks for the folder
	if l := s.leases.layoutThere(); l != nil {
		layout = *l
	}
	err = s.inLine(s.full, func() (err error) {
		s.st.PumpN++
		out, err = doingUnless(s.core, opts, func() bool { return s.st.Close.Discard && !discard }, placeJobs.CloseSession, places.CloseSessionInput{
			Claim: s.claim(), Layout: layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation,
			Discard: discard, ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq, Notes: s.unwritten(),
			Snapshot: s.snaps.lastSnapshot(), Workspace: s.workspace(), Audit: s.carry(),
		})
		s.carriedTo(out.Audited)
		return err
	})
	// The caller tries again with discard.
	return out, err, err != nil && s.st.Close.Discard && !discard
}

// closeWarm removes the folder of a parked session. The store has all its work. If the host
// is away, the pool removes the folder later.
func (s *endingPart) closeWarm() {
	w := s.st.Warm
	var out places.CloseSessionResult
	err := s.inLine(kit.ForAWhile(s.ctx, kit.Never), func() (err error) {
		s.st.PumpN++
		out, err = doing(s.core, kit.SetUp(s.ctx, "close on "+w.Spec.Name), placeJobs.CloseSession, places.CloseSessionInput{
			Claim:  protocol.Claim{Session: s.id, Host: w.Spec, Generation: w.Generation, Pump: s.st.PumpN, Told: s.st.Told},
			Layout: w.Layout, Seed: s.st.Seed, Incarnation: s.st.Incarnation, Discard: s.st.Close.Discard,
			ThreadID: s.st.Pump.ThreadID, Seq: s.st.Pump.Seq, Notes: s.unwritten(), Snapshot: s.snaps.lastSnapshot(), Workspace: s.workspace(), Audit: s.carry(),
		})
		s.carriedTo(out.Audited)
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
			Session: s.id, Seq: s.st.Pump.Seq, Notes: notes, Audit: s.carry(),
		})
		s.carriedTo(out.Audited)
		return err
	})
	if err != nil {
		s.log.Error("last transcript entries not written", "error", err)
		return
	}
	s.st.Pump.Seq = out.Seq
	s.st.Notes, s.st.Handing = nil, nil
}

// writeFor bounds how long a session tries to write the last entries of its transcript.
// Endless attempts would fill its history. Promise 11 (docs/explanation/guarantees.md) lets
// a stated limit end accepted work.
const writeFor = 7 * 24 * time.Hour

// keepWriting calls try, which writes to the store, until it works. It returns the last
// error if waiting cannot mend it, if somebody says discard, or after writeFor.
//
// Within a step the run cannot continue as new. So when the history is long, the server
// repeats the activity, which adds nothing to the history. try must cancel its activity
// when leave returns true.
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
	// Discard also helps a failed session that cannot clean up its host.
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
	c.Sender = protocol.Sender{}
	s.st.Close = &c
	return s.view(), nil
}
