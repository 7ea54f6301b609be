package session

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/admit"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Run returns the workflow Session.
func Run(every kit.Intervals) func(workflow.Context, Input) (protocol.SessionView, error) {
	return func(ctx workflow.Context, in Input) (protocol.SessionView, error) {
		return runSession(ctx, every, in)
	}
}

// runSession returns the session's last view. If the session failed, its error has that
// view as details, unless the input was refused.
func runSession(ctx workflow.Context, every kit.Intervals, in Input) (protocol.SessionView, error) {
	s, err := newSession(ctx, in, every.Snapshot)
	if err != nil {
		showRefused(ctx)
		tellRefused(ctx, in, err)
		return protocol.SessionView{}, err
	}
	if err := s.claim(startReads(in, s.admission.Start)); err != nil {
		s.st.Status, s.st.Error = protocol.Failed, kit.FailureOf("the session did not begin", err)
		showRefused(ctx)
		tellRefused(ctx, in, err)
		if s.audited {
			recordRefusedStart(ctx, startOf(ctx, in, s.admission, err))
		}
		return protocol.SessionView{}, err
	}
	return s.run()
}

func newSession(ctx workflow.Context, in Input, mostOften time.Duration) (_ *session, err error) {
	var opt Options
	var adm admission
	if kit.Lacks(ctx) {
		// This worker cannot check the options. It refuses a start that is not permitted.
		if adm, err = admitStart(ctx, in); err == nil {
			kit.Leave(ctx)
		}
	} else if opt, err = in.check(ctx, mostOften); err == nil {
		adm, err = admitStart(ctx, in)
	}
	var start audit.Record
	if audited := in.Carry == nil && admit.Judges(ctx); audited {
		start = startOf(ctx, in, adm, err)
	}
	if err != nil {
		if in.Carry == nil {
			answerRefused(ctx, in, err)
		}
		if start.Outcome == audit.Refused {
			recordRefusedStart(ctx, start)
		}
		return nil, err
	}
	if adm.Start.Principal != "" {
		opt.By = adm.Start.Principal
		if in.First != nil {
			in.First.By = opt.By
		}
	}
	c := &core{id: in.ID, opt: opt, st: in.Carry, admission: adm, owned: adm.Start.Principal == "", audited: admit.Judges(ctx), log: workflow.GetLogger(ctx), roll: kit.NewRollover(ctx)}
	c.ctx, _ = workflow.NewDisconnectedContext(ctx)
	s := assembled(c)
	if s.st == nil {
		// The workflow's start: the first worker may come much later. The time has
		// microseconds, as in lists.
		began := workflow.GetInfo(ctx).WorkflowStartTime.Truncate(time.Microsecond)
		s.st = &State{lifeState: lifeState{Status: protocol.Queued, CreatedAt: began, UpdatedAt: workflow.Now(ctx)}}
	}
	s.st.Begun = s.st.Begun || s.st.Layout != nil
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if in.Carry == nil {
		if adm.Owner || len(opt.FollowUps) > 0 || opt.Children != nil {
			s.st.Follow.Owner, s.st.Follow.Groups = adm.Start.Principal, adm.Start.Groups
		}
		s.record(start)
		if err := s.messages.takeFirst(in.First); err != nil {
			return nil, err
		}
	}
	s.table = s.steps()
	if s.audited {
		workflow.Go(s.ctx, s.audits.keepAudit)
	}
	workflow.Go(s.ctx, s.snaps.takeSnapshots)
	s.follows.watchDue()
	if opt.TTL > 0 {
		workflow.Go(s.ctx, s.ending.endLife)
	}
	workflow.Go(s.ctx, func(gctx workflow.Context) {
		ctx.Done().Receive(gctx, nil)
		if s.st.Close == nil {
			s.note(conversation.Note{Type: "state", Text: "the workflow was cancelled: closing"})
			s.st.Close = &protocol.Close{By: "temporal"}
			s.record(audit.Record{Principal: "temporal", Source: audit.Workflow, Verb: string(access.SessionClose), Object: workflow.GetInfo(ctx).WorkflowExecution.ID, Reason: "the workflow was cancelled through Temporal"})
		}
	})
	return s, nil
}

