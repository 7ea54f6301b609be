package batch

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/admit"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Run returns the workflow Batch.
func Run(every kit.Intervals) func(workflow.Context, Input) (End, error) {
	return func(ctx workflow.Context, in Input) (End, error) { return runBatch(ctx, every, in) }
}

// runBatch has an activity start the sessions, which reads their prompts from the store. So
// neither prompts nor child events enter this history, and an item costs at most ten events
// (measured; a child workflow would cost as many, plus the prompt). A session signals its
// end. Another activity looks for sessions that ended without a signal.
func runBatch(ctx workflow.Context, every kit.Intervals, in Input) (End, error) {
	b, err := newBatch(ctx, in)
	if err != nil {
		return End{}, err
	}
	b.lookEvery = every.Reap
	if err := authority.Claim(b.ctx, protocol.TypeBatch, authority.StartVerdict(ctx), protocol.ClaimStart{}); err != nil {
		return End{}, err
	}
	b.ledger.Keep()
	return b.run()
}

type batch struct {
	ctx       workflow.Context
	lookEvery time.Duration
	in        Input
	st        *BatchState
	log       log.Logger
	roll      *kit.Rollover
	wake      *kit.Wake
	shown     string

	ended workflow.ReceiveChannel
	ctrls []batchDoor
	entry *admit.Door

	ledger *authority.Ledger

	starting *call[batches.StartItemsResult]
	keeping  *call[batches.RecordResultsResult]
	looking  *call[batches.FindSilentResult]
	kept     int  // results being stored
	asked    bool // cancelled by Temporal, not yet seen by the loop
}

type call[Out any] struct{ fut workflow.Future }

func (c *call[Out]) done() bool { return c != nil && c.fut.IsReady() }

func begin[In, Out any](ctx workflow.Context, activity any, in In) *call[Out] {
	return &call[Out]{workflow.ExecuteActivity(ctx, activity, in)}
}

func (c *call[Out]) get(ctx workflow.Context) (out Out, err error) {
	err = c.fut.Get(ctx, &out)
	return out, err
}

type batchDoor struct {
	name string
	ch   workflow.ReceiveChannel
	take func(raw []byte) error
}

func newBatch(ctx workflow.Context, in Input) (*batch, error) {
	if err := in.check(ctx); err != nil {
		return nil, err
	}
	b := &batch{in: in, st: in.Carry, log: workflow.GetLogger(ctx), roll: kit.NewRollover(ctx)}
	b.ctx, _ = workflow.NewDisconnectedContext(ctx)
	b.wake = kit.NewWake(b.ctx, "look after sessions, or try again")
	if b.st == nil {
		b.st = &BatchState{CreatedAt: workflow.GetInfo(ctx).WorkflowStartTime.Truncate(time.Microsecond), Window: in.Spec.Window}
	}
	if in.Retry != nil {
		b.st.again(*in.Retry)
		b.in.Retry = nil
	}
	b.entry = &admit.Door{Ctx: b.ctx, Signed: judged(ctx), Nonces: &b.st.Commands, Object: func() access.Object { return access.Object{Owner: b.in.By} },
		Began: func(by protocol.Sender) bool { return admit.BegunBy(b.ctx, by) }}
	if isRoot(ctx) {
		b.in.Judged = authority.StartVerdict(ctx).Principal
	}
	if st := in.Carry; b.entry.Signed && isRoot(ctx) && st != nil && len(st.Running)+len(st.Again)+len(st.Early) > 0 {
		return nil, kit.Refuse(protocol.RefusedForbidden, "start batch %s: it has the state of a run that has not ended, and only that run may pass it on", in.ID)
	}
	b.ledger = authority.Record(ctx, &b.st.Audit)
	if !isRoot(ctx) && in.Carry == nil {
		b.ledger.Did(in.Judged, access.BatchRun, "begun by "+in.Origin)
	}
	b.ended = workflow.GetSignalChannel(ctx, protocol.SignalSessionEnded)
	b.listen(ctx, protocol.SignalCancelBatch, func(raw []byte) error { return take(raw, b.cancel) })
	b.listen(ctx, protocol.SignalRetryBatch, func(raw []byte) error { return take(raw, b.retry) })
	b.listen(ctx, protocol.SignalSetBatch, func(raw []byte) error { return take(raw, b.set) })
	err := kit.FirstError(
		workflow.SetQueryHandler(ctx, protocol.QueryBatch, func() (protocol.BatchView, error) { return b.view(), nil }),
		workflow.SetQueryHandler(ctx, protocol.QueryBatchResults, func(from int) (protocol.BatchResults, error) { return b.results(from) }),
	)
	if err != nil {
		return nil, fmt.Errorf("set up batch %s: %w", in.ID, err)
	}
	workflow.Go(b.ctx, func(gctx workflow.Context) {
		ctx.Done().Receive(gctx, nil)
		b.cancel(protocol.CancelBatch{By: "temporal"})
		b.ledger.Did("temporal", access.BatchRun, "the workflow was cancelled through Temporal")
		b.asked = true
	})
	return b, nil
}

