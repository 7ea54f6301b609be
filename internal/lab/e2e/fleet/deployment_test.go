package fleet

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/cluster"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// The workers of this zone are versions of a Worker Deployment, and each has slots for one pump.
func TestAVersionGetsWorkOnceItIsCurrentAndAFullWorkerGoesOnDeciding(t *testing.T) {
	const zone, deployment = "narrow", "e2e-narrow"
	c, err := e2e.Lab.Temporal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	build := func(name string) *worker {
		return addWorkerWith(t, lab.WorkerOptions{Name: zone + "-" + name, Zone: zone, Instead: map[string]string{
			"  pumps: 1000": "  pumps: 1",
			"deployment:\n  name: \"\"\n  build: \"\"": "deployment: {name: " + deployment + ", build: " + name + "}",
		}})
	}
	setCurrent := func(name string) {
		t.Helper()
		e2e.Until(t, "build "+name+" to be current", func() (bool, error) {
			_, err := c.WorkerDeploymentClient().GetHandle(deployment).SetCurrentVersion(e2e.Within(t), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: name})
			return err == nil, nil // it fails until the build has polled
		})
	}
	found := func() (all []cluster.Finding) {
		t.Helper()
		r := e2e.Lab.Ctl(e2e.Within(t), nil, "cluster", "check", "-o", "json")
		all, err := lab.Objects[cluster.Finding](r.Stdout)
		if err != nil || len(all) == 0 {
			t.Fatalf("%v: %v", err, r)
		}
		return slices.DeleteFunc(all, func(f cluster.Finding) bool { return f.Name != "deployments" })
	}

	first := build("one")
	var all []cluster.Finding
	e2e.Until(t, "the check to see the deployment", func() (bool, error) { all = found(); return len(all) > 0, nil })
	command := "temporal worker deployment set-current-version --namespace default --deployment-name " + deployment + " --build-id one"
	if f := all[0]; f.OK || !strings.Contains(f.Detail, deployment) || f.Hint != command {
		t.Errorf("the check finds %+v", f)
	}
	e2e.Until(t, "the worker to say why it gets no work", func() (bool, error) {
		return strings.Contains(first.Log(), "this worker gets no work") && strings.Contains(first.Log(), command), nil
	})
	for it := c.GetWorkflowHistory(t.Context(), protocol.PoolID(zone), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_STARTED {
			t.Error("a worker whose version is not current has a task")
		}
	}
	setCurrent("one")
	hostOf(t, zone, "narrow-1")
	if all := found(); len(all) != 1 || !all[0].OK {
		t.Errorf("with a current version the check finds %+v", all)
	}

	start := func(id string) {
		t.Helper()
		e2e.OK(t, "session", "start", "--zone", zone, "--host", "narrow-1", "--seed", "team", "--id", id)
		e2e.Closes(t, id)
	}
	start("asks-narrow")
	e2e.Send(t, "asks-narrow", "need a command of 40000 digits")
	ask := e2e.Open(t, "asks-narrow", 1)[0]
	start("busy-narrow")
	e2e.Send(t, "busy-narrow", "take your time at gate narrow")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "narrow"); err != nil {
		t.Fatal(err)
	}
	// The one pump is in use.
	start("late-narrow")
	e2e.Send(t, "late-narrow", "remember the milk")
	if r := e2e.Exits(t, 3, "host", "exec", "--zone", zone, "narrow-1", "--", "sh", "-c", "echo out; exit 3"); r.Stdout != "out\n" {
		t.Errorf("%v", r)
	}
	var got protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &got, "approval", "accept", ask.ID); err != nil {
		t.Fatal(err)
	}
	if got.State != protocol.ApprovalAcknowledged {
		t.Errorf("the decision is %s", got.State)
	}
	if v := e2e.Ended(t, "asks-narrow", 1); v.Turn.Status != "completed" {
		t.Errorf("session is %+v", v)
	}
	e2e.OK(t, "session", "close", "asks-narrow")
	if v := e2e.Show(t, "late-narrow"); v.Error != nil || v.Turn != nil && v.Turn.Status == "completed" {
		t.Errorf("without a slot: %+v, %+v", v, v.Error)
	}

	// The next build takes over what the first has in work.
	build("two")
	setCurrent("two")
	first.end(syscall.SIGTERM)
	e2e.Lab.Model.Release("narrow")
	for _, id := range []string{"busy-narrow", "late-narrow"} {
		if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" || v.Error != nil {
			t.Errorf("%s behind the upgrade: %+v, turn %+v, error %+v", id, v, v.Turn, v.Error)
		}
		e2e.OK(t, "session", "close", id)
	}
	if left := lab.Below(e2e.Lab.Dir + "/" + zone); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	e2e.OK(t, "host", "remove", "narrow-1", "--zone", zone)
}
