package authority

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestPeopleLogInAtTheConsoleByTheIssuer, and come to the card that they asked for. emil decides it
// in his own name, and fay, who may look only, finds no button.
func TestPeopleLogInAtTheConsoleByTheIssuer(t *testing.T) {
	id := "by-browser"
	mustDo(t, "olaf", "session", "start", "--host", "web-1", "--seed", "team", "--id", id)
	e2e.Closes(t, id)
	mustDo(t, "olaf", "session", "send", id, "--no-wait", "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	base, _, _ := strings.Cut(strings.TrimSpace(e2e.OK(t, "ui")), "/login")
	provider.SendsTo(base + "/login/callback")
	b := browser.Open(t, base, 1440, 900)
	logsIn := func(person string) {
		t.Helper()
		b.GoTo("/approvals/" + ap.ID)
		b.Sees("Log in at your organisation")
		b.Submit(`a[href^="/login/start"]`)
		b.Sees("The issuer")
		b.Types(`input[name=username]`, person)
		b.Submit(`button`)
		b.Sees("Approval "+ap.ID, person+"@example.com")
	}
	logsIn("fay")
	b.Sees("You may read this, and not decide it.")
	if b.Has(`form.decide`) || b.Has(`nav a[href="/sessions/new"]`) {
		t.Errorf("a viewer is offered more than to look:\n%s", b.Text())
	}
	b.Submit(`form.who button`)
	logsIn("emil")
	b.Submit(`[data-accept]`)
	b.Sees("accept by emil@example.com", "acknowledged by codex ✓")
	e2e.Ended(t, id, 1)
}

// TestTheConsoleObeysNoPageOfAnotherOrigin has pages in the browser of somebody who has logged in
// send the console's own forms, with the login's cookie.
func TestTheConsoleObeysNoPageOfAnotherOrigin(t *testing.T) {
	id, made, said := "by-page", "made-by-page", "said by a page"
	mustDo(t, "olaf", "session", "start", "--host", "web-1", "--seed", "team", "--id", id)
	e2e.Closes(t, id)
	mustDo(t, "olaf", "session", "send", id, "--no-wait", "you need a command")
	ap := e2e.Open(t, id, 1)[0]

	link, err := url.Parse(strings.TrimSpace(e2e.OK(t, "ui")))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	// ask sends a request as a page does whose address is origin, and whose browser asks for host.
	ask := func(method, path, origin, host, site string, form url.Values) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(e2e.Within(t), method, link.Scheme+"://"+link.Host+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		for name, value := range map[string]string{"Origin": origin, "Sec-Fetch-Site": site, "Content-Type": "application/x-www-form-urlencoded"} {
			req.Header.Set(name, value)
		}
		res, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(body)
	}
	own := "http://" + link.Host
	if res, body := ask(http.MethodGet, link.RequestURI(), own, link.Host, "none", nil); res.StatusCode != http.StatusSeeOther {
		t.Fatalf("the link of `ctl ui` is answered %s: %.300s", res.Status, body)
	}
	if _, body := ask(http.MethodGet, "/sessions/"+id, own, link.Host, "same-origin", nil); !strings.Contains(body, id) {
		t.Fatalf("the console's own page does not show the session: %.300s", body)
	}

	decision := "/approvals/" + ap.ID + "/decision"
	accept := url.Values{"key": {"page-decides"}, "digest": {ap.Digest}, "outcome": {"accept"}}
	forms := map[string]url.Values{
		"/sessions":                      {"key": {"page-starts"}, "id": {made}, "host": {"web-1"}, "seed": {"team"}},
		"/sessions/" + id + "/message":   {"key": {"page-says"}, "text": {said}},
		"/sessions/" + id + "/interrupt": {"key": {"page-interrupts"}},
		"/sessions/" + id + "/close":     {"key": {"page-closes"}},
		"/hosts/web-1/drain":             {"key": {"page-drains"}},
		decision:                         accept,
	}
	rebound := "rebound.example:" + link.Port()
	for name, page := range map[string]struct{ origin, host, site string }{
		"a page on another origin": {"https://pages.example", link.Host, "cross-site"},
		"a page at another port":   {"http://127.0.0.1:1", link.Host, "same-site"},
		"a rebound name":           {"http://" + rebound, rebound, "same-origin"},
	} {
		for path, form := range forms {
			if res, body := ask(http.MethodPost, path, page.origin, page.host, page.site, form); res.StatusCode != http.StatusForbidden {
				t.Errorf("%s: POST %s is answered %s: %.300s", name, path, res.Status, body)
			}
		}
		// A browser keeps an answer from a page of another origin unless the answer allows it.
		res, body := ask(http.MethodGet, "/sessions/"+id, page.origin, page.host, page.site, nil)
		if page.host != link.Host && (res.StatusCode != http.StatusForbidden || strings.Contains(body, "need a command")) {
			t.Errorf("%s: GET is answered %s: %.300s", name, res.Status, body)
		}
		if res.Header.Get("Access-Control-Allow-Origin") != "" || res.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s may read what the console answers: %v", name, res.Header)
		}
	}
	if open := e2e.Open(t, id, 1); open[0].ID != ap.ID {
		t.Errorf("open are %+v, want %s", open, ap.ID)
	}
	if list := mustDo(t, "root", "session", "list", "-o", "json"); strings.Contains(list, made) {
		t.Errorf("a page started a session: %s", list)
	}

	if res, body := ask(http.MethodPost, decision, own, link.Host, "same-origin", accept); res.StatusCode != http.StatusSeeOther {
		t.Errorf("the console's own form is answered %s: %.300s", res.Status, body)
	}
	e2e.Ended(t, id, 1)
	if text := mustDo(t, "root", "transcript", id); strings.Contains(text, said) || !strings.Contains(text, "it ran") {
		t.Errorf("the transcript is %s", text)
	}
}
