package flows

import (
	"context"
	"errors"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/newer"
)

// lastEvents bounds how far back in a history the failure of a workflow task is looked for.
const lastEvents = 10

// errLeft means that a worker leaves a workflow to newer ones.
var errLeft = errors.New("a worker left it to newer ones")

// left remembers which workflows wait for a newer worker, and what the others lack.
type left struct {
	mu   sync.Mutex
	why  map[string]string
	told map[string]bool
}

// set takes why a workflow waits; "" means that it does not.
func (l *left) set(workflowID, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if why == "" {
		delete(l.why, workflowID)
		return
	}
	if l.why == nil {
		l.why, l.told = map[string]string{}, map[string]bool{}
	}
	l.why[workflowID] = why
}

// tell returns why a workflow waits, the first time.
func (l *left) tell(workflowID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[workflowID] {
		return ""
	}
	l.told[workflowID] = true
	return l.why[workflowID]
}

func (t *Conn) tellLeft(workflowID string) {
	if why := t.left.tell(workflowID); why != "" {
		t.Side.Note("%s waits for a newer worker: %s", workflowID, why)
	}
}

// WaitsForNewer says why a workflow waits for a newer worker, by the newest question to it. It
// returns "" if the workflow does not wait for one.
func (t *Conn) WaitsForNewer(workflowID string) string {
	t.left.mu.Lock()
	defer t.left.mu.Unlock()
	return t.left.why[workflowID]
}

// MarkLeft sets what a session waits for if it waits for a newer worker, and reports whether it
// does.
func (t *Conn) MarkLeft(v *protocol.SessionView) bool {
	why := t.WaitsForNewer(protocol.SessionID(v.ID))
	if why == "" {
		return false
	}
	v.Waits = "a newer worker: " + why + "; bring all workers of its zone up to date: nothing of it is dropped, and it goes on then"
	return true
}

// isLeft reports whether a query failed because the workflow waits for a newer worker.
func isLeft(err error) bool {
	var e *errkind.Error
	return errors.As(err, &e) && e.Kind == protocol.ErrTypeNewer
}

// waitsForNewer is the error of a query of a workflow that waits for a newer worker.
func waitsForNewer(doing, why string, err error) error {
	return errkind.New(errkind.ExitUnreachable, protocol.ErrTypeNewer, "%s: it waits for a newer worker: %s", doing, why).
		Hinted("bring all workers of its zone up to date: nothing of it is dropped, and it goes on then").Because(err)
}

// leftToNewer says what the workers of a workflow lack, if they leave it to newer ones, so that
// a query of it failed. Otherwise it returns "".
func (t *Conn) leftToNewer(ctx context.Context, workflowID string, failed error) string {
	var query *serviceerror.QueryFailed
	var unready *serviceerror.WorkflowNotReady
	if !errors.As(failed, &query) && !errors.As(failed, &unready) {
		return ""
	}
	if query != nil {
		if why := newer.Lacks(query.Message); why != "" {
			return shownOf(why)
		}
	}
	h, err := t.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: t.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID}, MaximumPageSize: lastEvents,
	})
	if err != nil {
		return ""
	}
	for _, ev := range h.GetHistory().GetEvents() {
		switch ev.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_TASK_FAILED:
			return shownOf(newer.Lacks(t.Codec.Message(ev.GetWorkflowTaskFailedEventAttributes().GetFailure())))
		case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			return ""
		}
	}
	return ""
}

func shownOf(why string) string { return escape.OneLine(why, 400) }
