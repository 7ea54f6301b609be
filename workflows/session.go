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

// Session is one durable conversation, from the first lease to the last proof
// that nothing was left behind. It returns the session's last view; a session
// that could not begin fails with that view as its details.
func Session(ctx workflow.Context, in SessionInput) (SessionView, error) {
	s, err := newSession(ctx, in)
	if err != nil {
		showRefused(ctx)
		tellRefused(ctx, in, err)
		return SessionView{}, err
	}
	return s.run()
}

// session is the workflow while it runs. Handlers change st and nothing else;
// the one loop in converse acts on it.
type session struct {
	// ctx outlives a cancellation of the workflow, which is taken as a close.
	ctx    workflow.Context
	id     string
	opt    SessionOptions
	st     *sessionState
	log    log.Logger
	shown  attributes // what the search attributes say now
	doors  []door     // signal channels, to be emptied before a rollover
	parsed []ruling   // policies, as they were read last
	stirs  workflow.ReceiveChannel
	lease  workflow.ReceiveChannel
	goes   workflow.ReceiveChannel // whether its host is drained
	stir   activities.Stirred      // the newest, while a pump is attached
	roll   *rollover
	alarm  *alarm // for approvals that expire
	tick   *alarm // for snapshots within a long turn
	sleep  *alarm // for an idle session that parks
	wake   *wake  // for a session that waits for the end of a limit

	reports workflow.ReceiveChannel // of progress

	taking workflow.CancelFunc // calls back the snapshot that is being taken
	hushed int                 // how many want that none is taken

	pushes  []*aPush // asked for; nothing else begins on the host before them
	pushing *aPush   // the one that git is at
	parking bool
	crowded bool // there was no room so far for what it is at
	insists bool // what it is at must come to its end within this run
	leaving bool // its host is lost: what codex had there cannot be looked up
}

func newSession(ctx workflow.Context, in SessionInput) (*session, error) {
	opt, err := in.check(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{id: in.ID, opt: opt, st: in.Carry, log: workflow.GetLogger(ctx), roll: newRollover(ctx)}
	s.ctx, _ = workflow.NewDisconnectedContext(ctx)
	s.alarm = newAlarm(s.ctx, "an approval expires")
	s.tick = newAlarm(s.ctx, "a snapshot is due")
	s.sleep = newAlarm(s.ctx, "an idle session parks")
	s.wake = &wake{ctx: s.ctx, what: "a limit has ended"}
	if s.st == nil {
		// Not the time of the first task, for the first worker may come much
		// later; and no finer than lists have it.
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

// run tells the story. Each part can be where a former run left off.
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

// converse takes messages and turns until the session is to close. It says
// whether it only stopped to continue as new, which it can between any two
// steps.
func (s *session) converse() (again bool, err error) {
	for {
		s.expire()
		switch {
		case s.st.Status == Failed:
			return false, nil
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
		case s.st.Running && !s.st.Alive:
			// The turn never began, or codex has to be asked whether it did: it
			// is up to the next process.
			s.st.Reap = false // which begins with that
			if f := s.restart(); f != nil {
				s.unableToStart(f)
			}
		case s.st.Resume != nil && s.quiet():
			s.move()
		case s.parkDue():
			s.leaveOrPark()
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

// full says that this run's history is long enough.
func (s *session) full() bool { return !s.insists && s.roll.due() }

// wait sleeps until something is to be done, at no cost but a timer when an
// approval can expire.
func (s *session) wait() error {
	s.settle()
	s.publish()
	awake := func() bool {
		return s.st.Close != nil || s.mayPushNow() || s.wantsPump() || s.canBegin() || s.full() || s.st.Resume != nil || s.parkDue() || s.outOfDate() || s.waitIsOver()
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
	err := s.await(func() bool { return awake() || s.alarm.due() || s.sleep.due() })
	s.alarm.off() // the loop looks what has expired
	s.sleep.off()
	return err
}

// await waits for a condition and takes signals meanwhile.
func (s *session) await(cond func() bool) error {
	return workflow.Await(s.ctx, func() bool { s.drain(); return cond() })
}

// awaitFor is await, for at most d; it says whether the condition was met.
func (s *session) awaitFor(d time.Duration, cond func() bool) (met bool, err error) {
	if s.drain(); cond() {
		return true, nil
	}
	ctx, cancel := workflow.WithCancel(s.ctx)
	defer cancel() // the SDK's own does not end its timer
	timer := workflow.NewTimer(ctx, d)
	err = s.await(func() bool { met = cond(); return met || timer.IsReady() })
	return met, err
}

// doing runs one activity and takes signals meanwhile.
func doing[In, Out any](s *session, ctx workflow.Context, activity func(context.Context, In) (Out, error), in In) (Out, error) {
	return doingUnless(s, ctx, func() bool { return false }, activity, in)
}

// unlessClosing is doing, but calls the activity back when the session is to
// close: closing does what is needed, wherever it stopped.
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

// settle gives the state its word when nothing is attached.
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
// signal lies unread, no activity runs.
func (s *session) rollOver() error {
	s.hush() // the next run takes it up
	if err := s.await(func() bool { return workflow.AllHandlersFinished(s.ctx) }); err != nil {
		return err
	}
	s.drain()
	s.st.trim()
	s.st.fit(encoded(s.opt))
	if err := s.keepCreation(); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(s.ctx, Session, SessionInput{ID: s.id, Options: s.opt, Carry: s.st})
}

// keepCreation puts the session's beginning where lists see it: from the next
// run on, theirs is not it. Runs hand their memo on.
func (s *session) keepCreation() error {
	if _, kept := workflow.GetInfo(s.ctx).Memo.GetFields()[MemoCreated]; kept {
		return nil
	}
	return workflow.UpsertMemo(s.ctx, map[string]any{MemoCreated: s.st.CreatedAt})
}
