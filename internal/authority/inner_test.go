package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// A stage has a server, a worker that requires authority, and a thief: a client with what a
// ctl has, which is the payload key and access to Temporal.
type stage struct {
	t         *testing.T
	ctx       context.Context
	at        string
	key       payload.Key
	workers   payload.Workers
	keeper    *Keeper
	ann       ssh.Signer
	ours      client.Client
	thief     client.Client
	did, exec atomic.Int32
	claims    sync.Map // nonce of a signed start → run

	mu      sync.Mutex
	refused []audit.Record
	records []string // audit records of workflows
}

// onRecord returns the records of what our workers refused on an object.
func (s *stage) onRecord(object string) (out []audit.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refused {
		if r.Object == object {
			out = append(out, r)
		}
	}
	return out
}

func payloadKey(t *testing.T) payload.Key {
	t.Helper()
	k, err := payload.GenerateKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newStage(t *testing.T) *stage {
	t.Helper()
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: realparts.DevServer(t), Stdout: io.Discard, Stderr: io.Discard, ClientOptions: &client.Options{Logger: quiet},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	s := &stage{t: t, ctx: ctx, at: server.FrontendHostPort(), key: payloadKey(t)}
	s.workers = payload.Workers{Keys: []payload.Key{payloadKey(t)}, Required: true, Internal: IsInternal}
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if s.ann, err = ssh.NewSignerFromKey(secret); err != nil {
		t.Fatal(err)
	}
	a, err := access.Parse(fmt.Appendf(nil, "people:\n  - {name: ann, keys: [%q]}\nbindings:\n  - {name: all, roles: [admin], to: [ann]}\n",
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.ann.PublicKey())))))
	if err != nil {
		t.Fatal(err)
	}
	s.keeper = Fixed(a, time.Now)
	s.ours, s.thief = s.dial(s.codec()), s.dial(payload.NewCodec("default", s.key))
	return s
}

func (s *stage) codec() *payload.Codec {
	return payload.NewCodec("default", s.key).ForWorkers(s.workers)
}

