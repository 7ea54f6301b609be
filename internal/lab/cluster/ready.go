package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/fairlead/internal/cluster"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/pgcluster"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

// makeReady finds out what the namespace of a new cluster lacks, as an operator does, and mends
// it with the commands that are named.
func makeReady(ctx context.Context, c *pgcluster.Cluster, say func(string, ...any)) (err error) {
	repo, err := c.Bare()
	if err != nil {
		return err
	}
	l, err := lab.New(ctx, lab.Options{Repo: repo, Script: script, Workers: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	lacks, err := check(ctx, l, "default", 1)
	if err != nil {
		return err
	}
	if err := onlyLacks(lacks, "attributes", "ctl cluster prepare"); err != nil {
		return err
	}
	for _, a := range cluster.Attributes() {
		if f := lacks["attributes"]; !strings.Contains(f.Detail, a.String()) || !strings.Contains(f.Hint, " --name "+a.Name+" --type "+a.Type.String()) {
			return fmt.Errorf("attribute %s is missing, and the check says %+v", a, f)
		}
	}
	if f := lacks["commands"]; !f.OK || !strings.Contains(f.Hint, "frontend.WorkerCommandsEnabled") {
		return fmt.Errorf("worker commands are off, and the check says %+v", f)
	}
	if err := workerRefuses(ctx, l, repo); err != nil {
		return err
	}
	if lacks, err = check(ctx, l, "none", 1); err == nil {
		err = onlyLacks(lacks, "namespace", "temporal operator namespace create --namespace none")
	}
	if err != nil {
		return err
	}
	if err := forgets(ctx, l); err != nil {
		return err
	}
	if _, err := l.Out(ctx, "cluster", "prepare"); err != nil {
		return err
	}
	// Each frontend learns of attributes with a delay, and the command has asked one of them.
	if err := scenario.Again(ctx, "the check of a prepared namespace", func(ctx context.Context) error {
		_, err := check(ctx, l, "default", 0)
		return err
	}); err != nil {
		return err
	}
	say("cluster: what was missing was named, a worker refused to start without it, and ctl cluster prepare mended it")
	return nil
}

// check runs `ctl cluster check` and returns its findings by name. It must exit as asked.
func check(ctx context.Context, l *lab.Lab, namespace string, code int) (map[string]cluster.Finding, error) {
	r := l.Ctl(ctx, nil, "cluster", "check", "--namespace", namespace, "-o", "json")
	if r.Code != code {
		return nil, fmt.Errorf("it did not exit with %d: %w", code, r)
	}
	all, err := lab.Objects[cluster.Finding](r.Stdout)
	if err != nil {
		return nil, err
	}
	out := map[string]cluster.Finding{}
	for _, f := range all {
		if f.Name != "" { // the last line is the error
			out[f.Name] = f
		}
	}
	return out, nil
}

// onlyLacks fails unless one finding is bad, and has a hint with a command.
func onlyLacks(all map[string]cluster.Finding, name, command string) error {
	for _, f := range all {
		if f.OK == (f.Name == name) {
			return fmt.Errorf("only %s is bad, and the check says %+v", name, f)
		}
	}
	if f := all[name]; !strings.Contains(f.Hint, command) {
		return fmt.Errorf("the check does not name the command %q: %+v", command, f)
	}
	return nil
}

// workerRefuses fails unless a worker says what is missing, and ends.
func workerRefuses(ctx context.Context, l *lab.Lab, repo string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	worker := exec.CommandContext(ctx, filepath.Join(repo, "bin", "worker"), "--config", filepath.Join(l.State, "worker.yaml"))
	said, err := worker.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || ctx.Err() != nil {
		return fmt.Errorf("a worker did not refuse to start without attributes: %v: %s", err, said)
	}
	for _, want := range []string{"FairleadState", "ctl cluster check"} {
		if !strings.Contains(string(said), want) {
			return fmt.Errorf("a worker refuses to start and does not say %q: %s", want, said)
		}
	}
	return nil
}

// forgets fails unless a namespace that forgets too soon is found.
func forgets(ctx context.Context, l *lab.Lab) error {
	temporal, err := l.Temporal(ctx)
	if err != nil {
		return err
	}
	defer temporal.Close()
	_, err = temporal.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: "short", WorkflowExecutionRetentionPeriod: durationpb.New(2 * time.Hour)})
	if err != nil {
		return fmt.Errorf("register a namespace: %w", err)
	}
	// Each frontend learns of a namespace with a delay.
	return scenario.Again(ctx, "the check of a namespace that forgets", func(ctx context.Context) error {
		all, err := check(ctx, l, "short", 1)
		if err != nil {
			return err
		}
		const command = "temporal operator namespace update --namespace short --retention 30d"
		if f := all["retention"]; f.OK || f.Hint != command {
			return fmt.Errorf("it keeps 2 hours, and the check says %+v", f)
		}
		return nil
	})
}
