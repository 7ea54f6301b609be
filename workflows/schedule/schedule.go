package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/session"
)

// FireInput describes what a schedule starts each time: a session or a batch.
type FireInput struct {
	protocol.Commanded
	Schedule string              `json:"schedule"`
	Session  *session.Input      `json:"session,omitempty"`
	Batch    *protocol.BatchSpec `json:"batch,omitempty"`
	By       string              `json:"by,omitempty"` // made the schedule; used for batches
	// Act is what a person did to the Schedule. Fire then only puts it on record, and starts
	// nothing. About says more of it.
	Act   string `json:"act,omitempty"`
	About string `json:"about,omitempty"`
	// Groups are those that the login of By named. The worker sets them when it admits the
	// start.
	Groups []string `json:"groups,omitempty"`

	newer kit.Newer // a field that this program does not know
}

// UnmarshalJSON notes a field that this program does not know.
func (in *FireInput) UnmarshalJSON(raw []byte) (err error) {
	type plain FireInput
	in.newer, err = kit.Known(raw, (*plain)(in))
	if err == nil && len(in.Unknown()) > 0 {
		in.newer = in.newer.Within(raw) // also if only the session has such a field
	}
	return err
}

// Required implements newer.Input.
func (in FireInput) Required() []string { return nil }

// Unknown implements newer.Input.
func (in FireInput) Unknown() []string {
	all := in.newer.Fields()
	if in.Session != nil {
		all = append(all, in.Session.Unknown()...)
	}
	return all
}

// Given returns the JSON of an input that has a field which this program does not know, and
// otherwise nil. The signature of a start is of this JSON.
func (in FireInput) Given() []byte { return in.newer.Given() }

// Stands implements authority.StandingCommand. An act counts once.
func (in FireInput) Stands() (schedule string, begins access.Verb, o access.Object) {
	if in.Act != "" {
		return "", "", access.Object{}
	}
	who := ""
	if in.Auth != nil {
		who = in.Auth.Principal
	}
	if in.Session == nil {
		return protocol.ScheduleID(in.Schedule), access.BatchRun, access.Object{Owner: who}
	}
	return protocol.ScheduleID(in.Schedule), access.SessionStart, in.Session.Options.Object("", who)
}

// Says returns the reason of the record of an act.
func (in FireInput) Says() string {
	if in.Act == "" || in.About == "" {
		return in.Act
	}
	return in.Act + ": " + in.About
}

// Check refuses an input from which nothing can be started.
func (in FireInput) Check() error {
	if in.Act != "" || in.About != "" {
		return in.checkAct()
	}
	if !protocol.NamePattern.MatchString(in.Schedule) || len(in.Schedule) > protocol.MaxScheduleName || (in.Session == nil) == (in.Batch == nil) {
		return kit.Refuse(protocol.RefusedBadInput, "fire schedule %s: its name is invalid, or it does not give exactly one of session and batch", kit.Cut(in.Schedule, kit.MaxWord))
	}
	return nil
}

func (in FireInput) checkAct() error {
	if !protocol.NamePattern.MatchString(in.Schedule) || !slices.Contains(protocol.ScheduleActs, in.Act) || len(in.About) > protocol.MaxScheduleAbout || in.Session != nil || in.Batch != nil {
		return kit.Refuse(protocol.RefusedBadInput, "record %s of schedule %s: the name or the act is invalid, or about is too long, or it gives a session or a batch, too", kit.Cut(in.Act, kit.MaxWord), kit.Cut(in.Schedule, kit.MaxWord))
	}
	return nil
}

