package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/workflows"
)

// query asks a workflow and decodes the answer into out. doing says what ctl
// was about, e.g. "show session s1". It is answered by a worker, in bounded time.
func (t *temporal) query(ctx context.Context, doing, workflowID, name string, out any, args ...any) error {
	ctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	err := whenReady(ctx, func() error {
		v, err := t.QueryWorkflow(ctx, workflowID, "", name, args...)
		if err == nil {
			err = v.Get(out)
		}
		return err
	})
	return t.explain(ctx, doing, err)
}

// update sends an update and waits for its result. The id makes it one update
// however often it is sent; an empty one is chosen.
func (t *temporal) update(ctx context.Context, doing, workflowID, name, id string, out any, args ...any) error {
	return t.updateWithin(ctx, answerWait, doing, workflowID, name, id, out, args...)
}

// updateWithin is update for what may take its time.
func (t *temporal) updateWithin(ctx context.Context, wait time.Duration, doing, workflowID, name, id string, out any, args ...any) error {
	ctx, cancel := t.app.bounded(ctx, wait)
	defer cancel()
	if id == "" {
		id = randomID()
	}
	err := whenReady(ctx, func() error {
		h, err := t.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			UpdateID: id, WorkflowID: workflowID, UpdateName: name, Args: args,
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = h.Get(ctx, out)
		}
		return err
	})
	return t.explain(ctx, doing, err)
}

