package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/cluster"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/version"
)

// deploymentOf makes the worker a version of its deployment. Each workflow moves to the version
// that is current, because each release can replay the histories of earlier releases.
func deploymentOf(d config.Deployment) worker.DeploymentOptions {
	if d.Name == "" {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{
		UseVersioning:             true,
		Version:                   worker.WorkerDeploymentVersion{DeploymentName: d.Name, BuildID: buildOf(d)},
		DefaultVersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	}
}

func buildOf(d config.Deployment) string {
	if d.Build != "" {
		return d.Build
	}
	return version.String()
}

// hasDeployments returns an error if the worker is to be of a deployment and the server knows
// none.
func hasDeployments(ctx context.Context, c client.Client, d config.Deployment, log *slog.Logger) error {
	if d.Name == "" {
		return nil
	}
	return patiently(ctx, log, "the version of Temporal's server", func(ctx context.Context) error {
		err := cluster.HasDeployments(ctx, c)
		var old *cluster.OldServerError
		if errors.As(err, &old) {
			return final(err)
		}
		return err
	})
}

// deploymentLook is the pause between two looks at the deployment.
const deploymentLook = time.Minute

// watchDeployment says in the log when the deployment has no current version, so that its
// workers get no work.
func watchDeployment(ctx context.Context, c client.Client, namespace string, d config.Deployment, log *slog.Logger) {
	if d.Name == "" {
		return
	}
	told := false
	for wait := 5 * time.Second; ; wait = deploymentLook { // the server learns of a deployment by its first poll
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		try, cancel := context.WithTimeout(ctx, tryFor)
		build, err := cluster.Idle(try, c, namespace, d.Name)
		cancel()
		switch {
		case err != nil:
			log.Debug("the deployment cannot be looked at", "deployment", d.Name, "err", err)
		case build != "" && !told:
			log.Warn("this worker gets no work: its deployment has no current version", "deployment", d.Name, "set", cluster.SetCurrent(namespace, d.Name, build))
			told = true
		case build == "" && told:
			log.Info("the deployment has a current version", "deployment", d.Name)
			told = false
		}
	}
}
