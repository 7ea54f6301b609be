package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/access"
)

// fleet is an API with one of each, whose texts are hostile.
func fleet() *fakeAPI {
	q := strings.NewReplacer(`"`, `\"`, "\x1b", `\u001b`, "\x07", `\u0007`, "\x00", `\u0000`).Replace(hostile)
	host := `{"name":"web-1","zone":"eu","state":"quarantined","slots":4,"used":3,"address":"` + q + `","user":"` + q + `","codex":"` + q + `","labels":{"k":"` + q + `"},"health":{"reason":"` + q + `","hint":"` + q + `","tries":2},"holders":["s1"],"leftovers":[{"session":"s9","why":"` + q + `","error":"` + q + `"}],"unclean":1}`
	pool := `{"zone":"eu","slots":4,"used":3,"free":1,"waiting":1,"queue":[{"session":"s2","reason":"` + q + `"}]}`
	seed := `{"name":"team","kind":"chatgpt","health":"suspect","state":"held","reason":"` + q + `","held_by":["s1"],"account":{"identity":"` + q + `","rate_limits":{"primary":{"used_percent":91,"window_minutes":300},"secondary":{"used_percent":12,"window_minutes":10080}}},"holders":[{"session":"s1","host":"` + q + `"}]}`
	batch := `{"id":"b","state":"running","total":8,"done":4,"failed":1,"running":2,"queued":1,"why":"` + q + `","failures":[{"item":"` + q + `","session":"b-1","kind":"` + q + `","message":"` + q + `"}],"sessions":[{"item":"` + q + `","session":"b-2"}],"waiting":[{"session":"b-2","approvals":1}]}`
	schedule := `{"name":"nightly","what":"` + q + `","when":["` + q + `"],"overlap":"skip","running":1,"recent":[{"id":"nightly-1","state":"closed","status":"` + q + `","error":"` + q + `"}],"batch":3}`
	list := func(item string) string { return `{"items":[` + item + `]}` }
	return &fakeAPI{answers: map[string]string{
		"GET /v1/hosts": list(host), "GET /v1/hosts/web-1": host, "GET /v1/pools": list(pool), "GET /v1/seeds": list(seed), "GET /v1/seeds/team": seed,
		"GET /v1/batches": list(batch), "GET /v1/batches/b": batch, "GET /v1/batches/b/results": list(`{"n":1,"item":"` + q + `","session":"b-0","state":"completed","final_text":"` + q + `"}`),
		"GET /v1/schedules": list(schedule), "GET /v1/schedules/nightly": schedule,
		"POST /v1/hosts/web-1/drain": `{}`, "POST /v1/hosts/web-1/undrain": `{}`, "POST /v1/hosts/web-1/check": `{"ok":false,"checks":[{"name":"shell","required":true,"detail":"` + q + `"}]}`,
		"POST /v1/batches/b/cancel": `{}`, "POST /v1/schedules/nightly/pause": `{}`, "POST /v1/schedules/nightly/trigger": `{}`, "DELETE /v1/schedules/nightly": `{}`,
	}}
}

func TestPagesOfTheFleetShowHostileTextAndRunNothing(t *testing.T) {
	c := newConsole(fleet())
	cookie := loggedIn(t, c, "ann")
	for path, words := range map[string][]string{
		"/hosts": {"3 of 4", "1 session waits", `aria-label="3 used of 4"`}, "/hosts/web-1?zone=eu": {"quarantined", `href="/hosts/web-1/drain?zone=eu"`},
		"/hosts/web-1/drain?zone=eu": {`action="/hosts/web-1/drain?zone=eu"`, "3 sessions have a slot here"}, "/seeds": {"91 % used", "5 hours", "7 days"}, "/seeds/team": {"suspect"},
		"/batches": {`aria-label="4 done, 1 failed, 2 running of 8"`}, "/batches/b": {"4 done", `href="/sessions/b-0"`, `href="/batches/b/cancel"`}, "/batches/b/cancel": {"2 sessions run"},
		"/schedules": {`href="/schedules/nightly"`}, "/schedules/nightly": {`href="/batches/nightly-1"`}, "/schedules/nightly/delete": {"cannot be brought back"},
	} {
		w := ask(c, "GET", path, cookie, nil)
		body := w.Body.String()
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %.300s", path, w.Code, body)
		}
		for _, word := range words {
			if !strings.Contains(body, word) {
				t.Errorf("%s lacks %q", path, word)
			}
		}
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<img") || strings.ContainsAny(exact.ReplaceAllString(body, ""), "\u202e\x1b\x07\x00\u200b") {
			t.Errorf("%s shows hostile text as it is", path)
		}
		if inline := regexp.MustCompile(`(?i) (style|on[a-z]+)="|<style|javascript:`).FindString(body); inline != "" {
			t.Errorf("%s has %q", path, inline)
		}
	}
}

