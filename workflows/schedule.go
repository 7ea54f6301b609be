package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/owned"
)

// TypeFire is the workflow that a schedule starts at each of its times.
const TypeFire = "Fire"

// MemoSchedule is the field of a schedule's memo that says how it was made: a
// ScheduleNote.
const MemoSchedule = "schedule"

// A ScheduleNote is what a person wrote of a schedule, as lists show it.
type ScheduleNote struct {
	When []string `json:"when"`
	By   string   `json:"by,omitempty"`
	What string   `json:"what"` // the beginning of what codex is told, or the batch's file
	Zone string   `json:"zone,omitempty"`
	// Batch is how many items a batch's file has; 0 where there is none.
	Batch int `json:"batch,omitempty"`
}

// ScheduleID gives the id of a schedule in Temporal, and of its firings'
// workflows, but for the time that Temporal adds to these.
func ScheduleID(name string) string { return originSchedule + name }

// ScheduleName is the name in such an id; false where it is none of ours.
func ScheduleName(id string) (string, bool) { return strings.CutPrefix(id, originSchedule) }

// MaxScheduleName leaves room for the time in the id of what is fired.
const MaxScheduleName = 40

// FireInput is what a schedule starts each time: a session or a batch, whose id
// is made of name and time.
type FireInput struct {
	Schedule string        `json:"schedule"`
	Session  *SessionInput `json:"session,omitempty"`
	Batch    *BatchSpec    `json:"batch,omitempty"`
	By       string        `json:"by,omitempty"` // who made the schedule; of batches
}

// Check says why nothing could be fired.
func (in FireInput) Check() error {
	if !NamePattern.MatchString(in.Schedule) || len(in.Schedule) > MaxScheduleName || (in.Session == nil) == (in.Batch == nil) {
		return refuse(RefusedBadInput, "fire schedule %s: it does not say what to start", excerpt(in.Schedule, maxWord))
	}
	return nil
}

// FireResult says what came of one firing.
type FireResult struct {
	ID     string `json:"id"` // of the session, or the batch
	State  string `json:"state"`
	Status string `json:"status,omitempty"` // of the session's turn; how much of the batch ended well
}

// maxFirings of one second: how often a time may be fired anew by hand.
const maxFirings = 20

// Fire starts what a schedule is for and stays until that has ended, so that
// the schedule's overlap policy knows what still runs. It is cancelled by the
// policy cancel-other and by people: then it closes what it started, in good
// order. Where it is terminated Temporal asks for the same.
func Fire(ctx workflow.Context, in FireInput) (FireResult, error) {
	if err := in.Check(); err != nil {
		return FireResult{}, err
	}
	// What was started is to be closed in good order when this is cancelled.
	all, _ := workflow.NewDisconnectedContext(ctx)
	begins := firedSession
	if in.Batch != nil {
		begins = firedBatch
	}
	what := begins(in)
	id, child, err := what.begin(ctx, all, fireID(ctx, in.Schedule))
	out := FireResult{ID: id}
	if err != nil {
		return out, fmt.Errorf("fire schedule %s: start %s %s: %w", in.Schedule, what.kind, id, err)
	}
	if err := workflow.Await(all, func() bool { return child.IsReady() || ctx.Err() != nil }); err != nil {
		return out, err
	}
	if !child.IsReady() {
		said := child.SignalChildWorkflow(all, what.close, what.closing)
		if err := said.Get(all, nil); err != nil { // it ends by itself at this moment
			workflow.GetLogger(ctx).Warn("close not said", what.kind, id, "error", err)
		}
	}
	err = what.ended(all, child, &out)
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil:
		return out, firedFailure(what.kind+" "+id, err)
	}
	return out, what.bad(out)
}

// A firing is how a schedule's session or batch is started, closed, and judged.
type firing struct {
	kind    string
	blobs   []string // in the schedule's folders of the store, that it needs
	start   func(id string) (opts workflow.ChildWorkflowOptions, workflowType string, input any)
	close   string // the signal that closes it
	closing any
	ended   func(workflow.Context, workflow.Future, *FireResult) error
	bad     func(FireResult) error // what of an end counts as a failure
}

