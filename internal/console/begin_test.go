package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
)

func TestABatchAndAScheduleBeginByTheirForms(t *testing.T) {
	f := &fakeAPI{answers: map[string]string{"POST /v1/batches/b": `{"id":"b","total":2}`, "POST /v1/schedules/nightly": `{"name":"nightly"}`}}
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	for _, one := range []struct {
		at   string
		form url.Values
		to   string
		sent []string
	}{
		{"/batches", url.Values{"key": {"k"}, "id": {" b "}, "text": {"Look at {{item}}."}, "items": {"one\r\n\r\n  two \n"}, "window": {"5"}, "stop_after": {"0"}, "seed": {"team"}, "labels": {"gpu mem>=32"}}, "/batches/b",
			[]string{"POST /v1/batches/b", "Idempotency-Key: k", `"items":[{"id":"1","message":{"text":"Look at one."}},{"id":"2","message":{"text":"Look at two."}}]`, `"window":5`, `"defaults":{"labels":["gpu","mem\u003e=32"],"seed":"team"}`}},
		{"/schedules", url.Values{"key": {"k"}, "name": {"nightly"}, "how": {"cron"}, "when": {"0 4 * * *"}, "tz": {"UTC"}, "overlap": {"skip"}, "text": {"Tidy up."}, "host": {"web-1"}, "paused": {"1"}}, "/schedules/nightly",
			[]string{"POST /v1/schedules/nightly", `"cron":["0 4 * * *"]`, `"overlap":"skip"`, `"paused":true`, `"session":{"host":"web-1","message":{"text":"Tidy up."}}`, `"tz":"UTC"`}},
		{"/schedules", url.Values{"name": {"nightly"}, "how": {"every"}, "when": {"6h"}, "text": {"Tidy {{item}}."}, "items": {"a\nb"}, "seed": {"team"}}, "/schedules/nightly",
			[]string{`"every":["6h"]`, `"batch":{"defaults":{"seed":"team"},"items":[{"id":"1","message":{"text":"Tidy a."}}`}},
	} {
		f.sent = nil
		w := ask(c, "POST", one.at, cookie, one.form)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != one.to || len(f.sent) != 1 {
			t.Errorf("%v is answered %d and leads to %q: %.300s", one.form, w.Code, w.Header().Get("Location"), w.Body)
			continue
		}
		for _, word := range one.sent {
			if !strings.Contains(f.sent[0], word) {
				t.Errorf("%v sends %q, without %q", one.form, f.sent[0], word)
			}
		}
	}
}

// A form that does not count says why, and has what was typed. Nothing is sent to the API.
func TestAFormThatDoesNotCountSaysWhy(t *testing.T) {
	f := &fakeAPI{}
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	for _, one := range []struct {
		at   string
		form url.Values
		says string
	}{
		{"/batches", url.Values{"id": {"B"}, "text": {"typed"}, "items": {"a"}}, "the id of a batch"},
		{"/batches", url.Values{"id": {"b"}, "text": {"typed"}}, "it has no items"},
		{"/batches", url.Values{"id": {"b"}, "items": {"typed"}}, "what codex is to do"},
		{"/batches", url.Values{"id": {"b"}, "text": {"typed"}, "items": {"a\nb"}}, "would do the same"},
		{"/batches", url.Values{"id": {"b"}, "text": {"typed {{item}}"}, "items": {"a\nb"}, "window": {"many"}}, "is not a number"},
		{"/batches", url.Values{"id": {"b"}, "text": {"typed {{item}}"}, "items": {strings.Repeat("a\n", maxItems+1)}}, "more than 10000 items"},
		{"/batches", url.Values{"id": {"b"}, "text": {"typed {{item}}" + strings.Repeat("x", 2<<10)}, "items": {strings.Repeat("a\n", maxItems)}}, "more than 16 MiB together"},
		{"/batches", url.Values{"id": {"b"}, "text": {"typed " + strings.Repeat("{{item}}", 1<<10)}, "items": {strings.Repeat("x", 1<<15)}}, "more than 16 MiB together"},
		{"/schedules", url.Values{"name": {"s"}, "when": {"6h"}, "text": {"typed {{item}}" + strings.Repeat("x", 2<<10)}, "items": {strings.Repeat("a\n", maxItems)}}, "more than 16 MiB together"},
		{"/schedules", url.Values{"name": {"a/b"}, "text": {"typed"}, "when": {"6h"}}, "the name of a schedule"},
		{"/schedules", url.Values{"name": {"s"}, "text": {"typed"}}, "does not say when"},
		{"/schedules", url.Values{"name": {"s"}, "when": {"typed"}}, "what codex is to do"},
	} {
		w := ask(c, "POST", one.at, cookie, one.form)
		if body := w.Body.String(); w.Code != http.StatusBadRequest || !strings.Contains(body, one.says) || !strings.Contains(body, "typed") {
			t.Errorf("%.200v is answered %d: %.400s", one.form, w.Code, body)
		}
	}
	if len(f.sent) > 0 {
		t.Errorf("the API was asked: %q", f.sent)
	}
	f.may = func(_ string, verb access.Verb) bool { return verb == access.SessionRead }
	for _, path := range []string{"/batches/new", "/schedules/new", "/sessions/new"} {
		if w := ask(c, "GET", path, cookie, nil); w.Code != http.StatusForbidden {
			t.Errorf("GET %s of a viewer is answered %d", path, w.Code)
		}
	}
}

