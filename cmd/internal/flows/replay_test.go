package flows

import (
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/workflows"
)

// recorded reads the session histories of the replay tests, for all releases. One key is
// v0.1/budget.
func recorded(t *testing.T) map[string]*historypb.History {
	t.Helper()
	files, err := filepath.Glob(realparts.Path(t, "workflows", "testdata", "replay", "*", "*.json"))
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
		if h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName() == protocol.TypeSession {
			out[filepath.Base(filepath.Dir(file))+"/"+strings.TrimSuffix(filepath.Base(file), ".json")] = h
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d histories of sessions are there", len(out))
	}
	return out
}

// ends yields the lengths that the history had in Temporal, where the events of a workflow
// task are appended together.
func ends(h *historypb.History) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := 1; n <= len(h.Events); n++ {
			if n < len(h.Events) && ofTheTaskBefore(h.Events[n]) {
				continue
			}
			if !yield(n) {
				return
			}
		}
	}
}

func ofTheTaskBefore(ev *historypb.HistoryEvent) bool {
	switch ev.GetEventType() {
	case enums.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, enums.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
		enums.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED, enums.EVENT_TYPE_TIMER_STARTED, enums.EVENT_TYPE_TIMER_CANCELED,
		enums.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED, enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED, enums.EVENT_TYPE_MARKER_RECORDED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return true
	}
	return false
}

// toldAt answers a query at the time of the last event. At the present time, approvals in
// the old recordings would have expired.
func toldAt(events []*historypb.HistoryEvent, name string, out any) error {
	at := events[len(events)-1].GetEventTime().AsTime()
	q := &query{codec: payload.NewCodec("default"), register: workflows.Register, doing: "look", name: name}
	return answer(q, &historypb.History{Events: events}, at, out)
}

// A worker can be killed after any event. The history until that event is enough for ctl to
// find out the session's state without a worker.
func TestASessionIsToldFromItsHistoryAfterEveryEvent(t *testing.T) {
	for name, h := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			for n := range ends(h) {
				if testing.Short() && n%4 != 0 && n != len(h.Events) {
					continue // each query is a replay, which the race detector makes slow
				}
				var d protocol.SessionDetail
				err := toldAt(h.Events[:n:n], protocol.QueryDetail, &d)
				if err != nil {
					t.Fatalf("after event %d (%s): %v", n, h.Events[n-1].GetEventType(), err)
				}
				if d.View.State == "" || d.View.ID == "" {
					t.Fatalf("after event %d (%s): %+v", n, h.Events[n-1].GetEventType(), d.View)
				}
			}
		})
	}
}

// A signal that no worker has read still counts in the answer.
func TestASignalThatNoWorkerHasSeenIsCountedIn(t *testing.T) {
	tried := 0
	for name, h := range recorded(t) {
		if path.Base(name) == "approval-declined-by-signal" {
			tried++
			t.Run(name, func(t *testing.T) { countsUnreadSignals(t, h) })
		}
	}
	if tried == 0 {
		t.Error("no history of approval-declined-by-signal is recorded")
	}
}

func countsUnreadSignals(t *testing.T, h *historypb.History) {
	t.Helper()
	for n, ev := range h.Events {
		signal := ev.GetWorkflowExecutionSignaledEventAttributes()
		if signal.GetSignalName() != protocol.SignalDecide {
			continue
		}
		var before, after protocol.SessionDetail
		for end, out := range map[int]*protocol.SessionDetail{n: &before, n + 1: &after} {
			if err := toldAt(h.Events[:end:end], protocol.QueryDetail, out); err != nil {
				t.Fatal(err)
			}
		}
		refused := strings.Contains(string(signal.GetInput().GetPayloads()[0].GetData()), "none")
		decided := after.Approvals[0].Decision != nil
		if refused == decided || refused != (len(after.View.Refusals) > len(before.View.Refusals)) || before.Approvals[0].Decision != nil {
			t.Errorf("after event %d: %+v with refusals %+v", n+1, after.Approvals[0], after.View.Refusals)
		}
	}
}

func TestAnApprovalIsToldFromTheHistoryWithItsDigest(t *testing.T) {
	for name, h := range recorded(t) {
		if !strings.HasPrefix(path.Base(name), "approval-") {
			continue
		}
		states := ""
		for n := range ends(h) {
			var list []protocol.Approval
			if toldAt(h.Events[:n:n], protocol.QueryApprovals, &list) != nil || len(list) == 0 {
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
		if path.Base(name) == "approval-expired" {
			want = " open expired"
		}
		if states != want {
			t.Errorf("%s: the approval went%s, not%s", name, states, want)
		}
	}
}

// When a workflow continues as new, the history of the next run has only its input at
// first. Open approvals are part of that input.
func TestAnApprovalIsToldAcrossARollover(t *testing.T) {
	for name, h := range recorded(t) {
		carried := strings.Contains(string(h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()[0].GetData()), `"state":"open"`)
		if !carried {
			continue
		}
		var list []protocol.Approval
		if err := toldAt(h.Events[:1:1], protocol.QueryApprovals, &list); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.ContainsFunc(list, func(ap protocol.Approval) bool { return ap.State == protocol.ApprovalOpen && ap.Digest != "" }) {
			t.Errorf("%s: %+v", name, list)
		}
		return
	}
	t.Fatal("no recorded run was given an open approval")
}