// A change is made by the form of its question alone, with the key of that form.
func TestAChangeIsAskedForBeforeItIsMade(t *testing.T) {
	f := fleet()
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	for path, says := range map[string]struct {
		form url.Values
		sent string
		to   string
	}{
		"/hosts/web-1/drain?zone=eu": {url.Values{"how": {"move"}}, `{"how":"move"}`, "/hosts/web-1?zone=eu"},
		"/hosts/web-1/drain":         {url.Values{"how": {"explode"}}, `{"how":"park"}`, "/hosts/web-1"},
		"/hosts/web-1/undrain":       {nil, "POST /v1/hosts/web-1/undrain HTTP", "/hosts/web-1"},
		"/batches/b/cancel":          {nil, `{"discard":false}`, "/batches/b"},
		"/schedules/nightly/pause":   {url.Values{"reason": {"holidays"}}, `{"reason":"holidays"}`, "/schedules/nightly"},
		"/schedules/nightly/trigger": {nil, "POST /v1/schedules/nightly/trigger", "/schedules/nightly"},
		"/schedules/nightly/delete":  {nil, "", "/schedules"},
	} {
		f.sent = nil
		if w := ask(c, "GET", path, cookie, nil); w.Code != http.StatusOK || len(f.sent) > 0 {
			t.Errorf("the question at %s: %d, sent %q", path, w.Code, f.sent)
		}
		form := url.Values{"key": {"k1"}}
		for name, values := range says.form {
			form[name] = values
		}
		w := ask(c, "POST", path, cookie, form)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != says.to {
			t.Errorf("%s leads to %d %s: %.300s", path, w.Code, w.Header().Get("Location"), w.Body)
		}
		if says.sent != "" && (len(f.sent) != 1 || !strings.Contains(f.sent[0], says.sent) || !strings.Contains(f.sent[0], "Idempotency-Key: k1")) {
			t.Errorf("%s sends %q", path, f.sent)
		}
	}
	delete(f.answers, "POST /v1/hosts/web-1/drain")
	if w := ask(c, "POST", "/hosts/web-1/drain", cookie, url.Values{"key": {"k2"}}); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `role="alert"`) || !strings.Contains(w.Body.String(), "Drain it") {
		t.Errorf("a change that does not count is answered %d %.300s", w.Code, w.Body)
	}
	if w := ask(c, "POST", "/hosts/web-1/check", cookie, url.Values{}); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "sessions cannot run on web-1") || !strings.Contains(w.Body.String(), "shell") {
		t.Errorf("a check says %d %.300s", w.Code, w.Body)
	}
}

func TestTheNavigationHasWhatAPersonMaySee(t *testing.T) {
	f := fleet()
	f.may = func(who string, verb access.Verb) bool { return who == "ann" || verb == access.SessionRead }
	c := newConsole(f)
	for who, sees := range map[string]bool{"ann": true, "vic": false} {
		cookie := loggedIn(t, c, who)
		body := ask(c, "GET", "/batches", cookie, nil).Body.String()
		for _, path := range []string{"/hosts", "/seeds", "/audit", "/sessions/new"} {
			if strings.Contains(body, `<a href="`+path+`"`) != sees {
				t.Errorf("%s sees the link to %s: %t", who, path, !sees)
			}
		}
		for path, button := range map[string]string{"/hosts/web-1": "/hosts/web-1/drain", "/batches/b": "/batches/b/cancel", "/schedules/nightly": "/schedules/nightly/delete"} {
			if strings.Contains(ask(c, "GET", path, cookie, nil).Body.String(), button) != sees {
				t.Errorf("%s sees the button of %s: %t", who, button, !sees)
			}
			if code := ask(c, "GET", button, cookie, nil).Code; (code == http.StatusOK) != sees {
				t.Errorf("%s asks at %s and gets %d", who, button, code)
			}
		}
	}
}
