package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

const heldQueue = "held"

// held runs one activity whose heartbeat timeout is an hour.
func held(ctx workflow.Context) (attempt int32, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour, HeartbeatTimeout: time.Hour})
	err = workflow.ExecuteActivity(ctx, "hold").Get(ctx, &attempt)
	return attempt, err
}

// holder runs a worker that begins the activity, reports it, and then does nothing.
func holder(address, root string) error {
	c, err := client.Dial(client.Options{HostPort: address})
	if err != nil {
		return err
	}
	after := newSuccessor(root, slog.Default())
	w := worker.New(c, heldQueue, worker.Options{DisableWorkflowWorker: true,
		Interceptors: []interceptor.WorkerInterceptor{&activities.InProgress{Begin: after.begin}}})
	w.RegisterActivityWithOptions(func(context.Context) (int32, error) {
		fmt.Println("holds")
		select {}
	}, activity.RegisterOptions{Name: "hold"})
	return w.Run(nil)
}

// When a worker is killed, its activities start again at once on the next worker, whatever
// their heartbeat timeout is. They do not while the first worker lives.
func TestAKilledWorkersActivitiesGoOnAtOnce(t *testing.T) {
	dir := t.TempDir()
	address := temporalIn(t, dir)
	var c client.Client
	wait(t, "the server answers", func() bool {
		var err error
		c, err = client.Dial(client.Options{HostPort: address})
		return err == nil && hasNamespace(t.Context(), c, "default") == nil
	})
	defer c.Close()

	root := filepath.Join(dir, "takeover")
	doomed := exec.Command(os.Args[0])
	doomed.Env = append(os.Environ(), "FAIRLEAD_TEST_HOLDER="+address, "FAIRLEAD_TEST_ROOT="+root)
	out, err := doomed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, doomed)

	decides := worker.New(c, heldQueue, worker.Options{LocalActivityWorkerOnly: true})
	decides.RegisterWorkflow(held)
	if err := decides.Start(); err != nil {
		t.Fatal(err)
	}
	defer decides.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: heldQueue}, held)
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for said.Scan() && said.Text() != "holds" {
	}
	if said.Text() != "holds" {
		t.Fatalf("the first worker does not hold the activity: %v", said.Err())
	}

	// The next worker gets no activities of the first worker while that one lives.
	after := newSuccessor(root, slog.Default())
	defer after.Close()
	after.watch(c, "default", "successor")
	does := worker.New(c, heldQueue, worker.Options{DisableWorkflowWorker: true,
		Interceptors: []interceptor.WorkerInterceptor{&activities.InProgress{Begin: after.begin}}})
	does.RegisterActivityWithOptions(func(ctx context.Context) (int32, error) {
		return activity.GetInfo(ctx).Attempt, nil
	}, activity.RegisterOptions{Name: "hold"})
	if err := does.Start(); err != nil {
		t.Fatal(err)
	}
	defer does.Stop()
	d, err := c.DescribeWorkflowExecution(ctx, run.GetID(), "")
	if err != nil || len(d.GetPendingActivities()) != 1 || d.GetPendingActivities()[0].GetAttempt() != 1 {
		t.Fatalf("while the first worker lives: %v, %v", d.GetPendingActivities(), err)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var attempt int32
	if err := run.Get(ctx, &attempt); err != nil || attempt != 2 {
		t.Errorf("done by attempt %d, %v", attempt, err)
	}
	wait(t, "nothing to be left of the first worker", func() bool {
		left, err := os.ReadDir(root)
		return err == nil && len(left) == 1
	})
}

// A worker without a supervisor watches only itself.
func TestAWorkerAloneKeepsNoList(t *testing.T) {
	s := newSuccessor("", slog.Default())
	s.watch(nil, "", "")
	s.begin([]byte("task"))()
	s.Close()
	if s.ledger != nil || s.done != nil {
		t.Errorf("%+v", s)
	}
}
