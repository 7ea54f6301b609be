package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/workflows"
)

// recorded reads the histories that the replay tests keep of sessions.
func recorded(t *testing.T) map[string]*historypb.History {
	t.Helper()
	files, err := filepath.Glob("../../workflows/testdata/replay/*.json")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*historypb.History{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		h, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName() == workflows.TypeSession {
			out[strings.TrimSuffix(filepath.Base(file), ".json")] = h
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d histories of sessions are there", len(out))
	}
	return out
}

// A worker can go away after any event: what is on record by then tells what
// the session is, with no worker to ask.
func TestASessionIsToldFromItsHistoryAfterEveryEvent(t *testing.T) {
	for name, h := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			begun := false
			for n := 1; n <= len(h.Events); n++ {
				begun = begun || h.Events[n-1].GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
				var d workflows.SessionDetail
				err := answer(&historypb.History{Events: h.Events[:n:n]}, "look", workflows.QueryDetail, &d)
				if err != nil {
					if begun {
						t.Fatalf("after event %d (%s): %v", n, h.Events[n-1].GetEventType(), err)
					}
					continue
				}
				if d.View.State == "" || d.View.ID == "" {
					t.Fatalf("after event %d (%s): %+v", n, h.Events[n-1].GetEventType(), d.View)
				}
			}
		})
	}
}

func TestAnApprovalIsToldFromTheHistoryWithItsDigest(t *testing.T) {
	for name, h := range recorded(t) {
		if !strings.HasPrefix(name, "approval-") {
			continue
		}
		states := ""
		for n := 3; n <= len(h.Events); n++ {
			var list []workflows.Approval
			if answer(&historypb.History{Events: h.Events[:n:n]}, "look", workflows.QueryApprovals, &list) != nil || len(list) == 0 {
				continue
			}
			if list[0].Digest == "" || list[0].Command == "" {
				t.Fatalf("%s: after event %d: %+v", name, n, list[0])
			}
			if !strings.HasSuffix(states, string(list[0].State)) {
				states += fmt.Sprintf(" %s", list[0].State)
			}
		}
		want := " open decided acknowledged"
		if name == "approval-expired" {
			want = " open expired"
		}
		if states != want {
			t.Errorf("%s: the approval went%s, not%s", name, states, want)
		}
	}
}
