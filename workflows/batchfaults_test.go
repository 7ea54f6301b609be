package workflows

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// fakeBatches stands in for the activities of a batch and for its sessions. A call
// that the test does not expect fails the test.
type fakeBatches struct {
	*environment
	t      *testing.T
	start  func(n int, in batches.StartItemsInput) (batches.StartItemsResult, error)
	record func(n int) error
	starts int
	kept   []protocol.BatchResult
	keeps  int
	closed []string
}

func newFakeBatches(t *testing.T) *fakeBatches {
	f := &fakeBatches{environment: newEnvironment(), t: t}
	f.SetTestTimeout(time.Minute)
	f.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.BatchID("b")})
	f.RegisterWorkflowWithOptions(batch.Run(kit.Usual), workflow.RegisterOptions{Name: protocol.TypeBatch})
	f.RegisterActivityWithOptions(func(_ context.Context, in batches.StartItemsInput) (batches.StartItemsResult, error) {
		f.starts++
		return f.start(f.starts, in)
	}, activity.RegisterOptions{Name: "StartItems"})
	f.RegisterActivityWithOptions(f.recordResults, activity.RegisterOptions{Name: "RecordResults"})
	f.OnSignalExternalWorkflow(anyArg, anyArg, anyArg, anyArg, anyArg).Return(func(_, id, _, name string, _ any) error {
		if name != protocol.SignalClose {
			t.Errorf("%s was told %s", id, name)
		}
		session := strings.TrimPrefix(id, protocol.SessionID(""))
		f.closed = append(f.closed, session)
		f.ends(protocol.SessionEnded{ID: session, State: protocol.Closed, Effects: protocol.EffectsUnknown})
		return nil
	})
	return f
}

func (f *fakeBatches) recordResults(_ context.Context, in batches.RecordResultsInput) (batches.RecordResultsResult, error) {
	f.keeps++
	if f.record != nil {
		if err := f.record(f.keeps); err != nil {
			return batches.RecordResultsResult{}, err
		}
	}
	for _, line := range in.Lines {
		var r protocol.BatchResult
		if err := json.Unmarshal(line, &r); err != nil {
			f.t.Error(err)
		}
		f.kept = append(f.kept, r)
	}
	return batches.RecordResultsResult{Blob: "part"}, nil
}

// ends has a session report its end one second later.
func (f *fakeBatches) ends(e protocol.SessionEnded) {
	f.RegisterDelayedCallback(func() { f.SignalWorkflow(protocol.SignalSessionEnded, e) }, time.Second)
}

func (f *fakeBatches) after(d time.Duration, signal string, arg any) {
	f.RegisterDelayedCallback(func() { f.SignalWorkflow(signal, arg) }, d)
}

func (f *fakeBatches) run(spec protocol.BatchSpec, carry *batch.BatchState) batch.End {
	f.t.Helper()
	spec.Pages = []protocol.BatchPages{{First: 0, Blob: "p"}}
	f.ExecuteWorkflow(protocol.TypeBatch, batch.Input{ID: "b", Spec: spec, Carry: carry})
	var end batch.End
	if err := f.GetWorkflowResult(&end); err != nil {
		f.t.Fatal(err)
	}
	v := end.View
	if v.Done+v.Failed+v.Cancelled+v.Queued != v.Total || v.Running+v.Retrying > 0 || v.Results != len(f.kept) {
		f.t.Errorf("not every item is accounted for: %+v, results %+v", v, f.kept)
	}
	return end
}

func startedItems(in batches.StartItemsInput) (out batches.StartItemsResult) {
	for _, it := range in.Items {
		id := "i" + string(rune('0'+it.N))
		out.Started = append(out.Started, batches.StartedItem{N: it.N, ID: id, Session: batches.ItemSession("b", id, it.Try), Run: "r"})
	}
	return out
}

func lostItem(session string) protocol.SessionEnded {
	return protocol.SessionEnded{ID: session, State: protocol.Failed, Effects: protocol.EffectsNone, Failure: &protocol.Failure{Kind: protocol.ErrTypeUnreachable, Message: "no way to the host"}}
}

var wellDone = &protocol.TurnView{Status: "completed"}

