package authority

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// What changes a schedule can be said again with its key: the same request has the same result,
// and another one with the key is refused.
func TestARequestAboutAScheduleIsCarriedOutOnce(t *testing.T) {
	operator := newProgram(t, "keyed-schedules", "operator")
	const at = "/v1/schedules/keyed"
	body := `{"every":["24h"],"session":{"host":"web-1","seed":"team","message":{"text":"hello"}}}`
	var made, again protocol.ScheduleView
	operator.must(http.StatusCreated, &made, "POST", at, body, "Idempotency-Key", "schedule")
	t.Cleanup(func() { operator.do(new(protocol.ScheduleDeleted), "DELETE", at, "") })
	operator.must(http.StatusCreated, &again, "POST", at, body, "Idempotency-Key", "schedule")
	if again.Name != made.Name || !again.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("again: %+v, at first %+v", again, made)
	}
	var told httpapi.Problem
	if operator.must(http.StatusUnprocessableEntity, &told, "POST", at, `{"every":["12h"],"session":{"host":"web-1","seed":"team","message":{"text":"hello"}}}`, "Idempotency-Key", "schedule"); told.Kind != "key_reused" {
		t.Errorf("another schedule with the key: %+v", told)
	}
	if operator.must(http.StatusConflict, &told, "POST", at, body); told.Kind != "refused" {
		t.Errorf("without the key: %+v", told)
	}
	for range 2 {
		if operator.must(http.StatusOK, &again, "POST", at+"/pause", `{"reason":"release week"}`, "Idempotency-Key", "pause"); !again.Paused {
			t.Errorf("paused: %+v", again)
		}
	}
	operator.must(http.StatusUnprocessableEntity, &told, "POST", at+"/pause", `{"reason":"another"}`, "Idempotency-Key", "pause")
	for range 2 {
		if operator.must(http.StatusOK, &again, "POST", at+"/resume", "", "Idempotency-Key", "resume"); again.Paused {
			t.Errorf("resumed: %+v", again)
		}
	}
	operator.must(http.StatusUnprocessableEntity, &told, "POST", at+"/resume", "", "Idempotency-Key", "pause")
}

// A request with a key that comes again, late, changes nothing of what others did since.
func TestALateRepetitionChangesNoSchedule(t *testing.T) {
	operator := newProgram(t, "late-schedules", "operator")
	const at = "/v1/schedules/late"
	body := `{"every":["24h"],"session":{"host":"web-1","seed":"team","message":{"text":"hello"}}}`
	var v protocol.ScheduleView
	var told httpapi.Problem
	operator.must(http.StatusCreated, &v, "POST", at, body, "Idempotency-Key", "late-create")
	t.Cleanup(func() { operator.do(new(protocol.ScheduleDeleted), "DELETE", at, "") })
	for _, step := range []struct {
		act, key string
		paused   bool
	}{
		{"pause", "late-pause", true}, {"pause", "late-pause", true}, {"resume", "late-resume", false}, {"pause", "late-pause", false}, {"resume", "late-resume", false},
		{"pause", "late-pause-2", true}, {"resume", "late-resume", true}, {"pause", "late-pause", true}, {"resume", "", false}, {"pause", "late-pause-2", false},
	} {
		if operator.must(http.StatusOK, &v, "POST", at+"/"+step.act, "", "Idempotency-Key", step.key); v.Paused != step.paused {
			t.Fatalf("after %s with key %q: paused %v, want %v", step.act, step.key, v.Paused, step.paused)
		}
	}
	created := v.CreatedAt
	operator.must(http.StatusCreated, &v, "POST", at, body, "Idempotency-Key", "late-create")
	if !v.CreatedAt.Equal(created) || v.Paused {
		t.Errorf("created again: %+v", v)
	}
	operator.must(http.StatusOK, new(protocol.ScheduleDeleted), "DELETE", at, "")
	if operator.must(http.StatusConflict, &told, "POST", at, body, "Idempotency-Key", "late-create"); told.Kind != "refused" || !strings.Contains(told.Detail, "deleted since") {
		t.Errorf("created again after it was deleted: %+v", told)
	}
	operator.must(http.StatusNotFound, &told, "GET", at, "")
	operator.must(http.StatusCreated, &v, "POST", at, body, "Idempotency-Key", "late-create-2")
	if operator.must(http.StatusConflict, &told, "POST", at, body, "Idempotency-Key", "late-create"); told.Kind != "refused" {
		t.Errorf("created again after another request did: %+v", told)
	}
}

// Several requests with one key at the same time are one.
func TestRequestsWithOneKeyAtTheSameTimePauseOnce(t *testing.T) {
	operator := newProgram(t, "same-schedules", "operator")
	const at = "/v1/schedules/same"
	body := `{"every":["24h"],"session":{"host":"web-1","seed":"team","message":{"text":"hello"}}}`
	t.Cleanup(func() { operator.do(new(protocol.ScheduleDeleted), "DELETE", at, "") })
	within := e2e.Within(t)
	for _, step := range []struct {
		status       int
		target, body string
	}{{http.StatusCreated, at, body}, {http.StatusOK, at + "/pause", "{}"}} {
		var all sync.WaitGroup
		views := make([]protocol.ScheduleView, 4)
		statuses := make([]int, len(views))
		for i := range views {
			all.Go(func() {
				// Temporal answers few questions about one schedule at the same time.
				for (statuses[i] == 0 || statuses[i] == http.StatusServiceUnavailable) && within.Err() == nil {
					statuses[i] = operator.do(&views[i], "POST", step.target, step.body, "Idempotency-Key", "same"+step.target)
				}
			})
		}
		all.Wait()
		for i, v := range views {
			if statuses[i] != step.status || v.Name != "same" || !v.CreatedAt.Equal(views[0].CreatedAt) || v.Paused != (step.target != at) {
				t.Errorf("%s: status %d, %+v", step.target, statuses[i], v)
			}
		}
	}
}
