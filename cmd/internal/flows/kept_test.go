package flows

import (
	"encoding/json"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"fairlead.dev/fairlead/internal/payload"
)

func TestWhatTemporalDoesNotKeepIsNullAndNotZero(t *testing.T) {
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "session/s1"},
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
			"FairleadTurn": {Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte("3")},
		}},
	}
	raw, err := json.Marshal(keptSession{KeptView(info, payload.NewCodec("default"))})
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usage", "process", "attempt", "requests", "messages", "updated_at"} {
		if got, there := v[name]; !there || got != nil {
			t.Errorf("%s is %v", name, got)
		}
	}
	if turn := v["turn"].(map[string]any); turn["n"] != 3.0 || turn["status"] != nil || turn["id"] != nil || turn["started_at"] != nil {
		t.Errorf("turn is %v", turn)
	}
	if strings.Contains(string(raw), "0001-") {
		t.Errorf("a date that nobody knows: %s", raw)
	}
}
