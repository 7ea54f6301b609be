package console

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/softkey"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
)

// withPasskeys returns a console at a name, whose host is that of ask.
func withPasskeys(f *fakeAPI) *Console {
	c := newConsole(f)
	c.opts.Passkeys = passkey.Open(c.opts.Store.(*memory), slog.New(slog.DiscardHandler))
	c.site = passkey.Site{ID: "127.0.0.1", Origin: "http://" + host} // a test's host is no name
	return c
}

var madeOptions = regexp.MustCompile(`data-passkey-add="([^"]*)"`)

// challengeOn returns the challenge of a page that can add a passkey.
func challengeOn(t *testing.T, page string) []byte {
	t.Helper()
	m := madeOptions.FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the page adds no passkey: %s", page)
	}
	var o struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &o); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(o.Challenge)
	if err != nil || len(raw) != 32 {
		t.Fatalf("challenge %q: %v", o.Challenge, err)
	}
	return raw
}

func TestAPasskeyIsAddedOnceAndRemovedByItsPerson(t *testing.T) {
	f := &fakeAPI{}
	c := withPasskeys(f)
	ann, ben := loggedIn(t, c, "ann"), loggedIn(t, c, "ben")
	k := softkey.New(c.site.ID, c.site.Origin)
	challenge := challengeOn(t, ask(c, "GET", "/passkeys", ann, nil).Body.String())
	form := url.Values{"name": {"laptop"}, "credential": {string(k.Created(challenge))}}
	if w := ask(c, "POST", "/passkeys", ben, form); w.Code != http.StatusConflict {
		t.Errorf("another person's challenge is answered %d: %s", w.Code, w.Body)
	}
	if w := ask(c, "POST", "/passkeys", ann, form); w.Code != http.StatusSeeOther {
		t.Fatalf("a new passkey is answered %d: %s", w.Code, w.Body)
	}
	if w := ask(c, "POST", "/passkeys", ann, form); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "was used before") {
		t.Errorf("the same again is answered %d: %s", w.Code, w.Body)
	}
	if page := ask(c, "GET", "/passkeys", ann, nil).Body.String(); !strings.Contains(page, "laptop") || strings.Contains(page, "You have none") {
		t.Errorf("ann's page is %s", page)
	}
	if page := ask(c, "GET", "/passkeys", ben, nil).Body.String(); strings.Contains(page, "laptop") {
		t.Errorf("ben's page is %s", page)
	}
	remove := "/passkeys/remove?id=" + k.ID()
	if w := ask(c, "POST", remove, ben, url.Values{}); w.Code != http.StatusNotFound {
		t.Errorf("ben's removal is answered %d", w.Code)
	}
	if w := ask(c, "GET", remove, ann, nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Remove the passkey") {
		t.Errorf("the question is %d %s", w.Code, w.Body)
	}
	if w := ask(c, "POST", remove, ann, url.Values{}); w.Code != http.StatusSeeOther {
		t.Errorf("the removal is answered %d: %s", w.Code, w.Body)
	}
	if page := ask(c, "GET", "/passkeys", ann, nil).Body.String(); !strings.Contains(page, "You have none") {
		t.Errorf("ann's page is %s", page)
	}
	for _, want := range []string{"ann passkey.add passkey/" + k.ID() + `: passkey "laptop"`, "ann passkey.remove passkey/" + k.ID()} {
		if !slices.ContainsFunc(f.logins, func(r string) bool { return strings.HasPrefix(r, want) && strings.HasSuffix(r, "<nil>") }) {
			t.Errorf("on record is %q, and not %s", f.logins, want)
		}
	}
}

func TestAPasskeyNeedsAFreshLogin(t *testing.T) {
	f := &fakeAPI{}
	c := withPasskeys(f)
	cookie := loggedIn(t, c, "ann")
	challenge := challengeOn(t, ask(c, "GET", "/passkeys", cookie, nil).Body.String())
	ages(t, c, cookie, 2*freshFor)
	k := softkey.New(c.site.ID, c.site.Origin)
	w := ask(c, "POST", "/passkeys", cookie, url.Values{"name": {"laptop"}, "credential": {string(k.Created(challenge))}})
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "log in again") {
		t.Errorf("a new passkey of an old login is answered %d: %s", w.Code, w.Body)
	}
	if page := w.Body.String(); madeOptions.MatchString(page) {
		t.Errorf("the page of an old login adds a passkey: %s", page)
	}
	if all, err := c.opts.Passkeys.Of(t.Context(), "ann"); err != nil || len(all) > 0 {
		t.Errorf("ann has %+v, %v", all, err)
	}
	if last := f.logins[len(f.logins)-1]; !strings.HasPrefix(last, "ann passkey.add") || !strings.Contains(last, "older than 10 minutes") {
		t.Errorf("on record is %q", last)
	}
}

