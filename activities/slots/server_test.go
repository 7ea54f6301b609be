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
	Fail int32  // attempts that fail first
	Now  bool   // it is urgent
}

func (j job) Urgent() bool { return j.Now }

// A result is what the last attempt saw.
type result struct {
	Attempt, Real int32
	Seen          string // details of the attempt before
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
	out := result{Attempt: info.Attempt, Real: real(ctx)}
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &out.Seen); err != nil {
			return out, err
		}
	}
	if in.Gate != "" {
		if info.Attempt == 1 {
			close(g.get(&g.in, in.Gate))
		}
		select {
		case <-g.get(&g.all, in.Gate):
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
	activity.RecordHeartbeat(ctx, fmt.Sprintf("attempt %d", info.Attempt))
	if info.Attempt <= in.Fail {
		return out, errors.New("not yet")
	}
	return out, nil
}

// real is the server's number of an attempt.
func real(ctx context.Context) int32 { return ctx.Value(realKey{}).(int32) }

type realKey struct{}

// counts stands before the slots and sees what the server says.
type counts struct {
	interceptor.WorkerInterceptorBase
}

func (*counts) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &counted{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type counted struct {
	interceptor.ActivityInboundInterceptorBase
	out interceptor.ActivityOutboundInterceptor
}

func (c *counted) Init(out interceptor.ActivityOutboundInterceptor) error {
	c.out = out
	return c.Next.Init(out)
}

func (c *counted) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	return c.Next.ExecuteActivity(context.WithValue(ctx, realKey{}, c.out.GetInfo(ctx).Attempt), in)
}

// While all pumps are in use, everything else goes on, and decisions reach codex. What found no
// slot has not begun: it is as it was when there is one.
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
	w := worker.New(c, queue, worker.Options{Tuner: tuner, Interceptors: []interceptor.WorkerInterceptor{&counts{}, s.Interceptor()}, WorkerStopTimeout: 10 * time.Second})
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

	first, second := run("RunPump", 0, job{Gate: "first"}), run("RunPump", 0, job{Gate: "second"})
	g.begun(t, "first")
	g.begun(t, "second")
	third := run("RunPump", 0, job{Fail: 1})
	for s.Use(Pumps).SentBack < 2 {
		if ctx.Err() != nil {
			t.Fatal("the third pump was not sent back twice")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, name := range []string{"WatchHost", "CloseSession", "RunExec", "StopServer"} {
		if out := end(run(name, 1, job{})); out != (result{Attempt: 1, Real: 1}) {
			t.Errorf("%s beside pumps: %+v", name, out)
		}
	}
	if out := end(run("RunPump", 0, job{Now: true})); out != (result{Attempt: 1, Real: 1}) {
		t.Errorf("a decision beside pumps: %+v", out)
	}
	g.open("first")
	end(first)
	out := end(third)
	if out.Attempt != 2 || out.Real < 4 || out.Seen != "attempt 1" {
		t.Errorf("the third pump, which fails once: %+v", out)
	}

	// What may be tried once waits here.
	long := run("CloseSession", 1, job{Gate: "long"})
	g.begun(t, "long")
	next := run("CloseSession", 1, job{})
	for s.Use(Bulk).Waiting == 0 {
		if ctx.Err() != nil {
			t.Fatal("the second CloseSession does not wait")
		}
		time.Sleep(10 * time.Millisecond)
	}
	g.open("long")
	end(long)
	if out := end(next); out != (result{Attempt: 1, Real: 1}) {
		t.Errorf("the second CloseSession: %+v", out)
	}
	if n := s.Use(Bulk).SentBack; n != 0 {
		t.Errorf("%d times CloseSession was sent back", n)
	}

	// What stands in line is taken out of it when it is cancelled.
	command := run("RunExec", 0, job{Gate: "command"})
	g.begun(t, "command")
	gone := run("RunExec", 0, job{})
	for s.Use(Commands).Waiting == 0 && s.Use(Commands).SentBack == 0 {
		if ctx.Err() != nil {
			t.Fatal("the second RunExec does not wait")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := c.CancelWorkflow(ctx, gone.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	var canceled *temporal.CanceledError
	if err := gone.Get(ctx, nil); !errors.As(err, &canceled) {
		t.Errorf("the second RunExec ended with %v", err)
	}
	g.open("command")
	end(command)
	g.open("second")
	end(second)
}
