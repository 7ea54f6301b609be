package batch

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// dropTry fails an item whose next try will not happen.
func (b *batch) dropTry(a BatchAgain) {
	it := batchItem{N: a.N, Try: a.Try - 1}
	l := a.Last
	if l == nil { // a person asked for this retry, so the item has a result
		b.st.Failed = addFailed(b.st.Failed, it.N, it.Try)
		return
	}
	it.ID, it.Session = l.ID, batches.ItemSession(b.in.ID, l.ID, it.Try)
	b.failed(it, protocol.BatchResult{Item: it.ID, Session: it.Session, Tries: it.Try, State: protocol.ItemFailed, Effects: l.Effects, EndedAt: l.EndedAt,
		Error: &protocol.Failure{Kind: l.Kind, Message: l.Message, Hint: "see `ctl transcript " + it.Session + "`"}})
}

func (b *batch) failed(it batchItem, r protocol.BatchResult) {
	b.st.Failed = addFailed(b.st.Failed, it.N, it.Try)
	b.st.FailedNow++
	b.failure(it, r)
	b.addResult(r)
}

func (b *batch) took(e protocol.SessionEnded) {
	i := slices.IndexFunc(b.st.Running, func(it batchItem) bool {
		return it.Session == e.ID && (e.Run == "" || it.Run == "" || e.Run == it.Run)
	})
	if i < 0 {
		if b.starting != nil || b.st.inDoubt() {
			b.st.Early = append(b.st.Early, e) // its start may not be recorded yet
		}
		return
	}
	it := b.st.Running[i]
	b.st.Running = slices.Delete(b.st.Running, i, i+1)
	now := workflow.Now(b.ctx)
	b.st.Usage = sumOfUsage(b.st.Usage, e.Usage)
	r := resultOf(it, e)
	switch {
	case r.State == protocol.ItemCompleted:
		b.st.Done++
	case it.Closing && b.st.Cancel != nil:
		r.State = protocol.ItemCancelled
		b.st.Dropped = addFailed(b.st.Dropped, it.N, it.Try)
	case b.triesAgain(it, e, r.Error):
		b.st.Again = append(b.st.Again, BatchAgain{N: it.N, Try: it.Try + 1, At: now.Add(retryPause(b.in.Spec.Retry, it.Try)),
			Last: &batchTry{ID: it.ID, Kind: r.Error.Kind, Message: kit.Cut(r.Error.Message, kit.MaxWord), Effects: r.Effects, EndedAt: r.EndedAt}})
		return
	default:
		b.endedAt(now)
		b.failed(it, r)
		return
	}
	b.endedAt(now)
	b.addResult(r)
}

func (b *batch) endedAt(now time.Time) {
	b.st.Ends = append(b.st.Ends, now)
	if n := len(b.st.Ends) - keepEnds; n > 0 {
		b.st.Ends = b.st.Ends[n:]
	}
}

func (b *batch) failure(it batchItem, r protocol.BatchResult) {
	f := protocol.BatchFailure{Item: it.ID, Session: it.Session, Kind: r.Error.Kind, Message: kit.Cut(r.Error.Message, maxBatchWords),
		Hint: kit.Cut(r.Error.Hint, maxBatchWords), At: r.EndedAt, Tries: it.Try}
	b.st.Failures = append(b.st.Failures, f)
	if n := len(b.st.Failures) - keepFailures; n > 0 {
		b.st.Failures = b.st.Failures[n:]
	}
	if b.st.Kinds == nil {
		b.st.Kinds = map[string]int{}
	}
	b.st.Kinds[kit.Cut(f.Kind, kit.MaxWord)]++
}

// RetriedKinds are the failure kinds that are retried by default.
var RetriedKinds = []string{
	protocol.ErrTypeUnreachable, protocol.ErrTypeWireLost, protocol.ErrTypeNoSpace, protocol.ErrTypeStore, kit.KindTimeout,
	protocol.EndHostLost, protocol.EndRateLimit, "overloaded", "network", "process_exit", "request_timeout", "terminated",
}

// triesAgain reports whether an item gets another try. The file decides unless the fault is
// ours: such an item is tried again without limit, but after effects only if the file
// allows that.
func (b *batch) triesAgain(it batchItem, e protocol.SessionEnded, f *protocol.Failure) bool {
	r := b.in.Spec.Retry
	on := r.On
	if len(on) == 0 {
		on = RetriedKinds
	}
	if b.ending() || it.Closing || e.Effects != protocol.EffectsNone && !r.AfterEffects {
		return false
	}
	return it.Try < r.Attempts && slices.Contains(on, f.Kind) || slices.Contains(ourFaults, f.Kind)
}

// ourFaults are the passing kinds of our own infrastructure, without those of codex's
// provider.
var ourFaults = slices.DeleteFunc(slices.Clone(kit.PassingKinds), func(kind string) bool {
	return kind == "network" || kind == protocol.EndOverloaded
})

func retryPause(r protocol.BatchRetry, tries int) time.Duration {
	pause := min(r.Wait<<min(tries-1, 10), 24*time.Hour)
	if tries >= r.Attempts { // a fault of ours is retried without limit
		pause = max(pause, kit.PauseAfter(tries))
	}
	return pause
}
