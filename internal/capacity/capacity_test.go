package capacity

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var usual = Limits{Pumps: 1000, Watches: 1000, Bulk: 200, Commands: 200, Short: 400}

// counted are the events that are actions.
var counted = []string{"EVENT_TYPE_WORKFLOW_EXECUTION_STARTED", "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED", "EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED", "EVENT_TYPE_TIMER_STARTED",
	"EVENT_TYPE_ACTIVITY_TASK_STARTED", "EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES", "EVENT_TYPE_MARKER_RECORDED", "EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED"}

func actions(t *testing.T, history string) (n int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../workflows/testdata/replay/v0.2", history+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var h struct{ Events []struct{ EventType string } }
	if err := json.Unmarshal(data, &h); err != nil {
		t.Fatal(err)
	}
	for _, e := range h.Events {
		if slices.Contains(counted, e.EventType) {
			n++
		}
	}
	return n
}

func TestTheConstantsAreThoseOfRecordedHistories(t *testing.T) {
	for history, want := range map[string]int{
		"turn-by-update":              perSession + perTurn,
		"turn-by-signal":              perSession + perTurn,
		"approval-accepted-by-update": perSession + perTurn + perApproval,
		"accepted-for-the-session":    perSession + 2*perTurn + 2*perApproval,
	} {
		if got := actions(t, history); got != want {
			t.Errorf("%s has %d actions, and the constants give %d", history, got, want)
		}
	}
}

func TestAnEstimateIsTheSumOfItsParts(t *testing.T) {
	l := Load{Hosts: 100, Zones: 2, Outboxes: 1, Sessions: 2000, Running: 1200, SessionsPerHour: 360, TurnsPerHour: 3600, ApprovalsPerHour: 1800, CommandsPerHour: 36}
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	e := Of(l, usual)
	want := 0.1*24 + 1*8 + 0.5*6 + 0.01*9 + 1200*0.25 + 100*0.04 + 2*2.0/300 + 0.25
	if math.Abs(e.ActionsPerSecond-want) > 1e-6 || math.Abs(e.ActionsPerMonth-want*2592000) > 1 {
		t.Errorf("%v actions a second, %v a month; want %v a second", e.ActionsPerSecond, e.ActionsPerMonth, want)
	}
	if e.Workers != 3 || e.GrantsPerSecond != 0.1 || e.MostGrants != 78 {
		t.Errorf("%+v", e)
	}
	needed := map[string]int{}
	for _, s := range e.Slots {
		needed[s.Class] = s.Needed
	}
	for class, n := range map[string]int{"pumps": 1200, "watches": 101, "bulk": 21, "commands": 1, "short": 2} {
		if needed[class] != n {
			t.Errorf("%d slots for %s, want %d", needed[class], class, n)
		}
	}
	if one := Of(Load{Zones: 1}, usual); one.Workers != 1 || one.ActionsPerSecond != perZone {
		t.Errorf("nothing to do takes %+v", one)
	}
}

func TestAnImpossibleLoadIsRefused(t *testing.T) {
	for _, l := range []Load{{}, {Zones: 1, Hosts: -1}, {Zones: 1, Running: 1}, {Zones: 1, Outboxes: 2}, {Zones: 1, TurnsPerHour: -1}} {
		if l.Check() == nil {
			t.Errorf("%+v is possible", l)
		}
	}
}

func TestEachZoneHasAWorker(t *testing.T) {
	if e := Of(Load{Zones: 5, Hosts: 1, Sessions: 1}, usual); e.Workers != 5 {
		t.Errorf("%d workers for 5 zones", e.Workers)
	}
}
