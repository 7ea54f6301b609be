package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/session"
)

// FireInput describes the session or the batch that a schedule starts each time. The id of
// that session or batch is made of the schedule's name and the time.
type FireInput struct {
	Schedule string              `json:"schedule"`
	Session  *session.Input      `json:"session,omitempty"`
	Batch    *protocol.BatchSpec `json:"batch,omitempty"`
	By       string              `json:"by,omitempty"` // who made the schedule; used for batches
}

// Check refuses an input from which nothing can be started.
func (in FireInput) Check() error {
	if !protocol.NamePattern.MatchString(in.Schedule) || len(in.Schedule) > protocol.MaxScheduleName || (in.Session == nil) == (in.Batch == nil) {
		return kit.Refuse(protocol.RefusedBadInput, "fire schedule %s: it does not say what to start", kit.Cut(in.Schedule, kit.MaxWord))
	}
	return nil
}

// Fire starts the session or batch of a schedule and runs until that has ended, so that the
// schedule's overlap policy knows what still runs. A session that has only to clean up, and
// cannot reach its host, counts as ended. The policy cancel-other and people can cancel
// Fire. Then Fire closes what it started, in good order. If Fire is terminated, Temporal
// requests that what it started be cancelled.
func Fire(ctx workflow.Context, in FireInput) (protocol.FireResult, error) {
	if err := in.Check(); err != nil {
		return protocol.FireResult{}, err
	}
	// This context is not cancelled with Fire, so that Fire can close in good order what it
	// started.
	all, _ := workflow.NewDisconnectedContext(ctx)
	begins := firedSession
	if in.Batch != nil {
		begins = firedBatch
	}
	what := begins(in)
	id, child, err := what.begin(ctx, all, fireID(ctx, in.Schedule))
	out := protocol.FireResult{ID: id}
	if err != nil {
		return out, fmt.Errorf("fire schedule %s: start %s %s: %w", in.Schedule, what.kind, id, err)
	}
	heard := workflow.GetSignalChannel(all, protocol.SignalSessionEnded)
	over := func() bool { return child.IsReady() || heard.Len() > 0 }
	if err := workflow.Await(all, func() bool { return over() || ctx.Err() != nil }); err != nil {
		return out, err
	}
	if !over() {
		said := child.SignalChildWorkflow(all, what.close, what.closing)
		if err := said.Get(all, nil); err != nil { // the child ends by itself at this moment
			workflow.GetLogger(ctx).Warn("close not said", what.kind, id, "error", err)
		}
		if err := workflow.Await(all, over); err != nil {
			return out, err
		}
	}
	if child.IsReady() {
		err = what.ended(all, child, &out)
	} else { // the session has ended, and cleans up when its host can be reached
		err = heardOf(&out, all, heard)
	}
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil:
		return out, firedFailure(what.kind+" "+id, err)
	}
	return out, what.bad(out)
}

// heardOf takes the SessionEnded of a session that is still cleaning up.
func heardOf(r *protocol.FireResult, ctx workflow.Context, heard workflow.ReceiveChannel) error {
	var e protocol.SessionEnded
	heard.Receive(ctx, &e)
	r.State = string(e.State)
	if e.Turn != nil {
		r.Status = e.Turn.Status
	}
	if e.State == protocol.Failed && e.Failure != nil {
		return temporal.NewNonRetryableApplicationError(e.Failure.Message, e.Failure.Kind, nil)
	}
	return nil
}

// A firing says how a schedule's session or batch is started, closed and judged.
type firing struct {
	kind    string
	blobs   []string // the blobs that it needs, in the schedule's folders of the store
	start   func(id string) (opts workflow.ChildWorkflowOptions, workflowType string, input any)
	close   string // the signal that closes it
	closing any
	ended   func(workflow.Context, workflow.Future, *protocol.FireResult) error
	bad     func(protocol.FireResult) error // returns an error if the outcome counts as a failure
}

func firedSession(in FireInput) firing {
	return firing{
		blobs: onePerFolder(in.Session.Blobs()),
		kind:  protocol.ClaimSession, close: protocol.SignalClose, closing: protocol.Close{By: protocol.ScheduleID(in.Schedule)},
		start: func(id string) (workflow.ChildWorkflowOptions, string, any) {
			start := *in.Session
			start.ID = id
			return workflow.ChildWorkflowOptions{WorkflowID: protocol.SessionID(id), TaskQueue: protocol.TaskQueueOf(start.Options.Zone), StaticSummary: "codex session " + id}, protocol.TypeSession, start
		},
		ended: func(ctx workflow.Context, child workflow.Future, out *protocol.FireResult) error {
			var view protocol.SessionView
			err := child.Get(ctx, &view)
			out.State = string(view.State)
			if view.Turn != nil {
				out.Status = view.Turn.Status
			}
			return err
		},
		bad: func(out protocol.FireResult) error {
			if out.Status == "completed" {
				return nil
			}
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf("session %s: its turn is %s", out.ID, cmp.Or(out.Status, "not begun")), "turn_"+cmp.Or(out.Status, "none"), nil, out)
		},
	}
}

