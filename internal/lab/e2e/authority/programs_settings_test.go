package authority

import (
	"context"
	"net/http"
	"testing"

	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A program names a session, bounds it, and puts it away. A late repetition with a key changes nothing
// of what was done since.
func TestAProgramSetsASessionAndPutsItAway(t *testing.T) {
	operator, viewer := newProgram(t, "settings-operator", "operator"), newProgram(t, "settings-viewer", "viewer")
	const id = "settings-1"
	const at = "/v1/sessions/" + id
	var started httpapi.Started
	operator.must(http.StatusCreated, &started, "POST", "/v1/sessions", `{"id":"`+id+`","host":"web-1","seed":"team","message":{"text":"hello"}}`, "Idempotency-Key", "settings-start")
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "session", "close", id); r.Code != 0 && r.Code != 6 {
			t.Errorf("close: %v", r)
		}
	})
	e2e.Until(t, "the end of the turn", func() (bool, error) {
		var turn protocol.TurnView
		viewer.must(http.StatusOK, &turn, "GET", at+"/turns/1", "")
		return turn.Done(), nil
	})
	var v protocol.SessionView
	var told httpapi.Problem
	viewer.must(http.StatusForbidden, &told, "POST", at+"/settings", `{"name":"mine"}`)
	operator.must(http.StatusAccepted, &v, "POST", at+"/settings", `{"name":"the release","budget":{"turns":7}}`, "Idempotency-Key", "settings-set")
	if v.Name != "the release" || v.Budget == nil || v.Budget.Turns.Limit != 7 {
		t.Errorf("set: %+v, %+v", v, v.Budget)
	}
	operator.must(http.StatusAccepted, &v, "POST", at+"/settings", `{"name":"another"}`)
	operator.must(http.StatusAccepted, &v, "POST", at+"/settings", `{"name":"the release","budget":{"turns":7}}`, "Idempotency-Key", "settings-set")
	if v.Name != "another" {
		t.Errorf("the first request, repeated, sets the name to %q", v.Name)
	}
	var models protocol.ModelsView
	viewer.must(http.StatusOK, &models, "GET", at+"/models", "")
	e2e.Until(t, "the session to be put away", func() (bool, error) {
		operator.must(http.StatusAccepted, &v, "POST", at+"/archive", "", "Idempotency-Key", "settings-archive")
		return v.Archived, nil
	})
	operator.must(http.StatusAccepted, &v, "POST", at+"/unarchive", "", "Idempotency-Key", "settings-unarchive")
	operator.must(http.StatusAccepted, &v, "POST", at+"/archive", "", "Idempotency-Key", "settings-archive")
	v = protocol.SessionView{}
	viewer.must(http.StatusOK, &v, "GET", at, "")
	if v.Archived {
		t.Error("the archiving, repeated, puts the session away again")
	}
}

// A program looks after the hosts of a zone, and pauses it.
func TestAProgramLooksAfterHostsAndAZone(t *testing.T) {
	hosts, viewer := newProgram(t, "set-hosts", "host-operator"), newProgram(t, "set-hosts-viewer", "viewer")
	var h protocol.HostView
	var told httpapi.Problem
	const at = "/v1/hosts/api-1"
	body := `{"address":"192.0.2.7","host_keys":["SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],"labels":{"team":"api"},"slots":2}`
	viewer.must(http.StatusForbidden, &told, "POST", at, body)
	hosts.must(http.StatusBadRequest, &told, "POST", at, `{"address":"192.0.2.7","host_keys":["trust me"]}`)
	hosts.must(http.StatusCreated, &h, "POST", at, body, "Idempotency-Key", "host-add")
	if h.Name != "api-1" || h.Slots != 2 || h.Labels["team"] != "api" {
		t.Errorf("added: %+v", h)
	}
	var d protocol.DrainView
	hosts.must(http.StatusOK, &d, "POST", at+"/settings", `{"labels":{"gpu":"no"},"unlabel":["team"],"slots":3}`, "Idempotency-Key", "host-set")
	if d.Slots != 3 || d.Labels["gpu"] != "no" || d.Labels["team"] != "" {
		t.Errorf("set: %+v", d.HostView)
	}
	if hosts.must(http.StatusOK, &d, "POST", at+"/cordon", ""); d.State != "cordoned" {
		t.Errorf("cordoned: %+v", d.HostView)
	}
	hosts.must(http.StatusOK, &h, "DELETE", at, "")
	hosts.must(http.StatusNotFound, &told, "GET", at, "")

	var p protocol.PoolView
	const zone = "/v1/pools/default"
	t.Cleanup(func() { hosts.do(new(protocol.PoolView), "POST", zone+"/resume", "") })
	viewer.must(http.StatusForbidden, &told, "POST", zone+"/pause", "")
	if hosts.must(http.StatusOK, &p, "POST", zone+"/pause", `{"reason":"the model is down"}`, "Idempotency-Key", "zone-pause"); p.Paused == nil {
		t.Errorf("paused: %+v", p)
	}
	p = protocol.PoolView{}
	if hosts.must(http.StatusOK, &p, "POST", zone+"/resume", "", "Idempotency-Key", "zone-resume"); p.Paused != nil {
		t.Errorf("resumed: %+v", p)
	}
	p = protocol.PoolView{}
	if hosts.must(http.StatusOK, &p, "POST", zone+"/pause", `{"reason":"the model is down"}`, "Idempotency-Key", "zone-pause"); p.Paused != nil {
		t.Errorf("the pause, repeated, pauses the zone again: %+v", p)
	}
}
