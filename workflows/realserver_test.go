package workflows

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/newer"
	"fairlead.dev/fairlead/workflows/session"
)

// The tests below run on the real Temporal server with real workers. Only the host
// and codex are replaced, by activities under the production names.

var recording = flag.Bool("record", false, "record the histories of a release in testdata/replay anew")

// devservers holds one server for each set of server settings. A server is started when it
// is first needed, and stopped after the last test.
var devservers = map[string]*testsuite.DevServer{}

var ports []*hosttest.Port

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, s := range devservers {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the Temporal server:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// zones counts how often a test's name was used.
var zones = map[string]int{}

// neutral is the identity of clients and workers, so that recorded histories do not
// name this machine.
const neutral = "fairlead"

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

func server(t *testing.T, settings ...string) client.Client {
	t.Helper()
	key := strings.Join(settings, " ")
	if s := devservers[key]; s != nil {
		return s.Client()
	}
	path := realparts.DevServer(t)
	// Each test has a task queue of its own. With the usual four partitions of each, the
	// server's database is soon busy with keeping them for 10 s and longer.
	settings = append([]string{"matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"}, settings...)
	var extra []string
	for _, s := range settings {
		extra = append(extra, "--dynamic-config-value", s)
	}
	// Keep the port until the process ends, so that no server of another package's
	// tests takes it and answers in place of this one.
	port, err := hosttest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	ports = append(ports, port)
	s, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: path, LogLevel: "error", ExtraArgs: extra, Stdout: io.Discard, Stderr: &headOfLines{to: os.Stderr},
		ClientOptions: &client.Options{HostPort: fmt.Sprintf("127.0.0.1:%d", port.Number), Identity: neutral, Logger: quiet()},
	})
	if err != nil {
		t.Fatalf("start the Temporal server: %v", err)
	}
	devservers[key] = s
	return s.Client()
}

// headOfLines writes the first bytes of each line. Most of a line of the server's log is a
// stack, which would hide what a test says.
type headOfLines struct {
	to   io.Writer
	have int // of the line, so far
}

func (h *headOfLines) Write(p []byte) (int, error) {
	const most = 300
	var out []byte
	for line := range bytes.Lines(p) {
		out = append(out, line[:min(len(line), max(most-h.have, 0))]...)
		if h.have += len(line); line[len(line)-1] == '\n' {
			if h.have > most {
				out = append(out, '\n')
			}
			h.have = 0
		}
	}
	if _, err := h.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// real is a zone of its own on the server: a queue, a pool, a stand-in for hosts,
// and the workers that a test starts.
type real struct {
	t     *testing.T
	c     client.Client
	zone  string
	queue string
	host  *standIn
	store *store.Store // for batches
	every kit.Intervals
	// knows has the features of workers that are started later; nil means all. log gets what
	// they leave to newer workers.
	knows []string
	log   *slog.Logger

	workers []worker.Worker
}

func newReal(t *testing.T, settings ...string) *real {
	t.Helper()
	r := &real{t: t, every: kit.Usual, c: server(t, settings...), host: newStandIn(t)}
	r.zone = "z" + strings.ToLower(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, t.Name()))
	if n := len(r.zone); n > 40 {
		r.zone = r.zone[:20] + r.zone[n-20:]
	}
	if zones[r.zone]++; zones[r.zone] > 1 { // the test runs again, with -count
		r.zone = fmt.Sprint(r.zone, "-", zones[r.zone])
	}
	r.queue = protocol.TaskQueueOf(r.zone)
	t.Cleanup(func() {
		for _, w := range r.workers {
			w.Stop()
		}
	})
	return r
}

// looksOften makes workers that are started later check leases every second.
func (r *real) looksOften() { r.every = often }

// work starts a worker and, the first time, the zone's pool.
func (r *real) work() (stop func()) {
	r.t.Helper()
	w := worker.New(r.c, r.queue, worker.Options{
		Identity: neutral, MaxHeartbeatThrottleInterval: 3 * time.Second, WorkerStopTimeout: 5 * time.Second,
		DeadlockDetectionTimeout: 10 * time.Second, Interceptors: []interceptor.WorkerInterceptor{r.newer()},
	})
	register(w, r.every)
	w.RegisterActivity(r.host)
	w.RegisterActivity(&engineOf{&overseer.Engine{Client: r.c}})
	if r.store != nil {
		b := activities.New(site.Deps{Temporal: r.c, Store: r.store}).Batch
		for _, a := range []any{b.StartItems, b.RecordResults, b.FindSilent, b.HoldBlobs} { // the stand-in has TidyStore
			w.RegisterActivity(a)
		}
	}
	if err := w.Start(); err != nil {
		r.t.Fatal(err)
	}
	if len(r.workers) == 0 {
		r.start(protocol.PoolID(r.zone), protocol.TypeHostPool, hostpool.Input{Zone: r.zone})
		r.update(protocol.PoolID(r.zone), protocol.UpdatePutHost, nil, put("web-1", 3))
	}
	once := &stopOnce{Worker: w}
	r.workers = append(r.workers, once)
	return once.Stop
}

