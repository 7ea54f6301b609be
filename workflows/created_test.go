package workflows

import (
	"fmt"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// A run that continues a session starts later than the session did. The memo keeps
// the time of creation for lists. It is set once, however many runs follow.
func TestASessionsCreationIsKeptAcrossRollovers(t *testing.T) {
	r := newReal(t, shortRuns)
	r.work()
	id := r.session("s", session.Options{})
	r.becomes(id, protocol.Idle)
	var began time.Time
	r.until("the session is listed", func() bool {
		res, err := r.c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = '%s'", protocol.SessionID(id))})
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range res.GetExecutions() {
			began = info.GetStartTime().AsTime()
		}
		return !began.IsZero()
	})
	for i := 1; len(r.runs(protocol.SessionID(id))) < 3; i++ {
		m := fmt.Sprint("m", i)
		r.say(id, m, "hello")
		r.ended(id, m, "completed")
	}
	if v := r.view(id); !v.CreatedAt.Equal(began) {
		t.Errorf("the session says it was created at %s, and began at %s", v.CreatedAt, began)
	}
	d, err := r.c.DescribeWorkflowExecution(t.Context(), protocol.SessionID(id), "")
	if err != nil {
		t.Fatal(err)
	}
	var created time.Time
	if p := d.WorkflowExecutionInfo.GetMemo().GetFields()[protocol.MemoCreated]; p == nil {
		t.Fatal("nothing is kept of when it was created")
	} else if err := converter.GetDefaultDataConverter().FromPayload(p, &created); err != nil {
		t.Fatal(err)
	}
	if !created.Equal(began) || !d.WorkflowExecutionInfo.GetStartTime().AsTime().After(began) {
		t.Errorf("kept is %s; the session began at %s, its newest run at %s", created, began, d.WorkflowExecutionInfo.GetStartTime().AsTime())
	}
	told := 0
	for _, run := range r.runs(protocol.SessionID(id)) {
		for _, e := range r.history(protocol.SessionID(id), run).Events {
			if e.EventType == enums.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED {
				told++
			}
		}
	}
	if told != 1 {
		t.Errorf("it was told %d times", told)
	}
	r.close(id)
}
