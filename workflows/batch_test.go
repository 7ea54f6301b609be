package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/session"
)

// newBatches is a real server with a store, for batches.
func newBatches(t *testing.T, settings ...string) *real {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "mem://", Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	r := newReal(t, settings...)
	r.store = st
	return r
}

// batchID makes a batch id from the end of the zone's name, because the whole name may be
// too long.
func (r *real) batchID(name string) string {
	id := r.zone
	if len(id) > 30 {
		id = id[len(id)-30:]
	}
	return strings.Trim(id, "-.") + "-" + name
}

// batch starts a batch with an item for each text.
func (r *real) batch(name string, spec protocol.BatchSpec, texts ...string) string {
	r.t.Helper()
	id := r.batchID(name)
	r.start(protocol.BatchID(id), protocol.TypeBatch, batch.Input{ID: id, Spec: r.packed(owned.Owner{Kind: owned.Batch, ID: id}, spec, texts...), By: "ann"})
	return id
}

// packed returns spec with an item for each text, packed into the store. A text
// that begins with "long " is stored as content of its own.
func (r *real) packed(owner owned.Owner, spec protocol.BatchSpec, texts ...string) protocol.BatchSpec {
	r.t.Helper()
	folder := owner.NewFolder()
	raw, err := json.Marshal(session.Options{Zone: r.zone, Host: "web-1", CloseAfter: true})
	if err != nil {
		r.t.Fatal(err)
	}
	opt := protocol.BatchOptions{Queue: r.queue}
	if err := json.Unmarshal(raw, &opt.Session); err != nil {
		r.t.Fatal(err)
	}
	spec.Total, spec.Window = len(texts), max(spec.Window, 1)
	for from := 0; from < len(texts); from += 7 {
		page := protocol.BatchPage{Options: []protocol.BatchOptions{opt}}
		for i, text := range texts[from:min(from+7, len(texts))] {
			m := protocol.Message{ID: "item", Text: text}
			if strings.HasPrefix(text, "long ") {
				m = protocol.Message{ID: "item", Blob: r.kept(folder, owned.Messages, text), Chars: len(text)}
			}
			first, err := json.Marshal(m)
			if err != nil {
				r.t.Fatal(err)
			}
			page.Items = append(page.Items, protocol.BatchItem{ID: fmt.Sprint("i", from+i), First: first})
		}
		data, err := json.Marshal(page)
		if err != nil {
			r.t.Fatal(err)
		}
		spec.Pages = append(spec.Pages, protocol.BatchPages{First: from, Blob: r.kept(folder, owned.Pages, string(data))})
	}
	return spec
}

// kept puts a text into the store, as the worker's API does.
func (r *real) kept(folder, family, text string) (key string) {
	r.t.Helper()
	key, err := r.store.PutContent(r.t.Context(), owned.In(folder, family), []byte(text))
	if err != nil {
		r.t.Fatal(err)
	}
	return key
}

func (r *real) batchView(id string) protocol.BatchView {
	r.t.Helper()
	return asked[protocol.BatchView](r, protocol.BatchID(id), protocol.QueryBatch)
}

func (r *real) batchEnd(id string) batch.End {
	r.t.Helper()
	var end batch.End
	if err := r.c.GetWorkflow(r.t.Context(), protocol.BatchID(id), "").Get(r.t.Context(), &end); err != nil {
		r.t.Fatalf("batch %s ended with %v", id, err)
	}
	v := end.View
	if v.Done+v.Failed+v.Cancelled+v.Queued != v.Total || v.Running+v.Retrying > 0 {
		r.t.Errorf("not every item is accounted for: %+v", v)
	}
	return end
}

// allResults reads all results, page by page, as ctl does.
func (r *real) allResults(id string) (all []protocol.BatchResult) {
	r.t.Helper()
	for {
		got := asked[protocol.BatchResults](r, protocol.BatchID(id), protocol.QueryBatchResults, len(all)+1)
		if got.Blob != "" {
			data, err := batches.ReadResults(r.t.Context(), r.store, got.Blob)
			if err != nil {
				r.t.Fatal(err)
			}
			for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
				got.Lines = append(got.Lines, line)
			}
		}
		before := len(all)
		for _, line := range got.Lines {
			var res protocol.BatchResult
			if err := json.Unmarshal(line, &res); err != nil {
				r.t.Fatal(err)
			}
			if res.N > len(all) {
				all = append(all, res)
			}
		}
		if len(all) == before {
			if len(all) != got.Total {
				r.t.Errorf("%d results were had, there are %d", len(all), got.Total)
			}
			return all
		}
	}
}