func TestACancelledBatchFindsAndClosesWhatItMayHaveStarted(t *testing.T) {
	f := newFakeBatches(t)
	f.start = func(n int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
		if n == 1 { // the activity started the first session, but could not report that
			return batches.StartItemsResult{}, temporal.NewNonRetryableApplicationError("no Temporal", protocol.ErrTypeUnreachable, nil)
		}
		if !in.Look || n > 3 {
			t.Errorf("call %d of a cancelled batch starts %+v", n, in)
		}
		if n == 2 {
			return batches.StartItemsResult{}, temporal.NewNonRetryableApplicationError("still none", protocol.ErrTypeUnreachable, nil)
		}
		out := startedItems(in)
		for i := range out.Started[1:] {
			out.Started[i+1].Run, out.Started[i+1].Missing = "", true
		}
		return out, nil
	}
	f.after(5*time.Second, protocol.SignalCancelBatch, protocol.CancelBatch{By: "ann"})
	v := f.run(protocol.BatchSpec{Total: 4, Window: 3}, nil).View
	if v.State != protocol.BatchCancelled || v.Cancelled != 3 || v.Queued != 1 || v.Failed != 0 || len(f.closed) != 1 || f.closed[0] != "b-i0" {
		t.Errorf("the batch is %+v, closed were %v", v, f.closed)
	}
}

func TestARetryThatComesWhileABatchEndsIsDone(t *testing.T) {
	f := newFakeBatches(t)
	f.start = func(n int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
		out := startedItems(in)
		if n == 1 {
			f.ends(lostItem("b-i0"))
		} else {
			f.ends(protocol.SessionEnded{ID: "b-i0.t2", State: protocol.Closed, Turn: wellDone})
		}
		return out, nil
	}
	f.record = func(n int) error {
		switch n {
		case 1:
			f.SignalWorkflow(protocol.SignalRetryBatch, protocol.RetryBatch{By: "ann"})
		case 2:
			f.SignalWorkflow(protocol.SignalCancelBatch, protocol.CancelBatch{By: "bob"})
		}
		return nil
	}
	v := f.run(protocol.BatchSpec{Total: 1, Window: 1}, nil).View
	if f.starts != 2 || v.Done != 1 || v.Failed != 0 || v.State != protocol.BatchDone {
		t.Errorf("%d starts; the batch is %+v", f.starts, v)
	}
}

func TestWhatFailedAndWaitsForItsNextTryHasAResultWhenNoneComes(t *testing.T) {
	f := newFakeBatches(t)
	f.start = func(_ int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
		f.ends(lostItem("b-i0"))
		return startedItems(in), nil
	}
	f.after(time.Minute, protocol.SignalCancelBatch, protocol.CancelBatch{By: "ann"})
	v := f.run(protocol.BatchSpec{Total: 1, Window: 1, Retry: protocol.BatchRetry{Attempts: 3, Wait: time.Hour}}, nil).View
	if v.Failed != 1 || v.Kinds[protocol.ErrTypeUnreachable] != 1 || len(v.Failures) != 1 || len(f.kept) != 1 {
		t.Fatalf("the batch is %+v, its results are %+v", v, f.kept)
	}
	if r := f.kept[0]; r.Item != "i0" || r.Session != "b-i0" || r.State != protocol.ItemFailed || r.Tries != 1 || r.Error.Kind != protocol.ErrTypeUnreachable {
		t.Errorf("the result is %+v", r)
	}
}

func TestItemsThatAreNotInTheStoreAnyMoreFail(t *testing.T) {
	f := newFakeBatches(t)
	f.start = func(n int, _ batches.StartItemsInput) (batches.StartItemsResult, error) {
		if n > 1 {
			f.CancelWorkflow() // otherwise the batch would try for ever
		}
		return batches.StartItemsResult{}, temporal.NewNonRetryableApplicationError("not in the store", protocol.ErrTypeBadInput, nil)
	}
	v := f.run(protocol.BatchSpec{Total: 2, Window: 2}, nil).View
	if v.State != protocol.BatchDone || v.Failed != 2 || f.starts != 1 || v.Kinds[protocol.ErrTypeBadInput] != 2 {
		t.Errorf("%d starts; the batch is %+v", f.starts, v)
	}
}

func TestABatchSleepsWhileTheStoreIsAway(t *testing.T) {
	f := newFakeBatches(t)
	f.start = func(_ int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
		f.ends(protocol.SessionEnded{ID: "b-i0.t2", State: protocol.Closed, Turn: wellDone})
		return startedItems(in), nil
	}
	f.record = func(n int) error {
		if n < 5 {
			return temporal.NewApplicationError("no store", protocol.ErrTypeStore)
		}
		return nil
	}
	timers := 0
	f.SetOnTimerScheduledListener(func(string, time.Duration) { timers++ })
	line := json.RawMessage(`{"n":1,"item":"i1","error":null,"left":"` + strings.Repeat("x", batch.MostBytes) + `"}`)
	end := f.run(protocol.BatchSpec{Total: 2, Window: 1}, &batch.BatchState{Window: 1, Next: 2, Done: 1, ResultN: 1, Results: []json.RawMessage{line}, Bytes: len(line),
		Again: []batch.BatchAgain{{N: 0, Try: 2, At: time.Unix(1, 0)}}})
	if end.View.Done != 2 || timers > 20 {
		t.Errorf("%d timers; the batch is %+v", timers, end.View)
	}
}
