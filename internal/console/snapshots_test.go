package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A fork is asked for, and leads to the session that it began. What was typed outlives a refusal.
func TestAForkLeadsToTheNewSession(t *testing.T) {
	f := &fakeAPI{answers: map[string]string{
		"GET /v1/sessions/s/snapshots":              `{"items":[{"id":"s-2","turn":1,"host":"web-1","files":3,"bytes":2048,"complete":true}]}`,
		"POST /v1/sessions/s/fork":                  `{"id":"other"}`,
		"POST /v1/sessions/s/snapshots/s-2/restore": `{"id":"older"}`,
	}}
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	list := ask(c, "GET", "/sessions/s/snapshots", cookie, nil).Body.String()
	for path, to := range map[string]string{"/sessions/s/fork": "/sessions/other", "/sessions/s/snapshots/s-2/restore": "/sessions/older"} {
		if !strings.Contains(list, `href="`+path+`"`) {
			t.Errorf("the list has no link to %s: %s", path, list)
		}
		if w := ask(c, "GET", path, cookie, nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `action="`+path+`"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		f.sent = nil
		w := ask(c, "POST", path, cookie, url.Values{"key": {"k1"}, "host": {" web-2 "}})
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
			t.Errorf("%s leads to %d %s", path, w.Code, w.Header().Get("Location"))
		}
		if len(f.sent) != 1 || !strings.Contains(f.sent[0], `{"host":"web-2"}`) || !strings.Contains(f.sent[0], "Idempotency-Key: k1") {
			t.Errorf("%s sends %q", path, f.sent)
		}
	}
	delete(f.answers, "POST /v1/sessions/s/fork")
	if w := ask(c, "POST", "/sessions/s/fork", cookie, url.Values{"key": {"k2"}, "host": {"web-9"}}); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `value="web-9"`) {
		t.Errorf("a fork that does not count is answered %d %s", w.Code, w.Body)
	}
}
