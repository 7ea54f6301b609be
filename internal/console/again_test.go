package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/issuer"
	"fairlead.dev/fairlead/internal/login"
)

// An idp knows each browser, and asks nobody: its ID tokens say when ann was last asked.
type idp struct {
	*httptest.Server
	asked any // auth_time, or nil
}

func withIssuer(t *testing.T, c *Console) *idp {
	keys := issuer.Serve(t, issuer.Person{ID: "ann", Email: "ann", Verified: true})
	p := &idp{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/t" {
			fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t","jwks_uri":"%[2]s/keys"}`, p.URL, keys.URL)
			return
		}
		claims := keys.Claims("ann")
		claims["iss"], claims["nonce"] = p.URL, r.FormValue("code")
		if p.asked != nil {
			claims["auth_time"] = p.asked
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": keys.Token(claims)})
	}))
	t.Cleanup(p.Close)
	c.opts.Login = login.NewBrowser(login.Settings{Issuer: p.URL, ClientID: issuer.ClientID, Scopes: []string{"openid"}}, login.Claims{})
	t.Cleanup(c.opts.Login.Close)
	return p
}

// logIn goes to the issuer and back, and returns the answer of the console.
func (p *idp) logIn(t *testing.T, c *Console, start string) *httptest.ResponseRecorder {
	t.Helper()
	w := ask(c, "GET", start, "", nil)
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusSeeOther {
		t.Fatalf("%s is answered %d, %v: %s", start, w.Code, err, w.Body)
	}
	k := w.Result().Cookies()[0]
	q := url.Values{"state": {to.Query().Get("state")}, "code": {to.Query().Get("nonce")}}
	return ask(c, "GET", "/login/callback?"+q.Encode(), "", nil, "Cookie", k.Name+"="+k.Value)
}

func TestOnlyALoginInWhichTheIssuerAskedThePersonAddsAPasskey(t *testing.T) {
	f := &fakeAPI{}
	c := withPasskeys(f)
	p := withIssuer(t, c)
	hours := time.Now().Add(-3 * time.Hour).Unix()
	for what, asked := range map[string]any{"asked hours ago": hours, "nobody knows when": nil, "no time": "now"} {
		p.asked = asked
		w := p.logIn(t, c, "/login/start")
		if w.Code != http.StatusSeeOther {
			t.Fatalf("%s: a plain login is answered %d: %s", what, w.Code, w.Body)
		}
		var cookie string
		for _, k := range w.Result().Cookies() {
			if k.Name == c.opts.Cookie {
				cookie = k.Value
			}
		}
		if page := ask(c, "GET", "/passkeys", cookie, nil).Body.String(); madeOptions.MatchString(page) || !strings.Contains(page, "again=1") {
			t.Errorf("%s: the page is %s", what, page)
		}
		// The issuer was to ask again, and somebody took that out of its address.
		if w := p.logIn(t, c, "/login/start?again=1"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "auth_time") {
			t.Errorf("%s: another login is answered %d: %s", what, w.Code, w.Body)
		}
	}
	for what, asked := range map[string]time.Time{"now": time.Now(), "by a clock that is ahead": time.Now().Add(2 * time.Minute), "by a clock that is late": time.Now().Add(-2 * time.Minute)} {
		p.asked = asked.Unix()
		w := p.logIn(t, c, "/login/start?again=1&back=/passkeys")
		if w.Code != http.StatusSeeOther {
			t.Fatalf("asked %s, the login is answered %d: %s", what, w.Code, w.Body)
		}
		for _, k := range w.Result().Cookies() {
			if k.Name == c.opts.Cookie {
				challengeOn(t, ask(c, "GET", "/passkeys", k.Value, nil).Body.String())
			}
		}
	}
}