func (b *batch) listen(ctx workflow.Context, name string, take func([]byte) error) {
	b.ctrls = append(b.ctrls, batchDoor{name, workflow.GetSignalChannel(ctx, name), take})
}

// isRoot reports whether neither a run of a batch nor a firing started this run.
func isRoot(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.ParentWorkflowExecution == nil && info.ContinuedExecutionRunID == ""
}

// judged records whether signals to this run are judged.
func judged(ctx workflow.Context) (signed bool) {
	if !admit.Judges(ctx) {
		return false
	}
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return authority.Of(ctx) != nil }).Get(&signed)
	return signed || err != nil
}

func take[T any](raw []byte, do func(T)) error {
	in, err := kit.Decode[T](raw)
	if err == nil {
		do(in)
	}
	return err
}

func (in Input) check(ctx workflow.Context) error {
	s := in.Spec
	why := ""
	switch id := workflow.GetInfo(ctx).WorkflowExecution.ID; {
	case !protocol.NamePattern.MatchString(in.ID):
		why = "the id is not a name: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit"
	case id != protocol.BatchID(in.ID):
		why = fmt.Sprintf("its workflow id is %q and must be %q", kit.Cut(id, kit.MaxWord), protocol.BatchID(in.ID))
	case s.Total < 1 || s.Total > maxBatch || len(s.Pages) == 0 || s.Pages[0].First != 0:
		why = fmt.Sprintf("it has %d items on %d pages; it must have 1 to %d items, and its first page must begin with item 0", s.Total, len(s.Pages), maxBatch)
	case s.Window < 1 || s.Window > maxWindow:
		why = fmt.Sprintf("window %d is not between 1 and %d", s.Window, maxWindow)
	case len(in.Notify) > kit.MaxWord || len(in.By) > kit.MaxWord || len(s.File) > kit.MaxPath || kit.Encoded(s.Retry) > kit.MaxPath:
		why = "one of notify, by, file or retry is too long"
	case in.Origin != "":
		if err := kit.CheckOrigin(in.Origin); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		return kit.Refuse(protocol.RefusedBadInput, "start batch %s: %s", kit.Cut(in.ID, kit.MaxWord), why)
	}
	return nil
}

func (b *batch) run() (End, error) {
	for {
		b.drain()
		b.asked = false
		b.takeStarted()
		b.takeKept()
		b.takeLook()
		b.stopIfNotJudged()
		b.stopIfTooMany()
		if b.over() {
			if end, done, err := b.end(); done || err != nil {
				return end, err
			}
		}
		if b.roll.Due() {
			if b.still() {
				return End{}, b.rollOver()
			}
		} else {
			b.start()
			b.keep(partResults)
			b.look()
		}
		b.closeAll()
		b.publish()
		b.setWake()
		if err := workflow.Await(b.ctx, b.stirred); err != nil {
			return End{}, err
		}
	}
}

func (b *batch) stirred() bool {
	return b.drain() || b.asked || b.starting.done() || b.keeping.done() || b.looking.done() ||
		b.wake.Due() || b.roll.Due() && b.still()
}

func (b *batch) still() bool { return b.starting == nil && b.keeping == nil && b.looking == nil }

func (b *batch) drain() (any bool) {
	for _, e := range kit.Unread[protocol.SessionEnded](b.ended) {
		b.took(e)
		any = true
	}
	for _, d := range b.ctrls {
		for _, raw := range kit.Unread[converter.RawValue](d.ch) {
			any = true
			plain, v, err := b.entry.Signal(d.name, access.BatchRun, raw)
			if err == nil {
				err = d.take(plain)
			}
			b.ledger.Command(d.name, access.BatchRun, raw.Payload().GetData(), v, err)
			if err != nil {
				b.log.Warn("signal refused", "reason", err.Error())
				continue
			}
			b.entry.Took(raw.Payload().GetData())
		}
	}
	return any
}

func (b *batch) set(s protocol.SetBatch) {
	if s.Window > 0 {
		b.st.Window = min(s.Window, maxWindow)
	}
}

