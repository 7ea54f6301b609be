package authority

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestWhatWorkersTellEachOtherCannotBeForgedWithAStolenCtl(t *testing.T) {
	s := newStage(t)
	w := s.work(s.ours)
	defer func() { w.Stop() }()

	for _, id := range []string{"a", "b"} {
		s.begin(s.ours, id, "listens", protocol.ScanHostKeysInput{})
	}
	s.signal(s.thief, "a", "found", "forged")
	s.signal(s.ours, "a", "found", "genuine")
	if _, err := update(s.ctx, s.thief, "a", protocol.UpdateSaveSeed, protocol.ReviveSeed{}); err == nil || !strings.Contains(err.Error(), "only a worker may write it") {
		t.Errorf("a forged update: %v", err)
	}
	if out, err := update(s.ctx, s.ours, "a", protocol.UpdateSaveSeed, protocol.ReviveSeed{}); err != nil || out != "saved" {
		t.Errorf("a worker's update: %q, %v", out, err)
	}
	// A command of a person, with encrypted payloads.
	put := protocol.ReviveSeed{By: "mallory"}
	if _, err := update(s.ctx, s.thief, "a", protocol.UpdateReviveSeed, put); err == nil || !strings.Contains(err.Error(), "not signed") {
		t.Errorf("an unsigned command: %v", err)
	}
	if _, err := update(s.ctx, s.ours, "a", protocol.UpdateReviveSeed, put); err == nil || !strings.Contains(err.Error(), "not signed") {
		t.Errorf("a worker gives a command that only persons give: %v", err)
	}
	if _, err := update(s.ctx, s.thief, "a", protocol.UpdateReviveSeed, s.signed("a", protocol.UpdateReviveSeed, put)); err != nil {
		t.Errorf("a signed command: %v", err)
	}
	// Both refusals are on record. The first is not: only its payload was refused, before it was read.
	refused := s.onRecord("a")
	if len(refused) != 2 {
		t.Fatalf("%d refused updates are on record: %+v", len(refused), refused)
	}
	for _, r := range refused {
		if r.Outcome != audit.Refused || r.Verb != string(access.SeedWrite) || r.Principal != "" || !strings.Contains(r.Reason, "not signed") || len(r.Evidence.Args) != 64 {
			t.Errorf("a refused update is on record as %+v", r)
		}
	}
	// What a worker sent, elsewhere: as another signal, and to another workflow.
	var sent *commonpb.Payload
	for _, ev := range s.history("a", "") {
		if in := ev.GetWorkflowExecutionSignaledEventAttributes().GetInput(); in != nil {
			sent = in.Payloads[0] // the last one is genuine
		}
	}
	plain := s.plain()
	s.signal(plain, "a", "release", converter.NewRawValue(sent))
	s.signal(plain, "b", "found", converter.NewRawValue(sent))
	// A batch closes its sessions; nobody else can claim to be one.
	s.signal(s.ours, "b", protocol.SignalClose, protocol.Close{By: "ann"})
	s.signal(s.thief, "b", protocol.SignalClose, protocol.Close{By: "ann"})
	s.signal(s.thief, "b", protocol.SignalClose, converter.NewRawValue(&commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte("json/plain"), "fairlead-origin": []byte("worker")}, Data: []byte(`{"by":"ann"}`)}))
	s.signal(s.thief, "a", protocol.SignalMessage, "end")
	s.signal(s.thief, "b", protocol.SignalMessage, "end")
	for id, want := range map[string]string{"a": "map[found:1 message:1 revive_seed of ann:1 save_seed of :1]", "b": "map[close by a worker: false:2 close by a worker: true:1 message:1]"} {
		var got string
		if err := s.ours.GetWorkflow(s.ctx, id, "").Get(s.ctx, &got); err != nil || got != want {
			t.Errorf("%s heard %s, want %s (%v)", id, got, want, err)
		}
		if err := s.thief.GetWorkflow(s.ctx, id, "").Get(s.ctx, &got); err != nil || got != want {
			t.Errorf("ctl reads %s of %s, %v", got, id, err)
		}
	}
}