// Whoever may not begin something is told so before the form is looked at, and keeps what was typed.
func TestAFormOfSomebodyWhoMayNotBeginIsNotLookedAt(t *testing.T) {
	f := &fakeAPI{may: func(_ string, verb access.Verb) bool { return verb == access.SessionRead }}
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	for at, verb := range map[string]access.Verb{"/sessions": access.SessionStart, "/batches": access.BatchRun, "/schedules": access.ScheduleWrite} {
		w := ask(c, "POST", at, cookie, url.Values{"id": {"B"}, "name": {"B"}, "text": {"typed"}})
		if body := w.Body.String(); w.Code != http.StatusForbidden || !strings.Contains(body, string(verb)) || !strings.Contains(body, "typed") {
			t.Errorf("POST %s of a viewer is answered %d: %.400s", at, w.Code, body)
		}
	}
	if len(f.sent) > 0 {
		t.Errorf("the API was asked: %q", f.sent)
	}
}

// refusingAPI answers each POST with a status, though it may have done what was asked.
type refusingAPI struct {
	*fakeAPI
	status int
}

func (a *refusingAPI) Inside(p api.Person) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			a.fakeAPI.Inside(p).ServeHTTP(w, r)
			return
		}
		w.WriteHeader(a.status)
	})
}

var keyField = regexp.MustCompile(`name="key" value="([^"]*)"`)

// After an answer that leaves open whether something began, the next click has the same key, so that
// it does not begin twice. After a refusal the form has another key, for its other content.
func TestAFormKeepsItsKeyWhileItIsUnknownWhetherSomethingBegan(t *testing.T) {
	f := &refusingAPI{fakeAPI: &fakeAPI{answers: map[string]string{
		"GET /v1/sessions/s": `{"id":"s","state":"idle"}`, "GET /v1/sessions/s/entries": `{"items":[]}`, "GET /v1/hosts/web-1": `{"name":"web-1","state":"ready"}`,
	}}}
	c := newConsole(f.fakeAPI)
	cookie := loggedIn(t, c, "ann")
	c.opts.API = f
	for status, keeps := range map[int]bool{500: true, 503: true, 504: true, 429: true, 400: false, 403: false, 409: false, 422: false} {
		for at, form := range map[string]url.Values{
			"/sessions":  {"text": {"typed"}},
			"/batches":   {"id": {"b"}, "text": {"typed"}, "items": {"a"}},
			"/schedules": {"name": {"s"}, "when": {"6h"}, "how": {"every"}, "text": {"typed"}},
			// These are no forms of what they begin, but the same holds.
			"/sessions/s/message": {"text": {"typed"}},
			"/hosts/web-1/drain":  {},
		} {
			f.status = status
			form.Set("key", "the-key")
			w := ask(c, "POST", at, cookie, form)
			key := keyField.FindStringSubmatch(w.Body.String())
			if w.Code != status || key == nil || key[1] == "" || (key[1] == "the-key") != keeps {
				t.Errorf("POST %s, which is answered %d, is shown with status %d and key %q", at, status, w.Code, key)
			}
			form.Del("key")
			w = ask(c, "POST", at, cookie, form)
			if key = keyField.FindStringSubmatch(w.Body.String()); key == nil || key[1] == "" {
				t.Errorf("POST %s without a key, which is answered %d, is shown with key %q", at, status, key)
			}
		}
	}
}
