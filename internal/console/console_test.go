package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// memory is a store of blobs.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (b *memory) Get(_ context.Context, key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.m[key]
	if !ok {
		return nil, store.ErrNotFound
	}
	return data, nil
}

func (b *memory) Put(_ context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.m[key] = data
	return nil
}

func (b *memory) CreateOnce(ctx context.Context, key string, data []byte) error {
	return b.Create(ctx, key, data)
}

func (b *memory) Create(_ context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.m[key]; ok {
		return store.ErrExists
	}
	b.m[key] = data
	return nil
}

func (b *memory) Delete(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.m, key)
	return nil
}

func (b *memory) List(_ context.Context, prefix string) (all []store.Info, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.m {
		if strings.HasPrefix(key, prefix) {
			all = append(all, store.Info{Key: key})
		}
	}
	return all, nil
}

// fakeAPI answers with what a test says, and knows who may do what.
type fakeAPI struct {
	answers map[string]string // by method and path
	sent    []string
	may     func(who string, verb access.Verb) bool
	reads   func(session string) bool
	revoked bool
	logins  []string      // on record
	refuses error         // of a login at the issuer
	streams chan struct{} // closed when a stream begins, which lasts as long as its request
	asked   func(at string)
}

func (f *fakeAPI) Inside(p api.Person) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.Method + " " + r.URL.Path
		if f.streams != nil && strings.HasSuffix(at, "/events") {
			close(f.streams)
			<-r.Context().Done()
			return
		}
		if f.asked != nil {
			f.asked(at)
		}
		if r.Method == http.MethodPost {
			var b strings.Builder
			_ = r.Write(&b)
			f.sent = append(f.sent, p.Principal+"\n"+b.String())
		}
		text, ok := f.answers[at]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			text = `{"status":404,"detail":"nothing at ` + at + `","kind":"not_found"}`
		}
		fmt.Fprint(w, text)
	})
}

func (f *fakeAPI) May(_ context.Context, p api.Person, verb access.Verb, session string) bool {
	if verb == access.SessionRead && f.reads != nil && !f.reads(session) {
		return false
	}
	return f.may == nil || f.may(p.Principal, verb)
}

func (f *fakeAPI) Counts(p api.Person) error {
	if p.Holds != nil {
		if why := p.Holds(); why != "" {
			return errors.New(why)
		}
	}
	if f.revoked {
		return fmt.Errorf("ann is revoked")
	}
	return nil
}

func (f *fakeAPI) Admits(p api.Person) error {
	if f.refuses != nil {
		return f.refuses
	}
	return f.Counts(p)
}

func (f *fakeAPI) LoggedIn(p api.Person, how string, err error) {
	f.logins = append(f.logins, fmt.Sprintf("%s by %s: %v", p.Principal, how, err))
}

func (f *fakeAPI) Recorded(p api.Person, verb, object, reason string, err error) {
	f.logins = append(f.logins, fmt.Sprintf("%s %s %s: %s: %v", p.Principal, verb, object, reason, err))
}

const host = "127.0.0.1:9999"

var linkSecret = []byte(strings.Repeat("k", 32))

// emptyInbox has nothing, and nothing comes.
type emptyInbox struct{}

func (emptyInbox) Next(ctx context.Context, after uint64) (uint64, map[string]string, bool, error) {
	if after == 0 {
		return 1, nil, false, nil
	}
	<-ctx.Done()
	return 0, nil, false, ctx.Err()
}

func (emptyInbox) Recent() ([]protocol.Approval, map[string]string, bool) { return nil, nil, false }

func (emptyInbox) Stir(string) {}

func newConsole(f *fakeAPI) *Console {
	return New(Options{API: f, Inbox: emptyInbox{}, Store: &memory{m: map[string][]byte{}}, Hosts: []string{host}, URL: "http://" + host, Cookie: "c", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Link: func() ([]byte, error) { return linkSecret, nil }})
}

// ask makes a request of a browser of the console's own pages.
func ask(c *Console, method, path, cookie string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(form.Encode()))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: "c", Value: cookie})
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func loggedIn(t *testing.T, c *Console, who string) (cookie string) {
	t.Helper()
	token, _ := NewLink(linkSecret, who, time.Now())
	w := ask(c, "GET", LinkPath+"?token="+token, "", nil)
	list := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(list) != 1 || !list[0].HttpOnly {
		t.Fatalf("the link is answered %d with %v", w.Code, list)
	}
	return list[0].Value
}

