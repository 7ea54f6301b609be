package payload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

type problem struct{ What string }

// everything uses each way in which the SDK converts values, and reports what came back.
func everything(ctx workflow.Context, again bool, said []string) ([]string, error) {
	if err := workflow.SetQueryHandler(ctx, "said", func(n int) (string, error) { return fmt.Sprint(n, said), nil }); err != nil {
		return nil, err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, "tell", func(_ workflow.Context, what string, n int) (string, error) {
		said = append(said, fmt.Sprint("update ", what, n))
		return "told " + what, nil
	}, workflow.UpdateHandlerOptions{Validator: func(what string, n int) error {
		if what == "wrong" {
			return temporal.NewApplicationError("marked refusal", "refused", problem{"wrong"})
		}
		return nil
	}}); err != nil {
		return nil, err
	}
	if err := workflow.SetUpdateHandler(ctx, "unchecked", func(_ workflow.Context, what string) error {
		said = append(said, "unchecked "+what)
		return nil
	}); err != nil {
		return nil, err
	}
	add := func(what string, err error, v any) error {
		said = append(said, fmt.Sprint(what, " ", v))
		return err
	}
	act := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Minute, Summary: "marked summary",
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Millisecond, MaximumAttempts: 2},
	})
	var v string
	if err := workflow.ExecuteActivity(act, "beat", "in").Get(ctx, &v); add("activity", err, v) != nil {
		return nil, err
	}
	err := workflow.ExecuteActivity(act, "fails", "in").Get(ctx, nil)
	var app *temporal.ApplicationError
	var p problem
	if !errors.As(err, &app) || app.Details(&p) != nil {
		return nil, fmt.Errorf("the activity's failure came as %w", err)
	}
	_ = add("failure", nil, app.Message()+" "+p.What)
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteLocalActivity(local, nearby, "in").Get(ctx, &v); add("local", err, v) != nil {
		return nil, err
	}
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return "side" }).Get(&v); add("side", err, v) != nil {
		return nil, err
	}
	if err := workflow.MutableSideEffect(ctx, "m", func(workflow.Context) any { return "mutable" }, func(a, b any) bool { return a == b }).Get(&v); add("mutable", err, v) != nil {
		return nil, err
	}
	_ = add("version", nil, workflow.GetVersion(ctx, "a-change", workflow.DefaultVersion, 3))
	if err := workflow.UpsertMemo(ctx, map[string]any{"later": "memo"}); err != nil {
		return nil, err
	}
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	child := workflow.ExecuteChildWorkflow(workflow.WithWorkflowID(ctx, id+"/child"), "child", "in")
	if err := child.SignalChildWorkflow(ctx, "go", "as a child").Get(ctx, nil); err != nil {
		return nil, err
	}
	if err := workflow.SignalExternalWorkflow(ctx, id+"/child", "", "go", "as another").Get(ctx, nil); err != nil {
		return nil, err
	}
	if err := child.Get(ctx, &v); add("child", err, v) != nil {
		return nil, err
	}
	err = workflow.ExecuteChildWorkflow(ctx, "child", "fail").Get(ctx, nil)
	if !errors.As(err, &app) || app.Details(&p) != nil {
		return nil, fmt.Errorf("the child's failure came as %w", err)
	}
	_ = add("failure", nil, app.Message()+" "+p.What)
	if !again {
		return nil, workflow.NewContinueAsNewError(ctx, "everything", true, said)
	}
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, &v)
	return said, add("signal", nil, v)
}

func child(ctx workflow.Context, in string) (string, error) {
	if in == "fail" {
		return "", temporal.NewNonRetryableApplicationError("marked failure of the child", "bad", nil, problem{"child"})
	}
	for range 2 {
		var v string
		workflow.GetSignalChannel(ctx, "go").Receive(ctx, &v)
		in += ", " + v
	}
	return in, nil
}