func (r *real) newer() interceptor.WorkerInterceptor {
	opts := newer.Options{Features: r.knows, Logger: r.log}
	if opts.Features == nil {
		opts.Features = protocol.Features()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return newer.Interceptor(opts)
}

type stopOnce struct {
	worker.Worker
	once sync.Once
}

func (w *stopOnce) Stop() { w.once.Do(w.Worker.Stop) }

func (r *real) start(id, kind string, in any) {
	r.t.Helper()
	if err := r.tryStart(id, kind, in); err != nil {
		r.t.Fatalf("start %s: %v", id, err)
	}
}

// tryStart starts a workflow as ctl does.
func (r *real) tryStart(id, kind string, in any) error {
	_, err := r.c.ExecuteWorkflow(r.t.Context(), client.StartWorkflowOptions{
		ID: id, TaskQueue: r.queue,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, kind, in)
	return err
}

// session starts a session on web-1 and returns its id.
func (r *real) session(name string, opt session.Options) string {
	r.t.Helper()
	id := r.zone + "." + name
	opt.Zone, opt.Host = r.zone, "web-1"
	r.start(protocol.SessionID(id), protocol.TypeSession, session.Input{ID: id, Options: opt})
	return id
}

func (r *real) tryUpdate(workflowID, name string, out, arg any) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	// Try again, as ctl does. A workflow that is not ready, because it is continuing as
	// new, has not taken the update.
	opts := client.UpdateWorkflowOptions{
		UpdateID: rand.Text(), WorkflowID: workflowID, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
	}
	for {
		h, err := r.c.UpdateWorkflow(ctx, opts)
		if err == nil {
			err = h.Get(ctx, out)
		}
		var unready *serviceerror.WorkflowNotReady
		var late *client.WorkflowUpdateServiceTimeoutOrCanceledError // a busy server; the update's id is the same
		if !errors.As(err, &unready) && !errors.As(err, &late) || ctx.Err() != nil {
			return err
		}
	}
}

func (r *real) update(workflowID, name string, out, arg any) {
	r.t.Helper()
	if err := r.tryUpdate(workflowID, name, out, arg); err != nil {
		r.t.Fatalf("%s to %s: %v", name, workflowID, err)
	}
}

// signal sends a signal. The SDK would give up after 10 s, and a busy server may take longer.
// The request's id is the same in each try, so the signal counts once.
func (r *real) signal(workflowID, name string, arg any) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	input, err := converter.GetDefaultDataConverter().ToPayloads(arg)
	if err != nil {
		r.t.Fatal(err)
	}
	req := &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
		SignalName: name, Input: input, Identity: neutral, RequestId: rand.Text(),
	}
	for {
		_, err := r.c.WorkflowService().SignalWorkflowExecution(ctx, req)
		switch err.(type) {
		case nil:
			return
		case *serviceerror.ResourceExhausted, *serviceerror.Unavailable, *serviceerror.DeadlineExceeded: // also while the workflow continues as new
			if ctx.Err() == nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
		}
		r.t.Fatalf("%s to %s: %v", name, workflowID, err)
	}
}

// say sends a message to a session by update and returns the number of its turn.
func (r *real) say(session, id, text string) int {
	r.t.Helper()
	var acc protocol.MessageAccepted
	r.update(protocol.SessionID(session), protocol.SignalMessage, &acc, protocol.Message{ID: id, Text: text})
	return acc.N
}

// askAgain reports whether a query is to be asked once more. If it was given to a worker that has
// died since, it ends after 10 s. If an older worker has just left a task to newer ones, or no
// worker has asked for tasks of late, the server refuses it.
func askAgain(err error) bool {
	var late *serviceerror.DeadlineExceeded
	var left *serviceerror.WorkflowNotReady
	var nobody *serviceerror.FailedPrecondition
	return errors.As(err, &late) || errors.As(err, &left) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &nobody) && strings.Contains(nobody.Message, "no poller seen")
}

// maxMet is how often in a row a query may meet the end of a task.
const maxMet = 4

// metItsTask reports whether a query failed because a workflow task ended while the query was on its
// way to a worker, as ctl's queries do. A workflow that cannot be replayed fails so at each query.
func metItsTask(err error) bool {
	var fail *serviceerror.QueryFailed
	return errors.As(err, &fail) && strings.HasPrefix(fail.Message, "[TMPRL1100] invalid state transition")
}

