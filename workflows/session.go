package workflows

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// session is one durable conversation, from the first lease to the last proof that
// nothing was left behind. It returns the session's last view. If the session could
// not begin, its error has that view as details.
func (every intervals) session(ctx workflow.Context, in SessionInput) (SessionView, error) {
	s, err := newSession(ctx, in, every.snapshot)
	if err != nil {
		showRefused(ctx)
		tellRefused(ctx, in, err)
		return SessionView{}, err
	}
	return s.run()
}

// session is the workflow while it runs. Handlers change only st; the loop in
// converse acts on it.
type session struct {
	// ctx outlives a cancellation of the workflow, which is taken as a close.
	ctx     workflow.Context
	id      string
	opt     SessionOptions
	st      *sessionState
	log     log.Logger
	shown   attributes // what the search attributes say now
	doors   []door     // signal channels, to be emptied before a rollover
	parsed  []ruling   // policies, as they were last parsed
	stirs   workflow.ReceiveChannel
	lease   workflow.ReceiveChannel
	calls   workflow.ReceiveChannel // of pools that ask what it holds
	answers []workflow.Future       // the session's answers to these pools, as they are sent
	goes    workflow.ReceiveChannel // of its pool, when its host is drained
	stir    activities.Stirred      // the newest, while a pump is attached
	roll    *rollover
	alarm   *alarm // for approvals that expire
	tick    *alarm // for snapshots within a long turn
	sleep   *alarm // for an idle session that parks
	wake    *wake  // for a session that waits for the end of a limit
	line    *wake  // for an idle session that asks again for the seed that it lost

	reports workflow.ReceiveChannel // of progress

	taking workflow.CancelFunc // calls back the snapshot that is being taken
	hushed int                 // how many callers of hush keep snapshots from being taken

	pushes  []*aPush // requested; nothing else begins on the host before they are done
	pushing *aPush   // the one in progress
	parking bool
	crowded bool    // what it does now waits for room on the workers
	insists bool    // what it does now must end within this run
	another bool    // codex began another turn after the one that ended
	leaving bool    // its host is lost: what codex had there cannot be looked up
	obeyed  *Resume // the request to resume that it acts on now
	wished  *Resume // the request to resume for which the running pump is not called back
}

func newSession(ctx workflow.Context, in SessionInput, mostOften time.Duration) (*session, error) {
	opt, err := in.check(ctx, mostOften)
	if err != nil {
		if in.Carry == nil {
			answerRefused(ctx, in, err)
		}
		return nil, err
	}
	s := &session{id: in.ID, opt: opt, st: in.Carry, log: workflow.GetLogger(ctx), roll: newRollover(ctx)}
	s.ctx, _ = workflow.NewDisconnectedContext(ctx)
	s.alarm = newAlarm(s.ctx, "an approval expires")
	s.tick = newAlarm(s.ctx, "a snapshot is due")
	s.sleep = newAlarm(s.ctx, "an idle session parks")
	s.wake = &wake{ctx: s.ctx, what: "a limit has ended"}
	s.line = &wake{ctx: s.ctx, what: "ask for the seed again"}
	if s.st == nil {
		// Not the time of the first task, because the first worker may come much
		// later. Microseconds, as in lists.
		began := workflow.GetInfo(ctx).WorkflowStartTime.Truncate(time.Microsecond)
		s.st = &sessionState{Status: Queued, CreatedAt: began, UpdatedAt: workflow.Now(ctx)}
	}
	s.st.Begun = s.st.Begun || s.st.Layout != nil
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if in.Carry == nil {
		if err := s.takeFirst(in.First); err != nil {
			return nil, err
		}
	}
	workflow.Go(s.ctx, s.takeSnapshots)
	if opt.TTL > 0 {
		workflow.Go(s.ctx, s.endLife)
	}
	workflow.Go(s.ctx, func(gctx workflow.Context) {
		ctx.Done().Receive(gctx, nil)
		if s.st.Close == nil {
			s.note(activities.Note{Type: "state", Text: "the workflow was cancelled: closing"})
			s.st.Close = &Close{By: "temporal"}
		}
	})
	return s, nil
}

