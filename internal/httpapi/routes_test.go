package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// A contract is the served OpenAPI document.
type contract struct {
	*testing.T
	doc      map[string]any
	compiler *jsonschema.Compiler
}

const docURL = "https://worker/openapi.json"

// contractOf makes the schemas strict: the answers of this version have no other fields.
func contractOf(p *place) *contract {
	p.Helper()
	r := p.ask("", http.MethodGet, "/openapi.json", "")
	if r.status != http.StatusOK {
		p.Fatalf("the document: %d %s", r.status, r.body)
	}
	c := &contract{T: p.T, compiler: jsonschema.NewCompiler()}
	if err := json.Unmarshal(r.body, &c.doc); err != nil {
		p.Fatal(err)
	}
	if c.doc["openapi"] != "3.1.0" {
		p.Errorf("openapi %v", c.doc["openapi"])
	}
	for _, s := range c.doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if s := s.(map[string]any); s["properties"] != nil && s["additionalProperties"] == nil {
			s["additionalProperties"] = false
		}
	}
	c.compiler.AssertFormat()
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := c.compiler.AddResource(docURL, c.doc); err != nil {
		p.Fatal(err)
	}
	return c
}

// holds checks an answer by what the document says of its operation and status.
func (c *contract) holds(method, pattern string, r reply) {
	c.Helper()
	op, _ := c.at("paths", pattern, strings.ToLower(method)).(map[string]any)
	if op == nil {
		c.Errorf("%s %s is not in the document", method, pattern)
		return
	}
	status := fmt.Sprint(r.status)
	responses := op["responses"].(map[string]any)
	if responses[status] == nil {
		status = "default"
	}
	kind := r.header.Get("Content-Type")
	if c.at("paths", pattern, strings.ToLower(method), "responses", status, "content", kind) == nil {
		c.Errorf("%s %s: the document has no answer of status %d and type %s", method, pattern, r.status, kind)
		return
	}
	if !strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "ndjson") {
		return
	}
	pointer := "#"
	for _, part := range []string{"paths", pattern, strings.ToLower(method), "responses", status, "content", kind, "schema"} {
		pointer += "/" + url.PathEscape(strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	schema, err := c.compiler.Compile(docURL + pointer)
	if err != nil {
		c.Fatalf("%s %s: %v", method, pattern, err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(r.body)))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		c.Errorf("%s %s, status %d: %v\n%s", method, pattern, r.status, err, r.body)
	}
}

func (c *contract) at(path ...string) any {
	var v any = c.doc
	for _, part := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[part]
	}
	return v
}

var digest = strings.Repeat("a", 64)

