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

// query queries a workflow and decodes the answer into out. doing is for error messages,
// such as "show session s1". Only a worker can answer, and the wait is bounded.
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

// update sends an update and waits for its result. Updates with the same id count as one.
// If id is empty, a random one is used.
func (t *temporal) update(ctx context.Context, doing, workflowID, name, id string, out any, args ...any) error {
	return t.updateWithin(ctx, answerWait, doing, workflowID, name, id, out, args...)
}

// updateWithin is update with another time limit.
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

// whenReady repeats try while a workflow is not ready, which is so while it continues as
// new. The workflow has not taken the request then. A query that collided with the end of a
// workflow task is also repeated, a few times.
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

// maxMet bounds how often in a row a failed query is explained by such a collision.
const maxMet = 4

// metItsTask reports whether a query failed because a workflow task ended while the query
// was on its way to a worker. The SDK then takes that task for the current one, and its
// commands for illegal. A workflow that really cannot be replayed fails in the same way,
// but every time.
func metItsTask(err error) bool {
	var fail *serviceerror.QueryFailed
	return errors.As(err, &fail) && strings.HasPrefix(fail.Message, "[TMPRL1100] invalid state transition")
}

// updateWithStart is like update, but starts the workflow if it does not run.
// start.WorkflowIDConflictPolicy must be set.
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

func (t *temporal) start(ctx context.Context, doing string, opts client.StartWorkflowOptions, workflowType string, args ...any) (client.WorkflowRun, error) {
	ctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	run, err := t.ExecuteWorkflow(ctx, opts, workflowType, args...)
	if err == nil && t.app.begins && t.silence.lasted() > 0 && t.silence.once() {
		t.app.note("no worker answers: it is kept until one does")
	}
	return run, t.explain(ctx, doing, err)
}

// result waits for the end of a workflow, at most for wait, or without limit if wait is 0.
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

// outOfTime reports whether a wait ended because its own time was over. The connection has
// the same deadline as the context and may report it first. outOfTime then waits for the
// context, so that this is not taken for a worker that did not answer.
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

// signal sends a signal. With no worker up, Temporal keeps it.
func (t *temporal) signal(ctx context.Context, doing, workflowID, name string, arg any) error {
	ctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	return t.explain(ctx, doing, t.SignalWorkflow(ctx, workflowID, "", name, arg))
}

// explain converts an error of Temporal into one of ctl, with an exit code and a hint.
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
		// Temporal returns this also for a workflow that has ended.
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

// unsaid removes from a workflow's message what the workflow was doing, because ctl says
// that itself. It shortens "decide s1.2: it expired" to "it expired" if ctl was doing
// "accept approval s1.2". Both operations must end with the same object.
func unsaid(doing, message string) string {
	head, rest, ok := strings.Cut(message, ": ")
	if words, of := strings.Fields(head), strings.Fields(doing); ok && len(of) > 0 && len(words) > 1 && len(words) < 4 && words[len(words)-1] == of[len(of)-1] {
		return rest
	}
	return message
}

// missing matches the part of a refusal that names something that does not exist. Other
// names in the refusal are of existing things.
var missing = regexp.MustCompile(`\bno (?:jump )?(?:seed|host) `)

// whatThereIs returns the hint that says how to list things of the kind that was not found.
func whatThereIs(message string) string {
	last, at := "", -1 // the last noun is what was not found
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

// refusal finds a workflow's typed refusal in an error, nil if there is none. For a failed
// query it is in the failure that the server passes on.
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

// firstSentence returns an error on one line, without the layers that gRPC adds.
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