func firedSession(in FireInput) firing {
	return firing{
		blobs: onePerFolder(in.Session.blobs()),
		kind:  ClaimSession, close: SignalClose, closing: Close{By: ScheduleID(in.Schedule)},
		start: func(id string) (workflow.ChildWorkflowOptions, string, any) {
			start := *in.Session
			start.ID = id
			return workflow.ChildWorkflowOptions{WorkflowID: SessionID(id), TaskQueue: TaskQueueOf(start.Options.Zone), StaticSummary: "codex session " + id}, TypeSession, start
		},
		ended: func(ctx workflow.Context, child workflow.Future, out *FireResult) error {
			var view SessionView
			err := child.Get(ctx, &view)
			out.State = string(view.State)
			if view.Turn != nil {
				out.Status = view.Turn.Status
			}
			return err
		},
		bad: func(out FireResult) error {
			if out.Status == "completed" {
				return nil
			}
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf("session %s: its turn is %s", out.ID, orElse(out.Status, "not begun")), "turn_"+orElse(out.Status, "none"), nil, out)
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
		kind:  ClaimBatch, close: SignalCancelBatch, closing: CancelBatch{By: ScheduleID(in.Schedule)},
		start: func(id string) (workflow.ChildWorkflowOptions, string, any) {
			return workflow.ChildWorkflowOptions{WorkflowID: BatchID(id), StaticSummary: "batch " + id}, TypeBatch,
				BatchInput{ID: id, Spec: *in.Batch, By: in.By, Origin: OriginSchedule(in.Schedule)}
		},
		ended: func(ctx workflow.Context, child workflow.Future, out *FireResult) error {
			var end BatchEnd
			err := child.Get(ctx, &end)
			out.State = end.View.State
			if err == nil {
				whole = end.View.Done == end.View.Total
				out.Status = fmt.Sprintf("%d of %d done, %d failed", end.View.Done, end.View.Total, end.View.Failed)
			}
			return err
		},
		bad: func(out FireResult) error {
			if whole {
				return nil
			}
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf("batch %s is %s: %s", out.ID, out.State, out.Status), "batch_"+out.State, nil, out)
		},
	}
}

// begin starts it, as the next free one of its time: a time is fired again where
// a person has it filled in once more.
func (f firing) begin(asked, ctx workflow.Context, base string) (id string, child workflow.ChildWorkflowFuture, err error) {
	for n := 1; n <= maxFirings; n++ {
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

// hold keeps what is fired from losing what the schedule has in the store: it
// may go on when the schedule is deleted.
func (f firing) hold(ctx workflow.Context, id string) error {
	if len(f.blobs) == 0 {
		return nil
	}
	return workflow.ExecuteActivity(untilDone(ctx, "keep what "+id+" begins with"), batches.HoldBlobs,
		activities.HoldBlobsInput{Kind: f.kind, ID: id, Blobs: f.blobs}).Get(ctx, nil)
}

// blobs are those that a session begins with.
func (in SessionInput) blobs() (all []string) {
	if m := in.First; m != nil {
		all = append(all, m.Blob, m.SchemaBlob)
		for _, f := range m.Inputs {
			all = append(all, f.Blob)
		}
	}
	for _, f := range in.Options.Files {
		all = append(all, f.Blob)
	}
	if r := in.Options.Workspace.Repo; r != nil {
		all = append(all, r.Token)
	}
	return all
}

// onePerFolder leaves out whatever lies beside another one.
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

// fireID names what is started at a schedule's time: Temporal adds that time to
// the id of this workflow. One that somebody starts by hand has its own.
func fireID(ctx workflow.Context, name string) string {
	info := workflow.GetInfo(ctx)
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(info.WorkflowExecution.ID, ScheduleID(name)+"-"))
	if err != nil {
		at = info.WorkflowStartTime
	}
	return FiredID(name, at)
}

// LongestFiredID is as long as the id of what a schedule starts ever gets.
func LongestFiredID(name string) string {
	return fmt.Sprintf("%s.%d", FiredID(name, time.Time{}), maxFirings)
}

// FiredID is the id of what a schedule starts at a time.
func FiredID(name string, at time.Time) string {
	return name + "-" + at.UTC().Format("20060102t150405z")
}

// firedFailure is why what was fired could not begin, as its own workflow has it.
func firedFailure(what string, err error) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return temporal.NewNonRetryableApplicationError(what+": "+app.Message(), app.Type(), nil)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Read takes what is known of a firing that failed out of its error.
func (r *FireResult) Read(err error) {
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.HasDetails() {
		if app.Details(r) != nil {
			*r = FireResult{} // what is not known is not claimed
		}
	}
}
