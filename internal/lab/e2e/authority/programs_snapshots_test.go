package authority

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// A program forks a session, and restores a snapshot of it. The new sessions have the conversation
// and the settings of the first one.
func TestAProgramGoesOnFromASessionAndFromASnapshot(t *testing.T) {
	operator, viewer := newProgram(t, "snap-operator", "operator"), newProgram(t, "snap-viewer", "viewer")
	closeLater := func(id string) {
		t.Cleanup(func() {
			if r := e2e.Lab.Ctl(context.Background(), nil, "session", "close", id); r.Code != 0 && r.Code != 6 {
				t.Errorf("close: %v", r)
			}
		})
	}
	var first httpapi.Started
	operator.must(http.StatusCreated, &first, "POST", "/v1/sessions", `{"host":"web-1","seed":"team","sandbox":"read-only","message":{"text":"hello"}}`, "Idempotency-Key", "snap-first")
	closeLater(first.ID)
	var turn protocol.TurnView
	e2e.Until(t, "the end of the turn", func() (bool, error) {
		viewer.must(http.StatusOK, &turn, "GET", "/v1/sessions/"+first.ID+"/turns/1", "")
		return turn.Done(), nil
	})
	var told httpapi.Problem
	if viewer.must(http.StatusForbidden, &told, "POST", "/v1/sessions/"+first.ID+"/fork", "{}"); told.Kind != "forbidden" {
		t.Errorf("who may start nothing: %+v", told)
	}
	if operator.must(http.StatusBadRequest, &told, "POST", "/v1/sessions/"+first.ID+"/fork", `{"dir":"/tmp"}`); !strings.Contains(told.Detail, "dir") {
		t.Errorf("a fork in a folder: %+v", told)
	}

	// A snapshot may take longer than a request waits. The same request waits on.
	var fork, again httpapi.Started
	target, body := "/v1/sessions/"+first.ID+"/fork", `{"id":"`+first.ID+`-f"}`
	e2e.Until(t, "the fork", func() (bool, error) {
		status := operator.do(&fork, "POST", target, body, "Idempotency-Key", "snap-fork")
		return status == http.StatusCreated, nil
	})
	closeLater(fork.ID)
	operator.must(http.StatusCreated, &again, "POST", target, body, "Idempotency-Key", "snap-fork")
	if again.ID != fork.ID || !again.Existing || fork.ID != first.ID+"-f" {
		t.Errorf("the fork is %+v, and again %+v", fork, again)
	}
	operator.must(http.StatusUnprocessableEntity, &told, "POST", target, `{"id":"`+first.ID+`-f","sandbox":"workspace-write"}`, "Idempotency-Key", "snap-fork")

	var list httpapi.Page[snapshots.Manifest]
	viewer.must(http.StatusOK, &list, "GET", "/v1/sessions/"+first.ID+"/snapshots", "")
	if len(list.Items) == 0 {
		t.Fatal("the session has no snapshot")
	}
	snap := list.Items[len(list.Items)-1]
	found := false
	for cursor := ""; ; cursor = "&cursor=" + list.Cursor {
		list = httpapi.Page[snapshots.Manifest]{}
		viewer.must(http.StatusOK, &list, "GET", "/v1/session-snapshots?limit=1"+cursor, "")
		for _, m := range list.Items {
			found = found || m.ID == snap.ID
		}
		if list.Cursor == "" {
			break
		}
	}
	if !found {
		t.Errorf("the list of all has no %s", snap.ID)
	}
	var restored httpapi.Started
	at := "/v1/sessions/" + first.ID + "/snapshots/" + snap.ID
	operator.must(http.StatusCreated, &restored, "POST", at+"/restore", `{"id":"`+first.ID+`-r","model":""}`, "Idempotency-Key", "snap-restore")
	closeLater(restored.ID)
	for _, id := range []string{fork.ID, restored.ID} {
		var acc protocol.MessageAccepted
		operator.must(http.StatusAccepted, &acc, "POST", "/v1/sessions/"+id+"/messages", `{"text":"hello"}`, "Idempotency-Key", "snap-"+id)
		e2e.Until(t, "the turn of "+id, func() (bool, error) {
			viewer.must(http.StatusOK, &turn, "GET", "/v1/sessions/"+id+"/turns/1", "")
			return turn.Done(), nil
		})
		if turn.Status != "completed" {
			t.Errorf("the turn of %s: %+v", id, turn)
		}
		var v protocol.SessionView
		viewer.must(http.StatusOK, &v, "GET", "/v1/sessions/"+id, "")
		if v.Options["sandbox"] != "read-only" || v.Seed != "team" || v.Options["from"] == "" {
			t.Errorf("%s goes on with %v and seed %q", id, v.Options, v.Seed)
		}
	}
	// A snapshot from which nothing goes on is deleted, for those who may.
	viewer.must(http.StatusForbidden, &told, "DELETE", at, "")
}
