package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
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
}

// ScheduleID gives the id of a schedule in Temporal, and of its firings'
// workflows, but for the time that Temporal adds to these.
func ScheduleID(name string) string { return originSchedule + name }

// ScheduleName is the name in such an id; false where it is none of ours.
func ScheduleName(id string) (string, bool) { return strings.CutPrefix(id, originSchedule) }

// MaxScheduleName leaves room for the time in the id of what is fired.
const MaxScheduleName = 40

// FireInput is what a schedule starts each time.
type FireInput struct {
	Schedule string `json:"schedule"`
	// Session is that of each firing; its id is made of name and time.
	Session *SessionInput `json:"session,omitempty"`
}

// FireResult says what came of one firing.
type FireResult struct {
	ID     string        `json:"id"` // of the session
	State  SessionStatus `json:"state"`
	Status string        `json:"status,omitempty"` // of its turn
}

// maxFirings of one second: how often a time may be fired anew by hand.
const maxFirings = 20

// Fire starts what a schedule is for and stays until that has ended, so that
// the schedule's overlap policy knows what still runs. It is cancelled by the
// policy cancel-other and by people: then it closes what it started, in good
// order. Where it is terminated Temporal asks for the same.
func Fire(ctx workflow.Context, in FireInput) (FireResult, error) {
	if in.Session == nil || !NamePattern.MatchString(in.Schedule) || len(in.Schedule) > MaxScheduleName {
		return FireResult{}, refuse(RefusedBadInput, "fire schedule %s: it does not say what to start", excerpt(in.Schedule, maxWord))
	}
	// What was started is to be closed in good order when this is cancelled.
	all, _ := workflow.NewDisconnectedContext(ctx)
	id, child, err := startFired(all, in, fireID(ctx, in.Schedule))
	out := FireResult{ID: id}
	if err != nil {
		return out, fmt.Errorf("fire schedule %s: start session %s: %w", in.Schedule, id, err)
	}
	if err := workflow.Await(all, func() bool { return child.IsReady() || ctx.Err() != nil }); err != nil {
		return out, err
	}
	if !child.IsReady() {
		said := child.SignalChildWorkflow(all, SignalClose, Close{By: ScheduleID(in.Schedule)})
		if err := said.Get(all, nil); err != nil { // it ends by itself at this moment
			workflow.GetLogger(ctx).Warn("close not said", "session", id, "error", err)
		}
	}
	var view SessionView
	err = child.Get(all, &view)
	out.State = view.State
	if view.Turn != nil {
		out.Status = view.Turn.Status
	}
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil:
		return out, firedFailure(id, err)
	case out.Status != "completed":
		return out, temporal.NewNonRetryableApplicationError(fmt.Sprintf("session %s: its turn is %s", id, orElse(out.Status, "not begun")), "turn_"+orElse(out.Status, "none"), nil, out)
	}
	return out, nil
}

// startFired starts the session, as the next free one of its time: a time is
// fired again where a person has it filled in once more.
func startFired(ctx workflow.Context, in FireInput, base string) (id string, child workflow.ChildWorkflowFuture, err error) {
	for n := 1; n <= maxFirings; n++ {
		id = base
		if n > 1 {
			id = fmt.Sprintf("%s.%d", base, n)
		}
		start := *in.Session
		start.ID = id
		child = workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID: SessionID(id), TaskQueue: TaskQueueOf(start.Options.Zone), StaticSummary: "codex session " + id,
			WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		}), TypeSession, start)
		err = child.GetChildWorkflowExecution().Get(ctx, nil)
		var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
		if !errors.As(err, &taken) {
			return id, child, err
		}
	}
	return id, child, err
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

// FiredID is the id of what a schedule starts at a time.
func FiredID(name string, at time.Time) string {
	return name + "-" + at.UTC().Format("20060102t150405z")
}

// firedFailure is why a session could not begin, as its own workflow has it.
func firedFailure(id string, err error) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("session %s: %s", id, app.Message()), app.Type(), nil)
	}
	return fmt.Errorf("session %s: %w", id, err)
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