func firedBatch(in FireInput) firing {
	whole := false
	var pages []string
	for _, p := range in.Batch.Pages {
		pages = append(pages, p.Blob)
	}
	return firing{
		blobs: onePerFolder(pages),
		kind:  protocol.ClaimBatch, close: protocol.SignalCancelBatch, closing: protocol.CancelBatch{By: protocol.ScheduleID(in.Schedule)},
		start: func(id string) (workflow.ChildWorkflowOptions, string, any) {
			return workflow.ChildWorkflowOptions{WorkflowID: protocol.BatchID(id), StaticSummary: "batch " + id}, protocol.TypeBatch,
				batch.Input{ID: id, Spec: *in.Batch, By: in.By, Origin: protocol.OriginSchedule(in.Schedule)}
		},
		ended: func(ctx workflow.Context, child workflow.Future, out *protocol.FireResult) error {
			var end batch.End
			err := child.Get(ctx, &end)
			out.State = end.View.State
			if err == nil {
				whole = end.View.Done == end.View.Total
				out.Status = fmt.Sprintf("%d of %d done, %d failed", end.View.Done, end.View.Total, end.View.Failed)
			}
			return err
		},
		bad: func(out protocol.FireResult) error {
			if whole {
				return nil
			}
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf("batch %s is %s: %s", out.ID, out.State, out.Status), "batch_"+out.State, nil, out)
		},
	}
}

// begin starts what a schedule fires, under the next free id of its time. If a person
// backfills the same time again, it is fired again.
func (f firing) begin(asked, ctx workflow.Context, base string) (id string, child workflow.ChildWorkflowFuture, err error) {
	for n := 1; n <= protocol.MaxFirings; n++ {
		id = base
		if n > 1 {
			id = fmt.Sprintf("%s.%d", base, n)
		}
		if err := f.hold(asked, id); err != nil {
			return id, nil, err
		}
		opts, kind, input := f.start(id)
		opts.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
		opts.ParentClosePolicy = enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL
		child = workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, opts), kind, input)
		err = child.GetChildWorkflowExecution().Get(ctx, nil)
		var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
		if !errors.As(err, &taken) {
			return id, child, err
		}
	}
	return id, child, err
}

// hold keeps the blobs of the schedule for the session or batch that it fires, which may
// outlive the schedule. hold waits while the store cannot be reached, or while no worker
// has the store's key.
func (f firing) hold(ctx workflow.Context, id string) error {
	if len(f.blobs) == 0 {
		return nil
	}
	for n := 1; ; n++ {
		err := workflow.ExecuteActivity(kit.UntilDone(ctx, "keep what "+id+" begins with"), batchJobs.HoldBlobs,
			batches.HoldBlobsInput{Kind: f.kind, ID: id, Blobs: f.blobs}).Get(ctx, nil)
		failed := kit.FailureOf("keep what "+id+" begins with", err)
		if err == nil || ctx.Err() != nil || !kit.FailurePasses(failed) {
			return err
		}
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("tries again to begin %s (%d attempts failed): %s", id, n, failed.Message))
		if err := workflow.Sleep(ctx, kit.PauseAfter(n)); err != nil {
			return err
		}
	}
}

// onePerFolder returns one blob of each folder.
func onePerFolder(blobs []string) (some []string) {
	seen := map[string]bool{}
	for _, b := range blobs {
		if folder, _, ok := owned.Parse(b); ok && !seen[folder] {
			seen[folder] = true
			some = append(some, b)
		}
	}
	return some
}

// fireID returns the id of the session or batch that is started for a time of a schedule.
// Temporal appends that time to the id of this workflow. If somebody starts the workflow by
// hand, its start time counts.
func fireID(ctx workflow.Context, name string) string {
	info := workflow.GetInfo(ctx)
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(info.WorkflowExecution.ID, protocol.ScheduleID(name)+"-"))
	if err != nil {
		at = info.WorkflowStartTime
	}
	return protocol.FiredID(name, at)
}

// firedFailure returns the error of the session or batch that was fired, as Fire reports
// it.
func firedFailure(what string, err error) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return temporal.NewNonRetryableApplicationError(what+": "+app.Message(), app.Type(), nil)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ReadFireResult reads from the error of a firing that failed what is known of the firing.
func ReadFireResult(r *protocol.FireResult, err error) {
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.HasDetails() {
		if app.Details(r) != nil {
			*r = protocol.FireResult{} // do not claim what is not known
		}
	}
}