func repeated(n int, text string) []string { return slices.Repeat([]string{text}, n) }

func TestABatchRunsEachItemOnceInOrderAndNoMoreThanItsWindow(t *testing.T) {
	r := newBatches(t, shortRuns)
	r.work()
	r.update(protocol.PoolID(r.zone), protocol.UpdatePutHost, nil, replacing(put("web-1", 30)))
	id := r.batch("b", protocol.BatchSpec{Window: 3}, repeated(100, "hello")...)
	end := r.batchEnd(id)
	if v := end.View; v.State != protocol.BatchDone || v.Done != 100 || v.Tries != 100 || v.Usage.Turns != 100 || v.EndedAt == nil {
		t.Errorf("the batch is %+v", v)
	}
	if r.host.most > 3 {
		t.Errorf("%d sessions were on the host at a time, of a window of 3", r.host.most)
	}
	seen := map[string]bool{}
	for i, res := range r.allResults(id) {
		if res.N != i+1 || res.State != protocol.ItemCompleted || res.FinalText == "" || seen[res.Item] || res.Session != batches.ItemSession(id, res.Item, 1) {
			t.Fatalf("result %d is %+v", i+1, res)
		}
		seen[res.Item] = true
	}
	if len(seen) != 100 || len(end.State.Parts) == 0 {
		t.Errorf("%d items have a result, %d parts are in the store", len(seen), len(end.State.Parts))
	}
	runs := r.runs(protocol.BatchID(id))
	events := 0
	for _, run := range runs {
		h := r.history(protocol.BatchID(id), run)
		replay(t, h, r.every)
		events += len(h.Events)
	}
	t.Logf("%d runs, %.1f events an item", len(runs), float64(events)/100)
	if len(runs) < 2 {
		t.Error("it never continued as new")
	}
	// The history of a session shows the input with which it was started.
	if d, err := r.c.DescribeWorkflowExecution(t.Context(), protocol.SessionID(batches.ItemSession(id, "i99", 1)), ""); err != nil ||
		d.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		t.Errorf("the last session is %v (%v)", d, err)
	}
}

func TestABatchTriesAgainOnlyWhatHadNoEffectsAndStopsAtTooMany(t *testing.T) {
	r := newBatches(t)
	r.host.bad[r.batchID("b")+"-i0"] = finally(protocol.ErrTypeNoSpace) // so the first item's second try is a new session
	r.work()
	id := r.batch("b", protocol.BatchSpec{Window: 1, StopAfter: 2, Retry: protocol.BatchRetry{Attempts: 3, Wait: time.Millisecond}},
		"hello", "die", "hello", "fail", "hello", "hello")
	end := r.batchEnd(id)
	v := end.View
	if v.State != protocol.BatchStopped || v.Done != 2 || v.Failed != 2 || v.Queued != 2 || !strings.Contains(v.Why, "stop_after is 2") {
		t.Errorf("the batch is %+v", v)
	}
	var got []string
	for _, res := range r.allResults(id) {
		got = append(got, fmt.Sprintf("%s %s after %d", res.Item, res.State, res.Tries))
	}
	slices.Sort(got)
	if s := strings.Join(got, ", "); s != "i0 completed after 2, i1 failed after 1, i2 completed after 1, i3 failed after 1" {
		t.Errorf("the results are %s", s)
	}
	if v.Kinds["process_exit"] != 1 || len(v.Failures) != 2 || v.Failures[0].Session != id+"-i1" {
		t.Errorf("its failures are %+v, %v", v.Failures, v.Kinds)
	}

	t.Run("what failed is tried again by hand, and the rest if wanted", func(t *testing.T) {
		in := batch.Input{ID: id, Spec: end.Spec, Carry: end.State, Retry: &protocol.RetryBatch{By: "ann", Rest: true}}
		if _, err := r.c.ExecuteWorkflow(t.Context(), startAgain(r, protocol.BatchID(id)), protocol.TypeBatch, in); err != nil {
			t.Fatal(err)
		}
		v := r.batchEnd(id).View // the failed items fail again
		if v.State != protocol.BatchStopped && v.State != protocol.BatchDone || v.Failed != 2 || v.Done < 2 {
			t.Errorf("the batch is %+v", v)
		}
		if res := r.allResults(id); len(res) < 6 || res[4].Tries != 2 || res[4].Session != id+"-i1.t2" {
			t.Errorf("the results are %+v", res)
		}
	})
}

