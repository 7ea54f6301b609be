package authority

import (
	"net/http"
	"testing"

	"fairlead.dev/fairlead/internal/httpapi"
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