// whenReady tries again for as long as a workflow is not ready, as it is in the
// moment in which it continues as new: it has not taken what it was told. A
// query that met a task which had just ended is asked a few times more.
func whenReady(ctx context.Context, try func() error) error {
	for wait, met := 20*time.Millisecond, 0; ; wait = min(2*wait, time.Second) {
		err := try()
		var unready *serviceerror.WorkflowNotReady
		switch {
		case errors.As(err, &unready):
		case metItsTask(err) && met < maxMet:
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

// maxMet is how often in a row a query is believed to have met a task.
const maxMet = 4

// metItsTask says that a query failed as it does where it was handed to a worker
// with a history that had grown meanwhile by the end of a workflow task: the SDK
// takes that task for the present one, and its commands for illegal. A workflow
// that really cannot be replayed fails so every time.
func metItsTask(err error) bool {
	var fail *serviceerror.QueryFailed
	return errors.As(err, &fail) && strings.HasPrefix(fail.Message, "[TMPRL1100] invalid state transition")
}

// updateWithStart is update for a workflow that is started where it does not
// run. start.WorkflowIDConflictPolicy must be set.
func (t *temporal) updateWithStart(ctx context.Context, doing string, start client.StartWorkflowOptions, workflowType string, input any, name string, out any, args ...any) error {
	ctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	op := t.NewWithStartWorkflowOperation(start, workflowType, input)
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
	return t.explain(ctx, doing, err)
}

// start starts a workflow.
func (t *temporal) start(ctx context.Context, doing string, opts client.StartWorkflowOptions, workflowType string, args ...any) (client.WorkflowRun, error) {
	ctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	run, err := t.ExecuteWorkflow(ctx, opts, workflowType, args...)
	if err == nil && t.app.begins && t.silence.lasted() > 0 && t.silence.once() {
		t.app.note("no worker answers: it is kept until one does")
	}
	return run, t.explain(ctx, doing, err)
}

// result waits for a workflow's end, for at most wait (0: as long as it takes).
func (t *temporal) result(ctx context.Context, doing string, run client.WorkflowRun, wait time.Duration, out any) error {
	if wait = t.app.wait(wait); wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	err := run.Get(ctx, out)
	if outOfTime(ctx, err) {
		return timedOut("%s: no end within %s", doing, wait).hinted("it goes on; --timeout waits longer").because(err)
	}
	return t.explain(ctx, doing, err)
}

// outOfTime says that a wait ended because its own time was over. The wire keeps
// to the same time and may be the first to say so, when the context has not
// ended yet: then that is no answer that failed to come.
func outOfTime(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	var wire *serviceerror.DeadlineExceeded
	if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Second && (errors.As(err, &wire) || errors.Is(err, context.DeadlineExceeded)) {
		<-ctx.Done()
	}
	return errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// signal sends a signal; it is kept with no worker up.
func (t *temporal) signal(ctx context.Context, doing, workflowID, name string, arg any) error {
	ctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	return t.explain(ctx, doing, t.SignalWorkflow(ctx, workflowID, "", name, arg))
}

// explain turns an error of Temporal's into one of ctl's: which exit code, and
// what to do.
func (t *temporal) explain(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return err
	}
	if e := refusal(t.codec, err); e != nil {
		e.message = doing + ": " + unsaid(doing, e.message)
		return e.because(err)
	}
	var (
		gone      *serviceerror.NotFound
		noNS      *serviceerror.NamespaceNotFound
		started   *serviceerror.WorkflowExecutionAlreadyStarted
		queryFail *serviceerror.QueryFailed
		unready   *serviceerror.WorkflowNotReady
		precond   *serviceerror.FailedPrecondition
		badArg    *serviceerror.InvalidArgument
		busy      *serviceerror.ResourceExhausted
		denied    *serviceerror.PermissionDenied
		deadline  *serviceerror.DeadlineExceeded
		canceled  *serviceerror.Canceled
		silent    *client.WorkflowUpdateServiceTimeoutOrCanceledError
	)
	switch {
	case errors.Is(err, payload.ErrNoKey), errors.Is(err, payload.ErrTorn):
		return usage("%s: %s", doing, firstSentence(err)).hinted("check temporal.payload_key in the config, and --namespace").because(err)
	case errors.As(err, &noNS):
		return notFound("%s: Temporal at %s has no namespace %q", doing, t.address, t.namespace).hinted("check --namespace").because(err)
	case errors.As(err, &gone):
		// A workflow that has ended is there, but takes nothing any more.
		if strings.Contains(gone.Error(), "already completed") {
			return refused("%s: it has ended", doing).because(err)
		}
		return notFound("%s: there is none", doing).hinted("%s", whatThereIs(doing)).because(err)
	case errors.As(err, &started) || temporalsdk.IsWorkflowExecutionAlreadyStartedError(err):
		return refused("%s: the id is in use", doing).hinted("choose another id").because(err)
	case errors.As(err, &silent), errors.As(err, &deadline), errors.As(err, &canceled), errors.As(err, &precond), errors.As(err, &unready),
		errors.Is(err, context.DeadlineExceeded):
		return unreachable("%s: no worker answered within %s", doing, t.app.wait(answerWait)).
			hinted("is a worker running? `ctl status` shows them; look before you do it again").because(err)
	case errors.As(err, &queryFail), errors.As(err, &badArg):
		return failed("%s: %s", doing, firstSentence(err)).because(err)
	case errors.As(err, &busy):
		return unreachable("%s: Temporal is overloaded: %s", doing, firstSentence(err)).hinted("try again in a moment").because(err)
	case errors.As(err, &denied):
		return unreachable("%s: Temporal refused us: %s", doing, firstSentence(err)).hinted("check the key or certificate").because(err)
	}
	var unavailable *serviceerror.Unavailable
	if errors.As(err, &unavailable) {
		return unreachable("%s: Temporal at %s went away: %s", doing, t.address, firstSentence(err)).
			hinted("look before you do it again").because(err)
	}
	return failed("%s: %s", doing, firstSentence(err)).because(err)
}

// unsaid removes from a workflow's message what the workflow was doing, because ctl
// says what it was doing itself: of "decide s1.2: it expired" it keeps "it expired"
// if ctl was doing "accept approval s1.2". Both operations must end with the same
// object.
func unsaid(doing, message string) string {
	head, rest, ok := strings.Cut(message, ": ")
	if words, of := strings.Fields(head), strings.Fields(doing); ok && len(of) > 0 && len(words) > 1 && len(words) < 4 && words[len(words)-1] == of[len(of)-1] {
		return rest
	}
	return message
}

// missing is what of a refusal names something that is not there; what else it
// names is.
var missing = regexp.MustCompile(`\bno (?:jump )?(?:seed|host) `)

// whatThereIs says how to find what there is, in place of what was not found.
func whatThereIs(message string) string {
	last, at := "", -1 // the others are what it was wanted for
	for _, noun := range []string{"batch", "schedule", "session", "seed", "host"} {
		if i := strings.LastIndex(message, noun+" "); i > at {
			last, at = noun, i
		}
	}
	if last == "" {
		return ""
	}
	return "`ctl " + last + " list` shows what there is"
}

// refusal finds the typed refusal of a workflow in an error, nil if there is
// none. Of a query that failed it stands in the failure the server passes on.
func refusal(codec *payload.Codec, err error) *exitError {
	kind, message := "", ""
	var app *temporalsdk.ApplicationError
	var query *serviceerror.QueryFailed
	switch {
	case errors.As(err, &app):
		kind, message = app.Type(), app.Message()
	case errors.As(err, &query):
		for f := query.Failure; f != nil && kind == ""; f = f.GetCause() {
			kind, message = f.GetApplicationFailureInfo().GetType(), codec.Message(f)
		}
	}
	switch kind {
	case workflows.RefusedBadInput:
		return usage("%s", message)
	case workflows.RefusedNotFound:
		return notFound("%s", message).hinted("%s", whatThereIs(missing.FindString(message)))
	case workflows.RefusedState:
		return refused("%s", message)
	case workflows.RefusedBudget:
		return newExit(exitRefused, workflows.RefusedBudget, "%s", message)
	}
	return nil
}

// firstSentence is an error on one line, without the layers of gRPC.
func firstSentence(err error) string {
	s := err.Error()
	if i := strings.LastIndex(s, "desc = "); i >= 0 {
		s = strings.Trim(s[i+len("desc = "):], `"`)
	}
	s = strings.TrimPrefix(s, "failed reaching server: ")
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return fmt.Sprintf("pid%d", os.Getpid())
	}
	return h
}