func beat(ctx context.Context, in string) (string, error) {
	if activity.GetInfo(ctx).Attempt == 1 {
		activity.RecordHeartbeat(ctx, "beat")
		return "", errors.New("marked: once more")
	}
	var last string
	if err := activity.GetHeartbeatDetails(ctx, &last); err != nil {
		return "", err
	}
	return in + " " + last, nil
}

func fails(context.Context, string) error {
	return temporal.NewNonRetryableApplicationError("marked failure", "bad", nil, problem{"activity"})
}

func nearby(_ context.Context, in string) (string, error) { return in + " nearby", nil }

var wanted = []string{"activity in beat", "failure marked failure activity", "local in nearby", "side side", "mutable mutable", "version 3",
	"child in, as a child, as another", "failure marked failure of the child child"}

// A rig has a server and a worker with a key.
type rig struct {
	t    *testing.T
	ctx  context.Context
	at   string // the server's address
	raw  client.Client
	logs *logged
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server := devServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, at: server.FrontendHostPort(), logs: &logged{}}
	r.raw = r.dial(NewCodec("default"))
	return r
}

func (r *rig) dial(c *Codec) client.Client {
	r.t.Helper()
	opts := client.Options{HostPort: r.at, Logger: log.NewStructuredLogger(slog.New(slog.NewTextHandler(r.logs, nil)))}
	c.Use(&opts)
	return r.connect(opts)
}

func (r *rig) connect(opts client.Options) client.Client {
	r.t.Helper()
	cl, err := client.DialContext(r.ctx, opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return cl
}

func registerAll(w interface{ RegisterWorkflow(any) }) {
	w.RegisterWorkflow(everything)
	w.RegisterWorkflow(child)
	w.RegisterWorkflow(listening)
}

func (r *rig) work(c client.Client) worker.Worker {
	r.t.Helper()
	w := worker.New(c, "q", worker.Options{})
	registerAll(w)
	for _, f := range []any{beat, fails, nearby} {
		w.RegisterActivity(f)
	}
	if err := w.Start(); err != nil {
		r.t.Fatal(err)
	}
	return w
}

func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for !ok() {
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("waited in vain until %s; logged:\n%s", what, r.logs)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *rig) history(id, run string) *historypb.History {
	r.t.Helper()
	h := &historypb.History{}
	it := r.raw.GetWorkflowHistory(r.ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		h.Events = append(h.Events, ev)
	}
	return h
}

func (r *rig) replay(c *Codec, id string, h *historypb.History) error {
	r.t.Helper()
	opts := worker.WorkflowReplayerOptions{DataConverter: c.DataConverter(), FailureConverter: c.FailureConverter(), DisableDeadlockDetection: true}
	if in := c.Interceptor(); in != nil {
		opts.Interceptors = []interceptor.WorkerInterceptor{in}
	}
	replayer, err := worker.NewWorkflowReplayerWithOptions(opts)
	if err != nil {
		r.t.Fatal(err)
	}
	registerAll(replayer)
	return replayer.ReplayWorkflowHistoryWithOptions(quiet, h, worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}})
}