// requests has one request for each operation, and the roles that may make it.
var requests = []struct {
	method, pattern, target, body string
	status                        int
	roles                         []string
	header                        []string
}{
	{"POST", "/v1/sessions", "", `{"host":"web-1","labels":["gpu"],"message":{"text":"hello"},"budget":{"tokens":5}}`, 201, []string{"operator"}, nil},
	{"POST", "/v1/sessions", "", `{"repo":{"url":"https://git.example.com/app.git","token":"t"},"hooks":{"before_run":"make"},"follow_ups":[{"name":"review","prompt":"look","after":{"turns":1}}],"profile":"narrow","network":"off","quiet_timeout":"0s","team_tools":"tools: []"}`, 201, []string{"operator"}, nil},
	{"GET", "/v1/sessions", "", "", 200, everybody, nil},
	{"GET", "/v1/sessions/{id}", "/v1/sessions/s1", "", 200, everybody, nil},
	{"POST", "/v1/sessions/{id}/messages", "/v1/sessions/s1/messages", `{"text":"more"}`, 202, []string{"operator"}, nil},
	{"GET", "/v1/sessions/{id}/turns/{n}", "/v1/sessions/s1/turns/1", "", 200, everybody, nil},
	{"POST", "/v1/sessions/{id}/interrupt", "/v1/sessions/s1/interrupt", `{"reason":"stop"}`, 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/close", "/v1/sessions/s1/close", "", 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/park", "/v1/sessions/s1/park", "{}", 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/resume", "/v1/sessions/s1/resume", `{"host":"web-2"}`, 202, []string{"operator"}, nil},
	{"GET", "/v1/sessions/{id}/entries", "/v1/sessions/s1/entries", "", 200, everybody, nil},
	{"GET", "/v1/sessions/{id}/delivered", "/v1/sessions/s1/delivered", "", 200, everybody, nil},
	{"GET", "/v1/sessions/{id}/delivered/{call}", "/v1/sessions/s1/delivered/i1.7", "", 404, everybody, nil},
	{"GET", "/v1/sessions/{id}/snapshots", "/v1/sessions/s1/snapshots", "", 200, everybody, nil},
	{"POST", "/v1/sessions/{id}/snapshots", "/v1/sessions/s1/snapshots", "", 202, []string{"operator"}, nil},
	{"GET", "/v1/sessions/{id}/snapshots/{snapshot}", "/v1/sessions/s1/snapshots/s1.snap-20261129t120000-abcdef", "", 404, everybody, nil},
	{"DELETE", "/v1/sessions/{id}/snapshots/{snapshot}", "/v1/sessions/s1/snapshots/s1.snap-20261129t120000-abcdef", "", 404, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/snapshots/{snapshot}/restore", "/v1/sessions/s1/snapshots/s1.snap-20261129t120000-abcdef/restore", `{"id":"s1b","host":"web-2"}`, 201, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/fork", "/v1/sessions/s1/fork", "", 201, []string{"operator"}, nil},
	{"GET", "/v1/session-snapshots", "", "", 200, everybody, nil},
	{"GET", "/v1/hosts", "/v1/hosts?zone=eu", "", 200, everybody, nil},
	{"GET", "/v1/hosts/{name}", "/v1/hosts/web-1", "", 200, everybody, nil},
	{"POST", "/v1/hosts/{name}/check", "/v1/hosts/web-1/check", "", 200, []string{"host-operator"}, nil},
	{"POST", "/v1/hosts/{name}/drain", "/v1/hosts/web-1/drain", `{"how":"move"}`, 202, []string{"host-operator"}, nil},
	{"POST", "/v1/hosts/{name}/undrain", "/v1/hosts/web-1/undrain", "", 200, []string{"host-operator"}, nil},
	{"GET", "/v1/pools", "", "", 200, everybody, nil},
	{"GET", "/v1/pools/{zone}", "/v1/pools/eu", "", 200, everybody, nil},
	{"GET", "/v1/seeds", "/v1/seeds?pool=logins", "", 200, everybody, nil},
	{"GET", "/v1/seeds/{name}", "/v1/seeds/team", "", 200, everybody, nil},
	{"GET", "/v1/batches", "/v1/batches?schedule=weekly", "", 200, everybody, nil},
	{"GET", "/v1/batches/{id}", "/v1/batches/nightly", "", 200, everybody, nil},
	{"GET", "/v1/batches/{id}/results", "/v1/batches/nightly/results?from=1", "", 200, everybody, nil},
	{"POST", "/v1/batches/{id}", "/v1/batches/nightly", `{"window":2,"retry":{"attempts":2,"on":["network"]},"defaults":{"host":"web-1"},"items":[{"id":"api","message":{"text":"hello"}},{"id":"web","message":{"text":"hello"},"session":{"host":"web-2"}}]}`, 201, []string{"operator"}, nil},
	{"POST", "/v1/schedules/{name}", "/v1/schedules/weekly", `{"cron":["0 4 * * 6"],"session":{"host":"web-1","message":{"text":"hello"}}}`, 201, []string{"operator"}, nil},
	{"POST", "/v1/batches/{id}/cancel", "/v1/batches/nightly/cancel", `{"discard":true}`, 202, []string{"operator"}, nil},
	{"GET", "/v1/schedules", "", "", 200, everybody, nil},
	{"GET", "/v1/schedules/{name}", "/v1/schedules/weekly", "", 200, everybody, nil},
	{"POST", "/v1/schedules/{name}/pause", "/v1/schedules/weekly/pause", `{"reason":"release week"}`, 200, []string{"operator"}, nil},
	{"POST", "/v1/schedules/{name}/resume", "/v1/schedules/weekly/resume", "", 200, []string{"operator"}, nil},
	{"POST", "/v1/schedules/{name}/trigger", "/v1/schedules/weekly/trigger", `{"overlap":"allow-all"}`, 200, []string{"operator"}, nil},
	{"DELETE", "/v1/schedules/{name}", "/v1/schedules/weekly?close=true", "", 200, []string{"operator"}, nil},
	{"GET", "/v1/audit/records", "/v1/audit/records?session=s1&since=24h", "", 200, nil, nil},
	{"GET", "/v1/audit/verify", "/v1/audit/verify?workflow=pool/eu&proofs=true", "", 200, nil, nil},
	{"GET", "/v1/audit/export", "/v1/audit/export", "", 200, nil, nil},
	{"POST", "/v1/sessions/{id}/settings", "/v1/sessions/s1/settings", `{"name":"the release","model":"gpt","budget":{"tokens":5}}`, 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/archive", "/v1/sessions/s1/archive", "", 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/unarchive", "/v1/sessions/s1/unarchive", "", 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/unsend", "/v1/sessions/s1/unsend", `{"message":"m-1"}`, 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/compact", "/v1/sessions/s1/compact", "", 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/review", "/v1/sessions/s1/review", `{"base":"main"}`, 202, []string{"operator"}, nil},
	{"POST", "/v1/sessions/{id}/push", "/v1/sessions/s1/push", `{"branch":"codex/s1"}`, 200, []string{"operator"}, nil},
	{"GET", "/v1/sessions/{id}/models", "/v1/sessions/s1/models", "", 200, everybody, nil},
	{"POST", "/v1/hosts/{name}", "/v1/hosts/web-3", `{"address":"10.0.0.3","host_keys":["SHA256:x"],"labels":{"os":"linux"}}`, 201, []string{"host-operator"}, nil},
	{"POST", "/v1/hosts/{name}/settings", "/v1/hosts/web-1/settings", `{"labels":{"gpu":"no"},"unlabel":["team"],"slots":8}`, 200, []string{"host-operator"}, nil},
	{"POST", "/v1/hosts/{name}/cordon", "/v1/hosts/web-1/cordon", "", 200, []string{"host-operator"}, nil},
	{"DELETE", "/v1/hosts/{name}", "/v1/hosts/web-1?force=true", "", 200, []string{"host-operator"}, nil},
	{"POST", "/v1/pools/{zone}/pause", "/v1/pools/eu/pause", `{"reason":"the model is down"}`, 200, []string{"host-operator"}, nil},
	{"POST", "/v1/pools/{zone}/resume", "/v1/pools/eu/resume", "", 200, []string{"host-operator"}, nil},
	{"POST", "/v1/pools/{zone}/settings", "/v1/pools/eu/settings", `{"tenant":"release","weight":4}`, 200, []string{"host-operator"}, nil},
	{"POST", "/v1/seeds/{name}/settings", "/v1/seeds/team/settings", `{"share":2,"pools":["logins"],"bounds":{"sandbox":"read-only"}}`, 200, []string{"seed-admin"}, nil},
	{"POST", "/v1/seeds/{name}/verify", "/v1/seeds/team/verify", "", 200, []string{"seed-admin"}, nil},
	{"POST", "/v1/seeds/{name}/revive", "/v1/seeds/team/revive", "", 200, []string{"seed-admin"}, nil},
	{"DELETE", "/v1/seeds/{name}", "/v1/seeds/team?purge=true", "", 200, []string{"seed-admin"}, nil},
	{"POST", "/v1/batches/{id}/settings", "/v1/batches/nightly/settings", `{"window":50}`, 202, []string{"operator"}, nil},
	{"POST", "/v1/batches/{id}/retry", "/v1/batches/nightly/retry", `{"rest":true}`, 202, []string{"operator"}, nil},
	{"POST", "/v1/schedules/{name}/backfill", "/v1/schedules/weekly/backfill", `{"from":"2026-01-05","to":"2026-01-09T12:00"}`, 200, []string{"operator"}, nil},
	{"GET", "/v1/approvals", "", "", 200, everybody, nil},
	{"GET", "/v1/approvals/{id}", "/v1/approvals/s1.1", "", 200, everybody, nil},
	{"POST", "/v1/approvals/{id}/decision", "/v1/approvals/s1.1/decision", `{"digest":"` + digest + `","outcome":"accept"}`, 200, []string{"approver"}, nil},
	{"POST", "/v1/approvals/{id}/decision", "/v1/approvals/s1.1/decision", `{"digest":"` + digest + `","outcome":"revise","answers":{"comments":"shorter"}}`, 200, []string{"approver"}, nil},
	{"POST", "/v1/inputs", "/v1/inputs?session=s1&name=notes.txt", "hello", 201, []string{"operator"}, upload(octets, "hello")},
	{"POST", "/v1/inputs", "/v1/inputs?batch=nightly&name=notes.txt", "hello", 201, []string{"operator"}, upload(octets, "hello")},
	{"POST", "/v1/inputs", "/v1/inputs?schedule=weekly&name=notes.txt", "hello", 201, []string{"operator"}, upload(octets, "hello")},
	{"POST", "/v1/trees", "/v1/trees?session=s1", aTree("hello"), 201, []string{"operator"}, upload(tarball, aTree("hello"))},
	{"GET", "/v1/sessions/{id}/snapshots/{snapshot}/archive", "/v1/sessions/s1/snapshots/s1.snap-20261129t120000-abcdef/archive", "", 404, everybody, nil},
	{"GET", "/v1/sessions/{id}/work/diff", "/v1/sessions/s1/work/diff", "", 200, everybody, nil},
	{"GET", "/v1/sessions/{id}/work/archive", "/v1/sessions/s1/work/archive?path=notes.txt&while_running=true", "", 200, everybody, nil},
	{"GET", "/v1/sessions/{id}/turns/{n}/diff", "/v1/sessions/s1/turns/1/diff", "", 404, everybody, nil},
}

// everybody has each role. An admin may make each request.
var everybody = []string{"viewer", "operator", "approver", "host-operator", "seed-admin", "admin"}

// Each route answers as the document says, to those who may, and refuses all others on record.
func TestEachRouteAnswersItsRolesAsTheDocumentSays(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	for _, q := range requests {
		target := q.target
		if target == "" {
			target = q.pattern
		}
		for _, role := range append([]string{""}, everybody...) {
			before := len(p.kept())
			r := p.ask(role, q.method, target, q.body, q.header...)
			want := q.status
			switch {
			case role == "":
				want = http.StatusUnauthorized
			case role != "admin" && !slices.Contains(q.roles, role):
				want = http.StatusForbidden
			}
			if r.status != want {
				t.Errorf("%s %s as %q: status %d, want %d: %s", q.method, target, role, r.status, want, r.body)
			}
			c.holds(q.method, q.pattern, r)
			if r.status < 300 && strings.Contains(target, "/s1") && !strings.Contains(string(r.body), `"s1`) && !strings.Contains(string(r.body), `"items":[]`) {
				t.Errorf("%s %s is not about session s1: %s", q.method, target, r.body)
			}
			if want == http.StatusUnauthorized || want == http.StatusForbidden {
				if kind := r.problem(t).Kind; kind != map[int]string{401: "unauthorized", 403: "forbidden"}[want] {
					t.Errorf("%s %s as %q: kind %s", q.method, target, role, kind)
				}
				if len(p.kept()) != before+1 {
					t.Errorf("%s %s as %q: the refusal is not on record", q.method, target, role)
				}
			}
		}
	}
}

// Each POST that changes something can be sent again with a key.
func TestEachChangeTakesAKey(t *testing.T) {
	p := serve(t)
	for pattern, item := range p.api.Document().Paths {
		if item.Post == nil || strings.HasSuffix(pattern, "/check") { // a check changes nothing
			continue
		}
		if !slices.ContainsFunc(item.Post.Parameters, func(q *huma.Param) bool { return q.Name == "Idempotency-Key" }) {
			t.Errorf("POST %s takes no key", pattern)
		}
	}
}

// No operation is without a request in the table above, but the stream.
func TestEachOperationIsTried(t *testing.T) {
	p := serve(t)
	for pattern, item := range p.api.Document().Paths {
		for method, op := range map[string]any{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete, "PATCH": item.Patch} {
			tried := fmt.Sprint(op) == "<nil>" || pattern == "/v1/sessions/{id}/events"
			for _, q := range requests {
				tried = tried || q.pattern == pattern && q.method == method
			}
			if !tried {
				t.Errorf("%s %s is not tried", method, pattern)
			}
		}
	}
}

func TestWrongRequestsAreExplained(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	for want, q := range map[string]struct{ method, pattern, target, body string }{
		"body.colour":                 {"POST", "/v1/sessions", "/v1/sessions", `{"colour":"red"}`},
		"body.priority":               {"POST", "/v1/sessions", "/v1/sessions", `{"priority":"high"}`},
		"body.sandbox":                {"POST", "/v1/sessions", "/v1/sessions", `{"sandbox":"none"}`},
		"close_after needs a message": {"POST", "/v1/sessions", "/v1/sessions", `{"close_after":true}`},
		"required property text":      {"POST", "/v1/sessions/{id}/messages", "/v1/sessions/s1/messages", `{}`},
		"body":                        {"POST", "/v1/sessions/{id}/messages", "/v1/sessions/s1/messages", `nonsense`},
		"items[0].session.message":    {"POST", "/v1/batches/{id}", "/v1/batches/b1", `{"items":[{"id":"a","message":{"text":"x"},"session":{"message":{"text":"y"}}}]}`},
		"body.items[0].colour":        {"POST", "/v1/batches/{id}", "/v1/batches/b1", `{"items":[{"id":"a","message":{"text":"x"},"colour":"red"}]}`},
		"is not a batch id":           {"POST", "/v1/batches/{id}", "/v1/batches/B%201", `{"items":[{"id":"a","message":{"text":"x"}}]}`},
		"body.overlap":                {"POST", "/v1/schedules/{name}/trigger", "/v1/schedules/weekly/trigger", `{"overlap":"sometimes"}`},
		"query.size":                  {"GET", "/v1/sessions", "/v1/sessions?size=3", ""},
		"query.limit":                 {"GET", "/v1/sessions", "/v1/sessions?limit=100000", ""},
		"cursor: it is none":          {"GET", "/v1/sessions", "/v1/sessions?cursor=x", ""},
		"is not a session id":         {"GET", "/v1/sessions/{id}", "/v1/sessions/S%20x", ""},
		"the session's limit":         {"POST", "/v1/sessions/{id}/interrupt", "/v1/sessions/s1/interrupt", `{"reason":"` + strings.Repeat("x", 2<<20) + `"}`},
	} {
		r := p.ask("operator", q.method, q.target, q.body)
		c.holds(q.method, q.pattern, r)
		got := r.problem(t)
		if want == "the session's limit" {
			if r.status != http.StatusRequestEntityTooLarge {
				t.Errorf("a body of 2 MiB: %d %s", r.status, r.body)
			}
			continue
		}
		if r.status/100 != 4 || got.Kind != "bad_input" || !strings.Contains(got.Detail, want) {
			t.Errorf("%s %s %s: %d, %+v, want %s", q.method, q.target, q.body, r.status, got, want)
		}
	}
	if len(p.fake.msgs) != 0 {
		t.Errorf("the workflows were asked: %v", p.fake.msgs)
	}
}

// What workflows refuse has ctl's word, message and hint.
func TestRefusalsHaveTheKindsOfCtl(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	for _, e := range []struct {
		err    error
		status int
		kind   string
	}{
		{errkind.NotFound("show session s1: it does not exist").Hinted("`ctl session list` shows what there is"), 404, "not_found"},
		{errkind.Refused("it is closed"), 409, "refused"},
		{errkind.Unreachable("no worker"), 503, "unreachable"},
		{errkind.TimedOut("no end"), 504, "timed_out"},
		{errkind.New(errkind.ExitRefused, errkind.KeyReused, "the key stands for something else"), 422, "key_reused"},
		{errkind.New(errkind.ExitRefused, protocol.RefusedForbidden, "no"), 403, "forbidden"},
		{errkind.New(errkind.ExitFailed, "no_slots", "never"), 409, "no_slots"},
		{errors.New("surprise"), 500, "internal"},
		{&api.Error{Status: 503, Kind: api.ErrStore, Message: "the store is away"}, 503, "store"},
	} {
		p.fake.err = e.err
		r := p.ask("operator", "POST", "/v1/sessions/s1/messages", `{"text":"x"}`)
		c.holds("POST", "/v1/sessions/{id}/messages", r)
		got := r.problem(t)
		if r.status != e.status || got.Kind != e.kind || got.Detail != e.err.Error() || !strings.HasSuffix(got.Type, "/"+e.kind) {
			t.Errorf("%v: %d %+v", e.err, r.status, got)
		}
	}
}

func TestTheKeyOfARequestIsItsPrincipals(t *testing.T) {
	p := serve(t)
	send := func(role, key string) string {
		r := p.ask(role, "POST", "/v1/sessions/s1/snapshots", "", "Idempotency-Key", key)
		if r.status != 202 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return p.fake.keys[len(p.fake.keys)-1]
	}
	one, again, other := send("operator", "k"), send("operator", "k"), send("operator", "l")
	if one == "" || one != again || one == other {
		t.Errorf("keys %q, %q, %q", one, again, other)
	}
	if none := send("operator", ""); none != "" {
		t.Errorf("without a key: %q", none)
	}
}

func TestListsGoOnAtTheirCursor(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	var page struct {
		Items  []map[string]any `json:"items"`
		Cursor string           `json:"cursor"`
	}
	get := func(target, pattern string) {
		t.Helper()
		page.Items, page.Cursor = nil, ""
		r := p.ask("viewer", "GET", target, "")
		c.holds("GET", pattern, r)
		if err := json.Unmarshal(r.body, &page); err != nil || r.status != 200 {
			t.Fatalf("%s: %d %s", target, r.status, r.body)
		}
	}
	var ids []any
	for next := ""; ; next = "&cursor=" + page.Cursor {
		get("/v1/approvals?limit=2"+next, "/v1/approvals")
		for _, it := range page.Items {
			ids = append(ids, it["id"])
		}
		if page.Cursor == "" {
			break
		}
	}
	if fmt.Sprint(ids) != "[s1.1 s1.2 s2.1]" {
		t.Errorf("approvals %v", ids)
	}
	get("/v1/sessions?limit=1", "/v1/sessions")
	cursor := page.Cursor
	get("/v1/sessions?limit=1&cursor="+cursor, "/v1/sessions") // one that Temporal alone shows
	if len(page.Items) != 1 || page.Items[0]["id"] != "s2" || page.Cursor != "" {
		t.Errorf("second page %+v", page)
	}
	if r := p.ask("viewer", "GET", "/v1/sessions?host=web-1&cursor="+cursor, ""); r.status != 400 {
		t.Errorf("the cursor of another list: %d %s", r.status, r.body)
	}
	for seq := range int64(5) {
		p.publish("s1", seq+1)
	}
	ids = nil
	for next := ""; ; next = "&cursor=" + page.Cursor {
		get("/v1/sessions/s1/entries?limit=2"+next, "/v1/sessions/{id}/entries")
		for _, it := range page.Items {
			ids = append(ids, it["seq"])
		}
		if page.Cursor == "" {
			break
		}
	}
	if fmt.Sprint(ids) != "[1 2 3 4 5]" {
		t.Errorf("entries %v", ids)
	}
}

// publish makes the worker show an entry.
func (p *place) publish(id string, seq int64) {
	p.Helper()
	data, err := json.Marshal(protocol.Entry{Seq: seq, ID: fmt.Sprint("e", seq), At: noon, Turn: 1, Type: protocol.EntryAssistant, Text: fmt.Sprint("text ", seq)})
	if err != nil {
		p.Fatal(err)
	}
	p.hub.Publish(records.SessionTopic(id), records.LiveEvent{Kind: records.LiveEntry, Seq: seq, Data: data})
}

// Where everybody on the machine can connect, programs command nobody without an authority.
func TestWithoutAnAuthorityALoopbackAddressIsRefused(t *testing.T) {
	p := serve(t, func(o *api.Options) { o.Listen, o.Authority, o.Tokens = "127.0.0.1:0", nil, nil })
	if r := p.ask("", "POST", "/v1/sessions", "{}"); r.status != 403 || r.problem(t).Kind != "forbidden" {
		t.Errorf("loopback: %d %s", r.status, r.body)
	}
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	overTLS := func(o *api.Options) {
		o.Listen, o.TLS, o.Authority, o.Tokens = "127.0.0.1:0", certificate.TLS.Clone(), nil, nil
		o.TLS.NextProtos = nil
	}
	p = serve(t, overTLS)
	if r := p.ask("", "POST", "/v1/sessions/s1/close", ""); r.status != 403 || r.problem(t).Kind != "forbidden" || len(p.fake.msgs) > 0 {
		t.Errorf("loopback with TLS: %d %s, %v", r.status, r.body, p.fake.msgs)
	}
	p = serve(t, overTLS, func(o *api.Options) { o.Token = "secret" })
	for token, status := range map[string]int{"Bearer secret": 202, "Bearer guess": 401, "": 401} {
		if r := p.ask("", "POST", "/v1/sessions/s1/close", "", "Authorization", token); r.status != status {
			t.Errorf("loopback with TLS and a token, called with %q: %d %s", token, r.status, r.body)
		}
	}
	p = serve(t, func(o *api.Options) { o.Authority, o.Tokens = nil, nil })
	if r := p.ask("", "POST", "/v1/sessions", "{}"); r.status != 201 {
		t.Errorf("unix socket: %d %s", r.status, r.body)
	}
}

func TestABrowserIsRefused(t *testing.T) {
	p := serve(t)
	if r := p.ask("operator", "POST", "/v1/sessions", "{}", "Origin", "https://evil.example"); r.status != 403 || r.problem(t).Kind != "refused" {
		t.Errorf("%d %s", r.status, r.body)
	}
}
