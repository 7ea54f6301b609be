package seeds

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/deploy/scriptedauth"
)

// loginBundle is a seed whose login came from an issuer.
func loginBundle(t *testing.T, l scriptedauth.Login) *Bundle {
	t.Helper()
	b, err := newBundle([]file{{path: authFile, data: l.AuthJSON()}, {path: "AGENTS.md", data: []byte("be kind\n")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestARefreshUsesTheTokenOnceAndKeepsAllElse(t *testing.T) {
	s := scriptedauth.Serve(t)
	l := s.Login(scriptedauth.Account{})
	b := loginBundle(t, l)
	answer, next := Issuer{}.Refresh(t.Context(), b)
	if answer.Verdict != VerdictAlive || next == nil {
		t.Fatalf("%+v", answer)
	}
	var was, is struct {
		Mode   string         `json:"auth_mode"`
		Tokens map[string]any `json:"tokens"`
		At     time.Time      `json:"last_refresh"`
	}
	for data, v := range map[*Bundle]any{b: &was, next: &is} {
		if err := json.Unmarshal(data.Auth(), v); err != nil {
			t.Fatal(err)
		}
	}
	newest := s.Newest(l)
	if is.Tokens["refresh_token"] != newest.Refresh || is.Tokens["access_token"] != newest.Access || is.Tokens["id_token"] != newest.ID {
		t.Error("the new login does not hold the newest tokens")
	}
	if is.Mode != "chatgpt" || fmt.Sprint(is.Tokens["oauth_provenance"]) != fmt.Sprint(was.Tokens["oauth_provenance"]) || !is.At.After(was.At) {
		t.Errorf("what codex keeps beside the tokens has changed: %v, %v", is.Tokens["oauth_provenance"], is.At)
	}
	if string(next.File("AGENTS.md")) != "be kind\n" || s.Uses(l.Refresh) != 1 {
		t.Errorf("AGENTS.md %q, %d uses", next.File("AGENTS.md"), s.Uses(l.Refresh))
	}
	if r, err := CompareAuth(b.Auth(), next.Auth()); r != RotationLater {
		t.Errorf("beside the old one the new login is %s, %v", r, err)
	}
}

// What an answer means is decided here, for all who ask.
func TestOnlyAnIssuersLastWordKillsAndOnlyASentTokenIsLost(t *testing.T) {
	for kind, want := range map[string]Verdict{
		"rate_limited": VerdictUnknown, "server_error": VerdictUnknown, "unavailable": VerdictUnknown, "unauthorized": VerdictUnknown,
		"garbage": VerdictLost, "html": VerdictLost, "drop": VerdictLost, "lost": VerdictLost, "hang": VerdictLost, "held": VerdictLost,
		"invalid_grant": VerdictDead, "expired": VerdictDead, "invalidated": VerdictDead, "slow": VerdictAlive,
	} {
		t.Run(kind, func(t *testing.T) {
			s := scriptedauth.Serve(t)
			l := s.Login(scriptedauth.Account{Mark: "marked-token"})
			s.Fail(scriptedauth.Fault{Kind: kind, RetryAfter: "7", Delay: time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				if s.AwaitHolding(ctx, 1) == nil {
					cancel() // it waited long enough
				}
			}()
			answer, next := Issuer{}.Refresh(ctx, loginBundle(t, l))
			if answer.Verdict != want || (next != nil) != (want == VerdictAlive) {
				t.Errorf("%+v", answer)
			}
			if kind == "rate_limited" && answer.RetryAfter != 7*time.Second {
				t.Errorf("again after %s", answer.RetryAfter)
			}
			if want != VerdictAlive && (answer.Reason == "" || strings.Contains(answer.Reason+answer.Hint, "marked-token")) {
				t.Errorf("it says %q (%s)", answer.Reason, answer.Hint)
			}
			if n := len(s.Refreshes()); n != 1 {
				t.Errorf("%d requests for one refresh", n)
			}
		})
	}
}

func TestAnEndpointThatIsNotThereSpendsNothing(t *testing.T) {
	s := scriptedauth.Serve(t)
	l := s.Login(scriptedauth.Account{NoProvenance: true})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	answer, _ := Issuer{TokenURL: gone.URL}.Refresh(t.Context(), loginBundle(t, l))
	if answer.Verdict != VerdictUnknown || !strings.Contains(answer.Hint, "nothing was sent") {
		t.Errorf("%+v", answer)
	}
}

func TestARefreshTokenFollowsNoRedirectAndLeavesNoPlainWire(t *testing.T) {
	s := scriptedauth.Serve(t)
	l := s.Login(scriptedauth.Account{})
	away := httptest.NewServer(http.RedirectHandler(s.TokenEndpoint(), http.StatusTemporaryRedirect))
	defer away.Close()
	if answer, _ := (Issuer{TokenURL: away.URL}).Refresh(t.Context(), loginBundle(t, l)); answer.Verdict != VerdictUnknown {
		t.Errorf("a redirect: %+v", answer)
	}
	l.Issuer = "http://issuer.example"
	answer, _ := Issuer{}.Refresh(t.Context(), loginBundle(t, l))
	if answer.Verdict != VerdictUnknown || !strings.Contains(answer.Reason, "no secret may be sent") {
		t.Errorf("a login from a plain address: %+v", answer)
	}
	if s.Uses(l.Refresh) != 0 {
		t.Error("the token was used")
	}
}

func TestFreshnessIsTheLoginsOwnWordAndNoMore(t *testing.T) {
	s := scriptedauth.Serve(t)
	now := time.Now()
	b := loginBundle(t, s.Login(scriptedauth.Account{}))
	for at, want := range map[time.Duration]Verdict{0: VerdictFresh, 7 * 24 * time.Hour: VerdictFresh, 9 * 24 * time.Hour: VerdictUnknown, 11 * 24 * time.Hour: VerdictUnknown} {
		answer, until := Issuer{Now: func() time.Time { return now.Add(at) }}.Fresh(b)
		if answer.Verdict != want || until.Before(now) {
			t.Errorf("after %s: %+v until %s", at, answer, until)
		}
	}
	// A quarter of a short life is left.
	b = loginBundle(t, s.Login(scriptedauth.Account{AccessTTL: time.Hour}))
	if answer, _ := (Issuer{}).Fresh(b); answer.Verdict != VerdictFresh || !strings.Contains(answer.Reason, "not asked") {
		t.Errorf("%+v", answer)
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestAKeyIsAskedForWithoutAModelCall(t *testing.T) {
	status := http.StatusOK
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Team")+r.URL.Query().Get("v"))
		w.WriteHeader(status)
	}))
	defer s.Close()
	provider := fmt.Sprintf("model_provider = \"p\"\n[model_providers.p]\nname = \"p\"\nbase_url = %q\nexperimental_bearer_token = \"key-of-the-provider\"\n"+
		"http_headers = {X-Team = \"a\"}\nquery_params = {v = \"1\"}\n", s.URL+"/v1")
	for _, seed := range []struct {
		kind Kind
		auth string
		conf string
		want string
	}{
		{KindAPIKey, `{"auth_mode":"apikey","OPENAI_API_KEY":"sk-marked-0123456789"}`, fmt.Sprintf("openai_base_url = %q\n", s.URL+"/v1"), "GET /v1/models Bearer sk-marked-0123456789 "},
		{KindProvider, "", provider, "GET /v1/models Bearer key-of-the-provider a1"},
		{KindAccessToken, `{"auth_mode":"personalAccessToken","personal_access_token":"at-marked-0123456789"}`, "",
			"GET /api/accounts/v1/user-auth-credential/whoami Bearer at-marked-0123456789 "},
	} {
		var files []file
		for path, text := range map[string]string{authFile: seed.auth, configFile: seed.conf} {
			if text != "" {
				files = append(files, file{path: path, data: []byte(text)})
			}
		}
		b, err := newBundle(files, nil)
		if err != nil || b.Kind() != seed.kind {
			t.Fatalf("%s: %v, %v", seed.kind, b, err)
		}
		for code, want := range map[int]Verdict{200: VerdictAlive, 401: VerdictSuspect, 403: VerdictUnknown, 404: VerdictUnknown, 429: VerdictUnknown, 500: VerdictUnknown} {
			status, asked = code, nil
			answer := Issuer{URL: s.URL}.Ask(t.Context(), b)
			if answer.Verdict != want || strings.Contains(answer.Reason+answer.Hint, "marked") {
				t.Errorf("%s, %d: %+v", seed.kind, code, answer)
			}
			if len(asked) != 1 || asked[0] != seed.want {
				t.Errorf("%s asked %q, want %q", seed.kind, asked, seed.want)
			}
		}
	}
}
