package conn

import (
	"context"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/payload"
)

// failingTemporal has workflows with the attempts of their pending tasks.
type failingTemporal struct {
	client.Client
	older    bool // it does not know TemporalReportedProblems
	attempts map[string]int32
	last     failingService
}

// failingService has the newest event of each workflow.
type failingService struct {
	workflowservice.WorkflowServiceClient
	of map[string]*historypb.HistoryEvent
}

func (f *failingTemporal) WorkflowService() workflowservice.WorkflowServiceClient { return f.last }

func (f *failingTemporal) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if f.older && strings.Contains(r.GetQuery(), "TemporalReportedProblems") {
		return nil, serviceerror.NewInvalidArgument("invalid query: unknown search attribute")
	}
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for id := range f.attempts {
		out.Executions = append(out.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
	}
	return out, nil
}

func (f *failingTemporal) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{PendingWorkflowTask: &workflowpb.PendingWorkflowTaskInfo{Attempt: f.attempts[id]}}, nil
}

func (s failingService) GetWorkflowExecutionHistoryReverse(_ context.Context, r *workflowservice.GetWorkflowExecutionHistoryReverseRequest, _ ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	return &workflowservice.GetWorkflowExecutionHistoryReverseResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{s.of[r.GetExecution().GetWorkflowId()]}}}, nil
}

func TestAWorkflowWhoseTasksFailAgainAndAgainIsNamedWithTheCause(t *testing.T) {
	failed := &historypb.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, Attributes: &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{
		WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{Failure: &failurepb.Failure{Message: "it has no valid mark of a worker"}}}}
	for _, older := range []bool{false, true} {
		f := &failingTemporal{older: older, attempts: map[string]int32{"session/stuck": 7, "session/once": 2, "session/fine": 0}, last: failingService{of: map[string]*historypb.HistoryEvent{"session/stuck": failed}}}
		c := With(&core.App{}, f, payload.NewCodec("default"))
		c.Namespace = "default"
		stuck, err := c.Stuck(t.Context())
		if err != nil || len(stuck) != 1 || stuck[0].String() != "session/stuck, attempt 7: it has no valid mark of a worker" {
			t.Errorf("older server %t: %v, %v", older, stuck, err)
		}
	}
}
