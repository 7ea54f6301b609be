package cluster

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/internal/protocol"
)

// mostDeployments bounds the deployments of a namespace that are looked at.
const mostDeployments = 100

// mostQueues bounds the queues of a deployment that are looked at. A worker serves one of
// workflows and one of activities.
const mostQueues = 8

// LeastForDeployments is the first version of the server with Worker Deployments as Fairlead
// uses them.
const LeastForDeployments = "1.29.1"

var versionRule = regexp.MustCompile(`^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})`)

// HasDeployments returns an error if the server is too old for Worker Deployments. A server
// whose version is no number is taken for a new one.
func HasDeployments(ctx context.Context, c Client) error {
	s, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return err
	}
	if older(s.GetServerVersion(), LeastForDeployments) {
		return &OldServerError{Version: s.GetServerVersion()}
	}
	return nil
}

// An OldServerError says that a server has no Worker Deployments.
type OldServerError struct{ Version string }

func (e *OldServerError) Error() string {
	return fmt.Sprintf("Temporal's server has version %s, and Worker Deployments need %s: remove `deployment` from the config, or upgrade the server", e.Version, LeastForDeployments)
}

// older reports whether a version is below another one.
func older(version, least string) bool {
	is, needs := versionRule.FindStringSubmatch(version), versionRule.FindStringSubmatch(least)
	if is == nil {
		return false
	}
	for i := 1; i <= 3; i++ {
		a, _ := strconv.Atoi(is[i]) // the rule has digits alone
		b, _ := strconv.Atoi(needs[i])
		if a != b {
			return a < b
		}
	}
	return false
}

// Idle returns the newest build of a deployment that has no current version, or "". Workers
// of such a deployment get no work.
func Idle(ctx context.Context, c Client, namespace, deployment string) (build string, err error) {
	d, err := c.WorkflowService().DescribeWorkerDeployment(ctx, &workflowservice.DescribeWorkerDeploymentRequest{Namespace: namespace, DeploymentName: deployment})
	if err != nil {
		return "", err
	}
	if served(d.GetWorkerDeploymentInfo().GetRoutingConfig()) {
		return "", nil
	}
	return newest(d.GetWorkerDeploymentInfo()), nil
}

// newest returns the build of a deployment that came last, or "".
func newest(d *deploymentpb.WorkerDeploymentInfo) string {
	var last *deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary
	for _, v := range d.GetVersionSummaries() {
		if last == nil || v.GetCreateTime().AsTime().After(last.GetCreateTime().AsTime()) {
			last = v
		}
	}
	return last.GetDeploymentVersion().GetBuildId()
}

// served reports whether some version gets work.
func served(r *deploymentpb.RoutingConfig) bool {
	return r.GetCurrentDeploymentVersion().GetBuildId() != "" || r.GetRampingDeploymentVersion().GetBuildId() != "" && r.GetRampingVersionPercentage() >= 100
}

// SetCurrent is the command that makes a build the current version of its deployment.
func SetCurrent(namespace, deployment, build string) string {
	return fmt.Sprintf("temporal worker deployment set-current-version --namespace %s --deployment-name %s --build-id %s", quoted(namespace), quoted(deployment), quoted(build))
}

// deployments looks at the deployments that serve a queue of Fairlead. It returns nil if there
// are none, and where the server has none. A deployment that no worker polls for is left out:
// workers without a deployment may have taken its place.
//
// The list gives names alone. Temporal makes it from its visibility store, where the versions
// of a deployment and its current one appear later than in the deployment itself.
func deployments(ctx context.Context, c Client, namespace string) (*Finding, error) {
	all, err := c.WorkflowService().ListWorkerDeployments(ctx, &workflowservice.ListWorkerDeploymentsRequest{Namespace: namespace, PageSize: mostDeployments})
	if unlisted(err) || disabled(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var fine, idle, set []string
	list := all.GetWorkerDeployments()
	for _, l := range list[:min(len(list), mostDeployments)] {
		d, err := c.WorkflowService().DescribeWorkerDeployment(ctx, &workflowservice.DescribeWorkerDeploymentRequest{Namespace: namespace, DeploymentName: l.GetName()})
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) { // it was deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		build := newest(d.GetWorkerDeploymentInfo())
		queues, err := queuesOf(ctx, c, namespace, l.GetName(), build)
		if err != nil {
			return nil, err
		}
		if len(queues) == 0 {
			continue
		}
		if served(d.GetWorkerDeploymentInfo().GetRoutingConfig()) {
			fine = append(fine, l.GetName())
			continue
		}
		if build, err = polls(ctx, c, l.GetName(), build, queues); err != nil {
			return nil, err
		}
		if build != "" {
			idle, set = append(idle, l.GetName()), append(set, SetCurrent(namespace, l.GetName(), build))
		}
	}
	switch {
	case idle != nil:
		return &Finding{Name: "deployments", Detail: "no current version, so that their workers get no work: " + strings.Join(idle, ", "), Hint: strings.Join(set, " && ")}, nil
	case fine != nil:
		return &Finding{Name: "deployments", OK: true, Detail: "each has a current version: " + strings.Join(fine, ", ")}, nil
	}
	return nil, nil
}

// disabled reports whether the server has Worker Deployments turned off.
func disabled(err error) bool {
	var bad *serviceerror.InvalidArgument
	var off *serviceerror.FailedPrecondition
	return errors.As(err, &bad) || errors.As(err, &off)
}

// queuesOf returns the queues of Fairlead that workers of a build serve.
func queuesOf(ctx context.Context, c Client, namespace, deployment, build string) ([]*workflowservice.DescribeTaskQueueRequest, error) {
	if build == "" {
		return nil, nil
	}
	v, err := c.WorkflowService().DescribeWorkerDeploymentVersion(ctx, &workflowservice.DescribeWorkerDeploymentVersionRequest{
		Namespace: namespace, DeploymentVersion: &deploymentpb.WorkerDeploymentVersion{DeploymentName: deployment, BuildId: build},
	})
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) { // it was deleted meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ours []*workflowservice.DescribeTaskQueueRequest
	for _, q := range v.GetVersionTaskQueues() {
		if q.GetName() == protocol.TaskQueue || strings.HasPrefix(q.GetName(), protocol.TaskQueue+"-") {
			ours = append(ours, &workflowservice.DescribeTaskQueueRequest{Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: q.GetName()}, TaskQueueType: q.GetType()})
		}
	}
	return ours, nil
}

// polls returns the build of a deployment whose workers ask for the tasks of one of the queues,
// or did so within the last five minutes: the newest one if it does, else another one.
func polls(ctx context.Context, c Client, deployment, newest string, queues []*workflowservice.DescribeTaskQueueRequest) (build string, err error) {
	for _, q := range queues[:min(len(queues), mostQueues)] {
		d, err := c.WorkflowService().DescribeTaskQueue(ctx, q)
		if err != nil {
			return "", err
		}
		for _, p := range d.GetPollers() {
			o := p.GetDeploymentOptions()
			if o.GetDeploymentName() == deployment && (build == "" || o.GetBuildId() == newest) {
				build = o.GetBuildId()
			}
		}
	}
	return build, nil
}