func TestAnActivityIsNeitherAnsweredNorBegunByOthers(t *testing.T) {
	s := newStage(t)
	w := s.work(s.ours)
	defer w.Stop()
	run := s.begin(s.ours, "w", "waits", "in")
	s.until("the activity runs", func() bool { return s.did.Load() == 1 })
	at := converter.ActivitySerializationContext{Namespace: "default", WorkflowID: "w", ActivityType: "pends"}
	accept, err := converter.WithDataConverterSerializationContext(payload.NewCodec("default", s.key).DataConverter(), at).ToPayload("accept")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.plain().CompleteActivityByID(s.ctx, "default", "w", run.GetRunID(), "judge", converter.NewRawValue(accept), nil); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := run.Get(s.ctx, &got); err == nil || !strings.Contains(err.Error(), "only a worker may write it") {
		t.Errorf("a workflow takes the thief's answer %q, %v", got, err)
	}
	// A worker of the thief runs a workflow that gives our workers something to do.
	evil := worker.New(s.thief, "evil", worker.Options{DisableRegistrationAliasing: true})
	evil.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: "ours", StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
		return workflow.ExecuteActivity(ctx, "pends", "it").Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "evil"})
	s.start(evil)
	defer evil.Stop()
	bad, err := s.thief.ExecuteWorkflow(s.ctx, client.StartWorkflowOptions{ID: "evil", TaskQueue: "evil"}, "evil")
	if err != nil {
		t.Fatal(err)
	}
	if err := bad.Get(s.ctx, nil); err == nil || !strings.Contains(err.Error(), "only a worker may write it") {
		t.Errorf("an activity took the thief's input: %v", err)
	}
	if n := s.did.Load(); n != 1 {
		t.Errorf("the activity ran %d times", n)
	}
}

func TestWhatAWorkflowRecordsCannotBeForged(t *testing.T) {
	s := newStage(t)
	// The thief takes a task of our queue, and records what it likes.
	evil := worker.New(s.thief, "ours", worker.Options{})
	evil.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ string) (string, error) {
		v := workflow.SideEffect(ctx, func(workflow.Context) any { return "forged" })
		workflow.GetSignalChannel(ctx, protocol.SignalMessage).Receive(ctx, nil)
		var out string
		return out, v.Get(&out)
	}, workflow.RegisterOptions{Name: "remembers"})
	s.start(evil)
	run := s.begin(s.ours, "r", "remembers", "in")
	s.until("the thief has recorded it", func() bool {
		h := s.history("r", "")
		return h[len(h)-1].GetEventType() == enums.EVENT_TYPE_MARKER_RECORDED
	})
	evil.Stop()
	worker.PurgeStickyWorkflowCache()
	w := s.work(s.ours)
	defer w.Stop()
	s.signal(s.thief, "r", protocol.SignalMessage, "end")
	var got string
	if err := run.Get(s.ctx, &got); err == nil || !strings.Contains(err.Error(), "only a worker may write it") {
		t.Errorf("the workflow remembers %q, %v", got, err)
	}
}

