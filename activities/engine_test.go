package activities

import (
	"context"
	"errors"
	"slices"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/activities/overseer"
)

// describes is a client whose server knows some workflows, by id.
type describes struct {
	client.Client
	knows map[string]*workflow.WorkflowExecutionInfo
	err   error // for workflows that it does not know
}

func (d describes) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	info := d.knows[id]
	if info == nil {
		return nil, d.err
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
}

func finds(t *testing.T, c client.Client, holders ...overseer.Holder) ([]overseer.Holder, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	e := &overseer.Engine{Client: c}
	env.RegisterActivity(e)
	v, err := env.ExecuteActivity(e.FindEnded, overseer.FindEndedInput{Holders: holders})
	if err != nil {
		return nil, err
	}
	var out overseer.FindEndedResult
	if err := v.Get(&out); err != nil {
		t.Fatal(err)
	}
	return out.Ended, nil
}

// asker is the id of the activity's workflow in the test environment.
const asker = "default-test-workflow-id"

func TestAHolderOfWhichItIsInDoubtKeepsItsLease(t *testing.T) {
	const running, done = enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	server := describes{err: serviceerror.NewNotFound("workflow not found"), knows: map[string]*workflow.WorkflowExecutionInfo{
		asker:         {Status: running},
		"session/a":   {Status: running, FirstRunId: "one"},
		"session/mum": {Status: running}, // does not report its first run
		"session/end": {Status: done},
	}}
	got, err := finds(t, server, overseer.Holder{WorkflowID: "session/a", FirstRun: "one"}, overseer.Holder{WorkflowID: "session/a", FirstRun: ""}, overseer.Holder{WorkflowID: "session/a", FirstRun: "another"},
		overseer.Holder{WorkflowID: "session/mum", FirstRun: "one"}, overseer.Holder{WorkflowID: "session/end", FirstRun: "one"}, overseer.Holder{WorkflowID: "session/gone", FirstRun: "one"})
	want := []overseer.Holder{{WorkflowID: "session/a", FirstRun: "another"}, {WorkflowID: "session/end", FirstRun: "one"}, {WorkflowID: "session/gone", FirstRun: "one"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("ended are %v, %v; not %v", got, err, want)
	}
}

func TestAServerThatDoesNotKnowWhoAsksSaysNothingOfOthers(t *testing.T) {
	for _, err := range []error{serviceerror.NewNotFound("404 page not found"), errors.New("connection refused")} {
		if got, err := finds(t, describes{err: err}, overseer.Holder{WorkflowID: "session/a", FirstRun: "one"}); err == nil {
			t.Errorf("ended are %v", got)
		}
	}
}
