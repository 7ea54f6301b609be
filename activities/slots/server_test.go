package slots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/realparts"
)

const queue = "slots"

// one runs an activity as workflows do.
func one(ctx workflow.Context, name string, attempts int32, in job) (result, error) {
	var out result
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Minute, HeartbeatTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1, MaximumAttempts: attempts},
	}), name, in).Get(ctx, &out)
	return out, err
}

// A job is what an activity of the test does.
type job struct {
	Gate string // it ends when this is opened
	Fail bool   // the first attempt fails
	Now  bool   // it is urgent
}

func (j job) Urgent() bool { return j.Now }

// A result is what the last attempt saw.
type result struct {
	Attempt int32
	Seen    string // details of the attempt that failed
}

type gates struct {
	mu  sync.Mutex
	all map[string]chan struct{}
	in  map[string]chan struct{}
}

func (g *gates) get(all *map[string]chan struct{}, name string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *all == nil {
		*all = map[string]chan struct{}{}
	}
	if (*all)[name] == nil {
		(*all)[name] = make(chan struct{})
	}
	return (*all)[name]
}

func (g *gates) open(name string) { close(g.get(&g.all, name)) }

// begun waits until the activity at a gate has begun.
func (g *gates) begun(t *testing.T, name string) {
	t.Helper()
	select {
	case <-g.get(&g.in, name):
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s has not begun", name)
	}
}

func (g *gates) do(ctx context.Context, in job) (result, error) {
	info := activity.GetInfo(ctx)
	out := result{Attempt: info.Attempt}
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &out.Seen); err != nil {
			return out, err
		}
	}
	if in.Gate != "" && out.Seen == "" {
		close(g.get(&g.in, in.Gate))
		select {
		case <-g.get(&g.all, in.Gate):
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
	if in.Fail && out.Seen == "" {
		activity.RecordHeartbeat(ctx, fmt.Sprintf("attempt %d", info.Attempt))
		return out, errors.New("not yet")
	}
	return out, nil
}

// While all pumps are in use, everything else goes on, and decisions reach codex. What found no
// slot has not begun. When it begins, it gets the heartbeat details of its last attempt.
func TestActivitiesOfAFullClassWaitAsIfTheyHadNotBegun(t *testing.T) {
	path := realparts.DevServer(t)
	port, err := hosttest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{ExistingPath: path, LogLevel: "error", Stdout: io.Discard, Stderr: io.Discard,
		ClientOptions: &client.Options{HostPort: fmt.Sprintf("127.0.0.1:%d", port.Number), Logger: quiet}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	c := server.Client()
	s, err := New(Limits{Pumps: 2, Watches: 1, Bulk: 1, Commands: 1, Short: 8})
	if err != nil {
		t.Fatal(err)
	}
	tuner, err := s.Tuner()
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(c, queue, worker.Options{Tuner: tuner, Interceptors: []interceptor.WorkerInterceptor{s.Interceptor()}, WorkerStopTimeout: 10 * time.Second})
	g := &gates{}
	w.RegisterWorkflow(one)
	for _, name := range []string{"RunPump", "WatchHost", "CloseSession", "RunExec", "StopServer"} {
		w.RegisterActivityWithOptions(g.do, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	run := func(name string, attempts int32, in job) client.WorkflowRun {
		t.Helper()
		r, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, one, name, attempts, in)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	end := func(r client.WorkflowRun) (out result) {
		t.Helper()
		if err := r.Get(ctx, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}

	// A pump runs, and two of the test: one more than the limit.
	third := run("RunPump", 0, job{Gate: "third", Fail: true})
	g.begun(t, "third")
	var ends []func()
	for _, urgent := range []bool{false, true} {
		if err := s.short.Acquire(ctx, 1); err != nil {
			t.Fatal(err)
		}
		done := s.take(Pumps, urgent, true)
		if done == nil {
			t.Fatal("no slot")
		}
		ends = append(ends, func() { done(); (*supplier)(s).ReleaseSlot(nil) })
	}
	g.open("third") // its first attempt fails
	for s.Use(Pumps).SentBack < 2 {
		if ctx.Err() != nil {
			t.Fatal("the pump was not sent back twice")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, name := range []string{"WatchHost", "CloseSession", "RunExec", "StopServer"} {
		if out := end(run(name, 1, job{})); out != (result{Attempt: 1}) {
			t.Errorf("%s beside pumps: %+v", name, out)
		}
	}
	if out := end(run("RunPump", 0, job{Now: true})); out != (result{Attempt: 1}) {
		t.Errorf("a decision beside pumps: %+v", out)
	}
	ends[0]()
	if out := end(third); out.Attempt < 4 || out.Seen != "attempt 1" {
		t.Errorf("the pump that was sent back: %+v", out)
	}
	ends[1]()

	// An activity with a limit of attempts is not sent back.
	long := run("CloseSession", 1, job{Gate: "long"})
	g.begun(t, "long")
	if out := end(run("CloseSession", 1, job{})); out != (result{Attempt: 1}) {
		t.Errorf("the second CloseSession: %+v", out)
	}
	g.open("long")
	end(long)
	for _, c := range Classes() {
		if u := s.Use(c); c != Pumps && u.SentBack != 0 {
			t.Errorf("%s: %+v", c, u)
		}
	}
}