func asked[T any](r *real, workflowID, name string, args ...any) (out T) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	v, err := r.c.QueryWorkflow(ctx, workflowID, "", name, args...)
	for met := 0; (askAgain(err) || metItsTask(err) && met < maxMet) && ctx.Err() == nil; {
		if metItsTask(err) {
			met++
		}
		time.Sleep(20 * time.Millisecond)
		v, err = r.c.QueryWorkflow(ctx, workflowID, "", name, args...)
	}
	if err == nil {
		err = v.Get(&out)
	}
	if err != nil {
		r.t.Fatalf("query %s of %s: %v", name, workflowID, err)
	}
	return out
}

func (r *real) view(session string) protocol.SessionView {
	r.t.Helper()
	return asked[protocol.SessionView](r, protocol.SessionID(session), protocol.QueryState)
}

// patience bounds the wait for something that must happen. It is no measure of how long
// that takes.
const patience = 15 * time.Minute

func (r *real) until(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("gave up waiting until %s", what)
		}
	}
}

func (r *real) becomes(session string, state protocol.SessionStatus) {
	r.t.Helper()
	var v protocol.SessionView
	r.until(fmt.Sprintf("%s is %s", session, state), func() bool { v = r.view(session); return v.State == state })
}

func (r *real) ended(session, message, status string) protocol.TurnView {
	r.t.Helper()
	var turn protocol.TurnView
	r.until(fmt.Sprintf("message %s has had its turn", message), func() bool {
		turn = asked[protocol.TurnView](r, protocol.SessionID(session), protocol.QueryTurn, protocol.TurnQuery{MessageID: message})
		return turn.Done()
	})
	if turn.Status != status {
		r.t.Errorf("the turn of message %s is %s, want %s: %+v", message, turn.Status, status, turn)
	}
	return turn
}

func (r *real) decide(session string, n int, outcome, scope string) {
	r.t.Helper()
	r.update(protocol.SessionID(session), protocol.SignalDecide, nil, r.decision(session, n, outcome, scope))
}

func (r *real) decision(session string, n int, outcome, scope string) protocol.Decide {
	r.t.Helper()
	id := fmt.Sprintf("%s.%d", session, n)
	for _, a := range asked[[]protocol.Approval](r, protocol.SessionID(session), protocol.QueryApprovals) {
		if a.ID == id {
			return protocol.Decide{Approval: id, Digest: a.Digest, Outcome: outcome, Scope: scope, By: "bob"}
		}
	}
	r.t.Fatalf("there is no approval %s", id)
	return protocol.Decide{}
}

func (r *real) approval(session string, n int) protocol.Approval {
	r.t.Helper()
	id := fmt.Sprintf("%s.%d", session, n)
	for _, a := range asked[[]protocol.Approval](r, protocol.SessionID(session), protocol.QueryApprovals) {
		if a.ID == id {
			return a
		}
	}
	r.t.Fatalf("there is no approval %s", id)
	return protocol.Approval{}
}

func (r *real) close(session string) protocol.SessionView {
	r.t.Helper()
	r.update(protocol.SessionID(session), protocol.SignalClose, nil, protocol.Close{By: "bob"})
	v, err := r.result(session)
	if err != nil {
		r.t.Fatalf("session %s ended with %v", session, err)
	}
	return v
}

func (r *real) result(session string) (v protocol.SessionView, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	err = r.c.GetWorkflow(ctx, protocol.SessionID(session), "").Get(ctx, &v)
	return v, err
}

// history returns the history of one run, or of the newest if run is empty.
func (r *real) history(workflowID, run string) *historypb.History {
	r.t.Helper()
	it := r.c.GetWorkflowHistory(r.t.Context(), workflowID, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	h := &historypb.History{}
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	return h
}

func (r *real) runs(workflowID string) []string {
	r.t.Helper()
	d, err := r.c.DescribeWorkflowExecution(r.t.Context(), workflowID, "")
	if err != nil {
		r.t.Fatal(err)
	}
	runs := []string{d.WorkflowExecutionInfo.Execution.RunId}
	for {
		begun := r.history(workflowID, runs[0]).Events[0].GetWorkflowExecutionStartedEventAttributes()
		before := begun.GetContinuedExecutionRunId()
		if before == "" {
			return runs
		}
		runs = append([]string{before}, runs...)
	}
}

// events waits until a session adds no more events, and counts them.
func (r *real) events(session string) int {
	r.t.Helper()
	n := 0
	r.until("nothing goes on", func() bool {
		h := r.history(protocol.SessionID(session), "")
		last := h.Events[len(h.Events)-1].EventType
		n = len(h.Events)
		return last == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED || last == enums.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES ||
			last == enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED || last == enums.EVENT_TYPE_TIMER_STARTED
	})
	return n
}