// run runs the parts of a session's life. Each may continue where a former run
// stopped.
func (s *session) run() (SessionView, error) {
	again := false
	if !s.st.Begun && s.st.Close == nil && s.st.Status != Failed {
		var f *Failure
		if f, again = s.prepareFirst(); f != nil {
			s.fail(f)
		}
	}
	if !again && s.st.Status != Failed {
		var err error
		if again, err = s.converse(); err != nil {
			return SessionView{}, err
		}
	}
	if f := s.st.Failing; f != nil && !again && s.st.Status != Failed {
		s.fail(f)
	}
	if again || s.cleanUp() {
		return SessionView{}, s.rollOver()
	}
	s.tellEnded()
	if s.st.Status == Failed {
		return SessionView{}, temporal.NewNonRetryableApplicationError(
			s.st.Error.Message, s.st.Error.Kind, nil, s.view())
	}
	return s.view(), nil
}

// converse handles messages and turns until the session is to close. again means
// that it only stopped to continue as new, which it can between any two steps.
func (s *session) converse() (again bool, err error) {
	for {
		s.expire()
		switch {
		case s.st.Status == Failed:
			return false, nil
		case s.st.Close != nil && !s.st.Running && s.mayRunStill():
			err = s.pump()
			s.st.Stirred = false // once: closing stops codex anyway
		case s.st.Close != nil && !s.st.Running:
			return false, nil
		case s.mayPushNow():
			s.pushNext()
		case s.full():
			return true, nil
		case s.st.Close != nil:
			err = s.interruptForClose()
		case s.st.Parked != nil && !s.wantsUp():
			err = s.rest()
		case s.st.Layout == nil:
			if s.comeUp() {
				return true, nil
			}
		case s.st.Resume != nil && s.st.Lost != nil:
			s.goAway(s.lostFailure())
		case s.st.Resume != nil && s.st.Running:
			s.stayAfterAll()
		case s.mustRegainSeed():
			if s.regainSeed() {
				return true, nil
			}
		case s.st.Running && !s.st.Alive:
			// The turn never began, or codex has to be asked whether it did. The
			// next process does that.
			s.st.Reap = false // starting a new process begins with that
			if s.startAgain() {
				return true, nil
			}
		case s.st.Resume != nil && s.quiet():
			if s.move() {
				return true, nil
			}
		case s.parkDue():
			if s.leaveOrPark() {
				return true, nil
			}
			s.stillHere()
		case s.st.Reap && !s.canBegin():
			s.reap()
		case s.wantsPump():
			err = s.pump()
		case s.journalFull():
			s.renewJournal()
		case s.beginTurn():
			// loop: there is something to send now
		default:
			err = s.wait()
		}
		if err != nil {
			return false, err
		}
	}
}

func (s *session) full() bool { return !s.insists && s.roll.due() }

// resumeDue reports whether converse can act on a request to resume.
func (s *session) resumeDue() bool {
	return s.st.Resume != nil && (s.st.Lost != nil || s.st.Running || s.quiet())
}

// wait sleeps until there is something to do. Only the timers that it needs cost
// events.
func (s *session) wait() error {
	if s.st.CloseDue && !s.st.Running && s.st.Close == nil {
		s.st.Close = &Close{By: s.opt.By} // codex began no further turn, or died
		return nil
	}
	s.st.Trouble, s.st.Started = nil, true // a turn could begin
	s.settle()
	s.publish()
	awake := func() bool {
		return s.st.Close != nil || s.mayPushNow() || s.wantsPump() || s.canBegin() || s.full() || s.resumeDue() || s.parkDue() || s.outOfDate() || s.waitIsOver()
	}
	if s.opt.CloseAfter && s.st.NextN == 0 {
		ok, err := s.awaitFor(unusedFor, awake)
		if err == nil && !ok {
			s.note(activities.Note{Type: "state", Text: "nobody sent the message that the session was started for"})
			s.st.Close = &Close{By: s.opt.By}
		}
		return err
	}
	s.setAlarm()
	s.setSleep()
	s.setLimit()
	s.standInLine()
	err := s.await(func() bool { return awake() || s.alarm.due() || s.sleep.due() || s.line.due() })
	s.alarm.off() // the loop checks what has expired
	s.sleep.off()
	if s.line.due() {
		s.line.off()
	}
	return err
}