func TestALinkWorksOnceAndNotForLong(t *testing.T) {
	f := &fakeAPI{}
	c := newConsole(f)
	token, _ := NewLink(linkSecret, "ann", time.Now())
	old, _ := NewLink(linkSecret, "ann", time.Now().Add(-LinkLife-time.Second))
	far, _ := NewLink(linkSecret, "ann", time.Now().Add(time.Hour))
	other, _ := NewLink([]byte(strings.Repeat("x", 32)), "ann", time.Now())
	for name, bad := range map[string]string{"old": old, "too far in the future": far, "of another key": other, "none": "", "changed": token[:len(token)-2] + "AA", "long": strings.Repeat("A", 4000)} {
		if w := ask(c, "GET", LinkPath+"?token="+bad, "", nil); w.Code != http.StatusForbidden {
			t.Errorf("a link that is %s is answered %d", name, w.Code)
		}
	}
	if w := ask(c, "GET", LinkPath+"?token="+token, "", nil); w.Code != http.StatusSeeOther {
		t.Errorf("the link is answered %d", w.Code)
	}
	if w := ask(c, "GET", LinkPath+"?token="+token, "", nil); w.Code != http.StatusForbidden {
		t.Errorf("the link works twice: %d", w.Code)
	}
	refused := " by a one-time link: " + errLink.Error()
	if n := len(f.logins); n != 8 || f.logins[0] != refused || f.logins[6] != "ann by a one-time link: <nil>" || f.logins[7] != refused {
		t.Errorf("on record: %q", f.logins)
	}
}

func TestNothingIsShownOrChangedWithoutALogin(t *testing.T) {
	f := &fakeAPI{}
	c := newConsole(f)
	for _, path := range []string{"/", "/sessions", "/sessions/s", "/sessions/s/events", "/live?of=inbox", "/approvals/s.1", "/audit", "/sessions/new"} {
		if w := ask(c, "GET", path, "", nil); w.Code != http.StatusUnauthorized {
			t.Errorf("GET %s is answered %d", path, w.Code)
		}
	}
	for _, path := range []string{"/sessions", "/sessions/s/close", "/approvals/s.1/decision", "/logout"} {
		if w := ask(c, "POST", path, "", url.Values{"text": {"x"}}); w.Code != http.StatusUnauthorized {
			t.Errorf("POST %s is answered %d", path, w.Code)
		}
	}
	if len(f.sent) > 0 {
		t.Errorf("the API was asked: %q", f.sent)
	}
}

func TestAFormOfAnotherPageIsRefused(t *testing.T) {
	f := &fakeAPI{}
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	for name, header := range map[string][]string{
		"another site": {"Sec-Fetch-Site", "cross-site"}, "another port": {"Sec-Fetch-Site", "same-site"}, "nowhere": {"Sec-Fetch-Site", ""},
		"an origin": {"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, "a rebound name": {"Host", "evil.example:9999"},
	} {
		if w := ask(c, "POST", "/sessions/s/close", cookie, url.Values{}, header...); w.Code != http.StatusForbidden {
			t.Errorf("a form from %s is answered %d", name, w.Code)
		}
	}
	if len(f.sent) > 0 {
		t.Errorf("the API was asked: %q", f.sent)
	}
}

func TestTheTextOfAFormOutlivesTheLogin(t *testing.T) {
	f := &fakeAPI{answers: map[string]string{"POST /v1/sessions/s/messages": `{}`}}
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	text := "a long text <b>\nof two lines"
	if w := ask(c, "POST", "/logout", cookie, url.Values{}); w.Code != http.StatusSeeOther {
		t.Fatalf("logout: %d", w.Code)
	}
	w := ask(c, "POST", "/sessions/s/message", cookie, url.Values{"key": {"k1"}, "text": {text}})
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "a long text &lt;b&gt;\nof two lines") || !strings.Contains(w.Body.String(), `value="k1"`) || !strings.Contains(w.Body.String(), `action="/sessions/s/message"`) {
		t.Errorf("the form is lost: %d %s", w.Code, w.Body)
	}
	if w := ask(c, "POST", "/sessions/s/message", loggedIn(t, c, "ann"), url.Values{"key": {"k1"}, "text": {text}}); w.Code != http.StatusSeeOther {
		t.Errorf("sent again: %d %s", w.Code, w.Body)
	}
	if len(f.sent) != 1 || !strings.Contains(f.sent[0], "Idempotency-Key: k1") || !strings.HasPrefix(f.sent[0], "ann\n") {
		t.Errorf("the API got %q", f.sent)
	}
}