func TestOnlyItsSignedStartRunsAWorkflow(t *testing.T) {
	s := newStage(t)
	w := s.work(s.ours)
	defer w.Stop()
	in := protocol.ExecInput{ID: "e", Host: protocol.HostSpec{Name: "web-1"}, Argv: []string{"true"}}
	evil := worker.New(s.thief, "evil", worker.Options{})
	evil.RegisterWorkflowWithOptions(func(ctx workflow.Context, in json.RawMessage) error {
		ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "exec/child", TaskQueue: "ours"})
		return workflow.ExecuteChildWorkflow(ctx, protocol.TypeExec, in).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "parent"})
	evil.RegisterWorkflowWithOptions(func(ctx workflow.Context, in json.RawMessage) error {
		return workflow.NewContinueAsNewError(workflow.WithWorkflowTaskQueue(ctx, "ours"), protocol.TypeExec, in)
	}, workflow.RegisterOptions{Name: "continues"})
	s.start(evil)
	defer evil.Stop()
	plain, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	for id, kind := range map[string]string{"exec/parent": "parent", "exec/continues": "continues"} {
		for what, arg := range map[string]json.RawMessage{"unsigned": plain, "signed for another": s.signed("exec/e", protocol.TypeExec, in)} {
			run, err := s.thief.ExecuteWorkflow(s.ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "evil"}, kind, arg)
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Get(s.ctx, nil); err == nil {
				t.Errorf("%s, %s: it ran", kind, what)
			}
			begun := map[string]string{"parent": "exec/child", "continues": id}[kind]
			if err := s.thief.GetWorkflow(s.ctx, begun, "").Get(s.ctx, nil); err == nil || !strings.Contains(err.Error(), "only its first start is signed") {
				t.Errorf("%s, %s: %v", kind, what, err)
			}
		}
	}
	if n := s.exec.Load(); n != 0 {
		t.Errorf("it ran %d times", n)
	}
	// Temporal itself repeats a workflow, with an input that was signed once, or never.
	for id, arg := range map[string]json.RawMessage{"exec/cron": plain, "exec/signed": s.signed("exec/signed", protocol.TypeExec, in)} {
		if _, err := s.thief.ExecuteWorkflow(s.ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "ours", CronSchedule: "@every 1s"}, protocol.TypeExec, arg); err != nil {
			t.Fatal(err)
		}
		var runs []string
		s.until("the third run has begun", func() bool {
			runs = nil
			for run := ""; ; {
				h := s.history(id, run)
				began := h[0].GetWorkflowExecutionStartedEventAttributes()
				runs = append(runs, began.GetOriginalExecutionRunId())
				if run = began.GetContinuedExecutionRunId(); run == "" {
					return len(runs) >= 3
				}
			}
		})
		if err := s.thief.TerminateWorkflow(s.ctx, id, "", "enough"); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.exec.Load(); n != 1 {
		t.Errorf("it ran %d times, want the once that was signed", n)
	}
	// An ended workflow, with its own input.
	once := s.signed("exec/once", protocol.TypeExec, in)
	if err := s.begin(s.thief, "exec/once", protocol.TypeExec, once).Get(s.ctx, nil); err != nil {
		t.Errorf("a signed start: %v", err)
	}
	if err := s.begin(s.thief, "exec/once", protocol.TypeExec, once).Get(s.ctx, nil); err == nil || !strings.Contains(err.Error(), "started before") {
		t.Errorf("started again: %v", err)
	}
	if n := s.exec.Load(); n != 2 {
		t.Errorf("it ran %d times, want the two that were signed", n)
	}
	// A workflow that claims its start itself.
	many := s.signed("batch/many", protocol.TypeBatch, in)
	if err := s.begin(s.thief, "batch/many", protocol.TypeBatch, many).Get(s.ctx, nil); err != nil {
		t.Errorf("a signed batch: %v", err)
	}
	if err := s.begin(s.thief, "batch/many", protocol.TypeBatch, many).Get(s.ctx, nil); err == nil || !strings.Contains(err.Error(), "started before") {
		t.Errorf("a batch, started again: %v", err)
	}
	if got := s.onRecord("batch/many"); len(got) != 1 || got[0].Verb != string(access.BatchRun) || got[0].Principal != "ann" {
		t.Errorf("a batch that was started again is on record as %+v", got)
	}
	// Each start that ran is on record once.
	logs, fault := audit.Sort(s.records)
	if fault != nil || len(logs) != 2 {
		t.Errorf("%d starts are on record, want 2: %v", len(logs), fault)
	}
	for _, l := range logs {
		if fault := l.Verify(nil); fault != nil || len(l.Records) != 1 || l.Records[0].Principal != "ann" || l.Records[0].Source != audit.Key {
			t.Errorf("%s is on record as %+v: %v", l.Entity, l.Records, fault)
		}
	}
	// What was refused is on record.
	for object, want := range map[string]struct {
		principal, source, reason string
		most                      int
	}{
		"exec/child":     {"", "", "only its first start is signed", 2},
		"exec/continues": {"", "", "only its first start is signed", 2},
		"exec/cron":      {"", audit.Unix, "not signed", 1000},
		"exec/once":      {"ann", audit.Key, "started before", 1},
	} {
		got := s.onRecord(object)
		if len(got) == 0 || len(got) > want.most {
			t.Errorf("%s: %d refused starts are on record", object, len(got))
		}
		for _, r := range got {
			if r.Outcome != audit.Refused || r.Verb != string(access.HostExec) || r.Principal != want.principal || want.source != "" && r.Source != want.source || len(r.Evidence.Args) != 64 {
				t.Errorf("%s is on record as %+v", object, r)
			}
		}
		if len(got) > 0 && !strings.Contains(got[0].Reason, want.reason) {
			t.Errorf("%s: the reason is %q", object, got[0].Reason)
		}
	}
}

