package cluster

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"

	"fairlead.dev/fairlead/internal/protocol"
)

// A deployment that serves no queue of Fairlead, or that no worker polls for, is nobody's concern.
func TestADeploymentWithoutACurrentVersionIsToldWithTheCommand(t *testing.T) {
	ctx, c := newServer(t)
	if err := HasDeployments(ctx, c); err != nil {
		t.Fatal(err)
	}
	serve := func(queue, deployment, build string) {
		t.Helper()
		w := worker.New(c, queue, worker.Options{DeploymentOptions: worker.DeploymentOptions{UseVersioning: true,
			Version: worker.WorkerDeploymentVersion{DeploymentName: deployment, BuildID: build}, DefaultVersioningBehavior: workflow.VersioningBehaviorAutoUpgrade}})
		w.RegisterWorkflowWithOptions(func(workflow.Context) (string, error) { return build, nil }, workflow.RegisterOptions{Name: "which"})
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		known(t, ctx, c, deployment, build)
	}
	told := func(c Client) (f *Finding) {
		t.Helper()
		f, err := deployments(ctx, c, "default")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	serve("of-others", "others", "x")
	listed(t, ctx, c, "others")
	if f := told(c); f != nil {
		t.Errorf("with a deployment of others: %+v", f)
	}
	serve(protocol.TaskQueueOf("eu"), "fairlead-eu", "v1")
	listed(t, ctx, c, "fairlead-eu")
	var f *Finding
	until(t, ctx, func() (bool, error) { // the server shows who polls a moment later
		f = told(c)
		return f != nil, nil
	})
	if f.OK || f.Hint != "temporal worker deployment set-current-version --namespace default --deployment-name fairlead-eu --build-id v1" {
		t.Fatalf("without a current version: %+v", f)
	}
	if f := told(forgetful{c}); f == nil || *f != *told(c) {
		t.Errorf("while the list has names alone: %+v", f)
	}
	if f := told(unpolled{c}); f != nil {
		t.Errorf("without a worker that polls: %+v", f)
	}
	if build, err := Idle(ctx, c, "default", "fairlead-eu"); err != nil || build != "v1" {
		t.Errorf("the newest build is %q, %v", build, err)
	}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: protocol.TaskQueueOf("eu")}, "which")
	if err != nil {
		t.Fatal(err)
	}
	for _, build := range []string{"v1", "v2"} {
		if build == "v2" {
			serve(protocol.TaskQueueOf("eu"), "fairlead-eu", build)
			if run, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: protocol.TaskQueueOf("eu")}, "which"); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := run.Get(ctx, &got); err != nil || got != "v1" {
				t.Errorf("beside the current version, %q took it: %v", got, err)
			}
		}
		if _, err := c.WorkerDeploymentClient().GetHandle("fairlead-eu").SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build}); err != nil {
			t.Fatal(err)
		}
		if build == "v2" {
			if run, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: protocol.TaskQueueOf("eu")}, "which"); err != nil {
				t.Fatal(err)
			}
		}
		var got string
		if err := run.Get(ctx, &got); err != nil || got != build {
			t.Errorf("%q took it, want %s: %v", got, build, err)
		}
		if f := told(c); f == nil || !f.OK {
			t.Errorf("with current version %s: %+v", build, f)
		}
		if build, err := Idle(ctx, c, "default", "fairlead-eu"); err != nil || build != "" {
			t.Errorf("the deployment counts as idle: %q, %v", build, err)
		}
	}
}

// known waits until the server knows a build and its queue.
func known(t *testing.T, ctx context.Context, c client.Client, deployment, build string) {
	t.Helper()
	until(t, ctx, func() (bool, error) {
		v, err := c.WorkerDeploymentClient().GetHandle(deployment).DescribeVersion(ctx, client.WorkerDeploymentDescribeVersionOptions{BuildID: build})
		return err == nil && len(v.Info.TaskQueuesInfos) > 0, err
	})
}

// listed waits until the list has a deployment: it comes from the visibility store, which is
// behind.
func listed(t *testing.T, ctx context.Context, c client.Client, deployment string) {
	t.Helper()
	until(t, ctx, func() (bool, error) {
		all, err := c.WorkflowService().ListWorkerDeployments(ctx, &workflowservice.ListWorkerDeploymentsRequest{Namespace: "default"})
		return slices.ContainsFunc(all.GetWorkerDeployments(), func(d *workflowservice.ListWorkerDeploymentsResponse_WorkerDeploymentSummary) bool {
			return d.GetName() == deployment
		}), err
	})
}

func until(t *testing.T, ctx context.Context, cond func() (bool, error)) {
	t.Helper()
	for {
		ok, err := cond()
		if ok {
			return
		}
		select { // the server refuses those who ask too often
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// A forgetful server lists deployments before their versions are in its visibility store.
type forgetful struct{ Client }

func (c forgetful) WorkflowService() workflowservice.WorkflowServiceClient {
	return forgetfulService{c.Client.WorkflowService()}
}

type forgetfulService struct {
	workflowservice.WorkflowServiceClient
}

func (s forgetfulService) ListWorkerDeployments(ctx context.Context, in *workflowservice.ListWorkerDeploymentsRequest, o ...grpc.CallOption) (*workflowservice.ListWorkerDeploymentsResponse, error) {
	all, err := s.WorkflowServiceClient.ListWorkerDeployments(ctx, in, o...)
	for _, d := range all.GetWorkerDeployments() {
		d.LatestVersionSummary, d.CurrentVersionSummary, d.RoutingConfig = nil, nil, nil
	}
	return all, err
}

// Of an unpolled server, no worker asks for tasks.
type unpolled struct{ Client }

func (c unpolled) WorkflowService() workflowservice.WorkflowServiceClient {
	return unpolledService{c.Client.WorkflowService()}
}

type unpolledService struct {
	workflowservice.WorkflowServiceClient
}

func (unpolledService) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}

func TestServersThatAreTooOldForDeploymentsAreKnown(t *testing.T) {
	for version, old := range map[string]bool{"1.29.1": false, "1.29.0": true, "1.32.1": false, "1.9.9": true, "v1.28.4": true, "2.0.0": false, "1.29.1-cloud.3": false, "": false, "main": false} {
		if older(version, LeastForDeployments) != old {
			t.Errorf("%s counts as old: %v", version, !old)
		}
	}
}
