package authority

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

const (
	rogueQueue = "rogue"
	rogueType  = "Rogue"
)

// A rogue has the certificate of Temporal and the payload key, and signs as a worker with a
// key of its own. It runs workflows of its own, and a worker that polls the stack's queue.
type rogue struct {
	caller *caller

	mu     sync.Mutex
	forged int   // guarded by mu; workflow tasks that it took and answered
	answer error // guarded by mu; how the stack answered to the last one
}

func roguePoller(t *testing.T) attempt {
	t.Helper()
	key, err := signerOf("mallory", os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCaller(e2e.Within(t), e2e.Lab.Temporal, scene.boss.codec, "worker", key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.temporal.Close)
	r := &rogue{caller: c}
	own := worker.New(c.temporal, rogueQueue, worker.Options{})
	own.RegisterWorkflowWithOptions(r.workflow, workflow.RegisterOptions{Name: rogueType})
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	r.poll(t)
	return r.try
}

// poll takes tasks of commands on hosts from the stack's queue until it has one, for which it
// asks the stack's worker to run a command of its own.
func (r *rogue) poll(t *testing.T) {
	t.Helper()
	w := worker.New(r.caller.temporal, protocol.TaskQueue, worker.Options{LocalActivityWorkerOnly: true, MaxConcurrentWorkflowTaskPollers: 16,
		Identity: "worker/1 unix://" + filepath.Join(e2e.Lab.Dir, "rogue.sock")})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ protocol.ExecInput) error {
		err := runExec(ctx, "rogue-poller")
		r.mu.Lock()
		defer r.mu.Unlock()
		r.forged, r.answer = r.forged+1, err
		return err
	}, workflow.RegisterOptions{Name: protocol.TypeExec})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	n := 0
	e2e.Until(t, "the rogue to get a task", func() (bool, error) {
		n++
		id := fmt.Sprintf("polled-%d", n)
		in, err := scene.boss.signed(execID(id), protocol.TypeExec, protocol.ExecInput{ID: "x-" + id, Host: scene.host, Argv: []string{"true"}})
		if err != nil {
			return false, err
		}
		run, err := scene.boss.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: execID(id), TaskQueue: protocol.TaskQueue}, protocol.TypeExec, in)
		if err != nil {
			return false, err
		}
		rerr := run.Get(t.Context(), nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		t.Logf("polled: %d tasks, %v", r.forged, rerr)
		return r.forged > 0, nil
	})
}

// try is an attempt.
func (r *rogue) try(ctx context.Context, deed, id string) ([]byte, error) {
	got, err := r.caller.try(ctx, deed, id)
	errs := []error{err}
	if deed == deedExec {
		r.mu.Lock()
		errs = append(errs, r.answer)
		r.mu.Unlock()
	}
	switch deed {
	case deedTranscript, deedDecode: // a workflow reads nothing that a client does not
	default:
		in := rogueInput{Deed: deed, ID: id}
		if deed == deedDecide {
			d, err := decision(ctx)
			if err != nil {
				return nil, err
			}
			in.Decide = &d
		}
		run, err := r.caller.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "rogue/" + deed, TaskQueue: rogueQueue}, rogueType, in)
		if err == nil {
			err = run.Get(ctx, nil)
		}
		errs = append(errs, err)
	}
	if deed == deedStart { // the rogue cannot read why
		errs = append(errs, scene.boss.temporal.GetWorkflow(ctx, protocol.SessionID(id+"-child"), "").Get(ctx, nil))
	}
	if deed == deedExport {
		found, err := planted(id)
		got, errs = append(got, found...), append(errs, err)
	}
	return got, anyOf(errs...)
}

type rogueInput struct {
	Deed   string
	ID     string
	Decide *protocol.Decide
}

// workflow asks the stack's workers as a workflow does. Its error is nil if one form was not
// refused. A signal is never refused by Temporal, so it does not count here.
func (r *rogue) workflow(ctx workflow.Context, in rogueInput) error {
	child := func(kind, id string, arg any) error {
		return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID: id, TaskQueue: protocol.TaskQueue, WorkflowTaskTimeout: 5 * time.Second, WorkflowRunTimeout: 20 * time.Second,
		}), kind, arg).Get(ctx, nil)
	}
	signal := func(session, name string, arg any) error {
		if err := workflow.SignalExternalWorkflow(ctx, protocol.SessionID(session), "", name, arg).Get(ctx, nil); err != nil {
			return err
		}
		return errors.New("the signal was taken, and its effect is looked for")
	}
	switch in.Deed {
	case deedStart:
		return child(protocol.TypeSession, protocol.SessionID(in.ID+"-child"), session.Input{ID: in.ID + "-child", Options: sessionOptions()})
	case deedMessage:
		return signal(target, protocol.SignalMessage, protocol.Message{ID: "m-" + in.ID, Text: saying(in.ID)})
	case deedDecide:
		return signal(target, protocol.SignalDecide, in.Decide)
	case deedExec:
		return anyOf(runExec(ctx, in.ID), child(protocol.TypeExec, execID(in.ID)+"-child", execInput(in.ID)))
	case deedImport:
		put := putSeed(in.ID)
		return activity(ctx, "PutSeed", overseer.PutSeedInput{Name: in.ID, Ref: put.Ref, Files: put.Files})
	case deedExport:
		return activity(ctx, "PrepareSession", places.PrepareSessionInput{Claim: protocol.Claim{Session: in.ID, Host: scene.host},
			Seed: scene.seed.Ref, Sandbox: "workspace-write"})
	}
	return fmt.Errorf("no such deed: %s", in.Deed)
}

func runExec(ctx workflow.Context, id string) error {
	return activity(ctx, "RunExec", execInput(id))
}

// activity has an activity run by a worker of the stack.
func activity(ctx workflow.Context, name string, in any) error {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: protocol.TaskQueue,
		ScheduleToCloseTimeout: 20 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}}), name, in).Get(ctx, nil)
}

// planted reads the secret of the seed from what was written to the host for a session.
func planted(id string) ([]byte, error) {
	var found []byte
	err := filepath.WalkDir(e2e.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(path) != "config.toml" || !bytes.Contains([]byte(path), []byte(id)) {
			return nil // sessions come and go meanwhile
		}
		data, err := os.ReadFile(path)
		found = append(found, data...)
		return err
	})
	if err == nil && found == nil {
		err = errors.New("nothing was written to the host")
	}
	return found, err
}
