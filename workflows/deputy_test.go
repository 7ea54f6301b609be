package workflows

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

const deputies = `  - {name: ops, roles: [operator], to: [ann, bob]}
`

// byWorker returns a signal that a worker sent, as its codec passes it on.
func byWorker(t *testing.T, arg any) converter.RawValue {
	t.Helper()
	raw, err := json.Marshal(arg)
	if err != nil {
		t.Fatal(err)
	}
	return converter.NewRawValue(&commonpb.Payload{Data: raw, Metadata: map[string][]byte{
		converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON), "fairlead-origin": []byte("worker")}})
}

func TestABatchThatIsStartedWithSessionsOfOthersClosesNone(t *testing.T) {
	for what, state := range map[string]string{
		"running":         `{"running":[{"n":0,"session":"victim","try":1}],"next":1,"window":1}`,
		"tried again":     `{"again":[{"n":0,"try":1,"doubt":true}],"next":1,"window":1}`,
		"ended too early": `{"early":[{"id":"victim"}],"next":1,"window":1}`,
	} {
		t.Run(what, func(t *testing.T) {
			f := newFakeBatches(t)
			w := &world{environment: f.environment, t: t}
			w.guard(deputies, "ann", "bob")
			f.start = func(_ int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
				return startedItems(in), nil
			}
			var carry batch.BatchState
			if err := json.Unmarshal([]byte(state), &carry); err != nil {
				t.Fatal(err)
			}
			in := batch.Input{ID: "b", Spec: protocol.BatchSpec{Total: 1, Window: 1, Pages: []protocol.BatchPages{{Blob: "p"}}}, Carry: &carry}
			f.after(time.Second, protocol.SignalCancelBatch, w.byFor("bob", protocol.BatchID("b"), protocol.SignalCancelBatch, protocol.CancelBatch{Discard: true}))
			f.ExecuteWorkflow(protocol.TypeBatch, w.byFor("bob", protocol.BatchID("b"), protocol.TypeBatch, in))
			if err := f.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "state of a run that has not ended") {
				t.Errorf("it ended with %v", err)
			}
			if f.starts > 0 || len(f.closed) > 0 {
				t.Errorf("it asked for sessions %d times, and closed %v", f.starts, f.closed)
			}
		})
	}
}

func TestAnEndedBatchIsTriedAgainWithItsState(t *testing.T) {
	f := newFakeBatches(t)
	w := &world{environment: f.environment, t: t}
	w.guard(deputies, "ann", "bob")
	var carry batch.BatchState
	if err := json.Unmarshal([]byte(`{"next":1,"window":1,"failed":[{"f":0}],"result_n":1}`), &carry); err != nil {
		t.Fatal(err)
	}
	f.start = func(_ int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
		if in.By != "bob" {
			t.Errorf("its sessions are started for %q", in.By)
		}
		f.ends(protocol.SessionEnded{ID: "b-i0.t2", State: protocol.Closed, Turn: wellDone})
		return startedItems(in), nil
	}
	in := batch.Input{ID: "b", Spec: protocol.BatchSpec{Total: 1, Window: 1, Pages: []protocol.BatchPages{{Blob: "p"}}}, Carry: &carry, Retry: &protocol.RetryBatch{}}
	f.ExecuteWorkflow(protocol.TypeBatch, w.byFor("bob", protocol.BatchID("b"), protocol.TypeBatch, in))
	var end batch.End
	if err := f.GetWorkflowResult(&end); err != nil || end.View.Done != 1 {
		t.Errorf("%+v, %v", end.View, err)
	}
}

func TestABatchThatBeganBeforeCommandsWereJudgedStartsNothing(t *testing.T) {
	f := newFakeBatches(t)
	w := &world{environment: f.environment, t: t}
	w.guard(deputies, "ann", "bob")
	f.SetContinuedExecutionRunID("the run before") // which no verdict was carried from
	in := batch.Input{ID: "b", By: "ann", Spec: protocol.BatchSpec{Total: 2, Window: 1, Pages: []protocol.BatchPages{{Blob: "p"}}}}
	f.ExecuteWorkflow(protocol.TypeBatch, in)
	var end batch.End
	if err := f.GetWorkflowResult(&end); err != nil || f.starts > 0 {
		t.Errorf("it started sessions %d times: %v", f.starts, err)
	}
	if v := end.View; v.Queued != 2 || v.State != protocol.BatchStopped || !strings.Contains(v.Why, "ctl batch retry b --rest") {
		t.Errorf("it ended as %+v", v)
	}
}

