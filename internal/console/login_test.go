package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"fairlead.dev/fairlead/internal/login"
)

func TestBeginningALoginCostsTheStoreNothingAndTheIssuerLittle(t *testing.T) {
	var asked atomic.Int64
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":"%[2]s/a","token_endpoint":"%[2]s/t","jwks_uri":"%[2]s/k"}`, issuer.URL, issuer.URL)
	}))
	defer issuer.Close()
	f := &fakeAPI{}
	c := newConsole(f)
	c.opts.Login = login.NewBrowser(login.Settings{Issuer: issuer.URL, ClientID: "c", Scopes: []string{"openid"}}, login.Claims{})
	defer c.opts.Login.Close()
	var flow *http.Cookie
	var state string
	for _, back := range []string{"/sessions", "/?q=" + url.QueryEscape(strings.Repeat("&", 600))} {
		w := ask(c, "GET", "/login/start?back="+url.QueryEscape(back), "", nil)
		to, _ := url.Parse(w.Header().Get("Location"))
		list := w.Result().Cookies()
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(to.String(), issuer.URL+"/a?") || len(list) != 1 {
			t.Fatalf("the beginning is answered %d with %v, to %s: %s", w.Code, list, to, w.Body)
		}
		flow, state = list[0], to.Query().Get("state")
		if !flow.HttpOnly || flow.SameSite != http.SameSiteLaxMode || flow.MaxAge != 600 || len(flow.Value) > maxBegun {
			t.Errorf("the cookie is %v, of %d bytes", flow, len(flow.Value))
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
	if all, _ := c.opts.Store.List(t.Context(), ""); len(all) > 0 {
		t.Errorf("the store has %v", all)
	}
	for what, cookies := range map[string][]string{"another state": {flow.Name + "=" + flow.Value, "other"}, "no cookie": {"x=y", state}, "no state": {flow.Name + "=e30", ""}} {
		if w := ask(c, "GET", "/login/callback?code=1&state="+url.QueryEscape(cookies[1]), "", nil, "Cookie", cookies[0]); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "began no such login") {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	// What began here is finished at the issuer, which gives no token.
	w := ask(c, "GET", "/login/callback?code=1&state="+state, "", nil, "Cookie", flow.Name+"="+flow.Value)
	if strings.Contains(w.Body.String(), "began no such login") || asked.Load() != 2 || len(w.Result().Cookies()) != 1 || w.Result().Cookies()[0].MaxAge != -1 {
		t.Errorf("the login ends with %d, %v: %s", w.Code, w.Result().Cookies(), w.Body)
	}
	// Who is in already is sent back, and who does not count any more logs in again.
	cookie := loggedIn(t, c, "ann")
	if w := ask(c, "GET", "/login/start?back=/sessions", cookie, nil); w.Header().Get("Location") != "/sessions" || len(w.Result().Cookies()) > 0 {
		t.Errorf("somebody who is logged in goes to %q with %v", w.Header().Get("Location"), w.Result().Cookies())
	}
	f.revoked = true
	if w := ask(c, "GET", "/login/start", cookie, nil); !strings.HasPrefix(w.Header().Get("Location"), issuer.URL) {
		t.Errorf("somebody whose login does not count goes to %q", w.Header().Get("Location"))
	}
}