// run takes the session through its life. A later run continues where a former one stopped.
func (s *session) run() (protocol.SessionView, error) {
	again := false
	if !s.st.Begun && s.st.Close == nil && s.st.Status != protocol.Failed {
		var f *protocol.Failure
		if f, again = s.parking.prepareFirst(); f != nil {
			s.fail(f)
		}
	}
	if !again && s.st.Status != protocol.Failed {
		var err error
		if again, err = s.converse(); err != nil {
			return protocol.SessionView{}, err
		}
	}
	if f := s.st.Failing; f != nil && !again && s.st.Status != protocol.Failed {
		s.fail(f)
	}
	if !again {
		s.children.closeAll()
	}
	if again || s.ending.cleanUp() {
		return protocol.SessionView{}, s.rollOver()
	}
	if s.follows.startFromLast() {
		s.ending.recordNotes()
	}
	s.drain() // refuses and records late signals
	s.audits.finishAudit()
	s.ending.tellEnded()
	if s.st.Status == protocol.Failed {
		return protocol.SessionView{}, temporal.NewNonRetryableApplicationError(
			s.st.Error.Message, s.st.Error.Kind, nil, s.view())
	}
	return s.view(), nil
}

// lookBeforeClose looks whether codex began a turn by itself.
func (s *session) lookBeforeClose() error {
	err := s.process.pump()
	s.st.Stirred = false // no second look: closing stops codex anyway
	return err
}

// wait sleeps until there is something to do. It sets only timers that it needs, since they
// cost events.
func (s *session) wait() error {
	if s.st.CloseDue && !s.st.Running && s.st.Close == nil {
		s.st.Close = &protocol.Close{By: s.opt.By} // codex began no further turn, or died
		return nil
	}
	s.st.Trouble, s.st.Started = nil, true // a turn could begin
	s.turns.settle()
	s.publish()
	awake := func() bool { return !s.still(stepWait) || s.views.outOfDate() || s.bounds.waitIsOver() }
	if s.opt.CloseAfter && s.st.NextN == 0 {
		ok, err := s.awaitFor(unusedFor, awake)
		if err == nil && !ok {
			s.note(conversation.Note{Type: "state", Text: "nobody sent the message that the session was started for"})
			s.st.Close = &protocol.Close{By: s.opt.By}
		}
		return err
	}
	s.approvals.setAlarm()
	s.parking.setSleep()
	defer s.audits.rest()()
	s.bounds.setLimit()
	s.leases.standInLine()
	s.children.setWake()
	defer s.children.wake.Off()
	err := s.await(func() bool { return awake() || s.approvals.alarm.Due() || s.parking.sleep.Due() || s.leases.line.Due() })
	s.approvals.alarm.Off()
	s.parking.sleep.Off()
	if s.leases.line.Due() {
		s.leases.line.Off()
	}
	return err
}

// rollOver continues as a new run and loses nothing: no handler or activity runs, and no
// signal is unread. Answers to pools have left too, since the server drops a signal whose
// sender's run has ended.
func (s *session) rollOver() error {
	s.snaps.hush() // the next run takes it
	if err := s.audits.hushAudit(); err != nil {
		return err
	}
	if err := s.await(func() bool {
		return workflow.AllHandlersFinished(s.ctx) && s.leases.answered() && s.follows.starting == 0
	}); err != nil {
		return err
	}
	s.st.trim()
	s.st.fit(kit.Encoded(s.opt))
	if err := s.keepCreation(); err != nil {
		return err
	}
	next := NewInput(s.id, s.opt, nil)
	next.Carry = s.st
	return workflow.NewContinueAsNewError(s.ctx, protocol.TypeSession, next)
}

// keepCreation puts the time of creation into the memo for lists, because later runs have
// later start times.
func (s *session) keepCreation() error {
	if _, kept := workflow.GetInfo(s.ctx).Memo.GetFields()[protocol.MemoCreated]; kept {
		return nil
	}
	return workflow.UpsertMemo(s.ctx, map[string]any{protocol.MemoCreated: s.st.CreatedAt})
}

func (s *session) publish() { s.views.publish() }

func (s *session) view() protocol.SessionView { return s.views.view() }