// First all workers get the key, then authority is required. Nothing is refused meanwhile.
func TestWorkersThatComeToRequireAuthorityTakeWhatBeganBefore(t *testing.T) {
	s := newStage(t)
	hears := func(id string, c client.Client, want string) {
		t.Helper()
		s.signal(c, id, protocol.SignalMessage, "end")
		var got string
		if err := c.GetWorkflow(s.ctx, id, "").Get(s.ctx, &got); err != nil || got != want {
			t.Errorf("%s heard %s, want %s (%v)", id, got, want, err)
		}
	}
	older := s.thief // a worker without the key sends as a thief does
	w := s.work(older)
	s.begin(older, "before", "listens", protocol.ScanHostKeysInput{})
	s.signal(older, "before", "found", "by an older worker")
	s.until("it is heard", func() bool {
		var heard map[string]int
		v, err := older.QueryWorkflow(s.ctx, "before", "", "heard")
		return err == nil && v.Get(&heard) == nil && heard["found"] == 1
	})
	w.Stop()

	marking := s.workers
	marking.Required = false
	c := s.dial(payload.NewCodec("default", s.key).ForWorkers(marking))
	w = s.work(c)
	s.begin(c, "between", "listens", protocol.ScanHostKeysInput{})
	s.signal(older, "between", "found", "by an older worker")
	s.signal(c, "between", "found", "by one with the key")
	hears("between", c, "map[found:2 message:1]")
	w.Stop()

	s.workers.Since = time.Now().Add(time.Second).Truncate(time.Second)
	s.until("all workers have the key", func() bool { return time.Now().After(s.workers.Since.Add(time.Second)) })
	c = s.dial(s.codec())
	w = s.work(c)
	defer func() { w.Stop() }()
	s.begin(c, "after", "listens", protocol.ScanHostKeysInput{})
	for _, id := range []string{"before", "after"} {
		s.signal(older, id, "found", "without a mark")
	}
	hears("after", c, "map[message:1]")
	hears("before", c, "map[found:2 message:1]")
}

// An update costs what it did, and one marker. Its record is in the store when it is answered.
func TestTheRecordOfAnAcceptedUpdateCostsOneEvent(t *testing.T) {
	s := newStage(t)
	w := s.work(s.ours)
	id := protocol.PoolID("")
	run := s.begin(s.ours, id, protocol.TypeHostPool, struct{}{})
	put := func(name string, signed bool) (events []enums.EventType, err error) {
		before := len(s.history(id, ""))
		in := protocol.PutHost{Spec: protocol.HostSpec{Name: name, Address: "192.0.2.1"}}
		var arg any = in
		if signed {
			arg = s.signed(id, protocol.UpdatePutHost, in)
		}
		h, err := s.thief.UpdateWorkflow(s.ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: protocol.UpdatePutHost, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = h.Get(s.ctx, nil)
		}
		for _, e := range s.history(id, "")[before:] {
			events = append(events, e.GetEventType())
		}
		return events, err
	}
	if _, err := put("web-0", true); err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 4; n++ {
		if n == 3 { // another worker goes on
			w.Stop()
			worker.PurgeStickyWorkflowCache()
			w = s.work(s.ours)
		}
		events, err := put(fmt.Sprintf("web-%d", n), true)
		markers := 0
		for _, e := range events {
			if e == enums.EVENT_TYPE_MARKER_RECORDED {
				markers++
			}
		}
		if n == 3 { // after a sticky queue that nobody polls
			events = nil
		}
		if err != nil || markers != 1 || len(events) > 6 {
			t.Errorf("update %d: %v, %v", n, events, err)
		}
		s.mu.Lock()
		if len(s.records) != n {
			t.Errorf("%d records are in the store after %d updates", len(s.records), n)
		}
		s.mu.Unlock()
		if events, err := put("web-9", false); err == nil || len(events) > 0 {
			t.Errorf("a refused update: %v, %v", events, err)
		}
	}
	defer func() { w.Stop() }()
	s.signal(s.ours, id, protocol.SignalRenew, protocol.Renew{})
	var head protocol.AuditHead
	if err := run.Get(s.ctx, &head); err != nil {
		t.Fatal(err)
	}
	logs, fault := audit.Sort(s.records)
	if fault != nil || len(logs) != 1 {
		t.Fatalf("%d chains, %v", len(logs), fault)
	}
	if fault := logs[0].Verify(&head); fault != nil || len(logs[0].Records) != 4 {
		t.Errorf("%d records, %v", len(logs[0].Records), fault)
	}
}

// A record of a command that verification does not know would never hold.
func TestVerificationKnowsEverySignedCommand(t *testing.T) {
	for _, all := range []map[string]rule{updates, starts} {
		for name, r := range all {
			if r.verb != "" && !audit.Knows(string(r.verb), name) {
				t.Errorf("verification does not know that %s needs %s", name, r.verb)
			}
		}
	}
}