func TestARevokedPersonIsOut(t *testing.T) {
	f := &fakeAPI{answers: map[string]string{"GET /v1/approvals": `{"items":[]}`}}
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	if w := ask(c, "GET", "/", cookie, nil); w.Code != http.StatusOK {
		t.Fatalf("the inbox: %d %s", w.Code, w.Body)
	}
	f.revoked = true
	if w := ask(c, "GET", "/", cookie, nil); w.Code != http.StatusUnauthorized {
		t.Errorf("a revoked person sees the inbox: %d", w.Code)
	}
}

// hostile is what a host or a model might send.
const hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202egnp.exe\x1b]0;t\x07\x00\u200b"

// exact are the attributes whose values nobody sees, and which are sent as they are.
var exact = regexp.MustCompile(` (value|name|data-of)="[^"]*"`)

func TestHostileTextIsShownAndDoesNothing(t *testing.T) {
	q := strings.NewReplacer(`"`, `\"`, "\x1b", `\u001b`, "\x07", `\u0007`, "\x00", `\u0000`).Replace(hostile)
	ap := `{"id":"s.1","session":"s","kind":"command","summary":"` + q + `","command":"` + q + `","cwd":"` + q + `","reason":"` + q + `","digest":"` + strings.Repeat("a", 64) + `","offered":["accept","decline"],"state":"open","expires_at":"2099-01-01T00:00:00Z","changes":[{"path":"` + q + `","kind":"update","diff":"@@ -1 +1 @@\n-` + q + `\n+x\n"}],"ruling":{"rule":"` + q + `"},"questions":[{"id":"` + q + `","text":"` + q + `","options":[{"label":"` + q + `"}]}]}`
	entries := `{"items":[{"seq":1,"type":"command","command":"` + q + `","text":"` + q + `","status":"` + q + `","item":"` + q + `"},{"seq":2,"type":"assistant","text":"` + strings.Repeat("long line ", 200_000) + `"}]}`
	session := `{"id":"s","state":"running","host":"` + q + `","waits":"` + q + `","options":{"sandbox":"` + q + `"},"notices":{"plan":{"steps":[{"text":"` + q + `","status":"` + q + `"}]}}}`
	f := &fakeAPI{answers: map[string]string{"GET /v1/approvals": `{"items":[` + ap + `]}`, "GET /v1/approvals/s.1": ap, "GET /v1/sessions/s": session,
		"GET /v1/sessions": `{"items":[` + session + `]}`, "GET /v1/sessions/s/entries": entries}}
	c := newConsole(f)
	cookie := loggedIn(t, c, "ann")
	for _, path := range []string{"/", "/approvals/s.1", "/sessions", "/sessions/s/entries?from=1"} {
		w := ask(c, "GET", path, cookie, nil)
		body := w.Body.String()
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %.300s", path, w.Code, body)
		}
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<img") || strings.ContainsAny(exact.ReplaceAllString(body, ""), "\u202e\x1b\x07\x00\u200b") {
			t.Errorf("%s shows hostile text as it is", path)
		}
		if len(body) > 1<<20 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
		if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "require-trusted-types-for 'script'") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		if inline := regexp.MustCompile(`(?i) (style|on[a-z]+)="|<style|javascript:`).FindString(body); inline != "" {
			t.Errorf("%s has %q", path, inline)
		}
	}
}

func TestButtonsAreForThoseWhoMayUseThem(t *testing.T) {
	ap := `{"id":"s.1","session":"s","kind":"command","command":"id","digest_check":"given","digest":"` + strings.Repeat("a", 64) + `","offered":["accept","decline"],"state":"open","expires_at":"2099-01-01T00:00:00Z"}`
	f := &fakeAPI{answers: map[string]string{"GET /v1/approvals": `{"items":[` + ap + `]}`, "GET /v1/sessions/s": `{"id":"s","state":"running"}`, "GET /v1/sessions/s/entries": `{"items":[]}`}}
	f.may = func(who string, verb access.Verb) bool { return who == "ann" || verb == access.SessionRead }
	c := newConsole(f)
	for who, sees := range map[string]bool{"ann": true, "vic": false} {
		cookie := loggedIn(t, c, who)
		for path, words := range map[string][]string{"/": {`value="accept"`, `value="decline"`, `href="/sessions/new"`, `href="/audit"`}, "/sessions/s": {`action="/sessions/s/interrupt"`, `action="/sessions/s/message"`, `action="/sessions/s/close"`}} {
			body := ask(c, "GET", path, cookie, nil).Body.String()
			for _, word := range words {
				if strings.Contains(body, word) != sees {
					t.Errorf("%s at %s: %s is shown: %t", who, path, word, !sees)
				}
			}
		}
	}
}

