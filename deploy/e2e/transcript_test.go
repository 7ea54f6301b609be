package e2e

import (
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

// transcript reads a session's entries and checks what holds for every one:
// seq rises by one from 1, and no entry comes twice.
func transcript(t *testing.T, id string) []activities.Entry {
	t.Helper()
	list, err := lab.Lines[activities.Entry](within(t), shared, "transcript", id)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	for i, e := range list {
		if e.Seq != int64(i+1) {
			t.Errorf("entry %d of %s has seq %d", i+1, id, e.Seq)
		}
		if first, twice := seen[e.ID]; twice {
			t.Errorf("entry %s of %s stands at %d and at %d", e.ID, id, first, e.Seq)
		}
		seen[e.ID] = e.Seq
	}
	return list
}

// texts picks the texts of one type.
func texts(list []activities.Entry, kind activities.EntryType) []string {
	var out []string
	for _, e := range list {
		if e.Type == kind {
			out = append(out, e.Text)
		}
	}
	return out
}

// forgotten has Temporal forget a closed session, as its retention does in the end.
func forgotten(t *testing.T, id string) {
	t.Helper()
	c, err := shared.Temporal(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.WorkflowService().DeleteWorkflowExecution(within(t), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflows.SessionID(id)},
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "Temporal to forget "+id, func() (bool, error) {
		return shared.Ctl(within(t), nil, "session", "show", id).Code == 3, nil
	})
}

// Temporal forgets a closed session after its retention; the store does not.
func TestATranscriptOutlivesWhatTemporalKeeps(t *testing.T) {
	session(t, "forgotten")
	turn(t, "forgotten", "remember me")
	ok(t, "session", "close", "forgotten")
	before := ok(t, "transcript", "forgotten", "-o", "json")
	forgotten(t, "forgotten")
	if after := ok(t, "transcript", "forgotten", "-o", "json"); after != before || !strings.Contains(after, "remember me") {
		t.Errorf("the transcript was\n%s\nand is\n%s", before, after)
	}
	exits(t, 3, "transcript", "never-was")
}
