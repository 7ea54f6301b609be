package flows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Query queries a workflow and decodes the answer into out. doing, such as "show session
// s1", is for error messages. The wait for a worker is bounded.
func (t *Conn) Query(ctx context.Context, doing, workflowID, name string, out any, args ...any) error {
	ctx, cancel := t.Bounded(ctx, AnswerWait)
	defer cancel()
	why := ""
	err := whenReady(ctx, func() error {
		err := untilHeard(ctx, func() error {
			v, err := t.QueryWorkflow(ctx, workflowID, "", name, args...)
			if err == nil {
				err = v.Get(out)
			}
			return err
		})
		// Temporal refuses queries of a workflow whose first task no worker has completed. That may
		// last.
		if why = t.leftToNewer(ctx, workflowID, err); why != "" {
			return errLeft
		}
		return err
	})
	if failed := (*serviceerror.QueryFailed)(nil); errors.As(err, &failed) && strings.Contains(failed.Message, "unknown queryType") {
		// A workflow whose input was refused has no handlers: its failure says why.
		if end := t.failureOf(ctx, workflowID); end != nil {
			err = end
		}
	}
	if t.left.set(workflowID, why); why != "" {
		return waitsForNewer(doing, why, err)
	}
	return t.Explain(ctx, doing, err)
}

// failureOf returns the failure of a workflow that has ended, or nil.
func (t *Conn) failureOf(ctx context.Context, workflowID string) error {
	d, err := t.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil || d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil
	}
	return t.GetWorkflow(ctx, workflowID, "").Get(ctx, nil)
}

// Update sends an update and waits for its result. Updates with the same id count as one;
// an empty id means a random one.
func (t *Conn) Update(ctx context.Context, doing, workflowID, name, id string, out any, args ...any) error {
	return t.UpdateWithin(ctx, AnswerWait, doing, workflowID, name, id, out, args...)
}

// UpdateWithin is Update with the time limit wait.
func (t *Conn) UpdateWithin(ctx context.Context, wait time.Duration, doing, workflowID, name, id string, out any, args ...any) error {
	ctx, cancel := t.Bounded(ctx, wait)
	defer cancel()
	if id == "" {
		id = protocol.RandomID()
	}
	args, err := t.Side.Sign(ctx, doing, command.Update, workflowID, name, args)
	if err != nil {
		return err
	}
	err = whenReady(ctx, func() error {
		h, err := t.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			UpdateID: id, WorkflowID: workflowID, UpdateName: name, Args: args,
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = h.Get(ctx, out)
		}
		return err
	})
	return t.Explain(ctx, doing, err)
}