type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestEveryKindOfPayloadIsReadAtItsPlace(t *testing.T) {
	r := newRig(t)
	codec := NewCodec("default", key(t))
	c := r.dial(codec)
	w := r.work(c)
	defer w.Stop()
	run, err := c.ExecuteWorkflow(r.ctx, client.StartWorkflowOptions{ID: "a/b", TaskQueue: "q", Memo: map[string]any{"early": "memo"}, StaticSummary: "marked"}, everything, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	tell := func(name string, args ...any) (string, error) {
		h, err := c.UpdateWorkflow(r.ctx, client.UpdateWorkflowOptions{WorkflowID: "a/b", UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted})
		if err != nil {
			return "", err
		}
		var v string
		return v, h.Get(r.ctx, &v)
	}
	r.until("both runs have said all", func() bool {
		v, err := c.QueryWorkflow(r.ctx, "a/b", "", "said", 1)
		if err != nil {
			return false
		}
		var text string
		if err := v.Get(&text); err != nil {
			t.Fatal(err)
		}
		return strings.Count(text, "of the child") == 2
	})
	if v, err := tell("tell", "it", 1); err != nil || v != "told it" {
		t.Errorf("the update says %q, %v", v, err)
	}
	if _, err := tell("unchecked", "it"); err != nil {
		t.Error(err)
	}
	_, err = tell("tell", "wrong", 1)
	var app *temporal.ApplicationError
	var p problem
	if !errors.As(err, &app) || app.Message() != "marked refusal" || app.Details(&p) != nil || p.What != "wrong" {
		t.Errorf("a refused update: %v", err)
	}
	if err := c.SignalWorkflow(r.ctx, "a/b", "", "end", "ended"); err != nil {
		t.Fatal(err)
	}
	var said []string
	if err := run.Get(r.ctx, &said); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(append(append(append([]string{}, wanted...), wanted...), "update it1", "unchecked it", "signal ended"))
	if got := fmt.Sprint(said); got != want {
		t.Errorf("said\n%s, want\n%s", got, want)
	}
	d, err := c.DescribeWorkflowExecution(r.ctx, "a/b", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range d.GetWorkflowExecutionInfo().GetMemo().GetFields() {
		var v string
		if err := codec.Of("a/b", time.Now()).FromPayload(p, &v); err != nil || v != "memo" {
			t.Errorf("memo %s is %q, %v", name, v, err)
		}
		if err := codec.Of("a/c", time.Now()).FromPayload(p, &v); !errors.Is(err, ErrMoved) {
			t.Errorf("memo %s of another workflow: %v", name, err)
		}
	}
	if n := len(d.GetWorkflowExecutionInfo().GetMemo().GetFields()); n != 2 {
		t.Errorf("%d memos", n)
	}
	for _, run := range []string{run.GetRunID(), d.GetWorkflowExecutionInfo().GetExecution().GetRunId()} {
		h := r.history("a/b", run)
		if err := r.replay(codec, "a/b", h); err != nil {
			t.Errorf("run %s cannot be replayed: %v", run, err)
		}
	}

	// The other ways to start a workflow.
	with, err := c.SignalWithStartWorkflow(r.ctx, "s", "say", "one", client.StartWorkflowOptions{TaskQueue: "q"}, listening, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := with.Get(r.ctx, &said); err != nil || fmt.Sprint(said) != "[one]" {
		t.Errorf("signalled and started: %v, %v", said, err)
	}
	start := client.StartWorkflowOptions{ID: "u", TaskQueue: "q", WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL}
	both := client.UpdateWorkflowOptions{WorkflowID: "u", UpdateName: "tell", Args: []any{"two"}, WaitForStage: client.WorkflowUpdateStageCompleted}
	h, err := c.UpdateWithStartWorkflow(r.ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.NewWithStartWorkflowOperation(start, listening, 1), UpdateOptions: both,
	})
	if err == nil {
		err = h.Get(r.ctx, nil)
	}
	if err != nil {
		t.Errorf("updated and started: %v", err)
	}
	both.WorkflowID = ""
	if _, err := c.UpdateWithStartWorkflow(r.ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.NewWithStartWorkflowOperation(start, listening, 1), UpdateOptions: both,
	}); err == nil {
		t.Error("an update without the id of its workflow was sent")
	}
	_, err = c.ScheduleClient().Create(r.ctx, client.ScheduleOptions{ID: "nightly", TriggerImmediately: true,
		Memo:   map[string]any{"note": "noted"},
		Action: &client.ScheduleWorkflowAction{ID: "scheduled", Workflow: listening, Args: []any{0}, TaskQueue: "q", Memo: map[string]any{"early": "memo"}}})
	if err != nil {
		t.Fatal(err)
	}
	r.until("the schedule's workflow has ended", func() bool {
		d, err := c.ScheduleClient().GetHandle(r.ctx, "nightly").Describe(r.ctx)
		if err != nil || len(d.Info.RecentActions) == 0 {
			return false
		}
		id := d.Info.RecentActions[0].StartWorkflowResult.WorkflowID
		if err := c.GetWorkflow(r.ctx, id, "").Get(r.ctx, &said); err != nil || len(said) != 0 {
			t.Fatalf("%s: %v, %v", id, said, err)
		}
		var note string
		if err := codec.DataConverter().FromPayload(d.Memo.GetFields()["note"], &note); err != nil || note != "noted" {
			t.Fatalf("the schedule's memo is %q, %v", note, err)
		}
		return true
	})
	if text := r.logs.String(); strings.Contains(text, "refused") {
		t.Errorf("refused:\n%s", text)
	}
}

// listening takes n signals or updates.
func listening(ctx workflow.Context, n int) ([]string, error) {
	said := []string{}
	if err := workflow.SetUpdateHandler(ctx, "tell", func(_ workflow.Context, what string) error { said = append(said, what); return nil }); err != nil {
		return nil, err
	}
	if err := workflow.SetQueryHandler(ctx, "said", func(from int) ([]string, error) { return said[from:], nil }); err != nil {
		return nil, err
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var v string
			workflow.GetSignalChannel(ctx, "say").Receive(ctx, &v)
			said = append(said, v)
		}
	})
	act := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, ScheduleToCloseTimeout: time.Minute, TaskQueue: "rogue"})
	if n > 1 {
		workflow.Go(ctx, func(ctx workflow.Context) {
			v := "not set"
			if err := workflow.ExecuteActivity(act, "beat", "in").Get(ctx, &v); err != nil {
				v = "an error"
			}
			said = append(said, "activity: "+v)
		})
	}
	return said, workflow.Await(ctx, func() bool { return len(said) >= n })
}

