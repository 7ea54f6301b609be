package batch

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/admit"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

func (b *batch) ending() bool { return b.st.Cancel != nil || b.st.Why != "" }

func (b *batch) stopIfTooMany() {
	if n := b.in.Spec.StopAfter; n > 0 && b.st.FailedNow >= n && !b.ending() {
		b.st.Why = fmt.Sprintf("%d items failed, and stop_after is %d", b.st.FailedNow, n)
		b.dropAgain()
	}
}

// stopIfNotJudged begins no further session for somebody of whom only the input tells: who
// started the batch before commands were judged could name anybody.
func (b *batch) stopIfNotJudged() {
	if b.entry.Signed && b.in.Judged == "" && !b.ending() {
		b.st.Why = "it began before commands were judged here: `ctl batch retry " + b.in.ID + " --rest` goes on with it"
		b.dropAgain()
	}
}

// dropAgain fails the items that wait for another try, except those whose session may
// exist.
func (b *batch) dropAgain() {
	all := b.st.Again
	b.st.Again = nil
	for _, a := range all {
		if a.Doubt {
			b.st.Again = append(b.st.Again, a)
			continue
		}
		b.dropTry(a)
	}
	b.st.Failed = merged(append(b.st.Failed, b.st.Redo...))
	b.st.Redo = nil
}

func (b *batch) cancel(c protocol.CancelBatch) {
	if !b.st.EndedAt.IsZero() {
		return
	}
	c.By, c.Sender = kit.Cut(c.By, kit.MaxWord), protocol.Sender{}
	if was := b.st.Cancel; was != nil {
		was.Discard = was.Discard || c.Discard
		return
	}
	b.st.Cancel = &c
	b.st.Why = "cancelled by " + cmp.Or(c.By, "somebody")
}

func (b *batch) retry(r protocol.RetryBatch) {
	if b.ending() {
		return // people can ask again afterwards
	}
	b.st.Redo, b.st.Failed, b.st.FailedNow = merged(append(b.st.Redo, b.st.Failed...)), nil, 0
	b.st.Failures, b.st.Kinds = nil, nil
}

// closeAll closes the running sessions of a cancelled batch, again if a later cancel says
// discard.
func (b *batch) closeAll() {
	c := b.st.Cancel
	if c == nil {
		return
	}
	b.dropAgain()
	var from protocol.Sender
	if admit.Judges(b.ctx) {
		from = protocol.Sender{From: protocol.BatchID(b.in.ID), Owner: b.in.By}
	}
	var sent []workflow.Future
	var to []string
	for i := range b.st.Running {
		it := &b.st.Running[i]
		if it.Session == "" || it.Closing && (it.Discard || !c.Discard) {
			continue
		}
		it.Closing, it.Discard = true, c.Discard
		to = append(to, it.Session)
		sent = append(sent, workflow.SignalExternalWorkflow(b.ctx, protocol.SessionID(it.Session), "", protocol.SignalClose, protocol.Close{
			By: cmp.Or(c.By, "batch "+b.in.ID), Discard: c.Discard, Sender: from}))
	}
	for i, f := range sent {
		if err := f.Get(b.ctx, nil); err != nil { // the session has ended, or the next look finds it
			b.log.Info("session not closed", "session", to[i], "error", err)
			b.st.LookAt = workflow.Now(b.ctx)
		}
	}
}

func (b *batch) over() bool {
	if len(b.st.Running) > 0 || b.starting != nil || b.st.inDoubt() {
		return false
	}
	queued, again := b.st.waiting(b.in.Spec.Total)
	return b.ending() || again == 0 && (b.st.Held || queued == 0)
}

// end stores the remaining results. done is false if a person asks for a retry meanwhile.
func (b *batch) end() (end End, done bool, err error) {
	if b.st.Cancel != nil {
		b.dropAgain()
	}
	b.st.EndedAt = workflow.Now(b.ctx)
	goesOn := func() bool {
		b.drain()
		if len(b.st.Redo) > 0 {
			b.st.EndedAt = time.Time{}
			return true
		}
		return false
	}
	for !b.still() || len(b.st.Results) > 0 {
		b.keep(1)
		if err := workflow.Await(b.ctx, func() bool { return b.keeping.done() || b.looking.done() }); err != nil {
			return End{}, false, err
		}
		if b.looking.done() {
			b.looking = nil
		}
		if !b.takeKept() { // the results stay in the returned state
			break
		}
	}
	if goesOn() {
		return End{}, false, nil
	}
	b.wake.Off()
	b.publish()
	b.tellEnded()
	b.ledger.End()
	if err := workflow.Await(b.ctx, func() bool { b.drain(); return b.ledger.Settled() }); err != nil {
		return End{}, false, err
	}
	if goesOn() {
		b.in.Notify = "" // notified already
		return End{}, false, nil
	}
	b.st.Failed, b.st.Dropped = merged(b.st.Failed), merged(b.st.Dropped)
	last := *b.st
	last.Audit = audit.Chain{} // who begins the batch again begins another chain
	return End{View: b.view(), Spec: b.in.Spec, State: &last}, true, nil
}

func (b *batch) tellEnded() {
	if b.in.Notify == "" {
		return
	}
	v := b.view()
	e := protocol.SessionEnded{ID: b.in.ID, Run: workflow.GetInfo(b.ctx).FirstRunID, State: protocol.Closed, Effects: protocol.EffectsUnknown, Usage: v.Usage, CreatedAt: v.CreatedAt, EndedAt: b.st.EndedAt}
	if v.Done < v.Total {
		e.State = protocol.Failed
		e.Failure = &protocol.Failure{Kind: v.State, Message: fmt.Sprintf("batch %s: %d of %d items ended well, %d failed", v.ID, v.Done, v.Total, v.Failed),
			Hint: "`ctl batch show " + v.ID + "` tells of them"}
	}
	if err := workflow.SignalExternalWorkflow(b.ctx, b.in.Notify, "", protocol.SignalSessionEnded, e).Get(b.ctx, nil); err != nil {
		b.log.Warn("the batch's end was not told", "to", b.in.Notify, "error", err)
	}
}
