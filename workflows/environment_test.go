package workflows

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// environment is the SDK's environment for one workflow, changed so that it gives the same
// results on a busy machine.
//
// The SDK runs the first workflow task in a goroutine of its own. Until that goroutine
// runs, delayed callbacks fire by the wall clock, so a callback of 1 ms could find a
// workflow without handlers. This environment registers callbacks when the workflow runs.
type environment struct {
	*testsuite.TestWorkflowEnvironment
	begun bool
	early []func()
}

// newEnvironment returns an environment for a machine on which a thread may wait a second
// before it runs.
func newEnvironment() *environment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stdout, nil)))) // leaves out debug lines
	e := &environment{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	e.SetTestTimeout(20 * time.Second)
	e.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: 10 * time.Second,
		Interceptors:             []interceptor.WorkerInterceptor{&beginning{tell: e.begins}},
	})
	return e
}

// RegisterDelayedCallback calls f after d, counted from the workflow's beginning,
// or from now if the workflow runs already.
func (e *environment) RegisterDelayedCallback(f func(), d time.Duration) {
	if e.begun {
		e.TestWorkflowEnvironment.RegisterDelayedCallback(f, d)
		return
	}
	e.early = append(e.early, func() { e.TestWorkflowEnvironment.RegisterDelayedCallback(f, d) })
}

func (e *environment) begins() {
	if e.begun {
		return // a child workflow begins
	}
	e.begun = true
	for _, register := range e.early {
		register()
	}
}

// beginning calls tell when a workflow runs its first line.
type beginning struct {
	interceptor.WorkerInterceptorBase
	tell func()
}

func (b *beginning) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &beginningIn{tell: b.tell}
	in.Next = next
	return in
}

type beginningIn struct {
	interceptor.WorkflowInboundInterceptorBase
	tell func()
}

func (b *beginningIn) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	b.tell()
	return b.Next.ExecuteWorkflow(ctx, in)
}

// steps lets activities wait until no step of the test is under way.
type steps struct {
	mu   sync.Mutex
	n    int
	done chan struct{}
}

func (s *steps) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n == 1 {
		s.done = make(chan struct{})
	}
}

func (s *steps) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n--; s.n == 0 {
		close(s.done)
	}
}

// wait returns after patience at the latest, because a workflow that has ended does not
// take what a step sent.
func (s *steps) wait() {
	s.mu.Lock()
	n, done := s.n, s.done
	s.mu.Unlock()
	if n == 0 {
		return
	}
	select {
	case <-done:
	case <-time.After(patience):
	}
}