func TestAForgedOrMovedMessageIsRefusedAndBlocksNothing(t *testing.T) {
	r := newRig(t)
	codec := NewCodec("default", key(t))
	c := r.dial(codec)
	w := r.work(c)
	defer w.Stop()
	if _, err := c.ExecuteWorkflow(r.ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "q"}, listening, 3); err != nil {
		t.Fatal(err)
	}
	p := plain(t, "forged")
	in := func(kind placeKind, workflow, name string) *commonpb.Payload {
		return bound(t, codec, place{kind: kind, workflow: workflow, name: name}, p)
	}
	torn := in(toSignal, "w", "say")
	torn.Data[len(torn.Data)-1] ^= 1
	service := r.raw.WorkflowService()
	forged := map[string]*commonpb.Payloads{
		"plain": {Payloads: []*commonpb.Payload{p}}, "of the namespace": {Payloads: []*commonpb.Payload{old(t, codec, p)}},
		"missing": nil, "empty": {}, "torn": {Payloads: []*commonpb.Payload{torn}},
		"another workflow's": {Payloads: []*commonpb.Payload{in(toSignal, "other", "say")}}, "another signal's": {Payloads: []*commonpb.Payload{in(toSignal, "w", "hush")}},
		"another update's": {Payloads: []*commonpb.Payload{in(toUpdate, "w", "hush")}}, "a result": {Payloads: []*commonpb.Payload{in(ofWorkflow, "w", "")}},
		"an activity's": {Payloads: []*commonpb.Payload{in(ofActivity, "w", "beat")}}, "of no place": {Payloads: []*commonpb.Payload{encode(t, codec, p)}},
	}
	which := &commonpb.WorkflowExecution{WorkflowId: "w"}
	n := 0
	for name, args := range forged {
		signal := args
		if name == "another update's" {
			signal = &commonpb.Payloads{Payloads: []*commonpb.Payload{in(toUpdate, "w", "say")}}
		}
		if _, err := service.SignalWorkflowExecution(r.ctx, &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: "default", WorkflowExecution: which, SignalName: "say", Input: signal}); err != nil {
			t.Fatal(err)
		}
		n++
		r.until("the signal is refused: "+name, func() bool { return strings.Count(r.logs.String(), "refused a signal") >= n })

		update := args
		if name == "another signal's" {
			update = &commonpb.Payloads{Payloads: []*commonpb.Payload{in(toSignal, "w", "tell")}}
		}
		if name == "empty" || name == "missing" {
			update = &commonpb.Payloads{}
		}
		res, err := service.UpdateWorkflowExecution(r.ctx, &workflowservice.UpdateWorkflowExecutionRequest{
			Namespace: "default", WorkflowExecution: which, WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: enums.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED},
			Request: &updatepb.Request{Meta: &updatepb.Meta{UpdateId: name}, Input: &updatepb.Input{Name: "tell", Args: update}}})
		if err != nil {
			t.Fatal(err)
		}
		if f := res.GetOutcome().GetFailure(); f == nil || !strings.Contains(codec.Message(f), "payload of Temporal's") {
			t.Errorf("an update that is %s: %v", name, res.GetOutcome())
		}

		query := args
		if name == "a result" {
			continue // a query's argument is bound to the workflow alone
		}
		_, err = service.QueryWorkflow(r.ctx, &workflowservice.QueryWorkflowRequest{Namespace: "default", Execution: which,
			Query: &querypb.WorkflowQuery{QueryType: "said", QueryArgs: query}})
		var failed *serviceerror.QueryFailed
		if !errors.As(err, &failed) || !strings.Contains(failed.Message, "payload of Temporal's") {
			t.Errorf("a query that is %s: %v", name, err)
		}
	}
	// A program that takes the activity's task without a key can only have it fail.
	task, err := service.PollActivityTaskQueue(r.ctx, &workflowservice.PollActivityTaskQueueRequest{Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: "rogue"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.RespondActivityTaskCompleted(r.ctx, &workflowservice.RespondActivityTaskCompletedRequest{
		Namespace: "default", TaskToken: task.TaskToken, Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{p}}}); err != nil {
		t.Fatal(err)
	}
	// Nothing is blocked: what has the key arrives.
	if err := c.SignalWorkflow(r.ctx, "w", "", "say", "signal"); err != nil {
		t.Fatal(err)
	}
	h, err := c.UpdateWorkflow(r.ctx, client.UpdateWorkflowOptions{WorkflowID: "w", UpdateName: "tell", Args: []any{"update"}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(r.ctx, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	if err := c.GetWorkflow(r.ctx, "w", "").Get(r.ctx, &said); err != nil {
		t.Fatal(err)
	}
	if len(said) != 3 || strings.Contains(fmt.Sprint(said), "forged") || !strings.Contains(fmt.Sprint(said), "activity: an error") {
		t.Errorf("said %q", said)
	}
	hist := r.history("w", "")
	for _, ev := range hist.Events {
		if a := ev.GetWorkflowExecutionUpdateAcceptedEventAttributes(); a != nil && a.GetAcceptedRequest().GetMeta().GetUpdateId() != h.UpdateID() {
			t.Errorf("a forged update is in the history: %v", a)
		}
		if f := ev.GetWorkflowTaskFailedEventAttributes(); f != nil {
			t.Errorf("a workflow task failed: %s", codec.Message(f.GetFailure()))
		}
	}
	if err := r.replay(codec, "w", hist); err != nil {
		t.Errorf("the history cannot be replayed: %v", err)
	}
}

// An older program binds to the namespace, or has no key at all.
type olderCodec struct {
	t *testing.T
	c *Codec
}

func (o olderCodec) Encode(ps []*commonpb.Payload) ([]*commonpb.Payload, error) {
	var out []*commonpb.Payload
	for _, p := range ps {
		out = append(out, old(o.t, o.c, p))
	}
	return out, nil
}

func (o olderCodec) Decode(ps []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return o.c.Decode(ps)
}

func TestWorkflowsOfAnOlderVersionGoOnOnceTheUserNamesTheTimeOfTheUpgrade(t *testing.T) {
	r := newRig(t)
	codec := NewCodec("default", key(t))
	older := map[string]converter.DataConverter{
		"plain": converter.GetDefaultDataConverter(), "namespace": converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), olderCodec{t, codec}),
	}
	for id, dc := range older {
		c := r.connect(client.Options{HostPort: r.at, Logger: quiet, DataConverter: dc})
		w := r.work(c)
		if _, err := c.ExecuteWorkflow(r.ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "q", Memo: map[string]any{"early": "memo"}}, everything, true, nil); err != nil {
			t.Fatal(err)
		}
		r.until(id+" has gone through everything", func() bool {
			v, err := c.QueryWorkflow(r.ctx, id, "", "said", 1)
			var text string
			return err == nil && v.Get(&text) == nil && strings.Contains(text, "of the child")
		})
		h, err := c.UpdateWorkflow(r.ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: "tell", Args: []any{"before", 0}, WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = h.Get(r.ctx, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SignalWorkflow(r.ctx, id, "", "other", "before"); err != nil {
			t.Fatal(err)
		}
		// A worker that stops with a task in its hands keeps it until its time-out.
		r.until("the signal to "+id+" has been handled", func() bool {
			info, err := c.DescribeWorkflowExecution(r.ctx, id, "")
			return err == nil && info.GetPendingWorkflowTask() == nil
		})
		w.Stop()
	}
	// Required: nothing of it is read. The workflows wait, and say what to do.
	strict := r.dial(codec)
	w := r.work(strict)
	for id := range older {
		if err := strict.SignalWorkflow(r.ctx, id, "", "wake", ""); err != nil {
			t.Fatal(err)
		}
		r.until(id+" waits", func() bool {
			for _, ev := range r.history(id, "").Events {
				if f := ev.GetWorkflowTaskFailedEventAttributes(); f != nil && strings.Contains(codec.Message(f.GetFailure()), "temporal.payloads_since") {
					return true
				}
			}
			return false
		})
	}
	w.Stop()
	since := time.Now().Add(time.Second)
	migrating := codec.Since(since)
	r.until("the time of the upgrade has passed", func() bool { return time.Now().After(since) })
	c := r.dial(migrating)
	w = r.work(c)
	defer w.Stop()
	for id, dc := range older {
		info, err := c.DescribeWorkflowExecution(r.ctx, id, "")
		if err != nil {
			t.Fatal(err)
		}
		var memo string
		began := info.GetWorkflowExecutionInfo().GetStartTime().AsTime()
		if err := migrating.Of(id, began).FromPayload(info.GetWorkflowExecutionInfo().GetMemo().GetFields()["early"], &memo); err != nil || memo != "memo" {
			t.Errorf("%s: memo %q, %v", id, memo, err)
		}
		outside := r.connect(client.Options{HostPort: r.at, Logger: quiet, DataConverter: dc})
		if err := outside.SignalWorkflow(r.ctx, id, "", "end", "by an older ctl"); err != nil {
			t.Fatal(err)
		}
		var said []string
		if err := c.GetWorkflow(r.ctx, id, "").Get(r.ctx, &said); err != nil || fmt.Sprint(said) != fmt.Sprint(append(append([]string{}, wanted...), "update before0", "signal by an older ctl")) {
			t.Errorf("%s said %q, %v", id, said, err)
		}
		if err := r.replay(migrating, id, r.history(id, "")); err != nil {
			t.Errorf("%s cannot be replayed: %v", id, err)
		}
		// One that begins now has no older payloads.
		if _, err := outside.ExecuteWorkflow(r.ctx, client.StartWorkflowOptions{ID: id + "-new", TaskQueue: "q"}, listening, 0); err != nil {
			t.Fatal(err)
		}
		r.until("a new one is refused", func() bool {
			for _, ev := range r.history(id+"-new", "").Events {
				if f := ev.GetWorkflowTaskFailedEventAttributes(); f != nil && strings.Contains(codec.Message(f.GetFailure()), "only what began before") {
					return true
				}
			}
			return false
		})
	}
}