// ages makes a login older.
func ages(t *testing.T, c *Console, cookie string, by time.Duration) {
	t.Helper()
	ctx, err := c.logins.Load(t.Context(), cookie)
	if err == nil {
		c.logins.Put(ctx, askedOf, time.Now().Add(-by).Unix())
		_, _, err = c.logins.Commit(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPageWithoutANameSaysWhereToAddAPasskey(t *testing.T) {
	c := newConsole(&fakeAPI{})
	cookie := loggedIn(t, c, "")
	if w := ask(c, "GET", "/passkeys", cookie, nil); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), `href="/passkeys"`) {
		t.Errorf("without passkeys, the page is %d %s", w.Code, w.Body)
	}
	c.opts.Passkeys = passkey.Open(c.opts.Store.(*memory), slog.New(slog.DiscardHandler))
	if page := ask(c, "GET", "/passkeys", cookie, nil).Body.String(); !strings.Contains(page, "http://localhost:9999") || madeOptions.MatchString(page) {
		t.Errorf("at an address, the page is %s", page)
	}
	c.site, c.siteless = passkey.SiteOf("https://192.0.2.1")
	if page := ask(c, "GET", "/passkeys", cookie, nil).Body.String(); !strings.Contains(page, "set console.url") || madeOptions.MatchString(page) {
		t.Errorf("at an address of the network, the page is %s", page)
	}
}

func TestAHighRiskDecisionIsSentWithWhatThePasskeySigned(t *testing.T) {
	const digest = "d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1"
	const ap = `{"id":"s.1","session":"s","kind":"command","command":"make","digest":"` + digest + `","digest_check":"given","state":"open","offered":["accept","accept_for_session","decline"],"changes":[],"questions":[],"ruling":{"rule":"risky","policy":"p","risk":"high"}}`
	f := &fakeAPI{answers: map[string]string{"GET /v1/approvals/s.1": ap, "GET /v1/sessions/s": `{"id":"s"}`, "POST /v1/approvals/s.1/decision": ap}}
	c := withPasskeys(f)
	c.opts.Challenge = func(_ protocol.Approval, d protocol.Decide) ([]byte, error) {
		return passkey.Challenge([]byte(d.Approval + d.Digest + d.Outcome + d.Scope)), nil
	}
	cookie := loggedIn(t, c, "ann")
	if page := ask(c, "GET", "/approvals/s.1", cookie, nil).Body.String(); !strings.Contains(page, "add one") || strings.Contains(page, `value="accept"`) || !strings.Contains(page, "<noscript>") {
		t.Errorf("without a passkey, the card is %s", page)
	}
	form := url.Values{"digest": {digest}, "outcome": {"accept"}, "key": {"k"}}
	if w := ask(c, "POST", "/approvals/s.1/passkey", cookie, form); w.Code != http.StatusConflict {
		t.Errorf("without a passkey, the challenge is %d %s", w.Code, w.Body)
	}
	k := softkey.New(c.site.ID, c.site.Origin)
	challenge := challengeOn(t, ask(c, "GET", "/passkeys", cookie, nil).Body.String())
	ask(c, "POST", "/passkeys", cookie, url.Values{"name": {"laptop"}, "credential": {string(k.Created(challenge))}})
	page := ask(c, "GET", "/approvals/s.1", cookie, nil).Body.String()
	if !strings.Contains(page, "data-passkey>Accept with your passkey") || strings.Contains(page, "accept_for_session") {
		t.Errorf("with a passkey, the card is %s", page)
	}
	var o struct {
		Challenge        string         `json:"challenge"`
		RPID             string         `json:"rpId"`
		UserVerification string         `json:"userVerification"`
		AllowCredentials []credentialID `json:"allowCredentials"`
	}
	w := ask(c, "POST", "/approvals/s.1/passkey", cookie, form)
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	want := base64.RawURLEncoding.EncodeToString(passkey.Challenge([]byte("s.1" + digest + "accept")))
	if o.Challenge != want || o.RPID != c.site.ID || o.UserVerification != "required" || len(o.AllowCredentials) != 1 || o.AllowCredentials[0].ID != k.ID() {
		t.Errorf("the browser is asked %+v", o)
	}
	signed, err := json.Marshal(k.Assert(passkey.Challenge([]byte("s.1" + digest + "accept"))))
	if err != nil {
		t.Fatal(err)
	}
	form.Set("passkey", string(signed))
	if w := ask(c, "POST", "/approvals/s.1/decision", cookie, form); w.Code != http.StatusSeeOther {
		t.Errorf("the decision is answered %d %s", w.Code, w.Body)
	}
	if last := f.sent[len(f.sent)-1]; !strings.Contains(last, `"passkey":{"id":"`+k.ID()) {
		t.Errorf("sent is %s", last)
	}
	form.Set("passkey", "{")
	if w := ask(c, "POST", "/approvals/s.1/decision", cookie, form); w.Code != http.StatusBadRequest {
		t.Errorf("a broken assertion is answered %d %s", w.Code, w.Body)
	}
}