func TestABatchStartsSessionsForWhoWasJudgedAndNotForWhomItsInputNames(t *testing.T) {
	for judged, goesOn := range map[string]bool{"bob": false, "ann": true} {
		f := newFakeBatches(t)
		w := &world{environment: f.environment, t: t}
		w.guard(deputies, "ann", "bob")
		f.start = func(_ int, in batches.StartItemsInput) (batches.StartItemsResult, error) {
			if in.By != judged {
				t.Errorf("sessions are started for %q, and %s was judged", in.By, judged)
			}
			f.ends(protocol.SessionEnded{ID: "b-i0", State: protocol.Closed, Turn: wellDone})
			return startedItems(in), nil
		}
		in := batch.Input{ID: "b", By: "root", Judged: "ann", Spec: protocol.BatchSpec{Total: 1, Window: 1, Pages: []protocol.BatchPages{{Blob: "p"}}}}
		if goesOn {
			f.SetContinuedExecutionRunID("the run before")
			f.ExecuteWorkflow(protocol.TypeBatch, in)
		} else {
			f.ExecuteWorkflow(protocol.TypeBatch, w.byFor("bob", protocol.BatchID("b"), protocol.TypeBatch, in))
		}
		if err := f.GetWorkflowError(); err != nil || f.starts != 1 {
			t.Errorf("%d starts, %v", f.starts, err)
		}
	}
}

func TestAFiringTellsWhoWasJudged(t *testing.T) {
	for _, judges := range []bool{true, false} {
		e := newEnvironment()
		w := &world{environment: e, t: t}
		if judges {
			w.guard("  - {name: admins, roles: [admin], to: [ann]}\n", "ann")
		}
		var got batch.Input
		e.RegisterWorkflowWithOptions(schedule.Fire, workflow.RegisterOptions{Name: protocol.TypeFire})
		e.RegisterWorkflowWithOptions(func(_ workflow.Context, in batch.Input) (batch.End, error) {
			got = in
			return batch.End{View: protocol.BatchView{Total: 1, Done: 1}}, nil
		}, workflow.RegisterOptions{Name: protocol.TypeBatch})
		e.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.ScheduleID("s") + "-2026-05-04T12:00:00Z"})
		e.ExecuteWorkflow(protocol.TypeFire, w.byFor("ann", protocol.ScheduleID("s"), protocol.TypeFire,
			schedule.FireInput{Schedule: "s", Batch: &protocol.BatchSpec{Total: 1, Window: 1}}))
		if err := e.GetWorkflowError(); err != nil || (got.Judged == "ann") != judges || !judges && got.Judged != "" {
			t.Errorf("with judges %v, its batch is told of %q: %v", judges, got.Judged, err)
		}
	}
}

func TestASessionIsClosedByTheBatchThatBeganItAndByNoOther(t *testing.T) {
	for what, c := range map[string]struct {
		from   protocol.Sender
		origin string
		closes bool
	}{
		"its batch":                   {protocol.Sender{From: "batch/b", Owner: "ann"}, "batch/b", true},
		"another batch":               {protocol.Sender{From: "batch/c", Owner: "ann"}, "batch/b", false},
		"a batch of the same name":    {protocol.Sender{From: "batch/b", Owner: "bob"}, "batch/b", false},
		"a batch, and it has none":    {protocol.Sender{From: "batch/b", Owner: "ann"}, "", false},
		"a firing that is not it":     {protocol.Sender{From: "schedule/s"}, "schedule/s", false},
		"somebody that does not tell": {protocol.Sender{Owner: "ann"}, "", false},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.guard(deputies, "ann", "bob")
			w.at(time.Minute, func() {
				w.SignalWorkflow(protocol.SignalClose, byWorker(t, protocol.Close{By: "ann", Sender: c.from}))
			})
			goesOn := false
			w.at(2*time.Minute, func() { // it has not ended
				goesOn = true
				v := query[protocol.SessionView](w, protocol.QueryState)
				if len(v.Refusals) != 1 || !strings.Contains(v.Refusals[0].Reason, "only the batch or schedule that began") {
					t.Errorf("on record is %+v", v.Refusals)
				}
				w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
			})
			w.startBy("ann", session.Options{Origin: c.origin})
			if goesOn == c.closes {
				t.Errorf("it goes on: %v", goesOn)
			}
		})
	}
}
