// Package client says that this server starts no workers: the clients of clouds and of
// Kubernetes, by which it would, are left out.
package client

import (
	"context"

	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/namespace"
	"go.uber.org/fx"
)

var Module = fx.Options(fx.Provide(func() Client { return Client{} }))

// A Client knows no workers that the server started, and takes no order to start some.
type Client struct{}

func (Client) DescribeWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion) (
	*iface.QueryDescribeWorkerControllerInstanceResponse, []byte, error,
) {
	return nil, nil, serviceerror.NewNotFound("this server starts no workers")
}

func (Client) ValidateWorkerControllerInstanceSpec(_ context.Context, _ *namespace.Namespace, _ *deploymentpb.WorkerDeploymentVersion,
	identity string, upsert map[string]iface.ScalingGroupSpecUpdate, remove []string,
) error {
	return errNone
}

func (Client) UpdateWorkerControllerInstance(_ context.Context, _ *namespace.Namespace, _ *deploymentpb.WorkerDeploymentVersion,
	conflictToken []byte, identity string, upsert map[string]iface.ScalingGroupSpecUpdate, remove []string,
) (*iface.UpdateWorkerControllerInstanceResponse, error) {
	return nil, errNone
}

// DeleteWorkerControllerInstance is called for every version that is deleted: there is nothing to do.
func (Client) DeleteWorkerControllerInstance(_ context.Context, _ *namespace.Namespace, _ *deploymentpb.WorkerDeploymentVersion, identity string) error {
	return nil
}

var errNone = serviceerror.NewInvalidArgument("this server was built without clients of clouds: start workers yourself, and give the version no compute configuration")
