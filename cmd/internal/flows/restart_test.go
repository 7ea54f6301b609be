package flows

import (
	"context"
	"errors"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// An earlier is a Temporal that has one ended session, whose id a start wants.
type earlier struct {
	client.Client
	status enums.WorkflowExecutionStatus
	first  string // run
	ended  error
	before []enums.WorkflowExecutionStatus // of sessions that had the id earlier
	starts []enums.WorkflowIdReusePolicy
}

func (e *earlier) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if r.GetQuery() != "WorkflowId = 'session/s1'" {
		return nil, errors.New("unexpected query " + r.GetQuery())
	}
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, status := range append(e.before, e.status) {
		out.Executions = append(out.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: "session/s1", RunId: "run"}, Status: status})
	}
	return out, nil
}

func (e *earlier) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "session/s1", RunId: "run-1"}, FirstRunId: e.first, Status: e.status,
	}}, nil
}

func (e *earlier) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	e.starts = append(e.starts, o.WorkflowIDReusePolicy)
	if o.WorkflowIDReusePolicy == enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("started", "", "run-1")
	}
	return nil, nil
}

func (e *earlier) GetWorkflow(context.Context, string, string) client.WorkflowRun {
	return endedRun{err: e.ended}
}

type endedRun struct {
	client.WorkflowRun
	err error
}

func (r endedRun) Get(context.Context, any) error { return r.err }

func (e *earlier) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return aView{}, nil
}

type aView struct{}

func (aView) HasValue() bool { return true }
func (aView) Get(to any) error {
	*to.(*protocol.SessionView) = protocol.SessionView{State: protocol.Queued}
	return nil
}

func TestAStartThatWasRefusedLeavesItsIDFree(t *testing.T) {
	refused := temporalsdk.NewNonRetryableApplicationError("no binding", protocol.RefusedForbidden, nil)
	const failed, done, running = enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	for what, c := range map[string]struct {
		was  earlier
		kind string
		free bool
	}{
		"a refused start":        {earlier{status: failed, first: "run-1", ended: refused}, protocol.TypeSession, true},
		"a session that failed":  {earlier{status: failed, first: "run-1", ended: temporalsdk.NewNonRetryableApplicationError("x", "lost", nil)}, protocol.TypeSession, false},
		"one that had begun":     {earlier{status: failed, first: "run-0", ended: refused}, protocol.TypeSession, false},
		"one that has ended":     {earlier{status: done, first: "run-1"}, protocol.TypeSession, false},
		"one that runs":          {earlier{status: running, first: "run-1"}, protocol.TypeSession, false},
		"one refused twice":      {earlier{status: failed, first: "run-1", ended: refused, before: []enums.WorkflowExecutionStatus{failed}}, protocol.TypeSession, true},
		"an id that was used":    {earlier{status: failed, first: "run-1", ended: refused, before: []enums.WorkflowExecutionStatus{done}}, protocol.TypeSession, false},
		"something else's start": {earlier{status: failed, first: "run-1", ended: refused}, protocol.TypeClaimKey, false},
	} {
		was := &c.was
		tt := &Conn{Client: was, Side: quiet{}, Codec: payload.NewCodec("default")}
		_, err := tt.Start(t.Context(), "start session s1", client.StartWorkflowOptions{ID: "session/s1", WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}, c.kind, "in")
		if (err == nil) != c.free {
			t.Errorf("%s: %v", what, err)
		}
		var e *errkind.Error
		if !c.free && (!errors.As(err, &e) || e.Code != errkind.ExitRefused || e.Hint != "choose another id") {
			t.Errorf("%s: %v", what, err)
		}
		if last := was.starts[len(was.starts)-1]; c.free && last != enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY || !c.free && len(was.starts) != 1 {
			t.Errorf("%s: started as %v", what, was.starts)
		}
	}
}
