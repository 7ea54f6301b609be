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
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/internal/protocol"
)

// mostDeployments bounds the deployments of a namespace that are looked at.
const mostDeployments = 100

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
	info := d.GetWorkerDeploymentInfo()
	if served(info.GetRoutingConfig()) {
		return "", nil
	}
	var newest *deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary
	for _, v := range info.GetVersionSummaries() {
		if newest == nil || v.GetCreateTime().AsTime().After(newest.GetCreateTime().AsTime()) {
			newest = v
		}
	}
	return newest.GetDeploymentVersion().GetBuildId(), nil
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
// are none, and where the server has none.
func deployments(ctx context.Context, c Client, namespace string) (*Finding, error) {
	all, err := c.WorkflowService().ListWorkerDeployments(ctx, &workflowservice.ListWorkerDeploymentsRequest{Namespace: namespace, PageSize: mostDeployments})
	if unlisted(err) || disabled(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ours, idle, set []string
	list := all.GetWorkerDeployments()
	for _, d := range list[:min(len(list), mostDeployments)] {
		build := d.GetLatestVersionSummary().GetDeploymentVersion().GetBuildId()
		is, err := ofOurs(ctx, c, namespace, d.GetName(), build)
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		ours = append(ours, d.GetName())
		if !served(d.GetRoutingConfig()) {
			idle, set = append(idle, d.GetName()), append(set, SetCurrent(namespace, d.GetName(), build))
		}
	}
	if ours == nil {
		return nil, nil
	}
	f := &Finding{Name: "deployments", OK: idle == nil, Detail: "each has a current version: " + strings.Join(ours, ", ")}
	if idle != nil {
		f.Detail = "no current version, so that their workers get no work: " + strings.Join(idle, ", ")
		f.Hint = strings.Join(set, " && ")
	}
	return f, nil
}

// disabled reports whether the server has Worker Deployments turned off.
func disabled(err error) bool {
	var bad *serviceerror.InvalidArgument
	var off *serviceerror.FailedPrecondition
	return errors.As(err, &bad) || errors.As(err, &off)
}

// ofOurs reports whether workers of a build serve a queue of Fairlead.
func ofOurs(ctx context.Context, c Client, namespace, deployment, build string) (bool, error) {
	if build == "" {
		return false, nil
	}
	v, err := c.WorkflowService().DescribeWorkerDeploymentVersion(ctx, &workflowservice.DescribeWorkerDeploymentVersionRequest{
		Namespace: namespace, DeploymentVersion: &deploymentpb.WorkerDeploymentVersion{DeploymentName: deployment, BuildId: build},
	})
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) { // it was deleted meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, q := range v.GetVersionTaskQueues() {
		if q.GetName() == protocol.TaskQueue || strings.HasPrefix(q.GetName(), protocol.TaskQueue+"-") {
			return true, nil
		}
	}
	return false, nil
}