// Fire starts the session or batch of a schedule and runs until that has ended, so that the
// schedule's overlap policy knows what runs. A session that has only to clean up, and
// cannot reach its host, counts as ended. If Fire is cancelled, it closes what it started.
// If Fire is terminated, Temporal requests that its child be cancelled.
func Fire(ctx workflow.Context, in FireInput) (protocol.FireResult, error) {
	if err := in.Check(); err != nil {
		return protocol.FireResult{}, err
	}
	if in.Act != "" { // the interceptor has judged it, and puts it on record
		return protocol.FireResult{State: "recorded"}, nil
	}
	// not cancelled with Fire
	all, _ := workflow.NewDisconnectedContext(ctx)
	begins := firedSession
	if in.Batch != nil {
		begins = firedBatch
	}
	what := begins(in, authority.StartVerdict(ctx).Principal)
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
		var from protocol.Sender
		if authority.Version(ctx) >= 1 {
			from.From = workflow.GetInfo(ctx).WorkflowExecution.ID
		}
		said := child.SignalChildWorkflow(all, what.close, what.closing(from))
		if err := said.Get(all, nil); err != nil { // the child ends by itself
			workflow.GetLogger(ctx).Warn("close not said", what.kind, id, "error", err)
		}
		if err := workflow.Await(all, over); err != nil {
			return out, err
		}
	}
	if child.IsReady() {
		err = what.ended(all, child, &out)
	} else { // it cleans up when its host can be reached
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

// A firing says how to start, close and judge a session or batch.
type firing struct {
	kind    string
	blobs   []string // one per folder of the schedule that it needs
	start   func(id string) (opts workflow.ChildWorkflowOptions, workflowType string, input any)
	close   string // the signal that closes it
	closing func(protocol.Sender) any
	ended   func(workflow.Context, workflow.Future, *protocol.FireResult) error
	bad     func(protocol.FireResult) error // if the outcome counts as a failure
}

func firedSession(in FireInput, judged string) firing {
	return firing{
		blobs: onePerFolder(in.Session.Blobs()),
		kind:  protocol.ClaimSession, close: protocol.SignalClose, closing: func(from protocol.Sender) any {
			return protocol.Close{By: protocol.ScheduleID(in.Schedule), Sender: from}
		},
		start: func(id string) (workflow.ChildWorkflowOptions, string, any) {
			start := *in.Session
			start.ID, start.Groups, start.Judged = id, in.Groups, judged
			if in.Auth != nil { // who signed it, whatever the input claims
				start.Options.By = in.Auth.Principal
			}
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

func firedBatch(in FireInput, judged string) firing {
	whole := false
	var pages []string
	for _, p := range in.Batch.Pages {
		pages = append(pages, p.Blob)
	}
	return firing{
		blobs: onePerFolder(pages),
		kind:  protocol.ClaimBatch, close: protocol.SignalCancelBatch, closing: func(from protocol.Sender) any {
			return protocol.CancelBatch{By: protocol.ScheduleID(in.Schedule), Sender: from}
		},
		start: func(id string) (workflow.ChildWorkflowOptions, string, any) {
			return workflow.ChildWorkflowOptions{WorkflowID: protocol.BatchID(id), StaticSummary: "batch " + id}, protocol.TypeBatch,
				batch.Input{ID: id, Spec: *in.Batch, By: in.By, Groups: in.Groups, Judged: judged, Origin: protocol.OriginSchedule(in.Schedule)}
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

// begin starts the child under the next free id of its time, which a person may backfill
// again.
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

// hold keeps the schedule's blobs for the child, which may outlive the schedule. It waits
// while the store is away, or no worker has its key.
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
		workflow.SetCurrentDetails(ctx, escape.Text(fmt.Sprintf("tries again to begin %s (%d attempts failed): %s", id, n, failed.Message)))
		if err := workflow.Sleep(ctx, kit.PauseAfter(n)); err != nil {
			return err
		}
	}
}

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

// fireID returns the id for a time of a schedule. Temporal appends that time to the id of
// this workflow, unless a person started it by hand.
func fireID(ctx workflow.Context, name string) string {
	info := workflow.GetInfo(ctx)
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(info.WorkflowExecution.ID, protocol.ScheduleID(name)+"-"))
	if err != nil {
		at = info.WorkflowStartTime
	}
	return protocol.FiredID(name, at)
}

func firedFailure(what string, err error) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return temporal.NewNonRetryableApplicationError(what+": "+app.Message(), app.Type(), nil)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ReadFireResult reads r from the error of a firing.
func ReadFireResult(r *protocol.FireResult, err error) {
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.HasDetails() {
		if app.Details(r) != nil {
			*r = protocol.FireResult{} // do not claim what is not known
		}
	}
}
