package authority

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// writeWithin is how long the answers of a workflow task wait for the store.
	writeWithin = 2 * time.Second
	// writeAgain is the pause after an attempt that failed, unless a command comes.
	writeAgain = 15 * time.Minute
	// finishWithin is how long a workflow that ends tries to write its last records.
	finishWithin = 10 * time.Minute
)

// A Ledger puts the accepted commands of a workflow on record. Records wait in a chain of the
// carried state until they are in the store. One local activity writes all that wait, so a
// command costs one event at most. If the store does not take them in time, they go with
// those of the next command, or later. A nil Ledger records nothing.
type Ledger struct {
	ctx   workflow.Context
	chain *audit.Chain
	user  string // the worker's, for what nobody signs

	pending []*audit.Record // of handlers that have not waited yet
	due     bool
	busy    bool
	ending  bool
	gaveUp  bool
}

// Record opens the ledger of a workflow, for the updates that the interceptor judges and for
// what the workflow adds. It adds the start, if that was judged. Call it before
// SetUpdateHandler, and then Keep.
func Record(ctx workflow.Context, chain *audit.Chain) *Ledger {
	g, ok := ctx.Value(gatedKey{}).(*gated)
	if !ok || Version(ctx) < 2 {
		return nil
	}
	var user string
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return g.user() }).Get(&user)
	if err != nil {
		panic(err) // no worker of ours recorded it: without a ledger, commands would leave no record
	}
	g.ledger = open(ctx, chain, user)
	if g.started != nil {
		g.ledger.add(g.started(g.ledger))
	}
	return g.ledger
}

// user returns the principal of all commands, or "" if they are signed.
func (g *gated) user() string {
	if g.keeper != nil {
		return ""
	}
	return audit.UnixUser()
}

func open(ctx workflow.Context, chain *audit.Chain, user string) *Ledger {
	info := workflow.GetInfo(ctx)
	// A workflow that begins anew with what an ended one had begins a chain.
	if entity := info.WorkflowExecution.ID + "/" + info.FirstRunID; chain.Entity != entity {
		*chain = audit.Chain{Entity: entity}
	}
	l := &Ledger{chain: chain, user: user}
	l.ctx, _ = workflow.NewDisconnectedContext(ctx)
	err := workflow.SetQueryHandler(ctx, protocol.QueryAudit, func() (protocol.AuditView, error) {
		return protocol.AuditView{Head: chain.Newest(), Waiting: chain.Waiting}, nil
	})
	if err != nil {
		workflow.GetLogger(ctx).Error("nobody can ask for the newest record", "error", err)
	}
	return l
}

// Keep begins to write.
func (l *Ledger) Keep() {
	if l == nil {
		return
	}
	l.due = !l.chain.Empty()
	workflow.Go(l.ctx, l.write)
}

// Command adds the record of a command that was judged. err is why it was refused.
func (l *Ledger) Command(name string, verb access.Verb, raw []byte, v Verdict, err error) {
	if l == nil {
		return
	}
	r := l.record(workflow.GetInfo(l.ctx).WorkflowExecution.ID, name, verb, raw, v.Principal, err)
	r.Access = v.JudgedBy()
	l.add(r)
}

// Did adds the record of something that no command asked for. The verb may be one of package
// audit.
func (l *Ledger) Did(who string, verb access.Verb, reason string) {
	if l == nil {
		return
	}
	l.add(audit.Record{At: audit.TimeText(workflow.Now(l.ctx)), Principal: who, Source: audit.Workflow, Verb: string(verb),
		Object: workflow.GetInfo(l.ctx).WorkflowExecution.ID, Outcome: audit.Accepted, Reason: reason})
}

func (l *Ledger) record(object, name string, verb access.Verb, raw []byte, who string, err error) audit.Record {
	//workflowcheck:ignore // JSON, digests and keys are read by pure functions
	r := audit.OfCommand(object, name, string(verb), raw, workflow.Now(l.ctx))
	r.Outcome, r.Principal = audit.Accepted, who
	if err != nil {
		r.Outcome, r.Reason = audit.Refused, err.Error()
	}
	switch {
	case r.Source != audit.Unix: // it is signed, also if the run began when nobody had to sign
	case l.user != "":
		r.Principal = l.user
	case err == nil || who != "": // it counts without a signature: a worker sent it
		r.Principal, r.Source = cmp.Or(who, access.Worker), audit.Workflow
	}
	return r
}

func (l *Ledger) add(r audit.Record) {
	//workflowcheck:ignore // JSON and digests are pure functions
	l.chain.Add(r)
	l.due = true
}

// write hands records to the store.
func (l *Ledger) write(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return l.due || l.ending && !l.Settled() }) != nil {
			return
		}
		l.due, l.gaveUp = false, false
		for _, r := range l.pending {
			l.add(*r)
		}
		l.pending, l.due = nil, false
		l.chain.Settle()
		b := l.chain.Batch()
		if b == nil {
			continue
		}
		l.busy = true
		err := l.hand(ctx, b, workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
			ScheduleToCloseTimeout: writeWithin, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		}), protocol.ActivityWriteAudit, *b))
		if err != nil && l.ending {
			err = l.hand(ctx, b, workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
				StartToCloseTimeout: time.Minute, ScheduleToCloseTimeout: finishWithin, Summary: "write audit records",
				RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
			}), protocol.ActivityWriteAudit, *b))
			if err != nil {
				l.gaveUp, l.ending = true, false
			}
		}
		l.busy = false
		if err == nil {
			l.due = l.due || !l.chain.Empty()
			continue
		}
		workflow.GetLogger(ctx).Warn("audit records wait for the store", "entity", b.Entity, "error", err)
		if _, err := workflow.AwaitWithTimeout(ctx, writeAgain, func() bool { return l.due || l.ending }); err != nil {
			return
		}
		l.due = true
	}
}

// hand takes the report of an activity that wrote records. The report on another chain, which
// an earlier run of the same workflow id had, does not count.
func (l *Ledger) hand(ctx workflow.Context, b *audit.Batch, f workflow.Future) error {
	var out audit.Written
	err := f.Get(ctx, &out)
	if err == nil && out.Entity != b.Entity {
		err = fmt.Errorf("write audit records of %s: the report is about %.200q", b.Entity, out.Entity)
	}
	if err == nil {
		l.chain.Wrote(min(out.Seq, b.Last()))
	}
	return err
}

// End has all records written, because the workflow is about to end.
func (l *Ledger) End() {
	if l != nil {
		l.ending = true
	}
}

// Settled reports whether all records are in the store, or cannot be brought there.
func (l *Ledger) Settled() bool {
	return l == nil || l.gaveUp || len(l.pending) == 0 && l.chain.Empty() && !l.busy
}

// finish waits until all records are written.
func (l *Ledger) finish() {
	if l == nil {
		return
	}
	l.End()
	if err := workflow.Await(l.ctx, l.Settled); err != nil {
		workflow.GetLogger(l.ctx).Error("the last audit records are not in the store", "error", err)
	}
}

// batch returns what waits, for an activity that runs anyway.
func (l *Ledger) batch() *audit.Batch {
	if l == nil {
		return nil
	}
	return l.chain.Batch()
}

// claimed takes the report of that activity. A start that does not count is in the chain of
// the worker that refused it.
func (l *Ledger) claimed(seq int64, err error) {
	switch {
	case l == nil:
	case err != nil:
		*l.chain = audit.Chain{Entity: l.chain.Entity}
	default:
		l.chain.Wrote(seq)
	}
}