func TestAnExcerptCannotBeAccepted(t *testing.T) {
	ap := `{"id":"s.1","session":"s","kind":"command","command":"id …","truncated":true,"digest_check":"cut","digest":"` + strings.Repeat("a", 64) + `","offered":["accept","decline"],"state":"open","expires_at":"2099-01-01T00:00:00Z"}`
	c := newConsole(&fakeAPI{answers: map[string]string{"GET /v1/approvals": `{"items":[` + ap + `]}`, "GET /v1/sessions/s": `{"id":"s","state":"waiting"}`}})
	body := ask(c, "GET", "/", loggedIn(t, c, "ann"), nil).Body.String()
	if strings.Contains(body, `value="accept"`) || !strings.Contains(body, `value="decline"`) || !strings.Contains(body, "Read it whole") {
		t.Errorf("the card of an excerpt: %s", body)
	}
}

func TestAHugeDiffIsBoundedAndNotOfferedForAcceptance(t *testing.T) {
	var changes []protocol.Change
	for i := range 5000 {
		changes = append(changes, protocol.Change{Path: fmt.Sprint("f", i), Kind: "update", Diff: "@@ -1,4 +1,4 @@\n" + strings.Repeat("-a\n+b\n", 4)})
	}
	v := diffOf(changes)
	lines := 0
	for _, f := range v.Files {
		lines += len(f.Lines)
	}
	if lines != maxDiffLines || v.More != 5000*9-maxDiffLines || v.Added != 20000 || v.Taken != 20000 {
		t.Errorf("%d lines, %d more, +%d -%d", lines, v.More, v.Added, v.Taken)
	}
	c := card{Approval: protocol.Approval{State: protocol.ApprovalOpen, Changes: changes, DigestCheck: protocol.DigestGiven}, Decides: true, Whole: true}
	if c.Accepts() {
		t.Error("a diff that is not shown whole can be accepted")
	}
}

func TestLinksLeadToOwnPagesOnly(t *testing.T) {
	for to, want := range map[string]string{"/sessions?state=idle": "/sessions?state=idle", "//evil.example/": "/", "https://evil.example": "/", "/\\evil.example": "/", "": "/", "javascript:alert(1)": "/", "/a\r\nSet-Cookie: x": "/"} {
		if got := ownPath(to); got != want {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

// A host that chooses the output of a command chooses no class and hides nothing.
func FuzzColours(f *testing.F) {
	for _, s := range []string{"", "\x1b[31mred\x1b[0m", "\x1b[1;4;92mx", "\x1b[38;5;1mx\x1b[38;2;1;2;3my", "\x1b[", "\x1b[99999999999999999999m", "\x1b]0;t\x07", strings.Repeat("\x1b[1m", 3000) + "x"} {
		f.Add(s)
	}
	known := regexp.MustCompile(`^(sgr-(bold|dim|under|black|red|green|yellow|blue|magenta|cyan|white)( |$))*$`)
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range colours(s) {
			if !known.MatchString(p.Class) {
				t.Errorf("class %q", p.Class)
			}
			if strings.ContainsAny(p.Text, "\x1b\x07\u202e") {
				t.Errorf("%q is not escaped", p.Text)
			}
		}
	})
}

// TestWhatAFileHoldsDoesNotDecideHowItIsShown: a new file may have lines that look like those of a
// diff, and the end of a long line is not shown, so nobody can accept it here.
func TestWhatAFileHoldsDoesNotDecideHowItIsShown(t *testing.T) {
	v := diffOf([]protocol.Change{{Path: "new.py", Kind: "add", Diff: "# @@\n-rm\n safe\n"}, {Path: "old.py", Kind: "delete", Diff: "@@ -1 +1 @@\n+x\n"}})
	if v.Added != 3 || v.Taken != 2 || v.Files[0].Lines[1].Text != "-rm" || v.Files[0].Lines[1].Class != "add" || v.More != 0 {
		t.Errorf("it is shown as %+v", v)
	}
	if v := diffOf([]protocol.Change{{Path: "long", Kind: "add", Diff: strings.Repeat("x", maxLineChars+100) + "\n"}}); v.More != 1 {
		t.Errorf("the end of a long line is not missed: %d", v.More)
	}
}

func TestADigestThatCannotBeCheckedIsNotAccepted(t *testing.T) {
	c := card{Approval: protocol.Approval{State: protocol.ApprovalOpen, DigestCheck: protocol.DigestGiven}, Decides: true, Whole: true}
	if !c.Accepts() {
		t.Error("what is shown whole cannot be accepted")
	}
	for _, word := range []protocol.DigestCheck{protocol.DigestHidden, protocol.DigestEarlier, protocol.DigestOther, protocol.DigestCut, ""} {
		if c.DigestCheck = word; c.Accepts() {
			t.Errorf("it is accepted with the check %q", word)
		}
	}
}