// await waits for a condition and takes signals meanwhile.
func (s *session) await(cond func() bool) error {
	return workflow.Await(s.ctx, func() bool { s.drain(); return cond() })
}

// awaitFor is await for at most d. met reports whether the condition was met.
func (s *session) awaitFor(d time.Duration, cond func() bool) (met bool, err error) {
	if s.drain(); cond() {
		return true, nil
	}
	ctx, cancel := workflow.WithCancel(s.ctx)
	defer cancel() // AwaitWithTimeout of the SDK does not cancel its timer
	timer := workflow.NewTimer(ctx, d)
	err = s.await(func() bool { met = cond(); return met || timer.IsReady() })
	return met, err
}

// doing runs one activity and takes signals meanwhile.
func doing[In, Out any](s *session, ctx workflow.Context, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	return doingUnless(s, ctx, func() bool { return false }, activity, in)
}

// unlessClosing is doing, but cancels the activity when the session is to close.
// Closing does what is needed, wherever the activity stopped.
func unlessClosing[In, Out any](s *session, ctx workflow.Context, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	return doingUnless(s, ctx, func() bool { return s.st.Close != nil }, activity, in)
}

func doingUnless[In, Out any](s *session, ctx workflow.Context, callBack func() bool, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	var out Out
	actx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	fut := workflow.ExecuteActivity(actx, activity, in)
	err := s.await(func() bool { return fut.IsReady() || callBack() })
	if err == nil && !fut.IsReady() {
		cancel()
		err = s.await(fut.IsReady)
	}
	if err != nil {
		return out, err
	}
	err = fut.Get(s.ctx, &out)
	return out, err
}

// settle sets the status of a session to which no activity is attached.
func (s *session) settle() {
	if !s.st.Running && s.st.QuietAt.IsZero() {
		s.st.QuietAt = workflow.Now(s.ctx)
	}
	switch {
	case s.st.Status == Failed || s.st.Close != nil:
	case s.st.Running && len(s.st.open()) > 0:
		s.become(Waiting)
	case s.st.Running:
		s.become(Running)
	case s.limited():
		s.become(Waiting)
	case s.st.Status == Interrupted && !s.canBegin():
	default:
		s.become(Idle)
	}
}

func (s *session) become(status SessionStatus) {
	if s.st.Status == status {
		return
	}
	s.st.Status = status
	s.st.UpdatedAt = workflow.Now(s.ctx)
}

// fail ends the session for a reason that people see.
func (s *session) fail(f *Failure) {
	s.st.Error = f
	s.become(Failed)
	s.note(activities.Note{Type: "error", Text: f.Message, Data: map[string]string{"kind": f.Kind, "hint": f.Hint}})
	s.publish()
}

// note keeps a transcript entry for the next writer.
func (s *session) note(n activities.Note) {
	s.st.NoteN++
	n.ID = fmt.Sprintf("w%d", s.st.NoteN)
	n.At = workflow.Now(s.ctx)
	if n.Turn == 0 {
		n.Turn = s.st.TurnN
	}
	s.st.Notes = append(s.st.Notes, n)
}

// rollOver continues as a new run and loses nothing: no handler is at work, no
// signal lies unread, no activity runs. An answer to a pool must have left too: the
// server drops a signal whose sender's run has ended.
func (s *session) rollOver() error {
	s.hush() // the next run takes it up
	if err := s.await(func() bool { return workflow.AllHandlersFinished(s.ctx) && s.answered() }); err != nil {
		return err
	}
	s.st.trim()
	s.st.fit(encoded(s.opt))
	if err := s.keepCreation(); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(s.ctx, TypeSession, SessionInput{ID: s.id, Options: s.opt, Carry: s.st})
}

// keepCreation puts the session's beginning into the memo, where lists see it: the
// start time of later runs is another. Runs hand their memo on.
func (s *session) keepCreation() error {
	if _, kept := workflow.GetInfo(s.ctx).Memo.GetFields()[MemoCreated]; kept {
		return nil
	}
	return workflow.UpsertMemo(s.ctx, map[string]any{MemoCreated: s.st.CreatedAt})
}
