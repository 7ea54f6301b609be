package sessions

import (
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// forgotten deletes a closed session from Temporal, as its retention eventually
// does.
func forgotten(t *testing.T, id string) {
	t.Helper()
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.WorkflowService().DeleteWorkflowExecution(e2e.Within(t), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: protocol.SessionID(id)},
	})
	if err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "Temporal to forget "+id, func() (bool, error) {
		return e2e.Lab.Ctl(e2e.Within(t), nil, "session", "show", id).Code == 3, nil
	})
}

// Temporal forgets a closed session after its retention; the store does not.
func TestATranscriptOutlivesWhatTemporalKeeps(t *testing.T) {
	e2e.Session(t, "forgotten")
	e2e.Turn(t, "forgotten", "remember me")
	e2e.OK(t, "session", "close", "forgotten")
	before := e2e.OK(t, "transcript", "forgotten", "-o", "json")
	forgotten(t, "forgotten")
	if after := e2e.OK(t, "transcript", "forgotten", "-o", "json"); after != before || !strings.Contains(after, "remember me") {
		t.Errorf("the transcript was\n%s\nand is\n%s", before, after)
	}
	e2e.Exits(t, 3, "transcript", "never-was")
}