func (b *batch) look() {
	now := workflow.Now(b.ctx)
	if b.st.LookAt.IsZero() {
		b.st.LookAt = now.Add(b.lookEvery)
	}
	if b.looking != nil || now.Before(b.st.LookAt) {
		return
	}
	b.st.LookAt = now.Add(b.lookEvery)
	in := overseer.FindEndedInput{}
	for _, it := range b.st.Running {
		if it.Session != "" {
			in.Holders = append(in.Holders, overseer.Holder{WorkflowID: protocol.SessionID(it.Session), FirstRun: it.Run})
		}
	}
	if len(in.Holders) > 0 {
		b.looking = begin[overseer.FindEndedInput, batches.FindSilentResult](
			kit.SetUp(b.ctx, "look for sessions that have ended"), batchJobs.FindSilent, in)
	}
}

func (b *batch) takeLook() {
	if !b.looking.done() {
		return
	}
	out, err := b.looking.get(b.ctx)
	b.looking = nil
	if err != nil {
		b.log.Warn("sessions not looked at", "error", err)
		return
	}
	b.drain() // a session's own report counts first
	for _, e := range out.Ended {
		b.took(protocol.SessionEnded{ID: strings.TrimPrefix(e.WorkflowID, protocol.SessionID("")), Run: e.FirstRun, State: protocol.Failed, Effects: protocol.EffectsUnknown,
			Failure: &protocol.Failure{Kind: e.Kind, Message: kit.Cut(e.Message, kit.MaxFailure), Hint: "see `ctl session show` and `ctl host show`"}, EndedAt: workflow.Now(b.ctx)})
	}
}

func (b *batch) setWake() {
	at := b.st.LookAt
	if due := b.st.dueAt(); !due.IsZero() && b.st.room() > 0 && b.starting == nil && !b.ending() && !b.full() {
		if due.Before(b.st.PauseTill) {
			due = b.st.PauseTill
		}
		if due.Before(at) || at.IsZero() {
			at = due
		}
	}
	if now := workflow.Now(b.ctx); now.Before(b.st.PauseTill) && b.st.PauseTill.Before(at) {
		at = b.st.PauseTill
	}
	if b.wake.Due() {
		b.wake.Off()
	}
	if b.looking == nil && !at.IsZero() && !b.roll.Due() {
		b.wake.Set(at)
	}
}

// rollOver continues as a new run. No activity may be running.
func (b *batch) rollOver() error {
	b.wake.Off()
	b.drain()
	b.st.Failed, b.st.Dropped = merged(b.st.Failed), merged(b.st.Dropped)
	in := b.in
	in.Carry = b.st
	if _, kept := workflow.GetInfo(b.ctx).Memo.GetFields()[protocol.MemoCreated]; !kept {
		if err := workflow.UpsertMemo(b.ctx, map[string]any{protocol.MemoCreated: b.st.CreatedAt}); err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(b.ctx, protocol.TypeBatch, in)
}

func (b *batch) publish() {
	state := b.state()
	workflow.SetCurrentDetails(b.ctx, escape.Text(b.details()))
	if state == b.shown {
		return
	}
	attrs := []temporal.SearchAttributeUpdate{kit.AttrState.ValueSet(state)}
	if b.shown == "" && b.in.Origin != "" {
		attrs = append(attrs, kit.AttrOrigin.ValueSet(b.in.Origin))
	}
	b.shown = state
	if err := workflow.UpsertTypedSearchAttributes(b.ctx, attrs...); err != nil {
		b.log.Warn("search attributes not set", "error", err)
	}
}

func (b *batch) details() string {
	st := b.st
	queued, again := st.waiting(b.in.Spec.Total)
	text := fmt.Sprintf("**%s** %s\n\n- done: %d of %d\n- failed: %d\n- running: %d (window %d)\n- queued: %d\n- waiting to be tried again: %d\n",
		b.state(), st.Why, st.Done, b.in.Spec.Total, countFailed(st.Failed), len(st.Running), st.Window, queued, again)
	for _, f := range st.Failures[max(len(st.Failures)-10, 0):] {
		text += fmt.Sprintf("\n- %s: %s: %s (%s)", f.Item, f.Kind, kit.Cut(f.Message, 300), kit.Cut(f.Hint, 200))
	}
	return kit.Cut(text, 16<<10)
}

func (b *batch) addResult(r protocol.BatchResult) {
	b.st.ResultN++
	r.N = b.st.ResultN
	if b.full() {
		r = briefResult(r)
	}
	//workflowcheck:ignore // JSON is a pure function
	line, err := json.Marshal(r)
	if err != nil {
		line = []byte(fmt.Sprintf(`{"n":%d,"item":%q,"session":%q,"state":%q}`, r.N, r.Item, r.Session, r.State))
	}
	b.st.Results = append(b.st.Results, line)
	b.st.Bytes += len(line)
}