func (s *stage) dial(c *payload.Codec) client.Client {
	s.t.Helper()
	opts := client.Options{HostPort: s.at, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	c.Use(&opts)
	cl, err := client.DialContext(s.ctx, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return cl
}

// plain sends payloads as they are given.
func (s *stage) plain() client.Client {
	s.t.Helper()
	c, err := client.DialContext(s.ctx, client.Options{HostPort: s.at, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// listens counts what reaches it, until it is told to end.
func listens(ctx workflow.Context, in protocol.ScanHostKeysInput) (string, error) {
	heard := map[string]int{}
	if err := workflow.SetQueryHandler(ctx, "heard", func() (map[string]int, error) { return heard, nil }); err != nil {
		return "", err
	}
	for _, name := range []string{protocol.UpdateSaveSeed, protocol.UpdateReviveSeed} {
		if err := workflow.SetUpdateHandler(ctx, name, func(_ workflow.Context, in protocol.ReviveSeed) (string, error) {
			heard[name+" of "+in.By]++
			return "saved", nil
		}); err != nil {
			return "", err
		}
	}
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(workflow.GetSignalChannel(ctx, protocol.SignalClose), func(c workflow.ReceiveChannel, _ bool) {
		var raw converter.RawValue
		c.Receive(ctx, &raw)
		heard[fmt.Sprintf("close by a worker: %v", ByWorker(protocol.SignalClose, raw))]++
	})
	end := false
	for _, name := range []string{"found", "release", protocol.SignalMessage} {
		sel.AddReceive(workflow.GetSignalChannel(ctx, name), func(c workflow.ReceiveChannel, _ bool) {
			c.Receive(ctx, nil)
			heard[name]++
			end = name == protocol.SignalMessage
		})
	}
	for !end {
		sel.Select(ctx)
	}
	return fmt.Sprint(heard), nil
}

// waits runs an activity that a person might answer.
func waits(ctx workflow.Context, _ string) (string, error) {
	var out string
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{ActivityID: "judge", StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
	return out, workflow.ExecuteActivity(ctx, "pends", "it").Get(ctx, &out)
}

// remembers returns what a worker recorded.
func remembers(ctx workflow.Context, _ string) (string, error) {
	v := workflow.SideEffect(ctx, func(workflow.Context) any { return "as recorded" })
	workflow.GetSignalChannel(ctx, protocol.SignalMessage).Receive(ctx, nil)
	var out string
	return out, v.Get(&out)
}

// pools takes hosts, and keeps a ledger.
func pools(ctx workflow.Context, in struct{}) (protocol.AuditHead, error) {
	var chain audit.Chain
	l := Record(ctx, &chain)
	err := workflow.SetUpdateHandler(ctx, protocol.UpdatePutHost, func(_ workflow.Context, in protocol.PutHost) (string, error) {
		return in.Spec.Name, nil
	})
	if err != nil {
		return protocol.AuditHead{}, err
	}
	l.Keep()
	workflow.GetSignalChannel(ctx, protocol.SignalRenew).Receive(ctx, nil)
	l.finish()
	return *chain.Newest(), nil
}

// write keeps audit records, and returns the newest.
func (s *stage) write(b audit.Batch) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, b.Lines...)
	return b.Last()
}

// work runs our worker.
func (s *stage) work(c client.Client) worker.Worker {
	s.t.Helper()
	w := worker.New(c, "ours", worker.Options{Interceptors: []interceptor.WorkerInterceptor{Interceptor(s.keeper, Options{Refused: func(r audit.Record) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = append(s.refused, r)
	}})}})
	w.RegisterWorkflowWithOptions(listens, workflow.RegisterOptions{Name: "listens"})
	w.RegisterWorkflowWithOptions(waits, workflow.RegisterOptions{Name: "waits"})
	w.RegisterWorkflowWithOptions(remembers, workflow.RegisterOptions{Name: "remembers"})
	w.RegisterWorkflowWithOptions(func(workflow.Context, protocol.ExecInput) (string, error) {
		s.exec.Add(1)
		return "ran", nil
	}, workflow.RegisterOptions{Name: protocol.TypeExec})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ protocol.ExecInput) error {
		return Claim(ctx, protocol.TypeBatch, StartVerdict(ctx), protocol.ClaimStart{})
	}, workflow.RegisterOptions{Name: protocol.TypeBatch})
	w.RegisterActivityWithOptions(func(ctx context.Context, in string) (string, error) {
		s.did.Add(1)
		return "", activity.ErrResultPending
	}, activity.RegisterOptions{Name: "pends"})
	w.RegisterActivityWithOptions(func(_ context.Context, in protocol.ClaimStart) (out protocol.StartClaimed, _ error) {
		out.Run, out.Nonce = in.Run, in.Nonce
		if by, used := s.claims.LoadOrStore(in.Nonce, in.Run); used && by != in.Run {
			out.Refused = "it was started before"
		} else if in.Audit != nil {
			out.Audited = s.write(*in.Audit)
		}
		return out, nil
	}, activity.RegisterOptions{Name: protocol.ActivityClaimStart})
	w.RegisterActivityWithOptions(func(_ context.Context, in audit.Batch) (audit.Written, error) {
		return audit.Written{Entity: in.Entity, Seq: s.write(in)}, nil
	}, activity.RegisterOptions{Name: protocol.ActivityWriteAudit})
	w.RegisterWorkflowWithOptions(pools, workflow.RegisterOptions{Name: protocol.TypeHostPool})
	s.start(w)
	return w
}

func (s *stage) start(w worker.Worker) {
	s.t.Helper()
	if err := w.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) begin(c client.Client, id, kind string, in any) client.WorkflowRun {
	s.t.Helper()
	run, err := c.ExecuteWorkflow(s.ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "ours"}, kind, in)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	for !ok() {
		select {
		case <-s.ctx.Done():
			s.t.Fatalf("waited in vain until %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask queries a workflow. Temporal can hand a query to a worker that has just stopped: then it
// fails or stays without an answer, which says nothing about the workflow.
func (s *stage) ask(id, query string, out any) {
	s.t.Helper()
	s.until(id+" answers the query "+query, func() bool {
		v, err := s.ours.QueryWorkflow(s.ctx, id, "", query)
		if err == nil {
			err = v.Get(out)
		}
		var cancelled *serviceerror.Canceled
		var late *serviceerror.DeadlineExceeded
		if errors.As(err, &cancelled) || errors.As(err, &late) {
			return false
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return true
	})
}

func (s *stage) history(id, run string) (h []*historypb.HistoryEvent) {
	s.t.Helper()
	it := s.thief.GetWorkflowHistory(s.ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		h = append(h, ev)
	}
	return h
}

func (s *stage) signal(c client.Client, id, name string, arg any) {
	s.t.Helper()
	if err := c.SignalWorkflow(s.ctx, id, "", name, arg); err != nil {
		s.t.Fatal(err)
	}
}

func update(ctx context.Context, c client.Client, id, name string, arg any) (out string, err error) {
	h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(ctx, &out)
	}
	return out, err
}

func (s *stage) signed(workflowID, name string, in any) json.RawMessage {
	s.t.Helper()
	raw, err := command.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := command.Sign(s.ann, "ann", workflowID, name, raw, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

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
