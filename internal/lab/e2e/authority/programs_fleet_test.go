package authority

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A program sees and steers over HTTP what sessions run on, and the schedules that somebody made
// with ctl, within its role. Each act is on record for its principal.
func TestAProgramSteersHostsAndSchedulesOverHTTP(t *testing.T) {
	viewer, operator, hosts, admin := newProgram(t, "fleet-viewer", "viewer"), newProgram(t, "fleet-operator", "operator"), newProgram(t, "fleet-hosts", "host-operator"), newProgram(t, "fleet-admin", "admin")
	var all httpapi.Page[protocol.HostView]
	viewer.must(http.StatusOK, &all, "GET", "/v1/hosts", "")
	if !slices.ContainsFunc(all.Items, func(h protocol.HostView) bool { return h.Name == "web-1" && h.Slots > 0 }) {
		t.Errorf("hosts: %+v", all)
	}
	var told httpapi.Problem
	if viewer.must(http.StatusForbidden, &told, "POST", "/v1/hosts/web-1/drain", "{}"); told.Kind != "forbidden" {
		t.Errorf("a viewer drains: %+v", told)
	}
	if viewer.must(http.StatusNotFound, &told, "GET", "/v1/hosts/none", ""); told.Kind != "not_found" || told.Hint == "" {
		t.Errorf("an unknown host: %+v", told)
	}
	var checked httpapi.HostChecked
	hosts.must(http.StatusOK, &checked, "POST", "/v1/hosts/web-1/check", "")
	if !checked.OK || len(checked.Checks) == 0 {
		t.Errorf("check: %+v", checked)
	}
	var drained protocol.DrainView
	for range 2 {
		hosts.must(http.StatusAccepted, &drained, "POST", "/v1/hosts/web-1/drain", `{"how":"park"}`, "Idempotency-Key", "empty it")
	}
	t.Cleanup(func() {
		if r := e2e.Lab.Ctl(context.Background(), nil, "host", "uncordon", "web-1"); r.Code != 0 {
			t.Errorf("uncordon: %v", r)
		}
	})
	if drained.Drain == nil || drained.Drain.By != "token:fleet-hosts" {
		t.Errorf("drain: %+v", drained)
	}
	if hosts.must(http.StatusUnprocessableEntity, &told, "POST", "/v1/hosts/web-1/drain", `{"how":"move"}`, "Idempotency-Key", "empty it"); told.Kind != "key_reused" {
		t.Errorf("another request with the key: %+v", told)
	}
	drained = protocol.DrainView{}
	hosts.must(http.StatusOK, &drained, "POST", "/v1/hosts/web-1/undrain", "")
	if drained.Drain != nil || drained.State == "draining" {
		t.Errorf("undrain: %+v", drained)
	}
	var pools httpapi.Page[protocol.PoolView]
	viewer.must(http.StatusOK, &pools, "GET", "/v1/pools", "")
	if len(pools.Items) == 0 || pools.Items[0].Slots == 0 {
		t.Errorf("pools: %+v", pools)
	}
	var seed protocol.SeedView
	viewer.must(http.StatusOK, &seed, "GET", "/v1/seeds/team", "")
	if seed.Name != "team" || len(seed.Files) == 0 {
		t.Errorf("seed: %+v", seed)
	}

	const weekly = `{"cron":["0 4 * * 6"],"session":{"host":"web-1","seed":"team","message":{"text":"hello"}}}`
	var v protocol.ScheduleView
	operator.must(http.StatusCreated, &v, "POST", "/v1/schedules/http-weekly", weekly)
	if v.By != "token:fleet-operator" || len(v.Next) == 0 {
		t.Errorf("created: %+v", v)
	}
	if operator.must(http.StatusConflict, &told, "POST", "/v1/schedules/http-weekly", weekly); told.Kind != "refused" {
		t.Errorf("created again: %+v", told)
	}
	if operator.must(http.StatusBadRequest, &told, "POST", "/v1/schedules/http-no", `{"cron":["0 25 * * *"],"session":{"host":"web-1","message":{"text":"hello"}}}`); told.Kind != "bad_input" || strings.Contains(told.Detail, "--") {
		t.Errorf("no hour of a day: %+v", told)
	}
	if viewer.must(http.StatusForbidden, &told, "POST", "/v1/schedules/http-no", weekly); told.Kind != "forbidden" {
		t.Errorf("a viewer creates: %+v", told)
	}
	if viewer.must(http.StatusForbidden, &told, "POST", "/v1/schedules/http-weekly/pause", ""); told.Kind != "forbidden" {
		t.Errorf("a viewer pauses: %+v", told)
	}
	operator.must(http.StatusOK, &v, "POST", "/v1/schedules/http-weekly/pause", `{"reason":"release week"}`)
	if !v.Paused || v.Note != "paused by token:fleet-operator: release week" {
		t.Errorf("paused: %+v", v)
	}
	operator.must(http.StatusOK, &v, "POST", "/v1/schedules/http-weekly/resume", "")
	if v.Paused || len(v.Next) == 0 {
		t.Errorf("resumed: %+v", v)
	}
	var began httpapi.Triggered
	operator.must(http.StatusOK, &began, "POST", "/v1/schedules/http-weekly/trigger", "", "Idempotency-Key", "now")
	if began.ID == nil || !strings.HasPrefix(*began.ID, "http-weekly-") {
		t.Fatalf("triggered: %+v", began)
	}
	if operator.must(http.StatusConflict, &told, "POST", "/v1/schedules/http-weekly/trigger", "", "Idempotency-Key", "now"); told.Kind != "refused" {
		t.Errorf("triggered again with the key: %+v", told)
	}
	e2e.Until(t, "the end of what began", func() (bool, error) {
		viewer.must(http.StatusOK, &v, "GET", "/v1/schedules/http-weekly", "")
		return len(v.Recent) > 0 && v.Recent[0].State == "completed", nil
	})
	var gone protocol.ScheduleDeleted
	operator.must(http.StatusOK, &gone, "DELETE", "/v1/schedules/http-weekly", "")
	viewer.must(http.StatusNotFound, &told, "GET", "/v1/schedules/http-weekly", "")

	var records httpapi.Page[audit.Record]
	admin.must(http.StatusOK, &records, "GET", "/v1/audit/records?workflow=schedule/http-weekly&limit=500", "")
	for _, act := range []string{protocol.SchedulePause, protocol.ScheduleResume, protocol.ScheduleTrigger, protocol.ScheduleDelete} {
		if !slices.ContainsFunc(records.Items, func(r audit.Record) bool {
			return r.Principal == "token:fleet-operator" && strings.Contains(r.Entity+r.Object+r.Reason, act) && r.Outcome == audit.Accepted
		}) {
			t.Errorf("%s is not on record: %+v", act, records.Items)
		}
	}
	var verdict audit.Verified
	admin.must(http.StatusOK, &verdict, "GET", "/v1/audit/verify?workflow=schedule/http-weekly", "")
	if !verdict.Holds || verdict.Records == 0 {
		t.Errorf("verify: %+v", verdict)
	}
	resp, err := admin.request(e2e.Within(t), "GET", "/v1/audit/export?workflow=pool/default", "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	sum := sha256.Sum256(data)
	if err != nil || len(data) == 0 || resp.Header.Get("Fairlead-Sha256") != hex.EncodeToString(sum[:]) {
		t.Errorf("export: %v, %d bytes, digest %s", err, len(data), resp.Header.Get("Fairlead-Sha256"))
	}
	viewer.must(http.StatusForbidden, &told, "GET", "/v1/audit/records", "")
}

// A program runs a batch over HTTP and reads what became of each item. The same request again is
// the same batch.
func TestAProgramRunsABatchOverHTTP(t *testing.T) {
	operator, viewer := newProgram(t, "batch-operator", "operator"), newProgram(t, "batch-viewer", "viewer")
	const body = `{"window":2,"defaults":{"host":"web-1","seed":"team"},"items":[{"id":"one","message":{"text":"hello"}},{"id":"two","message":{"text":"hello"}}]}`
	var told httpapi.Problem
	if viewer.must(http.StatusForbidden, &told, "POST", "/v1/batches/http-batch", body); told.Kind != "forbidden" {
		t.Errorf("a viewer runs it: %+v", told)
	}
	if operator.must(http.StatusNotFound, &told, "POST", "/v1/batches/http-none", `{"items":[{"id":"one","message":{"text":"hello"},"session":{"host":"nowhere"}}]}`); !strings.Contains(told.Detail, "items[0]") {
		t.Errorf("an unknown host: %+v", told)
	}
	var first, again httpapi.StartedBatch
	operator.must(http.StatusCreated, &first, "POST", "/v1/batches/http-batch", body, "Idempotency-Key", "batch")
	operator.must(http.StatusCreated, &again, "POST", "/v1/batches/http-batch", body, "Idempotency-Key", "batch")
	if first.Existing || !again.Existing || again.Total != 2 {
		t.Errorf("started %+v, again %+v", first, again)
	}
	if operator.must(http.StatusUnprocessableEntity, &told, "POST", "/v1/batches/http-batch", strings.Replace(body, "two", "three", 1), "Idempotency-Key", "batch"); told.Kind != "key_reused" {
		t.Errorf("another batch with the key: %+v", told)
	}
	var v protocol.BatchShown
	e2e.Until(t, "the end of the batch", func() (bool, error) {
		viewer.must(http.StatusOK, &v, "GET", "/v1/batches/http-batch", "")
		return protocol.BatchOver(v.State), nil
	})
	if v.Done != 2 || v.By != "token:batch-operator" {
		t.Errorf("batch: %+v", v)
	}
	var results httpapi.Page[protocol.BatchResult]
	viewer.must(http.StatusOK, &results, "GET", "/v1/batches/http-batch/results?limit=1", "")
	if len(results.Items) != 1 || results.Cursor == "" {
		t.Fatalf("results: %+v", results)
	}
	was := results.Items[0].Item
	viewer.must(http.StatusOK, &results, "GET", "/v1/batches/http-batch/results?limit=1&cursor="+results.Cursor, "")
	if len(results.Items) != 1 || results.Items[0].Item == was || results.Items[0].State != protocol.ItemCompleted {
		t.Errorf("the second result: %+v, the first was of %s", results, was)
	}
	if operator.must(http.StatusConflict, &told, "POST", "/v1/batches/http-batch/cancel", ""); told.Kind != "refused" {
		t.Errorf("cancelled when it had ended: %+v", told)
	}
	var list httpapi.Page[protocol.BatchView]
	viewer.must(http.StatusOK, &list, "GET", "/v1/batches", "")
	if !slices.ContainsFunc(list.Items, func(b protocol.BatchView) bool { return b.ID == "http-batch" }) {
		t.Errorf("batches: %+v", list)
	}
}
