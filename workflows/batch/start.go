package batch

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

func (b *batch) start() {
	now := workflow.Now(b.ctx)
	if b.starting != nil || now.Before(b.st.PauseTill) || b.full() && !b.ending() {
		return
	}
	// Even an ending batch looks for sessions that may have started: nobody else knows
	// them.
	which, doing := b.st.next, "start %d sessions"
	if b.ending() {
		which, doing = b.st.doubted, "look for %d sessions"
	}
	page, items := which(b.in.Spec, now)
	if len(items) == 0 {
		return
	}
	in := batches.StartItemsInput{Batch: b.in.ID, Notify: protocol.BatchID(b.in.ID), Origin: protocol.OriginBatch(b.in.ID), Blob: page.Blob, Look: b.ending(), Groups: b.in.Groups}
	if b.entry.Signed {
		in.By = b.in.Judged
	}
	for _, it := range items {
		in.Items = append(in.Items, batches.StartItem{N: it.N, Page: it.N - page.First, Try: it.Try})
	}
	b.st.Running = append(b.st.Running, items...)
	b.starting = begin[batches.StartItemsInput, batches.StartItemsResult](
		kit.SetUp(b.ctx, fmt.Sprintf(doing, len(items))), batchJobs.StartItems, in)
}

func (b *batch) full() bool { return b.st.Bytes > MostBytes }

const startPause = 30 * time.Second

// takeStarted records the started sessions. After a failure the activity is repeated, and
// finds those that exist.
func (b *batch) takeStarted() {
	if !b.starting.done() {
		return
	}
	out, err := b.starting.get(b.ctx)
	b.starting = nil
	b.st.Error = nil
	if err != nil {
		b.log.Warn("sessions not started", "error", err)
		b.notStarted(kit.FailureOf("start sessions", err))
		return
	}
	for _, s := range out.Started {
		i := slices.IndexFunc(b.st.Running, func(it batchItem) bool { return it.N == s.N })
		if i < 0 {
			continue
		}
		it := &b.st.Running[i]
		if s.Missing {
			gone := *it
			b.st.Running = slices.Delete(b.st.Running, i, i+1)
			b.neverBegan(gone, s)
			continue
		}
		it.ID, it.Session, it.Run, it.Last = s.ID, s.Session, s.Run, nil
		b.st.Tries++
		if s.Problem != nil {
			b.took(protocol.SessionEnded{ID: s.Session, State: protocol.Failed, Failure: kit.FailureOfProblem(s.Problem), Effects: protocol.EffectsNone, EndedAt: workflow.Now(b.ctx)})
		}
	}
	early := b.st.Early
	b.st.Early = nil
	for _, e := range early {
		b.took(e)
	}
}

// notStarted puts back the items that are not known to have started, or fails them if they
// never can.
func (b *batch) notStarted(f *protocol.Failure) {
	now := workflow.Now(b.ctx)
	b.st.Error = f
	var back []batchItem
	b.st.Running = slices.DeleteFunc(b.st.Running, func(it batchItem) bool {
		if it.Session == "" {
			back = append(back, it)
		}
		return it.Session == ""
	})
	if f.Kind == protocol.ErrTypeBadInput {
		for _, it := range back {
			it.ID = fmt.Sprintf("#%d", it.N+1) // only the page has its name
			if it.Last != nil {
				it.ID = it.Last.ID
			}
			b.failed(it, protocol.BatchResult{Item: it.ID, Tries: it.Try, State: protocol.ItemFailed, Effects: protocol.EffectsUnknown, EndedAt: now, Error: f})
		}
		return
	}
	b.st.PauseTill = now.Add(startPause)
	for _, it := range back {
		b.st.Again = append(b.st.Again, BatchAgain{N: it.N, Try: it.Try, At: b.st.PauseTill, Doubt: true, Last: it.Last})
	}
}

// neverBegan accounts for a try whose session does not exist when a batch ends.
func (b *batch) neverBegan(it batchItem, s batches.StartedItem) {
	if it.Try > 1 {
		b.dropTry(BatchAgain{N: it.N, Try: it.Try, Last: it.Last})
		return
	}
	b.st.Dropped = addFailed(b.st.Dropped, it.N, it.Try)
	b.addResult(protocol.BatchResult{Item: s.ID, Session: s.Session, Tries: it.Try, State: protocol.ItemCancelled, Effects: protocol.EffectsNone, EndedAt: workflow.Now(b.ctx),
		Error: &protocol.Failure{Kind: "unused", Message: "its session was never started", Hint: "`ctl batch retry " + b.in.ID + " --rest` starts it"}})
}