func TestACancelledBatchClosesWhatRuns(t *testing.T) {
	r := newBatches(t)
	r.work()
	id := r.batch("b", protocol.BatchSpec{Window: 2}, "hello", "stay", "ask make", "hello", "hello")
	r.until("the first has ended, and two run", func() bool { v := r.batchView(id); return v.Done == 1 && v.Running == 2 && len(v.Sessions) == 2 })
	r.becomes(id+"-i2", protocol.Waiting)
	r.signal(protocol.BatchID(id), protocol.SignalCancelBatch, protocol.CancelBatch{By: "bob"})
	v := r.batchEnd(id).View
	if v.State != protocol.BatchCancelled || v.Done != 1 || v.Cancelled != 2 || v.Queued != 2 || v.Why != "cancelled by bob" {
		t.Errorf("the batch is %+v", v)
	}
	for _, item := range []string{"i1", "i2"} {
		if s := r.view(id + "-" + item); s.State != protocol.Closed || s.Origin != protocol.OriginBatch(id) {
			t.Errorf("session %s is %+v", item, s)
		}
	}
	if len(r.host.held) != 0 {
		t.Errorf("on the host are left %v", r.host.held)
	}
}

func TestABatchAccountsForWhoEndsWithoutAWord(t *testing.T) {
	r := newBatches(t)
	r.looksOften()
	stop := r.work()
	id := r.batch("b", protocol.BatchSpec{Window: 2}, "stay", "hello", "hello")
	r.until("two have ended", func() bool { return r.batchView(id).Done == 2 })
	r.until("a pump is attached", func() bool { return r.host.attached(id + "-i0") })
	stop()
	r.terminate(id + "-i0")
	r.work()
	v := r.batchEnd(id).View
	if v.State != protocol.BatchDone || v.Done != 2 || v.Failed != 1 || v.Kinds["terminated"] != 1 {
		t.Errorf("the batch is %+v", v)
	}
	if res := r.allResults(id); len(res) != 3 || res[2].Effects != protocol.EffectsUnknown || res[2].Error == nil {
		t.Errorf("the results are %+v", res)
	}
}

func TestASessionOfSomebodyElsesIsNotABatchs(t *testing.T) {
	r := newBatches(t)
	r.work()
	other := r.batchID("b") + "-i1"
	r.start(protocol.SessionID(other), protocol.TypeSession, session.Input{ID: other, Options: session.Options{Zone: r.zone, Host: "web-1"}})
	id := r.batch("b", protocol.BatchSpec{Window: 2}, "hello", "hello", "hello")
	v := r.batchEnd(id).View
	if v.Done != 2 || v.Kinds["id_in_use"] != 1 {
		t.Errorf("the batch is %+v", v)
	}
	r.becomes(other, protocol.Idle)
	r.close(other)
}

func TestABatchThatCannotBeIsRefused(t *testing.T) {
	r := newBatches(t)
	r.work()
	for what, in := range map[string]batch.Input{
		"no items":       {Spec: protocol.BatchSpec{Window: 1}},
		"no window":      {Spec: protocol.BatchSpec{Total: 1, Pages: []protocol.BatchPages{{Blob: "b"}}}},
		"no such origin": {Spec: protocol.BatchSpec{Total: 1, Window: 1, Pages: []protocol.BatchPages{{Blob: "b"}}}, Origin: "chance"},
	} {
		in.ID = r.batchID(strings.ReplaceAll(what, " ", "-"))
		r.start(protocol.BatchID(in.ID), protocol.TypeBatch, in)
		if err := r.c.GetWorkflow(t.Context(), protocol.BatchID(in.ID), "").Get(t.Context(), nil); typeOf(err) != protocol.RefusedBadInput {
			t.Errorf("%s: the batch ended with %v", what, err)
		}
	}
}

func startAgain(r *real, id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: id, TaskQueue: r.queue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL}
}

func replacing(p protocol.PutHost) protocol.PutHost { p.Replace = true; return p }
