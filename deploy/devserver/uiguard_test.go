package main

import (
	"crypto/rand"
	"encoding/base64"
	endian "encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	guardPort = 8233
	guardHost = "127.0.0.1:8233"
	bearer    = "a-token-of-the-codec"
)

// guarded returns a guard with a login before handlers that answer "ui" and "codec". Its
// clock is at *now.
func guarded(t *testing.T) (g *guard, now *time.Time) {
	t.Helper()
	l, err := newLogin(filepath.Join(t.TempDir(), "ui.key"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_000_000, 0)
	l.now = func() time.Time { return at }
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text) })
	}
	return &guard{hosts: ownHosts("127.0.0.1", guardPort), login: l, cookie: cookieName(guardPort), codec: says("codec"), token: bearer, next: says("ui")}, &at
}

func link(l *login, end time.Time) string {
	token := make([]byte, 16)
	rand.Read(token)
	token = endian.BigEndian.AppendUint64(token, uint64(end.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(token, signLink(l.key, token)...))
}

// a request is "GET /" to guardHost with headers.
func asked(g http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+guardHost+path, nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

func logIn(t *testing.T, g *guard, now time.Time) (cookie string) {
	t.Helper()
	w := asked(g, "GET", loginPath+"?token="+link(g.login, now.Add(time.Minute)))
	cookies := w.Result().Cookies()
	if w.Code != http.StatusOK || len(cookies) != 1 {
		t.Fatalf("a link is answered %d with cookies %v: %s", w.Code, cookies, w.Body)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

func TestAOneTimeLinkWorksOnce(t *testing.T) {
	g, now := guarded(t)
	path := loginPath + "?token=" + link(g.login, now.Add(5*time.Minute))
	if w := asked(g, "HEAD", path); len(w.Result().Cookies()) > 0 {
		t.Error("a look at the link uses it")
	}
	w := asked(g, "GET", path)
	if w.Code != http.StatusOK {
		t.Fatalf("the link is answered %d: %s", w.Code, w.Body)
	}
	c := w.Result().Cookies()[0]
	if c.Name != "fairlead-8233" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Domain != "" || c.MaxAge <= 0 || c.MaxAge > 24*3600 || len(c.Value) < 32 {
		t.Errorf("the cookie is %+v", c)
	}
	if w := asked(g, "GET", path); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 {
		t.Errorf("the second time the link is answered %d", w.Code)
	}
	if w := asked(g, "GET", "/", "Cookie", c.Name+"="+c.Value); w.Code != http.StatusOK || w.Body.String() != "ui" {
		t.Errorf("with the cookie: %d %s", w.Code, w.Body)
	}
}

func TestALinkIsNoGoodWithoutTheKeyOrAfterItsEnd(t *testing.T) {
	g, now := guarded(t)
	other, _ := guarded(t)
	good := link(g.login, now.Add(time.Minute))
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	raw[20]++ // its end
	for name, token := range map[string]string{
		"none": "", "nonsense": "?", "short": good[:20], "changed": base64.RawURLEncoding.EncodeToString(raw),
		"of another server": link(other.login, now.Add(time.Minute)),
		"over":              link(g.login, *now),
		"for days":          link(g.login, now.Add(48*time.Hour)),
	} {
		if w := asked(g, "GET", loginPath+"?token="+token); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 {
			t.Errorf("a link that is %s is answered %d", name, w.Code)
		}
	}
	if w := asked(g, "GET", loginPath+"?token="+good); w.Code != http.StatusOK {
		t.Errorf("the good one is answered %d", w.Code)
	}
}

func TestASessionEnds(t *testing.T) {
	g, now := guarded(t)
	first := logIn(t, g, *now)
	*now = now.Add(sessionLife - time.Second)
	if w := asked(g, "GET", "/", "Cookie", first); w.Code != http.StatusOK {
		t.Errorf("before its end: %d", w.Code)
	}
	*now = now.Add(time.Second)
	if w := asked(g, "GET", "/", "Cookie", first); w.Code != http.StatusUnauthorized {
		t.Errorf("after its end: %d", w.Code)
	}
	oldest := logIn(t, g, *now)
	for range maxSessions {
		logIn(t, g, *now)
	}
	if n := len(g.login.sessions); n != maxSessions {
		t.Errorf("%d sessions are kept, want %d", n, maxSessions)
	}
	if w := asked(g, "GET", "/", "Cookie", oldest); w.Code != http.StatusUnauthorized {
		t.Errorf("the oldest of too many: %d", w.Code)
	}
}

func TestWithoutASessionThereIsOnlyAWordOnHowToGetOne(t *testing.T) {
	g, now := guarded(t)
	logIn(t, g, *now)
	for _, path := range []string{"/", "/healthz", "/api/v1/settings", "/codec/decode", "/_app/x.js"} {
		for _, cookie := range []string{"", "fairlead-8233=", "fairlead-8233=guess", "fairlead-8234=guess"} {
			w := asked(g, "GET", path, "Cookie", cookie)
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "ctl ui") {
				t.Errorf("%s with %q: %d %s", path, cookie, w.Code, w.Body)
			}
		}
	}
	if w := asked(g, "GET", "/", "Accept", "text/html"); w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("Content-Type"), "text/html") {
		t.Errorf("a browser gets %d %s", w.Code, w.Header())
	}
}

// The owner of a web page can make a name of his resolve to 127.0.0.1.
func TestANameThatIsReboundIsRefused(t *testing.T) {
	g, now := guarded(t)
	cookie := logIn(t, g, *now)
	for _, host := range []string{"evil.example", "evil.example:8233", "127.0.0.1", "127.0.0.1:8234", "localhost.evil.example:8233", ""} {
		for _, path := range []string{"/", "/codec/decode", loginPath} {
			if w := asked(g, "GET", path, "Host", host, "Cookie", cookie, "Authorization", "Bearer "+bearer); w.Code != http.StatusMisdirectedRequest {
				t.Errorf("Host %q, %s: %d", host, path, w.Code)
			}
		}
	}
	for _, host := range []string{guardHost, "localhost:8233", "[::1]:8233"} {
		if w := asked(g, "GET", "/", "Host", host, "Cookie", cookie); w.Code != http.StatusOK {
			t.Errorf("Host %q: %d", host, w.Code)
		}
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	g, now := guarded(t)
	cookie := logIn(t, g, *now)
	ours := "http://" + guardHost
	for _, c := range []struct {
		what    string
		method  string
		path    string
		headers []string
		want    int
	}{
		{"our page writes", "POST", "/api/v1/x", []string{"Origin", ours, "Sec-Fetch-Site", "same-origin"}, 200},
		{"our page reads", "GET", "/api/v1/x", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"somebody types the address", "GET", "/", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"a link leads here", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"another page writes", "POST", "/api/v1/x", []string{"Origin", "http://evil.example"}, 403},
		{"another port writes", "POST", "/api/v1/x", []string{"Origin", "http://127.0.0.1:9999", "Sec-Fetch-Site", "same-site"}, 403},
		{"a page without an origin writes", "POST", "/api/v1/x", []string{"Origin", "null"}, 403},
		{"a form is sent", "POST", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		{"another page reads", "GET", "/api/v1/x", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"another port reads", "GET", "/api/v1/x", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, 403},
		{"another page shows it in a frame", "GET", "/", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"another page opens a websocket", "GET", "/", []string{"Origin", "http://evil.example", "Upgrade", "websocket", "Connection", "Upgrade"}, 403},
		{"another page decodes", "POST", "/codec/decode", []string{"Origin", "http://evil.example"}, 403},
	} {
		if w := asked(g, c.method, c.path, append(c.headers, "Cookie", cookie)...); w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.what, w.Code, c.want)
		}
	}
}

func TestTheCodecNeedsASessionOrTheToken(t *testing.T) {
	g, now := guarded(t)
	cookie := logIn(t, g, *now)
	for _, c := range []struct {
		headers []string
		want    int
	}{
		{nil, 401},
		{[]string{"Authorization", "Bearer wrong-token-of-a-stranger"}, 401},
		{[]string{"Authorization", "Bearer "}, 401},
		{[]string{"Authorization", bearer}, 401},
		{[]string{"Authorization", "Bearer " + bearer}, 200},
		{[]string{"Cookie", cookie}, 200},
	} {
		if w := asked(g, "POST", "/codec/decode", c.headers...); w.Code != c.want {
			t.Errorf("%v: %d, want %d", c.headers, w.Code, c.want)
		}
	}
	if w := asked(g, "GET", "/", "Authorization", "Bearer "+bearer); w.Code != 401 {
		t.Errorf("the codec's token opens the UI: %d", w.Code)
	}
	g.token = ""
	if w := asked(g, "POST", "/codec/decode", "Authorization", "Bearer "); w.Code != 401 {
		t.Errorf("no token is taken for one: %d", w.Code)
	}
}

// The worker gets what it needs of a request and nothing that is for the UI's server.
func TestTheCodecProxyPassesOnWhatTheWorkerNeedsAlone(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "codec.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *http.Request, 1)
	worker := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		got <- r
		io.WriteString(w, "decoded")
	})}
	go worker.Serve(ln)
	proxy, err := newCodecProxy("unix://"+socket, "shown-to-the-worker")
	if err != nil {
		t.Fatal(err)
	}
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://"+guardHost+"/codec/decode?x=1", strings.NewReader("payloads"))
		for _, h := range []string{"Cookie", "Origin", "X-Other", "Authorization"} {
			r.Header.Set(h, "secret")
		}
		r.Header.Set("X-Namespace", "default")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, r)
		return w
	}
	if w := ask(); w.Code != 200 || w.Body.String() != "decoded" {
		t.Fatalf("answered %d %s", w.Code, w.Body)
	}
	r := <-got
	body, _ := io.ReadAll(r.Body)
	h := r.Header
	if r.URL.Path != "/codec/decode" || string(body) != "payloads" || h.Get("X-Namespace") != "default" || h.Get("Content-Type") != "application/json" ||
		h.Get("Authorization") != "Bearer shown-to-the-worker" {
		t.Errorf("the worker got %s %v %s", r.URL, h, body)
	}
	for _, name := range []string{"Cookie", "Origin", "X-Other", "X-Forwarded-For"} {
		if h.Get(name) != "" {
			t.Errorf("the worker got %s: %s", name, h.Get(name))
		}
	}
	worker.Close()
	if w := ask(); w.Code != http.StatusBadGateway {
		t.Errorf("without a worker: %d", w.Code)
	}
}

func TestTheKeyOfTheLoginIsPrivateAndNewAtEachStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ui.key")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 3 {
		if _, err := newLogin(file); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		seen[string(data)] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d keys at 3 starts", len(seen))
	}
}