// whenReady repeats try while a workflow is not ready because it continues as new; then it
// has not taken the request. A few times, it also repeats a query that met the end of a workflow
// task, or a worker that leaves the workflow to newer ones: the next worker may be newer.
func whenReady(ctx context.Context, try func() error) error {
	for wait, met := 20*time.Millisecond, 0; ; wait = min(2*wait, time.Second) {
		err := try()
		var unready *serviceerror.WorkflowNotReady
		switch {
		case errors.As(err, &unready):
		case (metItsTask(err) || errors.Is(err, errLeft)) && met < maxMet:
			met++
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

const maxMet = 4

// metItsTask reports whether a query failed because a workflow task ended while the query
// was on its way to a worker. The SDK then takes the ended task for the current one and
// reports its commands as illegal. A workflow that cannot be replayed fails so at each
// query.
func metItsTask(err error) bool {
	var fail *serviceerror.QueryFailed
	return errors.As(err, &fail) && strings.HasPrefix(fail.Message, "[TMPRL1100] invalid state transition")
}

// untilHeard repeats a query, a few times, while Temporal hands it to a worker that has just
// stopped. Temporal then cancels the query by itself.
func untilHeard(ctx context.Context, ask func() error) error {
	for tries := 0; ; tries++ {
		err := ask()
		var cancelled *serviceerror.Canceled
		if !errors.As(err, &cancelled) || tries == maxMet {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// UpdateWithStart is Update, but starts the workflow if it does not run.
// start.WorkflowIDConflictPolicy must be set.
func (t *Conn) UpdateWithStart(ctx context.Context, doing string, start client.StartWorkflowOptions, workflowType string, input any, name string, out any, args ...any) error {
	ctx, cancel := t.Bounded(ctx, AnswerWait)
	defer cancel()
	args, err := t.Side.Sign(ctx, doing, command.Update, start.ID, name, args)
	if err != nil {
		return err
	}
	begin, err := t.Side.Sign(ctx, doing, command.Start, start.ID, workflowType, []any{input})
	if err != nil {
		return err
	}
	op := t.NewWithStartWorkflowOperation(start, workflowType, begin...)
	h, err := t.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: op,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: start.ID, UpdateName: name, Args: args,
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err == nil {
		err = h.Get(ctx, out)
	}
	return t.Explain(ctx, doing, err)
}

// Start starts a workflow. If a worker is up, it waits until the workflow has judged who
// starts a session or batch, and returns the refusal if there is one.
func (t *Conn) Start(ctx context.Context, doing string, opts client.StartWorkflowOptions, workflowType string, args ...any) (client.WorkflowRun, error) {
	ctx, cancel := t.Bounded(ctx, AnswerWait)
	defer cancel()
	args, err := t.Side.Sign(ctx, doing, command.Start, opts.ID, workflowType, args)
	if err != nil {
		return nil, err
	}
	run, err := t.ExecuteWorkflow(ctx, opts, workflowType, args...)
	if isStarted(err) && workflowType == protocol.TypeSession && t.RefusedStart(ctx, opts.ID) {
		opts.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
		run, err = t.ExecuteWorkflow(ctx, opts, workflowType, args...)
	}
	if err != nil {
		return run, t.Explain(ctx, doing, err)
	}
	err = t.admitted(ctx, doing, opts.ID, workflowType)
	if err == nil && t.Side.Begins() && t.Silence.Lasted() > 0 && t.Silence.Once() {
		t.Side.Note("no worker answers: Temporal keeps the request until one does")
	}
	return run, err
}

// RefusedStart reports whether workers refused to begin each session of an id that Temporal
// knows, for lack of a right. Such sessions did nothing, so the id is free. Anybody who may write
// to Temporal can start an ended session again, and that start is refused, too.
func (t *Conn) RefusedStart(ctx context.Context, workflowID string) bool {
	d, err := t.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return false
	}
	newest := d.GetWorkflowExecutionInfo()
	if newest.GetFirstRunId() != newest.GetExecution().GetRunId() || !t.refusedRun(ctx, newest) { // a later run has begun
		return false
	}
	known, err := t.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = '%s'", workflowID), PageSize: 20})
	if err != nil || len(known.GetNextPageToken()) > 0 {
		return false
	}
	for _, info := range known.GetExecutions() {
		if !t.refusedRun(ctx, info) {
			return false
		}
	}
	return true
}

func (t *Conn) refusedRun(ctx context.Context, info *workflowpb.WorkflowExecutionInfo) bool {
	var refused *temporalsdk.ApplicationError
	return info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_FAILED &&
		errors.As(t.GetWorkflow(ctx, info.GetExecution().GetWorkflowId(), info.GetExecution().GetRunId()).Get(ctx, nil), &refused) && refused.Type() == protocol.RefusedForbidden
}

// admitted returns the refusal of a start that nobody may give, or nil if there is none or
// no worker has judged it. ctl also asks if its own config requires no signature,
// because the worker's config may require one.
func (t *Conn) admitted(ctx context.Context, doing, workflowID, workflowType string) error {
	if t.Silence.Lasted() > 0 {
		return nil
	}
	var err error
	var v protocol.SessionView
	switch workflowType {
	case protocol.TypeSession:
		err = t.Query(ctx, doing, workflowID, protocol.QueryState, &v)
	case protocol.TypeBatch:
		err = t.Query(ctx, doing, workflowID, protocol.QueryBatch, &protocol.BatchView{})
	}
	switch {
	case isLeft(err):
		t.tellLeft(workflowID)
		return nil
	case errkind.ExitCode(err) == errkind.ExitUnreachable:
		t.Silence.heard(false)
		return nil
	case err == nil && v.State == protocol.Failed && v.Error != nil && v.Error.Kind == protocol.RefusedForbidden:
		return FailureExit(doing, v.Error)
	}
	return err
}

// Result waits for the end of a workflow. wait is the limit, 0 for none; --timeout replaces
// it.
func (t *Conn) Result(ctx context.Context, doing string, run client.WorkflowRun, wait time.Duration, out any) error {
	if wait = t.Side.Wait(wait); wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	err := run.Get(ctx, out)
	if OutOfTime(ctx, err) {
		return errkind.TimedOut("%s: no end within %s", doing, wait).Hinted("it goes on; --timeout waits longer").Because(err)
	}
	return t.Explain(ctx, doing, err)
}

// Signal sends a signal, which Temporal keeps if no worker is up.
func (t *Conn) Signal(ctx context.Context, doing, workflowID, name string, arg any) error {
	ctx, cancel := t.Bounded(ctx, AnswerWait)
	defer cancel()
	args, err := t.Side.Sign(ctx, doing, command.Signal, workflowID, name, []any{arg})
	if err != nil {
		return err
	}
	return t.Explain(ctx, doing, t.SignalWorkflow(ctx, workflowID, "", name, args[0]))
}
