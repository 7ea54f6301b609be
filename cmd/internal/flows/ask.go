package flows

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/internal/errkind"
)

// probeWait bounds the wait for a worker if ctl can answer without one.
const probeWait = 3 * time.Second

// silenceLasts is how long ctl asks no worker after one did not answer.
const silenceLasts = 5 * time.Second

// Ask queries a workflow. If no worker is up, or all are too old for the workflow, ctl replays
// the history that Temporal keeps, and tells the user so.
func (t *Conn) Ask(ctx context.Context, doing, workflowID, name string, out any, args ...any) error {
	live, err := t.AskEither(ctx, doing, workflowID, name, out, args...)
	if err == nil && !live && t.WaitsForNewer(workflowID) == "" && !t.Side.Begins() && t.Silence.Once() {
		t.Side.Note("no worker answers: this is what Temporal keeps")
	}
	return err
}

// AskEither is Ask without telling the user that no worker answers. live reports whether a
// worker answered.
func (t *Conn) AskEither(ctx context.Context, doing, workflowID, name string, out any, args ...any) (live bool, err error) {
	if t.Silence.again() {
		pctx, cancel := context.WithTimeout(ctx, min(probeWait, t.Side.Wait(probeWait)))
		err = t.Query(pctx, doing, workflowID, name, out, args...)
		cancel()
		if unknownQuery(err) && t.recall(ctx, doing, workflowID, name, out, args...) == nil {
			return true, nil // a worker of an earlier version cannot query a session that refused its input
		}
		if isLeft(err) { // workers answer, but not for this workflow
			t.tellLeft(workflowID)
			if t.recall(ctx, doing, workflowID, name, out, args...) == nil {
				err = nil
			}
			return false, err
		}
		if OutOfTime(ctx, err) {
			return true, err
		}
		if err == nil || errkind.ExitCode(err) != errkind.ExitUnreachable || ctx.Err() != nil {
			t.Silence.heard(err == nil)
			return true, err
		}
		t.Silence.heard(false)
	}
	rerr := t.recall(ctx, doing, workflowID, name, out, args...)
	if rerr != nil && err != nil && errkind.ExitCode(rerr) == errkind.ExitFailed {
		return false, err
	}
	return false, rerr
}

func unknownQuery(err error) bool {
	var fail *serviceerror.QueryFailed
	return errors.As(err, &fail) && strings.HasPrefix(fail.Message, "unknown queryType ")
}
